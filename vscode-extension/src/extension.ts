/** Entry points of the extension: what is wired to what. */

import * as vscode from "vscode";
import { watchPythonExtension } from "./environment";
import { installIntoChosen } from "./install";
import { Listings, type ListingKind } from "./listing";
import { chooseHardware, chooseInterpreter, showMenu } from "./picks";
import { tellProblem } from "./problems";
import { SECTION, ServerCommand } from "./protocol";
import { showStatus } from "./statusitem";
import { Supervisor } from "./supervisor";

const RECONSIDER_DELAY_MS = 300;

let supervisor: Supervisor | undefined;

export function activate(context: vscode.ExtensionContext): void {
  const log = vscode.window.createOutputChannel("sollens", { log: true });
  const server = new Supervisor(log);
  supervisor = server;
  const listings = new Listings(server);
  const reconsider = debounced(RECONSIDER_DELAY_MS, () => void server.reconsider());

  context.subscriptions.push(
    log,
    server,
    listings,
    showStatus(server),
    server.onProblem((problem) => void tellProblem(problem, server, log)),
    vscode.workspace.onDidGrantWorkspaceTrust(() => void server.trustGranted()),
    vscode.workspace.onDidChangeWorkspaceFolders(reconsider),
    vscode.workspace.onDidChangeConfiguration((event) => {
      if (event.affectsConfiguration(`${SECTION}.interpreter`) || event.affectsConfiguration(`${SECTION}.server.path`)) {
        reconsider();
      }
    }),
    ...commands(server, listings, log),
  );
  void watchPythonExtension(log, reconsider).then((subscription) => context.subscriptions.push(subscription));
  void server.start();
}

export function deactivate(): Promise<void> | undefined {
  return supervisor?.stop();
}

function commands(server: Supervisor, listings: Listings, log: vscode.LogOutputChannel): vscode.Disposable[] {
  const show = (kind: ListingKind) => async (uri?: vscode.Uri) => listings.show(kind, uri ?? activePythonFile().uri);
  const handlers: Record<string, (uri?: vscode.Uri) => Promise<unknown>> = {
    "sollens.analyse": async () => {
      const document = activePythonFile();
      if (document.isDirty) {
        await document.save();
      }
      await server.execute(ServerCommand.analyse, document.uri.toString());
    },
    "sollens.chooseHardware": () => chooseHardware(server),
    "sollens.chooseInterpreter": () => chooseInterpreter(log),
    "sollens.showIr": show("ir"),
    "sollens.showEinsum": show("einsum"),
    "sollens.clearCache": async () => {
      const answer = await server.execute(ServerCommand.clearCache);
      void vscode.window.showInformationMessage(typeof answer === "string" && answer !== "" ? answer : "sollens: the cache is empty.");
    },
    "sollens.installServer": () => installIntoChosen(server, log),
    "sollens.restart": () => server.restart(),
    "sollens.showOutput": async () => log.show(),
    "sollens.showMenu": () => showMenu(server),
  };
  return Object.entries(handlers).map(([name, handler]) =>
    vscode.commands.registerCommand(name, async (uri?: vscode.Uri) => {
      try {
        await handler(uri);
      } catch (error) {
        log.error(`${name}: ${String(error)}`);
        void vscode.window.showErrorMessage(`sollens: ${error instanceof Error ? error.message : String(error)}`);
      }
    }),
  );
}

function activePythonFile(): vscode.TextDocument {
  const document = vscode.window.activeTextEditor?.document;
  if (document?.languageId !== "python" || document.uri.scheme !== "file") {
    throw new Error(`expected a Python file on disk in the active editor, found ${document?.uri.toString() ?? "none"}. Open one and try again.`);
  }
  return document;
}

function debounced(delayMs: number, action: () => void): () => void {
  let timer: NodeJS.Timeout | undefined;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(action, delayMs);
  };
}
