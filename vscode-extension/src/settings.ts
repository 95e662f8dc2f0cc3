/** What of the settings goes to the server, and where a choice is written back. Pure. */

/** The parts of vscode's WorkspaceConfiguration.inspect that matter here. */
export interface Inspection {
  readonly defaultValue?: unknown;
  readonly globalValue?: unknown;
  readonly workspaceValue?: unknown;
  readonly workspaceFolderValue?: unknown;
}

export type SettingTarget = "user" | "workspace" | "folder";

/** The value in force as text; in an untrusted workspace what the workspace says does not count. */
export function trustedText(inspection: Inspection | undefined, trusted: boolean): string {
  const values = trusted
    ? [inspection?.workspaceFolderValue, inspection?.workspaceValue, inspection?.globalValue, inspection?.defaultValue]
    : [inspection?.globalValue, inspection?.defaultValue];
  const value = values.find((candidate) => candidate !== undefined);
  return typeof value === "string" ? value : "";
}

/**
 * Where a new value goes: the place whose value is in force now, else the user's settings; in an untrusted workspace
 * always the user's.
 */
export function targetOfChange(inspection: Inspection | undefined, trusted: boolean): SettingTarget {
  if (trusted && inspection?.workspaceFolderValue !== undefined) {
    return "folder";
  }
  return trusted && inspection?.workspaceValue !== undefined ? "workspace" : "user";
}

export interface InitializationOptions {
  readonly trusted: boolean;
  /** the user's Python, or null when there is none */
  readonly interpreter: string | null;
  /** the section `sollens`, nested: { hardware, inlayHints: { enabled, lines }, ... } */
  readonly settings: Readonly<Record<string, unknown>>;
}

/**
 * A section of settings as the server gets it. `interpreter` stands in for the editor's own setting, which may hold
 * variables of the editor and, without trust, the workspace's wishes; where the server is, it knows itself.
 */
export function sectionForServer(section: Readonly<Record<string, unknown>>, interpreter: string): Record<string, unknown> {
  const copy = JSON.parse(JSON.stringify(section)) as Record<string, unknown>;
  delete copy["server"];
  return { ...copy, interpreter };
}
