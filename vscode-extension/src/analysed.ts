/** When an analysis has finished: what is open beside a file is fetched anew. */

import type * as vscode from "vscode";
import type { Supervisor } from "./supervisor";

export function onAnalysed(supervisor: Supervisor, then: () => void): vscode.Disposable {
  let wasBusy = false;
  return supervisor.onDidChange(() => {
    const state = supervisor.status?.state;
    const isBusy = state === "tracing" || state === "analysing";
    if (wasBusy && !isBusy) {
      then();
    }
    wasBusy = isBusy;
  });
}
