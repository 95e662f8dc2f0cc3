/** The editor's and the machine's answers to "which interpreter, which server". */

import { accessSync, constants, statSync } from "node:fs";
import * as os from "node:os";
import * as vscode from "vscode";
import { chooseInterpreter, isInterpreter, type Interpreter } from "./interpreter";
import { locateServer, type NotInstalled, type ServerCommandLine } from "./locate";
import { isProblem, type Machine, type Problem, type Workspace } from "./paths";
import { probe } from "./probe";
import { SECTION } from "./protocol";
import { sectionForServer, trustedText, type InitializationOptions } from "./settings";

/** Everything a start of the server needs. */
export interface Launch {
  readonly server: ServerCommandLine;
  readonly interpreter: Interpreter | undefined;
}

export const machine: Machine = {
  platform: process.platform,
  home: os.homedir(),
  env: process.env,
  isProgram(file) {
    try {
      accessSync(file, constants.X_OK);
      return statSync(file).isFile();
    } catch {
      return false;
    }
  },
};

export function workspace(): Workspace {
  const folders = vscode.workspace.workspaceFolders ?? [];
  return {
    trusted: vscode.workspace.isTrusted,
    folders: folders.filter((folder) => folder.uri.scheme === "file").map((folder) => folder.uri.fsPath),
  };
}

export async function locate(log: vscode.LogOutputChannel): Promise<Launch | Problem | NotInstalled> {
  const here = workspace();
  const sources = { setting: restricted("interpreter"), activeInterpreter: () => activeInterpreter(log) };
  const interpreter = await chooseInterpreter(sources, machine, here);
  if (interpreter !== undefined && !isInterpreter(interpreter)) {
    return interpreter;
  }
  log.info(interpreter === undefined ? "interpreter: none found" : `interpreter: ${interpreter.path} (${interpreter.origin})`);
  const probeAndLog = async (python: string): ReturnType<typeof probe> => {
    const answer = await probe(python);
    log.info(`probe of ${python}: ${JSON.stringify(answer)}`);
    return answer;
  };
  const server = await locateServer(restricted("server.path"), interpreter, probeAndLog, machine, here);
  return isProblem(server) ? server : { server, interpreter };
}

export function optionsFor(launch: Launch): InitializationOptions {
  return { trusted: vscode.workspace.isTrusted, interpreter: launch.interpreter?.path ?? null, settings: sectionOfAll() };
}

/** The settings in force for the workspace as a whole; its interpreter is the launch's. */
export function sectionOfAll(): Record<string, unknown> {
  return sectionForServer(vscode.workspace.getConfiguration().get<Record<string, unknown>>(SECTION) ?? {}, "");
}

/** The settings in force for one folder, with the interpreter that is chosen there where that is another than the launch's. */
export async function sectionOfFolder(folder: vscode.Uri, launch: Launch, log: vscode.LogOutputChannel): Promise<Record<string, unknown>> {
  const section = vscode.workspace.getConfiguration(undefined, folder).get<Record<string, unknown>>(SECTION) ?? {};
  const setting = restricted("interpreter", folder);
  const sources = { setting, activeInterpreter: () => activeInterpreter(log, folder) };
  const chosen = await chooseInterpreter(sources, machine, { trusted: vscode.workspace.isTrusted, folders: [folder.fsPath] });
  // A setting that names nothing goes to the server as it is: it marks the files there.
  const path = isInterpreter(chosen) ? chosen.path : setting;
  return sectionForServer(section, path === launch.interpreter?.path ? "" : path);
}

/** A setting that an untrusted workspace has no say in. */
function restricted(key: string, scope?: vscode.Uri): string {
  return trustedText(vscode.workspace.getConfiguration(SECTION, scope).inspect(key), vscode.workspace.isTrusted);
}

/** The part of the Python extension's API that is used here (github.com/microsoft/vscode-python, api.ts). */
interface PythonApi {
  readonly environments: {
    readonly known: readonly { readonly path: string; readonly executable: { readonly uri?: vscode.Uri } }[];
    readonly onDidChangeActiveEnvironmentPath: vscode.Event<unknown>;
    getActiveEnvironmentPath(resource?: vscode.Uri): { readonly path: string };
    resolveEnvironment(environment: unknown): Promise<{ readonly executable: { readonly uri?: vscode.Uri } } | undefined>;
  };
}

const PYTHON_EXTENSION = "ms-python.python";
const PYTHON_API_TIMEOUT_MS = 10_000;

async function activeInterpreter(log: vscode.LogOutputChannel, folder = vscode.workspace.workspaceFolders?.[0]?.uri): Promise<string | undefined> {
  const api = await pythonApi(log);
  if (api === undefined) {
    return undefined;
  }
  try {
    const active = api.environments.getActiveEnvironmentPath(folder);
    const resolved = await withinTime(api.environments.resolveEnvironment(active));
    return resolved?.executable.uri?.fsPath;
  } catch (error) {
    log.warn(`the Python extension did not say which interpreter is active: ${String(error)}`);
    return undefined;
  }
}

/** Interpreters that the Python extension knows, for the pick. */
export async function knownInterpreters(log: vscode.LogOutputChannel): Promise<string[]> {
  const api = vscode.workspace.isTrusted ? await pythonApi(log) : undefined;
  return (api?.environments.known ?? []).map((known) => known.executable.uri?.fsPath).filter((file) => file !== undefined);
}

/** Calls `changed` when another interpreter is chosen in the Python extension; never where that is not installed. */
export async function watchPythonExtension(log: vscode.LogOutputChannel, changed: () => void): Promise<vscode.Disposable> {
  const api = await pythonApi(log);
  return api?.environments.onDidChangeActiveEnvironmentPath(changed) ?? new vscode.Disposable(() => undefined);
}

async function pythonApi(log: vscode.LogOutputChannel): Promise<PythonApi | undefined> {
  const extension = vscode.extensions.getExtension<PythonApi>(PYTHON_EXTENSION);
  if (extension === undefined) {
    return undefined;
  }
  try {
    const api = extension.isActive ? extension.exports : await withinTime(extension.activate());
    return typeof api?.environments === "object" ? api : undefined;
  } catch (error) {
    log.warn(`the Python extension did not start: ${String(error)}`);
    return undefined;
  }
}

async function withinTime<T>(promise: Thenable<T>): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const deadline = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), PYTHON_API_TIMEOUT_MS);
  });
  try {
    return await Promise.race([promise, deadline]);
  } finally {
    clearTimeout(timer);
  }
}
