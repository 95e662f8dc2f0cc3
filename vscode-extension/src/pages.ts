/** The report and the einsum graph of a file, as the server draws them: pages beside the editor that load nothing. */

import * as path from "node:path";
import * as vscode from "vscode";
import { onAnalysed } from "./analysed";
import { ServerCommand } from "./protocol";
import type { Supervisor } from "./supervisor";

export type PageKind = "report" | "graph";

const COMMANDS: Record<PageKind, string> = { report: ServerCommand.report, graph: ServerCommand.graph };
const TITLES: Record<PageKind, string> = { report: "Speed of light", graph: "Einsum graph" };
/** differs in every page, and says nothing */
const NONCE = /nonce(-|=")[\w-]+/g;

interface Page {
  readonly panel: vscode.WebviewPanel;
  readonly kind: PageKind;
  readonly source: vscode.Uri;
  shown: string;
}

export class Pages implements vscode.Disposable {
  private readonly open = new Map<string, Page>();
  private readonly subscription: vscode.Disposable;

  constructor(private readonly supervisor: Supervisor) {
    this.subscription = onAnalysed(supervisor, () => void this.refresh());
  }

  /** Throws with a text for the user when there is nothing to show. */
  async show(kind: PageKind, source: vscode.Uri): Promise<void> {
    const html = await this.fetch(kind, source);
    const key = `${kind} ${source.toString()}`;
    const known = this.open.get(key);
    if (known !== undefined) {
      draw(known, html);
      known.panel.reveal(undefined, true);
      return;
    }
    const title = `${TITLES[kind]}: ${path.posix.basename(source.path)}`;
    const column = { viewColumn: vscode.ViewColumn.Beside, preserveFocus: true };
    const panel = vscode.window.createWebviewPanel(`sollens.${kind}`, title, column, {
      enableScripts: true,
      enableFindWidget: true,
      localResourceRoots: [],
    });
    const page: Page = { panel, kind, source, shown: "" };
    this.open.set(key, page);
    panel.onDidDispose(() => this.open.delete(key));
    panel.webview.onDidReceiveMessage((message: unknown) => void reveal(source, message));
    draw(page, html);
  }

  dispose(): void {
    this.subscription.dispose();
    for (const { panel } of [...this.open.values()]) {
      panel.dispose();
    }
  }

  private async fetch(kind: PageKind, source: vscode.Uri): Promise<string> {
    const html = await this.supervisor.execute(COMMANDS[kind], source.toString());
    if (typeof html !== "string") {
      throw new Error(`expected a page from the server, found ${typeof html}. Update the server.`);
    }
    return html;
  }

  /** Pages follow the analysis; one that has nothing to show just now keeps what it has. */
  private async refresh(): Promise<void> {
    for (const page of this.open.values()) {
      await this.fetch(page.kind, page.source).then(
        (html) => draw(page, html),
        () => undefined,
      );
    }
  }
}

function draw(page: Page, html: string): void {
  const without = html.replace(NONCE, "nonce");
  if (page.shown !== without) {
    page.shown = without;
    page.panel.webview.html = html;
  }
}

/** A click on a row, a dot or a box: to its line. */
async function reveal(source: vscode.Uri, message: unknown): Promise<void> {
  const line = typeof message === "object" && message !== null && "line" in message ? message.line : undefined;
  if (typeof line !== "number" || !Number.isInteger(line) || line < 1) {
    return;
  }
  const at = new vscode.Position(line - 1, 0);
  const column = vscode.window.visibleTextEditors.find((editor) => editor.document.uri.toString() === source.toString())?.viewColumn;
  await vscode.window.showTextDocument(source, { viewColumn: column ?? vscode.ViewColumn.One, selection: new vscode.Range(at, at) });
}
