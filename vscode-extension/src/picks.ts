/** Quick picks: hardware, interpreter, menu. */

import * as vscode from "vscode";
import { knownInterpreters, machine, workspace } from "./environment";
import { pythonNames, workspaceInterpreters } from "./interpreter";
import { findOnPath } from "./paths";
import { parseHardware, SECTION, ServerCommand } from "./protocol";
import { targetOfChange } from "./settings";
import type { Supervisor } from "./supervisor";

/** Lets the user choose a chip, keeps it in the settings and tells the server. */
export async function chooseHardware(supervisor: Supervisor): Promise<void> {
  const chips = parseHardware(await supervisor.execute(ServerCommand.listHardware));
  if (chips.length === 0) {
    throw new Error("expected the server to list hardware, found none. See the output.");
  }
  const current = supervisor.status?.hardware;
  const currentFirst = [...chips].sort((one, other) => Number(other.id === current) - Number(one.id === current));
  const items = currentFirst.map((chip) => ({
    label: chip.name,
    description: chip.id === current ? `${chip.description} (current)`.trim() : chip.description,
    detail: chip.detail,
    id: chip.id,
  }));
  const options = { title: "sollens: hardware", placeHolder: "The chip whose limits are shown", matchOnDescription: true, matchOnDetail: true };
  const chosen = await vscode.window.showQuickPick(items, options);
  if (chosen !== undefined) {
    await writeSetting("hardware", chosen.id);
    await supervisor.execute(ServerCommand.chooseHardware, chosen.id);
  }
}

/** Lets the user choose the Python that has the model's packages, and keeps it in the settings; that restarts the server. */
export async function chooseInterpreter(log: vscode.LogOutputChannel): Promise<void> {
  const here = workspace();
  const onPath = pythonNames(machine).map((name) => findOnPath([name], machine, here));
  const found = [...workspaceInterpreters(machine, here), ...(await knownInterpreters(log)), ...onPath];
  const paths = [...new Set(found.filter((file) => file !== undefined))];
  const byHand = { label: "$(edit) Enter a path…" };
  const browse = { label: "$(folder-opened) Browse…" };
  const byDefault = { label: "$(discard) Use the default", description: "the Python extension's, else a virtual environment, else PATH" };
  const separator = { label: "", kind: vscode.QuickPickItemKind.Separator };
  const chosen = await vscode.window.showQuickPick([...paths.map((label) => ({ label })), separator, byHand, browse, byDefault], {
    title: "sollens: interpreter",
    placeHolder: "The Python that has your model's packages, such as torch",
  });
  switch (chosen) {
    case undefined:
      return;
    case byDefault:
      return writeSetting("interpreter", undefined);
    case byHand: {
      const text = await vscode.window.showInputBox({ title: "sollens: interpreter", prompt: "Path of a Python, or a name on PATH" });
      return text?.trim() ? writeSetting("interpreter", text.trim()) : undefined;
    }
    case browse: {
      const files = await vscode.window.showOpenDialog({ title: "Choose a Python", canSelectMany: false });
      return files?.[0] === undefined ? undefined : writeSetting("interpreter", files[0].fsPath);
    }
    default:
      return writeSetting("interpreter", chosen.label);
  }
}

export async function showMenu(supervisor: Supervisor): Promise<void> {
  const status = supervisor.status;
  const items = [
    { label: "$(chip) Choose hardware", description: status?.hardwareName ?? "", command: "sollens.chooseHardware" },
    { label: "$(symbol-misc) Choose interpreter", description: status?.interpreter ?? "", command: "sollens.chooseInterpreter" },
    { label: "$(play) Analyse this file now", command: "sollens.analyse" },
    { label: "$(graph-scatter) Open report with roofline chart", command: "sollens.openReport" },
    { label: "$(type-hierarchy) Show einsum graph", command: "sollens.showEinsum" },
    { label: "$(debug-restart) Restart server", command: "sollens.restart" },
    { label: "$(output) Show output", command: "sollens.showOutput" },
  ];
  const chosen = await vscode.window.showQuickPick(items, { title: "sollens", placeHolder: status?.text ?? "" });
  if (chosen !== undefined) {
    await vscode.commands.executeCommand(chosen.command);
  }
}

async function writeSetting(key: string, value: string | undefined): Promise<void> {
  const folder = vscode.window.activeTextEditor?.document.uri ?? vscode.workspace.workspaceFolders?.[0]?.uri;
  const configuration = vscode.workspace.getConfiguration(SECTION, folder);
  const target = {
    user: vscode.ConfigurationTarget.Global,
    workspace: vscode.ConfigurationTarget.Workspace,
    folder: vscode.ConfigurationTarget.WorkspaceFolder,
  }[targetOfChange(configuration.inspect(key), vscode.workspace.isTrusted)];
  await configuration.update(key, value, target);
}
