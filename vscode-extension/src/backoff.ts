/** When a server that died is started again. */

export interface BackoffLimits {
  readonly maxRestarts: number;
  readonly windowMs: number;
  readonly firstDelayMs: number;
}

export const BACKOFF: BackoffLimits = { maxRestarts: 5, windowMs: 180_000, firstDelayMs: 1_000 };

/** At most `maxRestarts` within `windowMs`, each twice as late as the one before. */
export class Backoff {
  private restartsAtMs: number[] = [];

  constructor(private readonly limits: BackoffLimits = BACKOFF) {}

  /** The delay before the restart after a death at `nowMs`, or undefined when it has died too often. */
  next(nowMs: number): number | undefined {
    this.restartsAtMs = this.restartsAtMs.filter((at) => nowMs - at < this.limits.windowMs);
    if (this.restartsAtMs.length >= this.limits.maxRestarts) {
      return undefined;
    }
    const delayMs = this.limits.firstDelayMs * 2 ** this.restartsAtMs.length;
    this.restartsAtMs.push(nowMs);
    return delayMs;
  }

  /** Forgets the past: the user asked for the restart. */
  reset(): void {
    this.restartsAtMs = [];
  }
}
