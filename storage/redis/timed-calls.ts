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

/** A call under way. Whoever makes it tells it what came of it, once. */
export interface TimedCall<Reply> {
  answer(reply: Reply): void;
  fail(error: Error): void;
}

/**
 * Gives calls a bound in time with one timer for all of them. A call that is given up goes on: its answer may still
 * come, and is then handed to `late`.
 */
export class TimedCalls {
  private readonly options: TimedCallsOptions;
  private readonly pending: Underway = new PassingMap();
  private cancelTimer: (() => void) | undefined;
  private timerAt = Infinity;
  private closed = false;

  constructor(options: TimedCallsOptions) {
    this.options = options;
  }

  /** Resolves or rejects as `make` tells the call that it gets, or rejects after `budgetMs`. */
  run<Reply>(
    budgetMs: number,
    make: (call: TimedCall<Reply>) => void,
    late: ((reply: Reply) => void) | undefined,
  ): Promise<Reply> {
    const { options, pending } = this;
    const { clock, maxPending } = options;
    if (pending.size >= maxPending) {
      const error = new Error(`${maxPending} calls are waiting for an answer already`);
      options.onFailure(error);
      return Promise.reject(error);
    }
    return new Promise((resolve, reject) => {
      const deadline = clock.monotonic() + budgetMs;
      const call = new PendingCall<Reply>({ options, pending, deadline, budgetMs, resolve, reject, late });
      pending.set(call, call);
      this.arm(deadline);
      make(call);
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

type Underway = PassingMap<Pending, Pending>;

interface Pending {
  readonly deadline: number;
  giveUp(): void;
}

interface PendingSetup<Reply> {
  readonly options: TimedCallsOptions;
  readonly pending: Underway;
  readonly deadline: number;
  readonly budgetMs: number;
  readonly resolve: (reply: Reply) => void;
  readonly reject: (error: Error) => void;
  readonly late: ((reply: Reply) => void) | undefined;
}

class PendingCall<Reply> implements Pending, TimedCall<Reply> {
  readonly #setup: PendingSetup<Reply>;

  constructor(setup: PendingSetup<Reply>) {
    this.#setup = setup;
  }

  get deadline(): number {
    return this.#setup.deadline;
  }

  answer(reply: Reply): void {
    const { pending, resolve, late } = this.#setup;
    if (pending.delete(this)) resolve(reply);
    else late?.(reply);
  }

  fail(error: Error): void {
    const { options, pending, reject } = this.#setup;
    if (!pending.delete(this)) return;
    options.onFailure(error);
    reject(error);
  }

  giveUp(): void {
    const { options, budgetMs } = this.#setup;
    this.fail(new Error(`no answer within ${budgetMs} ms`));
    options.onTimeout();
  }
}
