/** Finding programs on a machine. Pure: what the machine has comes in as a Machine. */

import * as path from "node:path";

/** What the search asks of the operating system. */
export interface Machine {
  readonly platform: NodeJS.Platform;
  readonly home: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** whether `file` is a file that can be run */
  isProgram(file: string): boolean;
}

/** The workspace as far as it may say what is run. */
export interface Workspace {
  readonly trusted: boolean;
  /** absolute folders, first one first */
  readonly folders: readonly string[];
}

/** A text for the user: what was expected, what was found, what to do. */
export interface Problem {
  readonly problem: string;
}

export function isProblem(value: object): value is Problem {
  return "problem" in value;
}

export function pathRules(machine: Machine): path.PlatformPath {
  return machine.platform === "win32" ? path.win32 : path.posix;
}

/**
 * The first program with one of `names` on PATH, or undefined. Entries of PATH that are relative are passed over, and
 * in a workspace that is not trusted those inside it as well: an activated `.venv` of the workspace is the workspace's.
 */
export function findOnPath(names: readonly string[], machine: Machine, workspace: Workspace): string | undefined {
  const rules = pathRules(machine);
  const folders = (machine.env["PATH"] ?? machine.env["Path"] ?? "")
    .split(rules.delimiter)
    .filter((folder) => rules.isAbsolute(folder))
    .filter((folder) => workspace.trusted || !workspace.folders.some((root) => isInside(folder, root, rules)));
  for (const name of names) {
    for (const folder of folders) {
      const file = programIn(folder, name, machine);
      if (file !== undefined) {
        return file;
      }
    }
  }
  return undefined;
}

/** The program `name` in `folder`, with the ending that the platform wants. */
export function programIn(folder: string, name: string, machine: Machine): string | undefined {
  const endings = machine.platform === "win32" && !/\.exe$/i.test(name) ? [".exe"] : [""];
  return endings.map((ending) => pathRules(machine).join(folder, name + ending)).find((file) => machine.isProgram(file));
}

/**
 * The program that a setting names: `~`, `${workspaceFolder}` and `${env:NAME}` are expanded, a bare name is looked up on
 * PATH, a relative path starts at the first workspace folder. A Problem when there is none.
 */
export function programOfSetting(setting: string, value: string, machine: Machine, workspace: Workspace): string | Problem {
  const rules = pathRules(machine);
  const expanded = expand(value.trim(), machine, workspace);
  const isBareName = !/[\\/]/.test(expanded);
  if (isBareName) {
    const file = findOnPath([expanded], machine, workspace);
    return file ?? { problem: `${setting}: expected a program on PATH, found no "${expanded}". Give its full path, or clear the setting.` };
  }
  const base = workspace.trusted ? workspace.folders[0] : undefined;
  if (!rules.isAbsolute(expanded) && base === undefined) {
    return { problem: `${setting}: expected a full path, found "${expanded}". Without a trusted folder there is nothing to start from.` };
  }
  const file = rules.resolve(base ?? "", expanded);
  const found = machine.isProgram(file) ? file : programIn(rules.dirname(file), rules.basename(file), machine);
  return found ?? { problem: `${setting}: expected a program, found none at "${file}". Correct the setting, or clear it.` };
}

function expand(value: string, machine: Machine, workspace: Workspace): string {
  const folder = workspace.trusted ? workspace.folders[0] : undefined;
  return value
    .replace(/^~(?=$|[\\/])/, () => machine.home)
    .replace(/\$\{workspaceFolder\}/g, (whole) => folder ?? whole)
    .replace(/\$\{env:([^}]+)\}/g, (_, name: string) => machine.env[name] ?? "");
}

function isInside(file: string, folder: string, rules: path.PlatformPath): boolean {
  const relative = rules.relative(folder, file);
  return relative === "" || (!relative.startsWith("..") && !rules.isAbsolute(relative));
}
