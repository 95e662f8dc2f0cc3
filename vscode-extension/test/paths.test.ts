import assert from "node:assert/strict";
import { test } from "node:test";
import { findOnPath, programOfSetting } from "../src/paths";
import { machineWith, TRUSTED, UNTRUSTED } from "./machine";

test("PATH is searched name by name, then folder by folder", () => {
  const machine = machineWith(["/opt/bin/python3", "/usr/bin/python"]);
  assert.equal(findOnPath(["python3", "python"], machine, TRUSTED), "/opt/bin/python3");
});

test("relative entries of PATH are passed over", () => {
  const machine = machineWith(["bin/python3", "./python3", "/usr/bin/python3"], { env: { PATH: ".:bin::/usr/bin" } });
  assert.equal(findOnPath(["python3"], machine, TRUSTED), "/usr/bin/python3");
});

test("an activated .venv of an untrusted workspace is passed over, that of a trusted one is not", () => {
  const machine = machineWith(["/ws/.venv/bin/python3", "/usr/bin/python3"], { env: { PATH: "/ws/.venv/bin:/usr/bin" } });
  assert.equal(findOnPath(["python3"], machine, UNTRUSTED), "/usr/bin/python3");
  assert.equal(findOnPath(["python3"], machine, TRUSTED), "/ws/.venv/bin/python3");
});

test("a folder whose name begins like the workspace's is not inside it", () => {
  const machine = machineWith(["/ws2/bin/python3"], { env: { PATH: "/ws2/bin" } });
  assert.equal(findOnPath(["python3"], machine, UNTRUSTED), "/ws2/bin/python3");
});

test("Windows finds .exe files and reads Path", () => {
  const machine = machineWith(["C:\\Py\\python.exe"], { platform: "win32", env: { Path: "C:\\Windows;C:\\Py" } });
  assert.equal(findOnPath(["python"], machine, { trusted: true, folders: [] }), "C:\\Py\\python.exe");
});

test("a setting may hold ~, variables, a bare name or a path from the workspace", () => {
  const machine = machineWith(["/home/ann/py", "/ws/env/bin/python", "/usr/bin/python3.12"], {
    env: { PATH: "/usr/bin", ENV: "/ws/env" },
  });
  assert.equal(programOfSetting("s", "~/py", machine, TRUSTED), "/home/ann/py");
  assert.equal(programOfSetting("s", "${workspaceFolder}/env/bin/python", machine, TRUSTED), "/ws/env/bin/python");
  assert.equal(programOfSetting("s", "${env:ENV}/bin/python", machine, TRUSTED), "/ws/env/bin/python");
  assert.equal(programOfSetting("s", "env/bin/python", machine, TRUSTED), "/ws/env/bin/python");
  assert.equal(programOfSetting("s", " python3.12 ", machine, TRUSTED), "/usr/bin/python3.12");
});

test("a relative setting has nothing to start from in an untrusted workspace", () => {
  const machine = machineWith(["/ws/env/bin/python"]);
  for (const value of ["env/bin/python", "${workspaceFolder}/env/bin/python"]) {
    const answer = programOfSetting("sollens.interpreter", value, machine, UNTRUSTED);
    assert.ok(typeof answer === "object" && answer.problem.includes("expected a full path"), JSON.stringify(answer));
  }
});

test("a setting that names nothing says what was expected and found", () => {
  const answer = programOfSetting("sollens.server.path", "/nope/sollens", machineWith([]), TRUSTED);
  assert.deepEqual(answer, {
    problem: 'sollens.server.path: expected a program, found none at "/nope/sollens". Correct the setting, or clear it.',
  });
});
