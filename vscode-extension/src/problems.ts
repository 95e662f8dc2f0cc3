/** Telling the user that the server cannot run, with what to do about it. Nothing is installed unless they say so. */

import * as vscode from "vscode";
import { commandText, installCommand, type NotInstalled } from "./locate";
import type { Problem } from "./paths";
import type { Supervisor } from "./supervisor";

const COPY = "Copy Command";
const RUN = "Run in Terminal";
const INTERPRETER = "Choose Interpreter";
const RESTART = "Restart";
const OUTPUT = "Show Output";

export async function tellProblem(problem: Problem | NotInstalled, supervisor: Supervisor, log: vscode.LogOutputChannel): Promise<void> {
  const isMissing = "installInto" in problem;
  const python = isMissing ? problem.installInto : undefined;
  const install = python === undefined ? undefined : installCommand(python);
  const buttons = [
    ...(install === undefined ? [] : [COPY]),
    ...(install !== undefined && vscode.workspace.isTrusted ? [RUN] : []),
    ...(isMissing ? [INTERPRETER] : [RESTART]),
    ...(install === undefined ? [OUTPUT] : []), // a fourth button would cut the words of all
  ];
  switch (await vscode.window.showErrorMessage(`sollens: ${problem.problem}`, ...buttons)) {
    case COPY:
      return vscode.env.clipboard.writeText(commandText(install ?? [], process.platform));
    case RUN:
      return install === undefined ? undefined : installThenStart(install, supervisor);
    case INTERPRETER:
      return vscode.commands.executeCommand("sollens.chooseInterpreter");
    case RESTART:
      return supervisor.restart();
    case OUTPUT:
      return log.show();
  }
}

/** Runs the command as a task, so that no shell reads it and the terminal stays to be read, and starts the server after it. */
async function installThenStart(command: readonly [string, ...string[]], supervisor: Supervisor): Promise<void> {
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
