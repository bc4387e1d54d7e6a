import type { Clock } from '../../core/ports/clock.ts';
import type { Log } from '../../core/ports/log.ts';
import type { Counter, Gauge, Metrics } from '../../core/ports/metrics.ts';

/** Shortest interval between log lines of the server's error replies. */
const replyErrorEveryMs = 60_000;
const limitsAndCache = 'Limits follow their on_store_failure and caches miss until it is back.';

/** Dependencies and options of `OutageReport`. */
interface OutageReportOptions {
  readonly log: Log;
  readonly clock: Clock;
  readonly metrics: Metrics | undefined;
  /** The server's address without credentials. */
  readonly label: string;
  /** Stored data: `counters`, `cache` or `counters and cache`. */
  readonly stores: string;
  /** Consequence of an outage, as a sentence. Default: that of counters and cache. */
  readonly consequence?: string | undefined;
}

/** Reports a server's outages: in the log once at the start and once at the end, in metrics throughout. */
export class OutageReport {
  private readonly options: OutageReportOptions;
  private readonly up: Gauge | undefined;
  private readonly failed: Record<'away' | 'slow' | 'error', Counter | undefined>;
  private since: number | undefined;
  private failedCalls = 0;
  private errorLoggedAt = -Infinity;
  /** Reason why the server is unusable; undefined while it is usable. */
  reason: string | undefined;

  constructor(options: OutageReportOptions) {
    this.options = options;
    const { metrics, stores } = options;
    this.up = metrics?.gauge({
      name: 'weir_redis_up',
      help: '1 while the Redis server answers in time, 0 while it is unavailable, slow or not yet confirmed to have recovered.',
      over: 'min',
      labels: ['stores'],
    })({ stores });
    const failed = metrics?.counter({
      name: 'weir_redis_failed_calls_total',
      help: 'Failed calls to a Redis server: away (not sent), slow (no answer in time, or a broken connection) or error (an error answer).',
      labels: ['stores', 'reason'],
    });
    const series = (reason: string): Counter | undefined => failed?.({ stores, reason });
    this.failed = { away: series('away'), slow: series('slow'), error: series('error') };
    this.up?.set(0);
  }

  /** Reports an outage. Only its first reason is logged. */
  begin(reason: string): void {
    this.reason = reason;
    if (this.since !== undefined) return;
    const { clock, log, label, stores, consequence = limitsAndCache } = this.options;
    this.since = clock.monotonic();
    this.failedCalls = 0;
    this.up?.set(0);
    log.warn(
      `Redis at ${label} (${stores}) cannot be used: ${reason}. ${consequence} It is tried again all the time.`,
    );
  }

  /** Reports the end of an outage. */
  end(): void {
    this.reason = undefined;
    this.up?.set(1);
    if (this.since === undefined) return;
    const { clock, log, label, stores } = this.options;
    const awayMs = Math.round(clock.monotonic() - this.since);
    this.since = undefined;
    log.info(`Redis at ${label} (${stores}) is back`, { away_ms: awayMs, failed_calls: this.failedCalls });
  }

  /** Counts a call that failed because of the outage. */
  countFailed(reason: 'away' | 'slow'): void {
    this.failedCalls += 1;
    this.failed[reason]?.inc();
  }

  /** Reports an error reply: the server is reachable, but refuses (out of memory, no permission, read-only). */
  replyError(message: string): void {
    this.failed.error?.inc();
    const { clock, log, label, stores } = this.options;
    if (clock.monotonic() - this.errorLoggedAt < replyErrorEveryMs) return;
    this.errorLoggedAt = clock.monotonic();
    log.error(
      `Redis at ${label} (${stores}) refuses a command: ${message}. See docs/redis.md for what the server must allow; said once a minute at most.`,
    );
  }
}

const firstCoolDownMs = 100;
const longestCoolDownMs = 5000;
/** After this time without a trip, a server is trusted like a new one. */
const trustedAfterMs = 30_000;

/** Dependencies and options of `CircuitBreaker`. */
interface CircuitBreakerOptions {
  readonly clock: Clock;
  /** Consecutive calls without an answer in time that open it, each started after the timeout of the one before. */
  readonly misses: number;
  /** A probe without any answer for this long means that the connection is dead. */
  readonly deadAfterMs: number;
  /** Probes the server: true for an answer in time, false for a later one. Rejects when it cannot be sent. */
  probe(): Promise<boolean>;
  onOpen(): void;
  onClose(): void;
  /** Drops a dead connection. */
  onDead(): void;
}

/**
 * Keeps calls away from a server that answers too slowly or not at all, until it has answered a probe in time. A
 * request is never the probe, so none waits for it. The pause before a probe doubles with each trip (100 ms to 5 s).
 */
