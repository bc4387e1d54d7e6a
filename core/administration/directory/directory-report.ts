import { GatewayError } from '../../errors/gateway-error.ts';
import type { Clock } from '../../ports/clock.ts';
import type { DirectoryStanding } from '../../ports/directory.ts';
import type { Log } from '../../ports/log.ts';
import type { Gauge, Metrics } from '../../ports/metrics.ts';

/** Options of `DirectoryReport`. */
interface DirectoryReportOptions {
  readonly log: Log;
  readonly clock: Clock;
  readonly metrics: Metrics;
  /** How many keys the directory holds now. */
  readonly keys: () => number;
  /** Milliseconds for which the result of the last successful look remains valid. `Infinity`: for ever. */
  readonly maxAgeMs: number;
}

/** Directory section of `/status`. */
export interface DirectoryStatus {
  readonly standing: DirectoryStanding;
  /** Source of the present state; null before the first read. */
  readonly source: 'store' | 'snapshot' | null;
  /** Seconds since the store held the present state; null before the first read. */
  readonly age_seconds: number | null;
  /** Null for a store that only this process changes. */
  readonly max_age_seconds: number | null;
}

/** Tracks how well the directory follows its store; reports it to the log, the metrics and the operators' pages. */
export class DirectoryReport {
  readonly #options: DirectoryReportOptions;
  readonly #current: Gauge;
  readonly #stopScrapes: () => void;
  #maxAgeMs: number;
  #awaySince: number | undefined;
  /** Reason why the store answers but cannot be read. */
  #fault: string | undefined;
  #source: DirectoryStatus['source'] = null;
  /** By the clock's `monotonic`; for a snapshot it may lie before the start of the process. */
  #asOf = 0;
  #isTooOld = false;
  #cancelAge: () => void = () => undefined;

  constructor(options: DirectoryReportOptions) {
    this.#options = options;
    this.#maxAgeMs = options.maxAgeMs;
    const { clock, metrics, keys } = options;
    this.#current = metrics.gauge({
      name: 'weir_directory_current',
      help: '1 while keys and workspaces match the store; 0 while the store cannot be read and the gateway serves its last known state.',
      over: 'min',
      labels: [],
    })({});
    this.#current.set(0);
    const held = metrics.gauge({
      name: 'weir_directory_keys',
      help: 'Service keys of the store loaded in this process.',
      over: 'max',
      labels: [],
    })({});
    const age = metrics.gauge({
      name: 'weir_directory_age_seconds',
      help: 'Seconds since the loaded keys and workspaces were last confirmed by the store; -1 before the first read. Above security.directory_max_age the gateway refuses these keys.',
      over: 'max',
      labels: [],
    })({});
    this.#stopScrapes = metrics.onScrape(() => {
      held.set(keys());
      age.set(this.#source === null ? -1 : (clock.monotonic() - this.#asOf) / 1000);
    });
  }

  /** True before the first read of the store or a snapshot. */
  get knowsNothing(): boolean {
    return this.#source === null;
  }

  standing(): DirectoryStanding {
    if (this.#source === null || this.#isTooOld) return 'unknown';
    return this.#awaySince === undefined ? 'current' : 'behind';
  }

  status(): DirectoryStatus {
    const ageMs = this.#options.clock.monotonic() - this.#asOf;
    return {
      standing: this.standing(),
      source: this.#source,
      age_seconds: this.#source === null ? null : Math.max(0, Math.floor(ageMs / 1000)),
      max_age_seconds: this.#maxAgeMs === Infinity ? null : this.#maxAgeMs / 1000,
    };
  }

  /** Reasons why requests with keys of the store are not served properly, in sentences for anybody. */
  unready(): readonly string[] {
    const reasons: string[] = [];
    if (this.#source === null)
      reasons.push(
        'The store of keys and workspaces has not been read since the start: its keys are not known here.',
      );
    else if (this.#isTooOld)
      reasons.push(
        `The store of keys and workspaces could not be read for longer than security.directory_max_age (${this.#maxAgeMs / 1000} s): its keys are refused until it can.`,
      );
    if (this.#fault !== undefined) reasons.push(this.#fault);
    return reasons;
  }

  /** Changes `maxAgeMs` from now on. */
  limitAge(maxAgeMs: number): void {
    if (maxAgeMs === this.#maxAgeMs) return;
    this.#maxAgeMs = maxAgeMs;
    if (this.#source !== null) this.#watchAge();
  }

  /** The store was asked at `asOf` (`monotonic`), and its whole answer is known. */
  succeeded(asOf: number): void {
    this.#current.set(1);
    this.#source = 'store';
    this.#asOf = asOf;
    this.#fault = undefined;
    this.#watchAge();
    if (this.#awaySince === undefined) return;
    const { clock, log } = this.#options;
    const awayMs = Math.round(clock.monotonic() - this.#awaySince);
    this.#awaySince = undefined;
    log.info('The store of keys and workspaces answers again; what changed meanwhile is known now', {
      away_ms: awayMs,
    });
  }

  /** The store could not be read. Logs the first failure of an outage, and each change of its kind. */
  failed(error: unknown): void {
    const { clock, log } = this.#options;
    this.#current.set(0);
    const isAway = GatewayError.is(error) && error.code === 'store_unavailable';
    const wasFault = this.#fault !== undefined;
    this.#fault = isAway
      ? undefined
      : 'The store of keys and workspaces answers, and cannot be read by this version: changes of keys do not take effect here. The log has the error.';
    if (this.#awaySince !== undefined && wasFault === !isAway) return;
    this.#awaySince ??= clock.monotonic();
    if (isAway)
      log.warn(
        'The store of keys and workspaces does not answer. Requests with keys that are known here are served as before, until security.directory_max_age; changes take effect once it is back. It is asked again all the time.',
        { error },
      );
    else
      log.error(
        'The store of keys and workspaces answers, and cannot be read: was it migrated by another version? This process is not ready until it can be read. It is asked again all the time.',
        { error },
      );
  }

  /** A snapshot has been restored; the store held its content `ageMs` milliseconds ago. */
  restored(ageMs: number): void {
    const { clock, log } = this.#options;
    this.#source = 'snapshot';
    this.#asOf = clock.monotonic() - ageMs;
    this.#awaySince ??= clock.monotonic();
    log.warn(
      'The store of keys and workspaces cannot be read: started with the snapshot of the data folder until it can',
      { age_seconds: Math.round(ageMs / 1000) },
    );
    this.#watchAge();
  }

  #watchAge(): void {
    const { clock, log } = this.#options;
    this.#cancelAge();
    const end = (): void => {
      if (!this.#isTooOld)
        log.error(
          'Keys and workspaces could not be read for longer than security.directory_max_age: requests with keys of the store are refused with 503 until they can',
          { max_age_seconds: this.#maxAgeMs / 1000 },
        );
      this.#isTooOld = true;
    };
    const leftMs = this.#asOf + this.#maxAgeMs - clock.monotonic();
    if (leftMs <= 0) return end();
    this.#isTooOld = false;
    if (leftMs !== Infinity) this.#cancelAge = clock.after(leftMs, end);
  }

  close(): void {
    this.#cancelAge();
    this.#stopScrapes();
  }
}
