/** The item in the status bar. */

import * as vscode from "vscode";
import { statusView } from "./statusview";
import type { Supervisor } from "./supervisor";

const BACKGROUNDS = {
  none: undefined,
  warning: new vscode.ThemeColor("statusBarItem.warningBackground"),
  error: new vscode.ThemeColor("statusBarItem.errorBackground"),
} as const;

export function showStatus(supervisor: Supervisor): vscode.Disposable {
  const item = vscode.window.createStatusBarItem("sollens.status", vscode.StatusBarAlignment.Right, 100);
  item.name = "sollens";
  item.command = "sollens.showMenu";
  const update = (): void => {
    const view = statusView(supervisor.phase, supervisor.status);
    item.text = view.text;
    item.backgroundColor = BACKGROUNDS[view.background];
    item.tooltip = new vscode.MarkdownString();
    for (const line of view.tooltip) {
      item.tooltip.appendText(line).appendMarkdown("\n\n");
    }
    item.accessibilityInformation = { label: `sollens. ${view.tooltip.join(" ")}` };
  };
  update();
  item.show();
  return vscode.Disposable.from(item, supervisor.onDidChange(update));
}
