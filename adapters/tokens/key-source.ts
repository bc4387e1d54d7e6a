import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { GuardedFetch } from '../../core/ports/guarded-fetch.ts';
import type { Log } from '../../core/ports/log.ts';
import { KeySet } from './key-set.ts';
import { keysUnavailable } from './keys-unavailable.ts';

const maxBytes = 1_048_576;
/** Between two fetches for the sake of a key that is not known, and after one that failed while there are keys. */
const refreshEveryMs = 30_000;
/** After a fetch that failed while there are no keys. */
const retryAfterMs = 5000;

/** Where the keys come from. */
export interface KeySource {
  /** The keys that are known; reads them when none are. Rejects with `token_keys_unavailable`. */
  known(): KeySet | Promise<KeySet>;
  /** The keys after having read them again, unless that was done a moment ago. Never rejects. */
  newer(known: KeySet): KeySet | Promise<KeySet>;
  /** Reads them again when they have reached their age. */
  keepFresh(): void;
  /** Grows when the keys change. */
  readonly version: number;
}

/** Keys that stand in the configuration. */
export function fixedKeys(keys: KeySet): KeySource {
  return { known: () => keys, newer: () => keys, keepFresh: () => undefined, version: 1 };
}

export interface FetchedKeysOptions {
  readonly url: string;
  readonly maxAgeMs: number;
  readonly timeoutMs: number;
  readonly fetch: GuardedFetch;
  readonly clock: Clock;
  readonly log: Log;
}

/** Keys at an address: read when they are first needed, one fetch at a time, and kept when a later one fails. */
export class FetchedKeys implements KeySource {
  version = 0;
  readonly #options: FetchedKeysOptions;
  #keys: KeySet | undefined;
  #fetching: Promise<void> | undefined;
  /** When they were read, and when that was last tried; by the monotonic clock. */
  #readAt = 0;
  #triedAt = Number.NEGATIVE_INFINITY;

  constructor(options: FetchedKeysOptions) {
    this.#options = options;
  }

  known(): KeySet | Promise<KeySet> {
    this.keepFresh();
    return this.#keys ?? this.#first();
  }

  async #first(): Promise<KeySet> {
    const { clock } = this.#options;
    const waited = clock.monotonic() - this.#triedAt;
    if (this.#fetching === undefined && waited < retryAfterMs) throw keysUnavailable(retryAfterMs - waited);
    await this.#read();
    if (this.#keys === undefined) throw keysUnavailable(retryAfterMs);
    return this.#keys;
  }

  newer(known: KeySet): KeySet | Promise<KeySet> {
    if (this.#keys !== undefined && this.#keys !== known) return this.#keys;
    if (this.#fetching === undefined && !this.#mayTry()) return known;
    return this.#read().then(() => this.#keys ?? known);
  }

  keepFresh(): void {
    if (this.#keys === undefined || this.#fetching !== undefined) return;
    const { clock, maxAgeMs } = this.#options;
    if (clock.monotonic() - this.#readAt < maxAgeMs || !this.#mayTry()) return;
    void this.#read();
  }

  #mayTry(): boolean {
    return this.#options.clock.monotonic() - this.#triedAt >= refreshEveryMs;
  }

  #read(): Promise<void> {
    this.#fetching ??= this.#fetch().finally(() => (this.#fetching = undefined));
    return this.#fetching;
  }

  async #fetch(): Promise<void> {
    const { url, fetch, timeoutMs, clock, log } = this.#options;
    this.#triedAt = clock.monotonic();
    try {
      const headers = ['accept', 'application/jwk-set+json, application/json'];
      const { status, body } = await fetch.fetch({ url, headers, timeoutMs, maxBytes }).answer;
      if (status !== 200) throw new Error(`it answered ${status}`);
      const keys = new KeySet(JSON.parse(body.toString('utf8')));
      this.#readAt = clock.monotonic();
      if (keys.source === this.#keys?.source) return;
      this.#keys = keys;
      this.version += 1;
      log.info('The keys that tokens are verified with were read', { url: placeOf(url), keys: keys.size });
    } catch (error) {
      const kept = this.#keys?.size;
      log.warn(
        kept === undefined
          ? 'The keys that tokens are verified with could not be read: no token is taken until they can'
          : 'The keys that tokens are verified with could not be read again: those that are known go on',
        { url: placeOf(url), reason: reasonOf(error), ...(kept !== undefined && { keys: kept }) },
      );
    }
  }
}

/** Without its query, where a secret could stand. */
function placeOf(url: string): string {
  const { origin, pathname } = new URL(url);
  return origin + pathname;
}

function reasonOf(error: unknown): string {
  if (error instanceof SyntaxError) return 'it answered no JSON';
  if (GatewayError.is(error) && error.cause instanceof Error)
    return `${error.message} (${error.cause.message})`;
  return error instanceof Error ? error.message : String(error);
}
