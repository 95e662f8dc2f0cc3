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

/** The options for the server; `interpreter` and `server.path` in the settings are those in force under trust. */
export function initializationOptions(
  trusted: boolean,
  interpreter: string | undefined,
  section: Readonly<Record<string, unknown>>,
  restricted: { readonly interpreter: string; readonly serverPath: string },
): InitializationOptions {
  const copy = JSON.parse(JSON.stringify(section)) as Record<string, unknown>;
  const server = typeof copy["server"] === "object" && copy["server"] !== null ? copy["server"] : {};
  return {
    trusted,
    interpreter: interpreter ?? null,
    settings: { ...copy, interpreter: restricted.interpreter, server: { ...server, path: restricted.serverPath } },
  };
}
