import type { Clock } from '../../core/ports/clock.ts';
import { asText, type JsonObject, parseObject } from '../dialects/json-reading.ts';
import {
  credentialsFailed,
  fetchForStep,
  type TokenFetch,
  type TokenRequest,
  type TokenStep,
} from './credential-context.ts';
import type { Credentials } from '../../core/ports/credentials.ts';

/** Assumed lifetime of a token whose answer names none: 5 minutes. */
const unknownLifetimeMs = 300_000;

/** Dependencies of a request to an OAuth endpoint. */
interface OAuthAsking {
  readonly fetch: TokenFetch;
  readonly clock: Clock;
  readonly step: TokenStep;
}

/** The access token of an OAuth 2 answer. Rejects with `credentials_failed` for everything else. */
export async function fetchOAuthToken(
  { fetch, clock, step }: OAuthAsking,
  request: Omit<TokenRequest, 'timeoutMs'>,
): Promise<IssuedToken<string>> {
  const { status, body } = await fetchForStep(fetch, step, request);
  const host = new URL(request.url).host;
  const answer = parseObject(body);
  const token = asText(answer?.access_token);
  if (status !== 200 || answer === undefined || token === undefined) {
    const said = answer === undefined ? 'without JSON' : errorOfAnswer(answer);
    throw credentialsFailed(step, `${host} answered ${status} ${said}`);
  }
  // A header value is one line: a token with a line break would become two headers.
  if (!/^[\x21-\x7e]+$/.test(token)) throw credentialsFailed(step, `${host} answered a token that is none`);
  return { value: token, lifetimeMs: lifetimeOf(answer, clock) };
}

/** The body of a form post. */
export function formRequest(
  url: string,
  form: Readonly<Record<string, string>>,
): Omit<TokenRequest, 'timeoutMs'> {
  return {
    url,
    method: 'POST',
    headers: { 'content-type': 'application/x-www-form-urlencoded', accept: 'application/json' },
    body: new URLSearchParams(form).toString(),
  };
}

function errorOfAnswer(answer: JsonObject): string {
  const description = asText(answer.error_description) ?? asText(answer.message);
  const said = [asText(answer.error), description].filter((part) => part !== undefined);
  return said.length === 0 ? 'without access_token' : said.join(': ');
}

function lifetimeOf(answer: JsonObject, clock: Clock): number {
  const seconds = secondsOf(answer.expires_in);
  if (seconds !== undefined) return seconds * 1_000;
  const endSeconds = secondsOf(answer.expires_on);
  return endSeconds === undefined ? unknownLifetimeMs : Math.max(0, endSeconds * 1_000 - clock.now());
}

/** Some endpoints write numbers as text. */
function secondsOf(value: unknown): number | undefined {
  const seconds = typeof value === 'string' && /^\d+(\.\d+)?$/.test(value) ? Number(value) : value;
  return typeof seconds === 'number' && Number.isFinite(seconds) && seconds >= 0 ? seconds : undefined;
}

/** A token with its remaining lifetime in milliseconds. */
export interface IssuedToken<T> {
  readonly value: T;
  readonly lifetimeMs: number;
}

interface TokenCacheOptions<T> {
  readonly clock: Clock;
  /** Gets a new token. Must end in bounded time. */
  fetch(): Promise<IssuedToken<T>>;
}

/** A new token is fetched this long before the old one expires, or after half of a short lifetime. */
const renewBeforeMs = 300_000;
/** The old token is no longer used this long before it expires: requests take time, too. */
const retireBeforeMs = 60_000;
/** Pause before a failed fetch is repeated. */
const failureHoldMs = 1_000;

interface HeldToken<T> extends IssuedToken<T> {
  readonly wallMs: number;
  readonly monotonicMs: number;
}

/**
 * One token that is renewed before it expires. Only one fetch runs at a time; all callers that need its token wait for
 * it. While the old token is valid, renewal runs in the background and its failure does not affect requests.
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

  /** The token, synchronously when a valid one is cached; else a promise, which rejects with the error of the fetch. */
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
    // No request waits for this renewal; the next request that has to wait gets its error.
    kept.catch(() => undefined);
    return held.value;
  }

  /**
   * Uses the clock that advanced further: the wall clock may be set back, the monotonic clock stops while the machine
   * sleeps.
   */
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

/** `Authorization: Bearer` with a fixed secret. */
export function staticBearer(secret: string): Credentials {
  return { authorize: () => ['authorization', `Bearer ${secret}`] };
}

/** `Authorization: Bearer` with the token of a cache. */
export function cachedBearer(cache: TokenCache<string>): Credentials {
  return {
    authorize() {
      const token = cache.get();
      return typeof token === 'string' ? bearer(token) : token.then(bearer);
    },
  };
}

function bearer(token: string): string[] {
  return ['authorization', `Bearer ${token}`];
}
