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

/** Tells each problem once, and takes it back when the server runs after all. */
export class Problems implements vscode.Disposable {
  private told: string | undefined;
  private readonly subscription: vscode.Disposable;

  constructor(
    private readonly supervisor: Supervisor,
    private readonly log: vscode.LogOutputChannel,
  ) {
    this.subscription = vscode.Disposable.from(
      supervisor.onProblem((problem) => void this.tell(problem)),
      supervisor.onDidChange(() => void this.takeBack()),
    );
  }

  dispose(): void {
    this.subscription.dispose();
  }

  private async tell(problem: Problem | NotInstalled): Promise<void> {
    if (this.told === problem.problem) {
      return;
    }
    this.told = problem.problem;
    const isMissing = "installInto" in problem;
    const python = isMissing && vscode.workspace.isTrusted ? problem.installInto : undefined;
    const buttons = [...(python === undefined ? [] : [INSTALL]), isMissing ? INTERPRETER : RESTART, OUTPUT];
    const answer = await vscode.window.showErrorMessage(`sollens: ${problem.problem}`, ...buttons);
    const isStale = this.told !== problem.problem;
    if (!isStale) {
      this.told = undefined;
    }
    switch (answer) {
      case INSTALL:
        return python === undefined || isStale ? undefined : installServer(python, this.supervisor);
      case INTERPRETER:
        return vscode.commands.executeCommand("sollens.chooseInterpreter");
      case RESTART:
        return isStale ? undefined : this.supervisor.restart();
      case OUTPUT:
        return this.log.show();
    }
  }

  /** The editor lets no single message be closed: those in view go to the bell, where a stale button does nothing. */
  private async takeBack(): Promise<void> {
    if (this.told !== undefined && this.supervisor.phase.kind === "running") {
      this.told = undefined;
      await vscode.commands.executeCommand("notifications.hideToasts");
    }
  }
}
