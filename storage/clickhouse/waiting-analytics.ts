import { randomInt } from 'node:crypto';
import { GatewayError, messageOf } from '../../core/errors/gateway-error.ts';
import type { Analytics, LogRecord } from '../../core/ports/analytics.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { FeedbackRow } from '../../core/ports/request-row.ts';
import type { Log } from '../../core/ports/log.ts';
import { AnalyticsStartError } from './store-errors.ts';

/** Dependencies of waiting for a server. */
interface WaitingParts {
  /** Opens the store; throws an `AnalyticsStartError` when it cannot. Called again until it succeeds. */
  open(): Promise<Analytics>;
  readonly clock: Clock;
  readonly log: Log;
  /** Wait for the first attempt before it continues in the background, milliseconds. Default 10,000. */
  readonly patienceMs?: number;
}

const defaultPatienceMs = 10_000;
const firstRetryMs = 500;
const longestRetryMs = 30_000;

/**
 * Opens a store that may be unavailable. Resolves when it is open, when it cannot be opened now, or when it does not
 * answer within `patienceMs`: every method then throws `store_unavailable`, and opening is retried (0.5 s, doubling up
 * to 30 s) until it succeeds. Throws the error of `open` when waiting would not help.
 */
export async function openWhenReachable(parts: WaitingParts): Promise<Analytics> {
  const waiting = new WaitingAnalytics(parts);
  await waiting.start();
  return waiting;
}

class WaitingAnalytics implements Analytics {
  readonly #parts: WaitingParts;
  #store: Analytics | undefined;
  #ping: Promise<void> | undefined;
  #reason = 'it has not answered yet';
  #failures = 0;
  #closed = false;
  #cancelRetry: (() => void) | undefined;

  constructor(parts: WaitingParts) {
    this.#parts = parts;
  }

  async start(): Promise<void> {
    const { clock, log, patienceMs = defaultPatienceMs } = this.#parts;
    let isLate = false;
    let cancel: (() => void) | undefined;
    const late = new Promise<'late'>((resolve) => {
      cancel = clock.after(patienceMs, () => resolve('late'));
    });
    const first = this.#attempt().catch((error: unknown) => {
      if (!isLate && isPermanent(error)) throw error;
      this.#retry(error);
    });
    try {
      isLate = (await Promise.race([first, late])) === 'late';
    } finally {
      cancel?.();
    }
    if (isLate) {
      log.warn(
        'The analytics store has not answered yet; requests are served and their rows wait in the journal',
      );
    }
  }

  insert(...rows: Parameters<Analytics['insert']>): Promise<void> {
    return this.#store?.insert(...rows) ?? this.#refuse();
  }

  costsByDay(...wanted: Parameters<Analytics['costsByDay']>): ReturnType<Analytics['costsByDay']> {
    return this.#store?.costsByDay(...wanted) ?? this.#refuse();
  }

  countedUsage(...wanted: Parameters<Analytics['countedUsage']>): ReturnType<Analytics['countedUsage']> {
    return this.#store?.countedUsage(...wanted) ?? this.#refuse();
  }

  repricing(): ReturnType<Analytics['repricing']> {
    return this.#store?.repricing() ?? this.#refuse();
  }

  storedIds(...wanted: Parameters<Analytics['storedIds']>): Promise<ReadonlySet<string>> {
    return this.#store?.storedIds(...wanted) ?? this.#refuse();
  }

  groups(...query: Parameters<Analytics['groups']>): ReturnType<Analytics['groups']> {
    return this.#store?.groups(...query) ?? this.#refuse();
  }

  series(...query: Parameters<Analytics['series']>): ReturnType<Analytics['series']> {
    return this.#store?.series(...query) ?? this.#refuse();
  }

  feedbackSeries(...query: Parameters<Analytics['feedbackSeries']>): ReturnType<Analytics['feedbackSeries']> {
    return this.#store?.feedbackSeries(...query) ?? this.#refuse();
  }

  feedback(...query: Parameters<Analytics['feedback']>): ReturnType<Analytics['feedback']> {
    return this.#store?.feedback(...query) ?? this.#refuse();
  }

  logs(...query: Parameters<Analytics['logs']>): ReturnType<Analytics['logs']> {
    return this.#store?.logs(...query) ?? this.#refuse();
  }

  countLogs(...query: Parameters<Analytics['countLogs']>): ReturnType<Analytics['countLogs']> {
    return this.#store?.countLogs(...query) ?? this.#refuse();
  }

  newLogs(...query: Parameters<Analytics['newLogs']>): ReturnType<Analytics['newLogs']> {
    return this.#store?.newLogs(...query) ?? this.#refuse();
  }

  trace(...query: Parameters<Analytics['trace']>): ReturnType<Analytics['trace']> {
    return this.#store?.trace(...query) ?? this.#refuse();
  }

  traces(...query: Parameters<Analytics['traces']>): ReturnType<Analytics['traces']> {
    return this.#store?.traces(...query) ?? this.#refuse();
  }

  requestById(...wanted: Parameters<Analytics['requestById']>): Promise<LogRecord | undefined> {
    return this.#store?.requestById(...wanted) ?? this.#refuse();
  }

  feedbackById(...wanted: Parameters<Analytics['feedbackById']>): Promise<FeedbackRow | undefined> {
    return this.#store?.feedbackById(...wanted) ?? this.#refuse();
  }

  /** One at a time: with a server that drops packets, a read of /readyz must not open another connection. */
  ping(): Promise<void> {
    if (this.#store === undefined) return this.#refuse();
    this.#ping ??= this.#store.ping().finally(() => (this.#ping = undefined));
    return this.#ping;
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#cancelRetry?.();
    await this.#store?.close();
  }

  async #attempt(): Promise<void> {
    const store = await this.#parts.open();
    if (this.#closed) return store.close();
    this.#store = store;
    if (this.#failures > 0) this.#parts.log.info('The analytics store answers now');
  }

  #retry(error: unknown): void {
    if (this.#closed) return;
    const { clock, log } = this.#parts;
    const reason = error instanceof AnalyticsStartError ? error.reason : 'it could not be opened';
    // Once per reason: a store that is unavailable for a night must not fill the log.
    if (reason !== this.#reason) {
      log[isPermanent(error) ? 'error' : 'warn'](
        `${messageOf(error)} It is tried again; requests are served, and their rows wait in the journal.`,
      );
    }
    this.#reason = reason;
    const most = Math.min(longestRetryMs, firstRetryMs * 2 ** Math.min(this.#failures, 10));
    this.#failures += 1;
    // Between half of it and all of it, so that many gateways do not return at the same moment.
    const ms = (most * randomInt(500, 1001)) / 1000;
    this.#cancelRetry = clock.after(ms, () => {
      this.#attempt().catch((next: unknown) => this.#retry(next));
    });
  }

  #refuse(): Promise<never> {
    const message = `The analytics store is not available: ${this.#reason}.`;
    return Promise.reject(new GatewayError('store_unavailable', message));
  }
}

function isPermanent(error: unknown): boolean {
  return !(error instanceof AnalyticsStartError) || error.lasting;
}
