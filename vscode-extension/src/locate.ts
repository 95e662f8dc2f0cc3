/** Which program is the language server. Pure: probing comes in as a function. */

import type { Interpreter } from "./interpreter";
import { findOnPath, programOfSetting, type Machine, type Problem, type Workspace } from "./paths";
import type { Probe } from "./probe";

export type ServerOrigin = "setting" | "interpreter" | "PATH";

export interface ServerCommandLine {
  readonly command: string;
  readonly args: readonly string[];
  readonly origin: ServerOrigin;
}

/** No server anywhere: the problem, and the Python it could be installed into. */
export interface NotInstalled extends Problem {
  readonly installInto: string | undefined;
}

/** The oldest Python that runs the server (requires-python in pyproject.toml). */
const OLDEST_PYTHON = "3.11";

/** -P keeps the current folder off sys.path: the server must not import the workspace's files. */
const MODULE_ARGS = ["-P", "-m", "sollens.analysis.cli", "serve"] as const;

/**
 * The setting sollens.server.path, else sollens in the chosen interpreter, else `sollens` on PATH. A setting that names
 * nothing is a Problem and not passed over: the user meant it.
 */
export async function locateServer(
  setting: string,
  interpreter: Interpreter | undefined,
  probe: (interpreter: string) => Promise<Probe>,
  machine: Machine,
  workspace: Workspace,
): Promise<ServerCommandLine | Problem | NotInstalled> {
  if (setting.trim() !== "") {
    const program = programOfSetting("sollens.server.path", setting, machine, workspace);
    return typeof program === "string" ? { command: program, args: ["serve"], origin: "setting" } : program;
  }
  const answer = interpreter === undefined ? undefined : await probe(interpreter.path);
  if (interpreter !== undefined && answer?.hasSollens && runsServer(answer)) {
    return { command: interpreter.path, args: MODULE_ARGS, origin: "interpreter" };
  }
  const program = findOnPath(["sollens"], machine, workspace);
  if (program !== undefined) {
    return { command: program, args: ["serve"], origin: "PATH" };
  }
  return notInstalled(interpreter, answer);
}

/**
 * The command that installs the server of a checkout into `interpreter`, as program and arguments. Never from an index by
 * name: nobody here owns that name there, and a stranger's package would be run.
 */
export function installCommand(interpreter: string, checkout: string): readonly [string, ...string[]] {
  return [interpreter, "-m", "pip", "install", "-e", checkout];
}

/** Whether a pyproject.toml is that of sollens. */
export function isOfSollens(pyproject: string): boolean {
  return /^name\s*=\s*"sollens"\s*$/m.test(pyproject);
}

function notInstalled(interpreter: Interpreter | undefined, answer: Probe | undefined): NotInstalled {
  const expected = "expected the sollens server in the chosen Python or on PATH";
  if (interpreter === undefined) {
    return { installInto: undefined, problem: `${expected}, found neither Python nor sollens. Choose an interpreter.` };
  }
  if (answer?.pythonVersion === undefined) {
    return {
      installInto: undefined,
      problem: `${expected}, found that ${interpreter.path} does not answer (${answer?.failure ?? "not asked"}). Choose another interpreter.`,
    };
  }
  if (!runsServer(answer)) {
    return {
      installInto: undefined,
      problem:
        `${expected} (${OLDEST_PYTHON} or newer), found ${interpreter.path} with Python ${answer.pythonVersion}. ` +
        "Install sollens in a newer one and name it in sollens.server.path; your model keeps this one.",
    };
  }
  return { installInto: interpreter.path, problem: `${expected}, found neither (${interpreter.path}). Install it there from a checkout of sollens, or set sollens.server.path.` };
}

function runsServer(answer: Probe): boolean {
  const [major = 0, minor = 0] = (answer.pythonVersion ?? "").split(".").map(Number);
  const [oldestMajor = 0, oldestMinor = 0] = OLDEST_PYTHON.split(".").map(Number);
  return major > oldestMajor || (major === oldestMajor && minor >= oldestMinor);
}
