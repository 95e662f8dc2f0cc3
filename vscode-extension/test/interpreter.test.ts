import assert from "node:assert/strict";
import { test } from "node:test";
import { chooseInterpreter } from "../src/interpreter";
import { machineWith, TRUSTED, UNTRUSTED } from "./machine";

const EVERYWHERE = machineWith(["/conda/bin/python", "/ws/.venv/bin/python", "/usr/bin/python3", "/mine/python"]);
const sources = (setting: string, active?: string) => ({ setting, activeInterpreter: () => Promise.resolve(active) });

test("the order is setting, Python extension, active environment, .venv, PATH", async () => {
  assert.deepEqual(await chooseInterpreter(sources("/mine/python", "/conda/bin/python"), EVERYWHERE, TRUSTED), { path: "/mine/python", origin: "setting" });
  assert.deepEqual(await chooseInterpreter(sources("", "/conda/bin/python"), EVERYWHERE, TRUSTED), { path: "/conda/bin/python", origin: "Python extension" });
  assert.deepEqual(await chooseInterpreter(sources(""), { ...EVERYWHERE, env: { VIRTUAL_ENV: "/conda" } }, TRUSTED), {
    path: "/conda/bin/python",
    origin: "active environment",
  });
  assert.deepEqual(await chooseInterpreter(sources(""), EVERYWHERE, TRUSTED), { path: "/ws/.venv/bin/python", origin: "workspace environment" });
  assert.deepEqual(await chooseInterpreter(sources(""), machineWith(["/usr/bin/python3"]), TRUSTED), { path: "/usr/bin/python3", origin: "PATH" });
});

test("an active interpreter that is gone is passed over", async () => {
  assert.equal((await chooseInterpreter(sources("", "/gone/python"), EVERYWHERE, TRUSTED) as { path: string }).path, "/ws/.venv/bin/python");
});

test("an untrusted workspace decides nothing: neither its .venv nor the Python extension is asked", async () => {
  const asked: string[] = [];
  const curious = { setting: "", activeInterpreter: () => (asked.push("extension"), Promise.resolve("/ws/.venv/bin/python")) };
  const activated = { ...EVERYWHERE, env: { PATH: "/ws/.venv/bin:/usr/bin", VIRTUAL_ENV: "/ws/.venv" } };
  assert.deepEqual(await chooseInterpreter(curious, activated, UNTRUSTED), { path: "/usr/bin/python3", origin: "PATH" });
  assert.deepEqual(asked, []);
});

test("a wrong setting is a problem and not passed over", async () => {
  const answer = await chooseInterpreter(sources("/gone/python"), EVERYWHERE, TRUSTED);
  assert.ok(answer !== undefined && "problem" in answer && answer.problem.startsWith("sollens.interpreter: expected a program"));
});

test("no Python anywhere is no interpreter", async () => {
  assert.equal(await chooseInterpreter(sources(""), machineWith([]), TRUSTED), undefined);
});
