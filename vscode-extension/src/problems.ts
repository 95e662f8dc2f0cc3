/** Telling the user that the server cannot run, with what to do about it. Nothing is installed unless they say so. */

import * as vscode from "vscode";
import { installServer } from "./install";
import type { NotInstalled } from "./locate";
import type { Problem } from "./paths";
import type { Supervisor } from "./supervisor";

const INSTALL = "Install…";
const INTERPRETER = "Choose Interpreter";
const RESTART = "Restart";
const OUTPUT = "Show Output";

export async function tellProblem(problem: Problem | NotInstalled, supervisor: Supervisor, log: vscode.LogOutputChannel): Promise<void> {
  const isMissing = "installInto" in problem;
  const python = isMissing && vscode.workspace.isTrusted ? problem.installInto : undefined;
  const buttons = [...(python === undefined ? [] : [INSTALL]), isMissing ? INTERPRETER : RESTART, OUTPUT];
  switch (await vscode.window.showErrorMessage(`sollens: ${problem.problem}`, ...buttons)) {
    case INSTALL:
      return python === undefined ? undefined : installServer(python, supervisor);
    case INTERPRETER:
      return vscode.commands.executeCommand("sollens.chooseInterpreter");
    case RESTART:
      return supervisor.restart();
    case OUTPUT:
      return log.show();
  }
}
