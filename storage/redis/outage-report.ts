import type { Clock } from '../../core/ports/clock.ts';
import type { Log } from '../../core/ports/log.ts';
import type { Counter, Gauge, Metrics } from '../../core/ports/metrics.ts';

/** Errors that the server answers with are logged so often at most. */
const replyErrorEveryMs = 60_000;
const limitsAndCache = 'Limits follow their on_store_failure and caches miss until it is back.';

/** What `OutageReport` needs. */
export interface OutageReportOptions {
  readonly log: Log;
  readonly clock: Clock;
  readonly metrics: Metrics | undefined;
  /** The server's address without credentials. */
  readonly label: string;
  /** What is kept there: `counters`, `cache` or `counters and cache`. */
  readonly stores: string;
  /** What is so meanwhile, as a sentence. Default: that of counters and cache. */
  readonly consequence?: string | undefined;
}

/** Tells of a server's outages: in the log once when one begins and once when it ends, in metrics all along. */
export class OutageReport {
  private readonly options: OutageReportOptions;
  private readonly up: Gauge | undefined;
  private readonly failed: Record<'away' | 'slow' | 'error', Counter | undefined>;
  private since: number | undefined;
  private failedCalls = 0;
  private errorLoggedAt = -Infinity;
  /** Why the server cannot be used now; undefined while it can. */
  reason: string | undefined;

  constructor(options: OutageReportOptions) {
    this.options = options;
    const { metrics, stores } = options;
    this.up = metrics?.gauge({
      name: 'weir_redis_up',
      help: '1 while the Redis server answers in time, 0 while it is away, slow or not yet proven to be back.',
      labels: ['stores'],
    })({ stores });
    const failed = metrics?.counter({
      name: 'weir_redis_failed_calls_total',
      help: 'Calls that a Redis server did not answer: away (not even sent), slow (no answer in time, or the connection broke) or error (it answered with one).',
      labels: ['stores', 'reason'],
    });
    const series = (reason: string): Counter | undefined => failed?.({ stores, reason });
    this.failed = { away: series('away'), slow: series('slow'), error: series('error') };
    this.up?.set(0);
  }

  /** The server cannot be used. Only the first reason of an outage is logged. */
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

  /** The server can be used. */
  end(): void {
    this.reason = undefined;
    this.up?.set(1);
    if (this.since === undefined) return;
    const { clock, log, label, stores } = this.options;
    const awayMs = Math.round(clock.monotonic() - this.since);
    this.since = undefined;
    log.info(`Redis at ${label} (${stores}) is back`, { away_ms: awayMs, failed_calls: this.failedCalls });
  }

  /** A call failed because of the outage. */
  countFailed(reason: 'away' | 'slow'): void {
    this.failedCalls += 1;
    this.failed[reason]?.inc();
  }

  /** The server answered a call with an error: it is there, but refuses (out of memory, no permission, read-only). */
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
