import type { Clock } from '../../core/ports/clock.ts';

/** Time is looked at so often while calls are under way. */
const tickMs = 10;
/** A timer that is later than this was held up by the process itself, and not by the server. */
const ownLagMs = 20;

/** What `TimedCalls` needs. */
export interface TimedCallsOptions {
  readonly clock: Clock;
  /** Calls under way at once; one more is refused. */
  readonly maxPending: number;
  /** A call was given up, which began at `begunAt` (the clock's `monotonic`). */
  onTimeout(begunAt: number): void;
  /** A call was answered in time. */
  onAnswer(): void;
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
 * Gives calls a bound in time with one timer for all of them. Only time counts in which this process could have read an
 * answer: while its event loop is held up, time stands still for all calls. A call that is given up goes on: its answer
 * may still come, and is then handed to `late`.
 */
export class TimedCalls {
  readonly options: TimedCallsOptions;
  /** Calls under way, in no order, each with its neighbours: a map would hash each call, and be copied now and then. */
  private first: Underway | undefined;
  private count = 0;
  private cancelTimer: (() => void) | undefined;
  private timerAt = Infinity;
  /** Milliseconds in which answers could be read, up to `lookedAt`. */
  private passed = 0;
  /** Of the clock. */
  private lookedAt = 0;
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
    const now = clock.monotonic();
    if (this.first === undefined) this.lookedAt = now;
    // What has gone by since the last look counts as it will at the next one: as a tick at the most.
    const deadline = this.passed + Math.min(now - this.lookedAt, tickMs + ownLagMs) + budgetMs;
    const call = new PendingCall<Reply>(this, waiter, { budgetMs, begunAt: now, deadline });
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
    const rest = Math.min(tickMs, Math.max(1, Math.ceil(deadline - this.passed)));
    const at = this.lookedAt + rest;
    if (at >= this.timerAt || this.closed) return;
    this.cancelTimer?.();
    this.timerAt = at;
    const { clock } = this.options;
    const ms = Math.max(1, Math.ceil(at - clock.monotonic()));
    this.cancelTimer = clock.after(ms, () => {
      const now = clock.monotonic();
      const gone = now - this.lookedAt;
      this.passed += Math.min(gone, rest + ownLagMs);
      this.lookedAt = now;
      // After a pause of this process answers may have come already, unread: the loop reads them before it goes on.
      this.cancelTimer = undefined;
      setImmediate(() => this.check());
    });
  }

  private check(): void {
    this.timerAt = Infinity;
    const past: Underway[] = [];
    let next = Infinity;
    for (let call = this.first; call !== undefined; call = call.next) {
      if (call.deadline <= this.passed) past.push(call);
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

interface Bounds {
  readonly budgetMs: number;
  readonly begunAt: number;
  readonly deadline: number;
}

class PendingCall<Reply> implements Underway, TimedCall<Reply> {
  readonly deadline: number;
  previous: Underway | undefined;
  next: Underway | undefined;
  isUnderway = true;
  private readonly calls: TimedCalls;
  private readonly waiter: Waiter<Reply>;
  private readonly budgetMs: number;
  private readonly begunAt: number;

  constructor(calls: TimedCalls, waiter: Waiter<Reply>, { budgetMs, begunAt, deadline }: Bounds) {
    this.calls = calls;
    this.waiter = waiter;
    this.budgetMs = budgetMs;
    this.begunAt = begunAt;
    this.deadline = deadline;
  }

  answer(reply: Reply): void {
    if (!this.calls.end(this)) return this.waiter.late(reply);
    this.calls.options.onAnswer();
    this.waiter.answered(reply);
  }

  fail(error: Error): void {
    if (!this.calls.end(this)) return;
    this.calls.options.onFailure(error);
    this.waiter.failed(error);
  }

  giveUp(): void {
    if (!this.isUnderway) return;
    this.fail(new Error(`no answer within ${this.budgetMs} ms`));
    this.calls.options.onTimeout(this.begunAt);
  }
}
