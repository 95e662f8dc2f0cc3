/** One run of the server process with the client that talks to it. */

import { spawn, type ChildProcess } from "node:child_process";
import * as os from "node:os";
import * as readline from "node:readline";
import * as vscode from "vscode";
import { CloseAction, ErrorAction, LanguageClient, State, type LanguageClientOptions, type StreamInfo } from "vscode-languageclient/node";
import { sectionOfAll, sectionOfFolder, type Launch } from "./environment";
import { Notification, SECTION } from "./protocol";
import type { InitializationOptions } from "./settings";

const START_DEADLINE_MS = 60_000;
const STOP_DEADLINE_MS = 3_000;
const EXIT_GRACE_MS = 200;

export interface SessionEvents {
  status(params: unknown): void;
  /** the process or the connection ended without being asked to; called at most once */
  ended(reason: string): void;
}

export class Session {
  private readonly client: QuietClient;
  private child: ChildProcess | undefined;
  private isOver = false;

  constructor(
    readonly launch: Launch,
    options: InitializationOptions,
    private readonly log: vscode.LogOutputChannel,
    private readonly events: SessionEvents,
  ) {
    const clientOptions: LanguageClientOptions = {
      documentSelector: [{ scheme: "file", language: "python" }],
      synchronize: { configurationSection: SECTION },
      initializationOptions: options,
      outputChannel: log,
      middleware: {
        workspace: {
          // Both send what is in force under trust, with the interpreter that was chosen, and for the folder that is asked about.
          didChangeConfiguration: () => this.notify("workspace/didChangeConfiguration", { settings: { [SECTION]: sectionOfAll() } }),
          configuration: ({ items }) =>
            Promise.all(items.map(({ scopeUri }) => (scopeUri === undefined ? sectionOfAll() : sectionOfFolder(vscode.Uri.parse(scopeUri), launch, log)))),
        },
      },
      initializationFailedHandler: () => false,
      errorHandler: {
        error: () => ({ action: ErrorAction.Continue, handled: true }),
        closed: () => {
          this.connectionClosed();
          return { action: CloseAction.DoNotRestart, handled: true };
        },
      },
    };
    this.client = new QuietClient(SECTION, "sollens", () => this.spawn(), clientOptions);
    this.client.onNotification(Notification.status, (params: unknown) => this.events.status(params));
  }

  /** Settles once the server has answered `initialize`, or the run has ended. */
  async start(): Promise<void> {
    const deadline = setTimeout(() => this.end(`no answer to initialize within ${START_DEADLINE_MS / 1000} s`), START_DEADLINE_MS);
    try {
      await this.client.start();
    } catch (error) {
      setTimeout(() => this.end(String(error)), EXIT_GRACE_MS).unref();
    } finally {
      clearTimeout(deadline);
    }
  }

  get isRunning(): boolean {
    return !this.isOver && this.client.state === State.Running;
  }

  execute(command: string, args: readonly unknown[]): Promise<unknown> {
    return this.client.sendRequest("workspace/executeCommand", { command, arguments: args });
  }

  notify(method: string, params: object): Promise<void> {
    return this.client.sendNotification(method, params);
  }

  /** Ends the run as asked: shutdown and exit, then by force. */
  async stop(): Promise<void> {
    this.isOver = true;
    if (this.client.state === State.Running) {
      await this.client.dispose(STOP_DEADLINE_MS).catch((error: unknown) => this.log.warn(`stopping: ${String(error)}`));
    }
    this.kill();
  }

  /** The process's exit tells more than the closed connection, and comes a moment later. */
  private connectionClosed(): void {
    setTimeout(() => this.end("the connection closed"), EXIT_GRACE_MS).unref();
  }

  private end(reason: string): void {
    if (this.isOver) {
      return;
    }
    this.isOver = true;
    this.kill();
    this.events.ended(reason);
  }

  private kill(): void {
    const child = this.child;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) {
      return;
    }
    child.kill();
    setTimeout(() => child.kill("SIGKILL"), STOP_DEADLINE_MS).unref();
  }

  private async spawn(): Promise<StreamInfo> {
    const { command, args } = this.launch.server;
    this.log.info(`starting: ${[command, ...args].join(" ")}`);
    const child = spawn(command, args, { cwd: os.homedir(), stdio: ["pipe", "pipe", "pipe"], windowsHide: true });
    this.child = child;
    readline.createInterface({ input: child.stderr }).on("line", (line) => this.log.info(`[server] ${line}`));
    child.stdin.on("error", (error) => this.log.debug(`writing to the server: ${error.message}`));
    child.on("exit", (code, signal) => {
      this.log.info(`the server process ended (${signal ?? `exit status ${code}`})`);
      this.end(signal === null ? `it ended with exit status ${code}` : `it was ended by ${signal}`);
    });
    await new Promise<void>((resolve, reject) => {
      child.once("spawn", resolve);
      child.once("error", reject);
    });
    return { reader: child.stdout, writer: child.stdin };
  }
}

/** The library shows a notification for each trouble; here they go to the log, and the supervisor tells the user once. */
class QuietClient extends LanguageClient {
  override error(message: string, data?: unknown): void {
    super.error(message, data, false);
  }
}
