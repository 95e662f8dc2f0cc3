import assert from "node:assert/strict";
import { test } from "node:test";
import { parseHardware, parseStatus } from "../src/protocol";
import { sectionForServer, targetOfChange, trustedText } from "../src/settings";
import { shortName, statusView } from "../src/statusview";

const STATUS = { state: "idle", text: "", hardware: "h100-sxm", hardwareName: "H100 SXM", interpreter: "/py", uri: null };

test("the most specific value counts, in an untrusted workspace the user's", () => {
  const inspection = { defaultValue: "", globalValue: "/user/python", workspaceValue: "/ws/python" };
  assert.equal(trustedText(inspection, true), "/ws/python");
  assert.equal(trustedText(inspection, false), "/user/python");
  assert.equal(trustedText({ defaultValue: "", workspaceFolderValue: "/ws/python" }, false), "");
  assert.equal(trustedText(undefined, true), "");
});

test("a choice is written where the value in force is, else to the user's settings", () => {
  assert.equal(targetOfChange({ workspaceFolderValue: "a", workspaceValue: "b" }, true), "folder");
  assert.equal(targetOfChange({ workspaceValue: "b", globalValue: "c" }, true), "workspace");
  assert.equal(targetOfChange({ defaultValue: "d" }, true), "user");
  assert.equal(targetOfChange({ workspaceValue: "b" }, false), "user");
});

test("the server gets the section with the interpreter that was chosen, and no word on where it is itself", () => {
  const section = { hardware: "l4", interpreter: "${workspaceFolder}/evil", inlayHints: { enabled: true }, server: { path: "/ws/evil" } };
  assert.deepEqual(sectionForServer(section, ""), { hardware: "l4", interpreter: "", inlayHints: { enabled: true } });
  assert.deepEqual(sectionForServer({}, "/py"), { interpreter: "/py" });
  assert.equal(section.server.path, "/ws/evil");
});

test("a status of an unknown state is refused, missing fields are filled", () => {
  assert.deepEqual(parseStatus({ state: "tracing", hardware: "l4" }), {
    state: "tracing", text: "", hardware: "l4", hardwareName: "l4", interpreter: null, uri: null,
  });
  assert.equal(parseStatus({ state: "dancing" }), undefined);
  assert.equal(parseStatus(null), undefined);
});

test("hardware without an id is left out", () => {
  const chip = { id: "l4", name: "L4", detail: "24 GB", description: "Ada" };
  assert.deepEqual(parseHardware([chip, { name: "?" }, 3]), [chip]);
  assert.deepEqual(parseHardware("no"), []);
});

test("the status item names the chip and shows state by icon and colour", () => {
  const phase = { kind: "running", server: "sollens serve" } as const;
  assert.equal(statusView(phase, parseStatus(STATUS)).text, "$(pulse) SOL H100 SXM");
  assert.equal(statusView(phase, parseStatus({ ...STATUS, state: "analysing" })).text, "$(loading~spin) SOL H100 SXM");
  assert.equal(statusView(phase, parseStatus({ ...STATUS, state: "error" })).background, "error");
  assert.equal(statusView(phase, parseStatus({ ...STATUS, state: "untrusted" })).background, "warning");
  assert.ok(statusView(phase, parseStatus({ ...STATUS, interpreter: null })).tooltip.includes("Interpreter: none"));
  assert.equal(statusView({ kind: "failed", problem: "why" }, undefined).tooltip[0], "why");
  assert.equal(statusView({ kind: "starting" }, undefined).text, "$(loading~spin) SOL");
});

test("chips have short names in the status bar", () => {
  const names = ["NVIDIA H100 SXM5 80GB", "NVIDIA GeForce RTX 4090 24GB", "AMD Instinct MI300X 192GB", "Google Cloud TPU v6e (Trillium)", "H100 SXM", ""];
  assert.deepEqual(names.map(shortName), ["H100 SXM5", "RTX 4090", "MI300X", "TPU v6e", "H100 SXM", ""]);
});
