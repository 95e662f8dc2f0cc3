/** The IR and the einsum graph of a file as read-only documents: sollens:/model.py.ir?file:///…/model.py */

import * as path from "node:path";
import * as vscode from "vscode";
import { onAnalysed } from "./analysed";
import { ServerCommand } from "./protocol";
import type { Supervisor } from "./supervisor";

const SCHEME = "sollens";

export type ListingKind = "ir" | "einsum";

const COMMANDS: Record<ListingKind, string> = { ir: ServerCommand.ir, einsum: ServerCommand.einsum };
const NAMES: Record<ListingKind, string> = { ir: "Affine Loop IR", einsum: "einsum graph" };

export class Listings implements vscode.TextDocumentContentProvider, vscode.Disposable {
  private readonly changes = new vscode.EventEmitter<vscode.Uri>();
  readonly onDidChange = this.changes.event;
  private readonly subscription: vscode.Disposable;

  constructor(private readonly supervisor: Supervisor) {
    this.subscription = vscode.Disposable.from(
      vscode.workspace.registerTextDocumentContentProvider(SCHEME, this),
      onAnalysed(supervisor, () => this.refresh()),
      this.changes,
    );
  }

  async show(kind: ListingKind, source: vscode.Uri): Promise<void> {
    const uri = vscode.Uri.from({ scheme: SCHEME, path: `/${path.posix.basename(source.path)}.${kind}`, query: source.toString() });
    this.changes.fire(uri);
    const document = await vscode.workspace.openTextDocument(uri);
    await vscode.window.showTextDocument(document, { viewColumn: vscode.ViewColumn.Beside, preview: true, preserveFocus: true });
  }

  async provideTextDocumentContent(uri: vscode.Uri): Promise<string> {
    const kind: ListingKind = uri.path.endsWith(".ir") ? "ir" : "einsum";
    const nothing = `No ${NAMES[kind]} of ${path.posix.basename(uri.path, `.${kind}`)}`;
    try {
      const text = await this.supervisor.execute(COMMANDS[kind], uri.query);
      return typeof text === "string" && text !== "" ? text : `${nothing}: expected an analysed file, found none. Save the file to analyse it.\n`;
    } catch (error) {
      return `${nothing}: ${error instanceof Error ? error.message : String(error)}\n`;
    }
  }

  dispose(): void {
    this.subscription.dispose();
  }

  /** Open listings follow the analysis: they are fetched anew when one has finished. */
  private refresh(): void {
    vscode.workspace.textDocuments.filter((document) => document.uri.scheme === SCHEME).forEach((document) => this.changes.fire(document.uri));
  }
}
