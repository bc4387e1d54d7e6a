import type { Clock } from '../../core/ports/clock.ts';
import { PassingMap } from '../../core/ports/passing-map.ts';

/** What `TimedCalls` needs. */
export interface TimedCallsOptions {
  readonly clock: Clock;
  /** Calls under way at once; one more is refused. */
  readonly maxPending: number;
  /** A call was given up. */
  onTimeout(): void;
  /** A call fails with this: it was given up, refused, or its answer is an error that came in time. */
  onFailure(error: Error): void;
}

interface Pending {
  readonly deadline: number;
  giveUp(): void;
}

/**
 * Gives calls a bound in time with one timer for all of them. A call that is given up goes on: its answer may still
 * come, and is then handed to `late`.
 */
export class TimedCalls {
  private readonly options: TimedCallsOptions;
  private readonly pending = new PassingMap<Pending, Pending>();
  private cancelTimer: (() => void) | undefined;
  private timerAt = Infinity;
  private closed = false;

  constructor(options: TimedCallsOptions) {
    this.options = options;
  }

  /** Resolves or rejects as the call does, or rejects after `budgetMs`. */
  run<Reply>(
    budgetMs: number,
    send: () => Promise<Reply>,
    late: ((reply: Reply) => void) | undefined,
  ): Promise<Reply> {
    const { clock, maxPending, onTimeout, onFailure } = this.options;
    return new Promise((resolve, refuse) => {
      const reject = (error: Error): void => {
        onFailure(error);
        refuse(error);
      };
      if (this.pending.size >= maxPending) {
        reject(new Error(`${maxPending} calls are waiting for an answer already`));
        return;
      }
      const call: Pending = {
        deadline: clock.monotonic() + budgetMs,
        giveUp: () => {
          this.pending.delete(call);
          reject(new Error(`no answer within ${budgetMs} ms`));
          onTimeout();
        },
      };
      this.pending.set(call, call);
      this.arm(call.deadline);
      send().then(
        (reply) => {
          if (this.pending.delete(call)) resolve(reply);
          else late?.(reply);
        },
        (error: unknown) => {
          if (this.pending.delete(call)) reject(error instanceof Error ? error : new Error(String(error)));
        },
      );
    });
  }

  close(): void {
    this.closed = true;
    this.cancelTimer?.();
  }

  private arm(deadline: number): void {
    if (deadline >= this.timerAt || this.closed) return;
    this.cancelTimer?.();
    this.timerAt = deadline;
    const rest = Math.max(1, Math.ceil(deadline - this.options.clock.monotonic()));
    // After a pause of this process the answers may have come already, unread: the loop reads them before it goes on.
    this.cancelTimer = this.options.clock.after(rest, () => setImmediate(() => this.check()));
  }

  private check(): void {
    this.timerAt = Infinity;
    this.cancelTimer = undefined;
    const now = this.options.clock.monotonic();
    let next = Infinity;
    for (const call of this.pending.values()) {
      if (call.deadline <= now) call.giveUp();
      else next = Math.min(next, call.deadline);
    }
    if (next < Infinity) this.arm(next);
  }
}
