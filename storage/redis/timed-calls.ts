import type { Clock } from '../../core/ports/clock.ts';

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

/** Whoever waits for a call: `answered` or `failed` is called once. */
export interface Waiter<Reply> {
  answered(reply: Reply): void;
  failed(error: Error): void;
  /** Gets the answer to a call that was given up before. */
  late(reply: Reply): void;
}

/**
 * Gives calls a bound in time with one timer for all of them. A call that is given up goes on: its answer may still
 * come, and is then handed to `late`.
 */
export class TimedCalls {
  readonly options: TimedCallsOptions;
  /** Calls under way, in no order, each with its neighbours: a map would hash each call, and be copied now and then. */
  private first: Underway | undefined;
  private count = 0;
  private cancelTimer: (() => void) | undefined;
  private timerAt = Infinity;
  private closed = false;

  constructor(options: TimedCallsOptions) {
    this.options = options;
  }

  /** Begins a call, which fails after `budgetMs`. Undefined for one too many, which has failed already. */
  begin<Reply>(budgetMs: number, waiter: Waiter<Reply>): TimedCall<Reply> | undefined {
    const { clock, maxPending, onFailure } = this.options;
    if (this.count >= maxPending) {
      const error = new Error(`${maxPending} calls are waiting for an answer already`);
      onFailure(error);
      waiter.failed(error);
      return undefined;
    }
    const deadline = clock.monotonic() + budgetMs;
    const call = new PendingCall<Reply>(this, waiter, budgetMs, deadline);
    this.link(call);
    this.arm(deadline);
    return call;
  }

  close(): void {
    this.closed = true;
    this.cancelTimer?.();
  }

  /** For calls only: false for one that had ended already. */
  end(call: Underway): boolean {
    if (!call.isUnderway) return false;
    call.isUnderway = false;
    this.count--;
    if (call.previous === undefined) this.first = call.next;
    else call.previous.next = call.next;
    if (call.next !== undefined) call.next.previous = call.previous;
    call.previous = call.next = undefined;
    return true;
  }

  private link(call: Underway): void {
    this.count++;
    call.next = this.first;
    if (this.first !== undefined) this.first.previous = call;
    this.first = call;
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
    const past: Underway[] = [];
    let next = Infinity;
    for (let call = this.first; call !== undefined; call = call.next) {
      if (call.deadline <= now) past.push(call);
      else next = Math.min(next, call.deadline);
    }
    for (const call of past) call.giveUp();
    if (next < Infinity) this.arm(next);
  }
}

/** A call in the list of those under way. */
interface Underway {
  readonly deadline: number;
  previous: Underway | undefined;
  next: Underway | undefined;
  isUnderway: boolean;
  giveUp(): void;
}

class PendingCall<Reply> implements Underway, TimedCall<Reply> {
  readonly deadline: number;
  previous: Underway | undefined;
  next: Underway | undefined;
  isUnderway = true;
  private readonly calls: TimedCalls;
  private readonly waiter: Waiter<Reply>;
  private readonly budgetMs: number;

  constructor(calls: TimedCalls, waiter: Waiter<Reply>, budgetMs: number, deadline: number) {
    this.calls = calls;
    this.waiter = waiter;
    this.budgetMs = budgetMs;
    this.deadline = deadline;
  }

  answer(reply: Reply): void {
    if (this.calls.end(this)) this.waiter.answered(reply);
    else this.waiter.late(reply);
  }

  fail(error: Error): void {
    if (!this.calls.end(this)) return;
    this.calls.options.onFailure(error);
    this.waiter.failed(error);
  }

  giveUp(): void {
    if (!this.isUnderway) return;
    this.fail(new Error(`no answer within ${this.budgetMs} ms`));
    this.calls.options.onTimeout();
  }
}
