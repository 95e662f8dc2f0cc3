/** A machine made of a list of programs, for the tests. */

import type { Machine, Workspace } from "../src/paths";

export function machineWith(programs: readonly string[], overrides: Partial<Machine> = {}): Machine {
  return { platform: "linux", home: "/home/ann", env: { PATH: "/usr/bin:/opt/bin" }, isProgram: (file) => programs.includes(file), ...overrides };
}

export const TRUSTED: Workspace = { trusted: true, folders: ["/ws"] };
export const UNTRUSTED: Workspace = { trusted: false, folders: ["/ws"] };
