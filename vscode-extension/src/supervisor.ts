/** Keeps the server running: starts it, starts it again when it dies, gives up when it dies too often. */

import * as vscode from "vscode";
import { BACKOFF, Backoff } from "./backoff";
import { locate, optionsFor, type Launch } from "./environment";
import type { NotInstalled } from "./locate";
import { isProblem, type Problem } from "./paths";
import { Notification, parseStatus, type Status } from "./protocol";
import { Session } from "./session";
import type { Phase } from "./statusview";

export class Supervisor implements vscode.Disposable {
  private readonly changes = new vscode.EventEmitter<void>();
  /** after any change of phase or status */
  readonly onDidChange = this.changes.event;
  private readonly problems = new vscode.EventEmitter<Problem | NotInstalled>();
  /** the server cannot be started: something that the user has to decide */
  readonly onProblem = this.problems.event;

  private readonly backoff = new Backoff();
  private session: Session | undefined;
  private queue: Promise<void> = Promise.resolve();
  private timer: NodeJS.Timeout | undefined;
  private currentPhase: Phase = { kind: "stopped" };
  private currentStatus: Status | undefined;

  constructor(private readonly log: vscode.LogOutputChannel) {}

  get phase(): Phase {
    return this.currentPhase;
  }

  get status(): Status | undefined {
    return this.currentStatus;
  }

  start(): Promise<void> {
    return this.enqueue(() => this.startNow());
  }

  /** Ends the server and starts it afresh, with a clean record. */
  restart(): Promise<void> {
    this.interrupt();
    return this.enqueue(async () => {
      await this.stopNow();
      await this.startNow();
    });
  }

  stop(): Promise<void> {
    this.interrupt();
    return this.enqueue(() => this.stopNow());
  }

  /** Looks again which interpreter and server are meant, and restarts when they are others than those that run. */
  reconsider(): Promise<void> {
    return this.enqueue(async () => {
      const launch = await locate(this.log);
      const running = this.session?.launch;
      if (running === undefined || isProblem(launch) || !isSame(launch, running)) {
        this.interrupt();
        await this.stopNow();
        await this.startNow(launch);
      }
    });
  }

  async trustGranted(): Promise<void> {
    const before = this.session;
    await this.reconsider();
    if (this.session === before && before?.isRunning) {
      await before.notify(Notification.trust, { trusted: true });
    }
  }

  /** The server's answer; throws with a text for the user when it is not running. */
  execute(command: string, ...args: unknown[]): Promise<unknown> {
    if (!this.session?.isRunning) {
      throw new Error("expected a running server, found none. Run “sollens: Restart Server”, or see the output.");
    }
    return this.session.execute(command, args);
  }

  dispose(): void {
    clearTimeout(this.timer);
    this.changes.dispose();
    this.problems.dispose();
  }

  private enqueue(step: () => Promise<void>): Promise<void> {
    const run = this.queue.then(step);
    this.queue = run.catch((error: unknown) => this.log.error(String(error)));
    return run;
  }

  /** Drops a waiting restart, and a start that the server has not answered yet. */
  private interrupt(): void {
    this.backoff.reset();
    clearTimeout(this.timer);
    if (this.session?.isRunning === false) {
      void this.session.stop();
    }
  }

  private async startNow(located?: Launch | Problem | NotInstalled): Promise<void> {
    if (this.session !== undefined) {
      return;
    }
    this.setPhase({ kind: "starting" });
    const launch = located ?? (await locate(this.log));
    if (isProblem(launch)) {
      this.fail(launch);
      return;
    }
    const session = new Session(launch, optionsFor(launch), this.log, {
      status: (params) => this.statusArrived(session, params),
      ended: (reason) => this.sessionEnded(session, reason),
    });
    this.session = session;
    await session.start();
    if (this.session === session && session.isRunning) {
      this.setPhase({ kind: "running", server: [launch.server.command, ...launch.server.args].join(" ") });
    }
  }

  private async stopNow(): Promise<void> {
    const session = this.session;
    this.session = undefined;
    await session?.stop();
    this.currentStatus = undefined;
    this.setPhase({ kind: "stopped" });
  }

  private statusArrived(session: Session, params: unknown): void {
    const status = parseStatus(params);
    if (status === undefined) {
      this.log.warn(`${Notification.status}: expected a known state, found ${JSON.stringify(params)}`);
    } else if (this.session === session) {
      this.currentStatus = status;
      this.changes.fire();
    }
  }

  private sessionEnded(session: Session, reason: string): void {
    if (this.session !== session) {
      return;
    }
    this.session = undefined;
    const delayMs = this.backoff.next(Date.now());
    if (delayMs === undefined) {
      const times = `${BACKOFF.maxRestarts + 1} times in ${BACKOFF.windowMs / 60_000} minutes`;
      this.fail({ problem: `expected the server to stay up, found that it stopped ${times}; the last time ${reason}. See the output, then restart it.` });
      return;
    }
    this.log.warn(`the server stopped: ${reason}; starting it again in ${delayMs / 1000} s`);
    this.setPhase({ kind: "restarting", delayMs });
    this.timer = setTimeout(() => void this.start(), delayMs);
  }

  private fail(problem: Problem | NotInstalled): void {
    this.log.error(problem.problem);
    this.setPhase({ kind: "failed", problem: problem.problem });
    this.problems.fire(problem);
  }

  private setPhase(phase: Phase): void {
    this.currentPhase = phase;
    this.changes.fire();
  }
}

function isSame(one: Launch, other: Launch): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}
