/** Which Python has the user's packages. Pure: the editor's answers come in as InterpreterSources. */

import { findOnPath, isProblem, pathRules, programIn, programOfSetting, type Machine, type Problem, type Workspace } from "./paths";

export type InterpreterOrigin = "setting" | "Python extension" | "active environment" | "workspace environment" | "PATH";

export interface Interpreter {
  readonly path: string;
  readonly origin: InterpreterOrigin;
}

export interface InterpreterSources {
  /** sollens.interpreter, with what an untrusted workspace says already left out */
  readonly setting: string;
  /** the Python extension's active interpreter, undefined when it has none or is not installed */
  activeInterpreter(): Promise<string | undefined>;
}

/**
 * The setting, else the Python extension's interpreter, else the activated virtual environment, else `.venv` or `venv` in
 * the workspace, else Python on PATH; undefined when none exists. In an untrusted workspace only the first and the last
 * count: the workspace may have decided the others.
 */
export async function chooseInterpreter(
  sources: InterpreterSources,
  machine: Machine,
  workspace: Workspace,
): Promise<Interpreter | Problem | undefined> {
  if (sources.setting.trim() !== "") {
    const chosen = programOfSetting("sollens.interpreter", sources.setting, machine, workspace);
    return typeof chosen === "string" ? { path: chosen, origin: "setting" } : chosen;
  }
  if (workspace.trusted) {
    const active = await sources.activeInterpreter();
    if (active !== undefined && machine.isProgram(active)) {
      return { path: active, origin: "Python extension" };
    }
    const activated = environmentInterpreter(machine.env["VIRTUAL_ENV"], machine);
    if (activated !== undefined) {
      return { path: activated, origin: "active environment" };
    }
    const own = workspaceInterpreters(machine, workspace)[0];
    if (own !== undefined) {
      return { path: own, origin: "workspace environment" };
    }
  }
  const found = findOnPath(pythonNames(machine), machine, workspace);
  return found === undefined ? undefined : { path: found, origin: "PATH" };
}

/** The interpreters of the `.venv` and `venv` folders in the workspace; none in an untrusted one. */
export function workspaceInterpreters(machine: Machine, workspace: Workspace): string[] {
  if (!workspace.trusted) {
    return [];
  }
  return workspace.folders
    .flatMap((folder) => [".venv", "venv"].map((name) => pathRules(machine).join(folder, name)))
    .map((environment) => environmentInterpreter(environment, machine))
    .filter((file) => file !== undefined);
}

function environmentInterpreter(environment: string | undefined, machine: Machine): string | undefined {
  const bin = machine.platform === "win32" ? "Scripts" : "bin";
  return environment ? programIn(pathRules(machine).join(environment, bin), "python", machine) : undefined;
}

export function pythonNames(machine: Machine): readonly string[] {
  return machine.platform === "win32" ? ["python", "python3"] : ["python3", "python"];
}

export function isInterpreter(value: Interpreter | Problem | undefined): value is Interpreter {
  return value !== undefined && !isProblem(value);
}
