import type { Clock } from '../ports/clock.ts';
import type { Log } from '../ports/log.ts';
import type { Gauge, Metrics } from '../ports/metrics.ts';

/** What `DirectoryReport` needs. */
export interface DirectoryReportOptions {
  readonly log: Log;
  readonly clock: Clock;
  readonly metrics: Metrics;
  /** How many keys the directory holds now. */
  readonly keys: () => number;
}

/** Tells how well the directory follows the store: in the log once when it cannot and once when it can again. */
export class DirectoryReport {
  readonly #options: DirectoryReportOptions;
  readonly #current: Gauge;
  readonly #stopScrapes: () => void;
  #awaySince: number | undefined;

  constructor(options: DirectoryReportOptions) {
    this.#options = options;
    const { metrics, keys } = options;
    this.#current = metrics.gauge({
      name: 'weir_directory_current',
      help: '1 while keys and workspaces are as the store has them; 0 while it cannot be asked and what was known before is served.',
      labels: [],
    })({});
    this.#current.set(0);
    const held = metrics.gauge({
      name: 'weir_directory_keys',
      help: 'Service keys of the store that this process knows.',
      labels: [],
    })({});
    this.#stopScrapes = metrics.onScrape(() => held.set(keys()));
  }

  /** The store was asked, and everything that it said is known. */
  succeeded(): void {
    this.#current.set(1);
    if (this.#awaySince === undefined) return;
    const { clock, log } = this.#options;
    const awayMs = Math.round(clock.monotonic() - this.#awaySince);
    this.#awaySince = undefined;
    log.info('The store of keys and workspaces answers again; what changed meanwhile is known now', {
      away_ms: awayMs,
    });
  }

  /** The store could not be asked. Only the first time of an outage is logged. */
  failed(error: unknown): void {
    this.#current.set(0);
    if (this.#awaySince !== undefined) return;
    const { clock, log } = this.#options;
    this.#awaySince = clock.monotonic();
    log.warn(
      'The store of keys and workspaces does not answer. Requests with keys that are known here are served as before; changes take effect once it is back. It is asked again all the time.',
      { error },
    );
  }

  close(): void {
    this.#stopScrapes();
  }
}
