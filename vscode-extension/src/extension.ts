/** Entry points of the extension: what is wired to what. */

import * as vscode from "vscode";
import { watchPythonExtension } from "./environment";
import { installIntoChosen } from "./install";
import { Listings, type ListingKind } from "./listing";
import { importMeasurements } from "./measurements";
import { chooseHardware, chooseInterpreter, showMenu } from "./picks";
import { Pages, type PageKind } from "./pages";
import { Problems } from "./problems";
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
  const pages = new Pages(server);
  const reconsider = debounced(RECONSIDER_DELAY_MS, () => void server.reconsider());

  context.subscriptions.push(
    log,
    server,
    listings,
    showStatus(server),
    pages,
    new Problems(server, log),
    vscode.workspace.onDidGrantWorkspaceTrust(() => void server.trustGranted()),
    vscode.workspace.onDidChangeWorkspaceFolders(reconsider),
    vscode.workspace.onDidChangeConfiguration((event) => {
      if (event.affectsConfiguration(`${SECTION}.interpreter`) || event.affectsConfiguration(`${SECTION}.server.path`)) {
        reconsider();
      }
    }),
    ...commands(server, listings, pages, log),
  );
  void watchPythonExtension(log, reconsider).then((subscription) => context.subscriptions.push(subscription));
  void server.start();
}

export function deactivate(): Promise<void> | undefined {
  return supervisor?.stop();
}

function commands(server: Supervisor, listings: Listings, pages: Pages, log: vscode.LogOutputChannel): vscode.Disposable[] {
  const list = (kind: ListingKind) => async (of?: unknown) => listings.show(kind, uriOf(of));
  const page = (kind: PageKind) => async (of?: unknown) => pages.show(kind, uriOf(of));
  const handlers: Record<string, (of?: unknown) => Promise<unknown>> = {
    "sollens.analyse": async () => {
      const document = activePythonFile();
      if (document.isDirty) {
        await document.save();
      }
      await server.execute(ServerCommand.analyse, document.uri.toString());
    },
    "sollens.chooseHardware": () => chooseHardware(server),
    "sollens.chooseInterpreter": () => chooseInterpreter(log),
    "sollens.openReport": page("report"),
    "sollens.showEinsum": page("graph"),
    "sollens.showEinsumText": list("einsum"),
    "sollens.showIr": list("ir"),
    "sollens.importMeasurements": importMeasurements,
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
    vscode.commands.registerCommand(name, async (of?: unknown) => {
      try {
        await handler(of);
      } catch (error) {
        log.error(`${name}: ${String(error)}`);
        void vscode.window.showErrorMessage(`sollens: ${error instanceof Error ? error.message : String(error)}`);
      }
    }),
  );
}

/** The file that a command is about: a code lens gives its address, a menu a Uri, the palette nothing. */
function uriOf(of: unknown): vscode.Uri {
  if (of instanceof vscode.Uri) {
    return of;
  }
  return typeof of === "string" ? vscode.Uri.parse(of, true) : activePythonFile().uri;
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
