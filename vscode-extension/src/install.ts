/** Installing the server from a checkout that the user chooses. */

import { readFile } from "node:fs/promises";
import * as path from "node:path";
import * as vscode from "vscode";
import { locate } from "./environment";
import { installCommand, isOfSollens } from "./locate";
import { isProblem } from "./paths";
import type { Supervisor } from "./supervisor";

/** Asks for the checkout, installs it into the chosen Python and starts the server. */
export async function installIntoChosen(supervisor: Supervisor, log: vscode.LogOutputChannel): Promise<void> {
  if (!vscode.workspace.isTrusted) {
    throw new Error("expected a trusted workspace, found that this one is not. Trust it and try again.");
  }
  const found = await locate(log);
  const python = isProblem(found) ? ("installInto" in found ? found.installInto : undefined) : found.interpreter?.path;
  if (python === undefined) {
    throw new Error(isProblem(found) ? found.problem : "expected a chosen Python, found none. Choose an interpreter.");
  }
  await installServer(python, supervisor);
}

/** Asks for the checkout, installs it into `python` and starts the server. */
export async function installServer(python: string, supervisor: Supervisor): Promise<void> {
  const options = { title: `sollens: choose your checkout of sollens, to install it into ${python}`, openLabel: "Install" };
  const [folder] = (await vscode.window.showOpenDialog({ ...options, canSelectFolders: true, canSelectFiles: false })) ?? [];
  if (folder === undefined) {
    return;
  }
  const pyproject = await readFile(path.join(folder.fsPath, "pyproject.toml"), "utf8").catch(() => "");
  if (!isOfSollens(pyproject)) {
    void vscode.window.showErrorMessage(`sollens: expected a checkout of sollens, found none in ${folder.fsPath}. Choose the folder that holds its pyproject.toml.`);
    return;
  }
  await runThenStart(installCommand(python, folder.fsPath), supervisor);
}

/** Runs the command as a task, so that no shell reads it and the terminal stays to be read, and starts the server after it. */
async function runThenStart(command: readonly [string, ...string[]], supervisor: Supervisor): Promise<void> {
  const [program, ...args] = command;
  const execution = new vscode.ProcessExecution(program, args);
  const task = new vscode.Task({ type: "sollens" }, vscode.TaskScope.Workspace, "install the server", "sollens", execution);
  task.presentationOptions = { reveal: vscode.TaskRevealKind.Always, focus: true };
  const running = await vscode.tasks.executeTask(task);
  const subscription = vscode.tasks.onDidEndTaskProcess((event) => {
    if (event.execution === running) {
      subscription.dispose();
      if (event.exitCode === 0) {
        void supervisor.restart();
      }
    }
  });
}
