import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { manifestWith, parseSettings, type Manifest, type Properties } from "../scripts/settings.mjs";

const manifest = (): Manifest => JSON.parse(readFileSync("package.json", "utf8")) as Manifest;
const own = (): Properties => manifest().contributes.configuration.properties;

test("settings that agree change nothing", () => {
  const answer = manifestWith(manifest(), own());
  assert.deepEqual(answer.changed, []);
  assert.deepEqual(answer.manifest, manifest());
});

test("a changed, a new and a vanished setting are each named", () => {
  const settings: Properties = { ...own(), "sollens.hardware": { type: "string", default: "l4" }, "sollens.fresh": { type: "boolean", default: true } };
  delete settings["sollens.deadline"];
  const answer = manifestWith(manifest(), settings);
  assert.deepEqual([...answer.changed].sort(), ["sollens.deadline", "sollens.fresh", "sollens.hardware"]);
  assert.deepEqual(Object.keys(answer.manifest.contributes.configuration.properties).at(-1), "sollens.fresh");
});

test("a restricted setting is ignored in untrusted workspaces and the mark is not published", () => {
  const answer = manifestWith(manifest(), { ...own(), "sollens.llm.baseUrl": { type: "string", default: "", restricted: true } });
  assert.ok(answer.manifest.capabilities.untrustedWorkspaces.restrictedConfigurations.includes("sollens.llm.baseUrl"));
  assert.deepEqual(answer.manifest.contributes.configuration.properties["sollens.llm.baseUrl"], { type: "string", default: "" });
});

test("the editor's own settings need not come from the server, the interpreter must", () => {
  const settings = own();
  delete settings["sollens.trace.server"];
  assert.ok("sollens.trace.server" in manifestWith(manifest(), settings).manifest.contributes.configuration.properties);
  delete settings["sollens.interpreter"];
  assert.throws(() => manifestWith(manifest(), settings), /expected the server to describe sollens\.interpreter/);
});

test("output that is no settings is refused with what was found", () => {
  assert.throws(() => parseSettings("[]"), /expected an object of settings, found \[\]/);
  assert.throws(() => parseSettings('{"other.x": {"default": 1}}'), /expected settings named sollens\.\*/);
  assert.throws(() => parseSettings('{"sollens.x": {"type": "string"}}'), /expected a property with a default/);
});
