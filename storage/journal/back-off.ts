import { randomInt } from 'node:crypto';
import type { Clock } from '../../core/ports/clock.ts';

/** Waits between attempts: twice as long each time up to a bound, with jitter, and can be cut short. */
export class BackOff {
  private readonly clock: Clock;
  private readonly firstMs: number;
  private readonly longestMs: number;
  private attempts = 0;
  private wake: (() => void) | undefined;

  constructor(clock: Clock, firstMs: number, longestMs: number) {
    this.clock = clock;
    this.firstMs = firstMs;
    this.longestMs = longestMs;
  }

  /** Failures since the last success. */
  get failures(): number {
    return this.attempts;
  }

  /** Resolves when it is time for the next attempt. One waiter at a time. */
  wait(): Promise<void> {
    const most = Math.min(this.longestMs, this.firstMs * 2 ** Math.min(this.attempts, 30));
    this.attempts += 1;
    // Between half of it and all of it, so that many processes do not come back at the same moment.
    const ms = (most * randomInt(500, 1001)) / 1000;
    return new Promise((resolve) => {
      const wake = (): void => {
        this.wake = undefined;
        cancel();
        resolve();
      };
      const cancel = this.clock.after(ms, wake);
      this.wake = wake;
    });
  }

  /** Ends a wait that is under way. */
  interrupt(): void {
    this.wake?.();
  }

  /** An attempt succeeded: the next wait is short again. */
  reset(): void {
    this.attempts = 0;
  }
}
