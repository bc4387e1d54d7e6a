import { PassingMap, RecentMap } from '../../../core/base/recent-map.ts';
import { GatewayError, type MaybePromise } from '../../../core/pipeline/plugin.ts';
import type { Clock } from '../../../core/ports/clock.ts';
import type { HeaderList } from '../../../core/ports/header-list.ts';

/** A token in memory, as a header. */
export interface HeldToken {
  /** `bindingOf` the server that it was made for. */
  readonly binding: string;
  readonly headers: HeaderList;
  /** Until when it is sent without a question, milliseconds since the epoch. */
  readonly freshUntil: number;
  readonly obtainedAt: number;
  /** Scopes that were asked for, separated by spaces. */
  readonly scope: string;
  /** It has replaced another one, with which requests may still be on their way. */
  readonly isReplacement: boolean;
}

const maxTokens = 10_000;
const maxFlights = 1000;
const maxFailures = 1000;
/** A token is replaced this long before its end, but not in the first half of its life. */
const marginMs = 60_000;
/** Of a token whose end is not told. */
const usualLifeMs = 3_600_000;
/** A failure is repeated for this time without another attempt. */
const failureMs = 2000;
/** Requests that were sent with the previous token come back within this time. */
const overlapMs = 10_000;

/** Until when a token is sent without a question. */
export function freshUntil(now: number, expiresAt: number | undefined): number {
  const end = expiresAt ?? now + usualLifeMs;
  return Math.max(end - marginMs, now + (end - now) / 2);
}

/** Tokens in memory, the most recently used 10,000; each is fetched once at a time. */
export class TokenKeeper {
  readonly #clock: Clock;
  readonly #held = new RecentMap<HeldToken>(maxTokens);
  readonly #flights = new PassingMap<string, Promise<HeldToken>>();
  readonly #failures = new RecentMap<{ readonly error: GatewayError; readonly until: number }>(maxFailures);

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** The token of this key, also when it is about to end; undefined for one with another binding. */
  held(key: string, binding: string): HeldToken | undefined {
    const held = this.#held.touch(key);
    return held?.binding === binding ? held : undefined;
  }

  /** The header of a token that is fresh, at once; else that of a new one. Rejects as `fetch` does. */
  headers(key: string, binding: string, fetch: () => Promise<HeldToken>): MaybePromise<HeaderList> {
    const held = this.held(key, binding);
    if (held !== undefined && this.#clock.now() < held.freshUntil) return held.headers;
    return this.renew(key, binding, fetch).then(({ headers }) => headers);
  }

  /** A new token; calls at the same time share one. A failure is repeated for two seconds. */
  renew(key: string, binding: string, fetch: () => Promise<HeldToken>): Promise<HeldToken> {
    const flight = `${binding} ${key}`;
    const present = this.#flights.get(flight);
    if (present !== undefined) return present;
    const failure = this.#failures.get(flight);
    if (failure !== undefined && this.#clock.now() < failure.until) return Promise.reject(failure.error);
    if (this.#flights.size >= maxFlights) {
      const message = `${maxFlights} tokens of MCP servers are being fetched, the most that are allowed. Try again shortly.`;
      return Promise.reject(new GatewayError('overloaded', message, { headers: ['retry-after', '2'] }));
    }
    const fetching = this.#fetch(key, flight, fetch).finally(() => this.#flights.delete(flight));
    this.#flights.set(flight, fetching);
    return fetching;
  }

  async #fetch(key: string, flight: string, fetch: () => Promise<HeldToken>): Promise<HeldToken> {
    try {
      const held = await fetch();
      this.keep(key, held);
      this.#failures.delete(flight);
      return held;
    } catch (error) {
      if (GatewayError.is(error)) this.#failures.set(flight, { error, until: this.#clock.now() + failureMs });
      throw error;
    }
  }

  /** Holds a token that was fetched elsewhere. */
  keep(key: string, held: HeldToken): void {
    this.#held.set(key, held);
  }

  /** Forgets a token. */
  drop(key: string): void {
    this.#held.delete(key);
  }

  /**
   * What a refused token calls for. `retry`: the refused one may be its predecessor; `give-up`: it is new, and the server
   * refuses it all the same; `renew`: it may have been revoked.
   */
  afterRefusal(held: HeldToken | undefined): 'retry' | 'give-up' | 'renew' {
    if (held === undefined || this.#clock.now() - held.obtainedAt >= overlapMs) return 'renew';
    return held.isReplacement ? 'retry' : 'give-up';
  }
}