export class CircuitBreaker {
  private readonly options: CircuitBreakerOptions;
  private tripped = false;
  private trips = 0;
  private missed = 0;
  private missedAt = -Infinity;
  private closedAt = -Infinity;
  private probing = false;
  private cancelPause: (() => void) | undefined;
  private cancelDead: (() => void) | undefined;
  private ended = false;

  constructor(options: CircuitBreakerOptions) {
    this.options = options;
  }

  /** True while no call may be sent. */
  get isOpen(): boolean {
    return this.tripped;
  }

  /** A call was answered in time. */
  hit(): void {
    this.missed = 0;
  }

  /** A call started at `begunAt` was not answered in time. Calls that wait in the same pause count as one miss. */
  miss(begunAt: number): void {
    if (this.tripped || this.ended || begunAt < this.missedAt) return;
    this.missedAt = this.options.clock.monotonic();
    this.missed += 1;
    if (this.missed >= this.options.misses) this.trip();
  }

  private trip(): void {
    this.missed = 0;
    const sinceClosed = this.options.clock.monotonic() - this.closedAt;
    this.trips = sinceClosed > trustedAfterMs ? 1 : this.trips + 1;
    this.tripped = true;
    this.options.onOpen();
    this.pause();
  }

  /** Probes a new connection at once instead of after the pause. */
  probeNow(): void {
    if (!this.tripped || this.ended) return;
    this.cancelPause?.();
    this.probe();
  }

  /** Stops its timers permanently. */
  end(): void {
    this.ended = true;
    this.cancelPause?.();
    this.cancelDead?.();
  }

  private pause(): void {
    if (this.ended) return;
    const coolDownMs = Math.min(longestCoolDownMs, firstCoolDownMs * 2 ** (this.trips - 1));
    this.cancelPause = this.options.clock.after(coolDownMs, () => this.probe());
  }

  private probe(): void {
    if (this.probing) return;
    this.probing = true;
    const { clock, deadAfterMs } = this.options;
    this.cancelDead = clock.after(deadAfterMs, () => this.options.onDead());
    this.options.probe().then(
      (inTime) => this.probed(inTime),
      () => this.probed(false),
    );
  }

  private probed(inTime: boolean): void {
    this.probing = false;
    this.cancelDead?.();
    if (this.ended) return;
    if (!inTime) return this.pause();
    this.tripped = false;
    this.closedAt = this.options.clock.monotonic();
    this.options.onClose();
  }
}

/** Interval of time checks while calls are in flight. */
const tickMs = 10;
/** A timer later than this was delayed by the process itself, not by the server. */
const ownLagMs = 20;

/** Dependencies and options of `TimedCalls`. */
interface TimedCallsOptions {
  readonly clock: Clock;
  /** Upper bound of calls in flight; one more is refused. */
  readonly maxPending: number;
  /** A call that started at `begunAt` (the clock's `monotonic`) timed out. */
  onTimeout(begunAt: number): void;
  /** A call was answered in time. */
  onAnswer(): void;
  /** A call failed: it timed out, was refused, or its answer in time is an error. */
  onFailure(error: Error): void;
}

/** A call in flight. Its sender reports the result once. */
export interface TimedCall<Reply> {
  answer(reply: Reply): void;
  fail(error: Error): void;
}

/** The waiting side of a call: `answered` or `failed` is called once. */
export interface Waiter<Reply> {
  answered(reply: Reply): void;
  failed(error: Error): void;
  /** Gets the answer to a call that had timed out. */
  late(reply: Reply): void;
}

/**
 * Bounds calls in time with one timer for all of them. Only time in which this process could have read an answer
 * counts: while its event loop is blocked, time stands still for all calls. A timed-out call continues: its answer may
 * still arrive, and is then passed to `late`.
 */
export class TimedCalls {
  readonly options: TimedCallsOptions;
  /** Calls in flight, unordered, as a linked list: a map would hash each call, and be copied occasionally. */
  private first: Underway | undefined;
  private count = 0;
  private cancelTimer: (() => void) | undefined;
  private timerAt = Infinity;
  /** Milliseconds in which answers could be read, up to `lookedAt`. */
  private passed = 0;
  /** Time of the clock at the last check. */
  private lookedAt = 0;
  private closed = false;

  constructor(options: TimedCallsOptions) {
    this.options = options;
  }

  /** Starts a call, which fails after `budgetMs`. Undefined for one beyond the bound, which has failed already. */
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
    // The time since the last check counts as at the next one: at most as one tick.
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

  /** For calls only: false when it had ended already. */
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
      // After a pause of this process unread answers may be pending: the loop reads them before it continues.
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

/** An entry in the list of calls in flight. */
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
