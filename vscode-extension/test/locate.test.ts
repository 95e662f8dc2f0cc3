import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import type { Interpreter } from "../src/interpreter";
import { installCommand, isOfSollens, locateServer } from "../src/locate";
import { parseProbe, probe, type Probe } from "../src/probe";
import { machineWith, TRUSTED } from "./machine";

const PYTHON: Interpreter = { path: "/ws/.venv/bin/python", origin: "workspace environment" };
const answers = (pythonVersion: string | undefined, hasSollens: boolean) => (): Promise<Probe> => Promise.resolve({ pythonVersion, hasSollens });
const ON_PATH = machineWith(["/usr/bin/sollens", "/mine/sollens"]);
const NOT_ON_PATH = machineWith([]);

test("the setting comes first and nothing is probed", async () => {
  const never = (): Promise<Probe> => assert.fail("probed");
  assert.deepEqual(await locateServer("/mine/sollens", PYTHON, never, ON_PATH, TRUSTED), { command: "/mine/sollens", args: ["serve"], origin: "setting" });
});

test("sollens in the chosen interpreter comes before PATH, with the current folder off sys.path", async () => {
  assert.deepEqual(await locateServer("", PYTHON, answers("3.11", true), ON_PATH, TRUSTED), {
    command: PYTHON.path,
    args: ["-P", "-m", "sollens.analysis.cli", "serve"],
    origin: "interpreter",
  });
});

test("an interpreter without sollens, too old or silent leaves it to PATH", async () => {
  for (const probed of [answers("3.12", false), answers("3.9", true), answers(undefined, false)]) {
    assert.deepEqual(await locateServer("", PYTHON, probed, ON_PATH, TRUSTED), { command: "/usr/bin/sollens", args: ["serve"], origin: "PATH" });
  }
});

test("a wrong setting is a problem though sollens is on PATH", async () => {
  const answer = await locateServer("/gone/sollens", PYTHON, answers("3.11", true), ON_PATH, TRUSTED);
  assert.ok("problem" in answer && answer.problem.startsWith("sollens.server.path: expected a program"));
});

test("when there is none, the installation is offered only into a Python that can run it", async () => {
  const into = async (probed: () => Promise<Probe>, python: Interpreter | undefined = PYTHON) => {
    const answer = await locateServer("", python, probed, NOT_ON_PATH, TRUSTED);
    assert.ok("installInto" in answer);
    return answer;
  };
  assert.equal((await into(answers("3.11", false))).installInto, PYTHON.path);
  const old = await into(answers("3.9", false));
  assert.equal(old.installInto, undefined);
  assert.match(old.problem, /3\.11 or newer.*found .*Python 3\.9.*sollens\.server\.path/);
  assert.equal((await into(answers(undefined, false))).installInto, undefined);
  const answer = await locateServer("", undefined, answers("3.11", true), NOT_ON_PATH, TRUSTED);
  assert.ok("problem" in answer && answer.problem.includes("found neither Python nor sollens"));
});

test("the server is installed from a checkout, never by name from an index", () => {
  assert.deepEqual(installCommand("/usr/bin/python3", "/home/me/sollens"), ["/usr/bin/python3", "-m", "pip", "install", "-e", "/home/me/sollens"]);
  assert.ok(isOfSollens(readFileSync(`${process.cwd()}/../pyproject.toml`, "utf8")));
  assert.ok(!isOfSollens('[project]\nname = "model"\ndependencies = ["sollens"]\n'));
});

test("the probe's answer is found among other output", () => {
  const answer = parseProbe('conda says hello\nsollens-probe:{"python": [3, 12], "sollens": true}\n', undefined);
  assert.deepEqual(answer, { pythonVersion: "3.12", hasSollens: true });
});

test("a program that is no Python is a failed probe and not an exception", async () => {
  const answer = await probe("/bin/true");
  assert.equal(answer.pythonVersion, undefined);
  assert.match(answer.failure ?? "", /expected the probe's answer/);
  assert.match((await probe("/does/not/exist")).failure ?? "", /ENOENT/);
});
