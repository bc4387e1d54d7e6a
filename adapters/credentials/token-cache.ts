import type { Clock } from '../../core/ports/clock.ts';

/** A token and how long it may be used from now on, in milliseconds. */
export interface IssuedToken<T> {
  readonly value: T;
  readonly lifetimeMs: number;
}

export interface TokenCacheOptions<T> {
  readonly clock: Clock;
  /** Gets a new token. Must end in bounded time. */
  fetch(): Promise<IssuedToken<T>>;
}

/** A new token is fetched this long before the old one ends, or after half of a short life. */
const renewBeforeMs = 300_000;
/** The old one is no longer handed out while the new one is awaited: a request takes time, too. */
const retireBeforeMs = 60_000;
/** A failed fetch is not repeated sooner. */
const failureHoldMs = 1_000;

interface HeldToken<T> extends IssuedToken<T> {
  readonly wallMs: number;
  readonly monotonicMs: number;
}

/**
 * One token that is renewed in time. Only one fetch is under way at once; everybody who needs its token waits for it.
 * While the old token still serves, it is renewed in the background, and a failure to renew it harms nobody.
 */
export class TokenCache<T> {
  readonly #clock: Clock;
  readonly #fetch: () => Promise<IssuedToken<T>>;
  #held: HeldToken<T> | undefined;
  #pending: Promise<T> | undefined;
  #failure: { readonly error: unknown; readonly atMs: number } | undefined;

  constructor({ clock, fetch }: TokenCacheOptions<T>) {
    this.#clock = clock;
    this.#fetch = fetch;
  }

  /** The token, at once when one is held. Rejects as the fetch did when there is none that still serves. */
  get(): T | Promise<T> {
    const held = this.#held;
    if (held === undefined) return this.#renew();
    const leftMs = this.#leftMs(held);
    if (leftMs > Math.min(renewBeforeMs, held.lifetimeMs / 2)) return held.value;
    const renewed = this.#renew();
    const kept = renewed.catch((error: unknown) => {
      if (this.#leftMs(held) > 0) return held.value;
      throw error;
    });
    if (leftMs <= Math.min(retireBeforeMs, held.lifetimeMs / 10)) return kept;
    // Nobody waits for this renewal; the next one that has to will see its failure.
    kept.catch(() => undefined);
    return held.value;
  }

  /** By whichever clock has gone further: one of them may be set back, the other stands still in a sleeping machine. */
  #leftMs(held: HeldToken<T>): number {
    const wall = this.#clock.now() - held.wallMs;
    const monotonic = this.#clock.monotonic() - held.monotonicMs;
    return held.lifetimeMs - Math.max(wall, monotonic);
  }

  #renew(): Promise<T> {
    const failure = this.#failure;
    if (failure !== undefined && this.#clock.monotonic() - failure.atMs < failureHoldMs) {
      return Promise.reject(failure.error);
    }
    this.#pending ??= this.#fetchOnce();
    return this.#pending;
  }

  async #fetchOnce(): Promise<T> {
    try {
      const { value, lifetimeMs } = await this.#fetch();
      const clock = this.#clock;
      this.#held = { value, lifetimeMs, wallMs: clock.now(), monotonicMs: clock.monotonic() };
      this.#failure = undefined;
      return value;
    } catch (error) {
      this.#failure = { error, atMs: this.#clock.monotonic() };
      throw error;
    } finally {
      this.#pending = undefined;
    }
  }
}
