/** Importing times of real runs: the file is named in the settings, the server reads it. */

import * as path from "node:path";
import * as vscode from "vscode";
import { SECTION } from "./protocol";

export async function importMeasurements(): Promise<void> {
  const [file] =
    (await vscode.window.showOpenDialog({
      title: "sollens: choose a file of measured times (CSV or JSON: name, time)",
      openLabel: "Import",
      canSelectMany: false,
      filters: { "Measured times": ["csv", "json"] },
    })) ?? [];
  if (file === undefined) {
    return;
  }
  const folder = vscode.workspace.getWorkspaceFolder(file) ?? vscode.workspace.workspaceFolders?.[0];
  const inside = folder === undefined ? undefined : path.relative(folder.uri.fsPath, file.fsPath);
  const isInside = inside !== undefined && !inside.startsWith("..") && !path.isAbsolute(inside);
  const target = folder === undefined ? vscode.ConfigurationTarget.Global : vscode.ConfigurationTarget.Workspace;
  await vscode.workspace.getConfiguration(SECTION, folder?.uri).update("measurements", isInside ? inside : file.fsPath, target);
  void vscode.window.showInformationMessage(`sollens: ${path.basename(file.fsPath)} is held against the bounds (setting sollens.measurements).`);
}
