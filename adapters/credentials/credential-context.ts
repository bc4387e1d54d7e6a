import type { Clock } from '../../core/ports/clock.ts';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { CredentialFields, Credentials } from '../../core/ports/credentials.ts';

/** Reads settings of a credential. */
export const credentialField = {
  problem: fieldProblem,
  require: requireField,
  of: fieldOf,
  endpoint: endpointOf,
};

/** One request to a token endpoint. */
export interface TokenRequest {
  readonly url: string;
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
  /** For the whole answer. */
  readonly timeoutMs: number;
}

/** Calls a token endpoint; redirects are not followed. Rejects without a complete answer. */
export type TokenFetch = (
  request: TokenRequest,
) => Promise<{ readonly status: number; readonly body: string }>;

/** Timeout of a token endpoint: 10 seconds. */
export const tokenTimeoutMs = 10_000;

/** Same as `fetch`, but rejects with `credentials_failed` of this step. */
export async function fetchForStep(
  fetch: TokenFetch,
  step: TokenStep,
  request: Omit<TokenRequest, 'timeoutMs'>,
): Promise<{ readonly status: number; readonly body: string }> {
  try {
    return await fetch({ ...request, timeoutMs: tokenTimeoutMs });
  } catch (cause) {
    const why = GatewayError.is(cause) ? cause.message : `${new URL(request.url).host} could not be asked`;
    throw credentialsFailed(step, why, cause);
  }
}

/** Upper bound of quoted external text in a message, in characters. */
const maxQuoted = 500;

/** A credential field that is missing or malformed. The message never holds its value. */
function fieldProblem(field: string, why: string): GatewayError {
  return new GatewayError('invalid_request', `The credential field "${field}" ${why}`, { param: field });
}

/** The field's value. Throws `invalid_request` when there is none. */
function requireField(fields: CredentialFields, name: string, purpose: string): string {
  const value = fieldOf(fields, name);
  if (value === undefined) throw fieldProblem(name, `is missing: ${purpose}`);
  return value;
}

/** The field's value without white space around it; undefined when it is absent or empty. */
function fieldOf(fields: CredentialFields, name: string): string | undefined {
  const value = Object.hasOwn(fields, name) ? fields[name]?.trim() : undefined;
  return value === '' ? undefined : value;
}

/** One step on the way to a token, for the messages of its failures. */
export interface TokenStep {
  /** The missing result: `No access token of Google`. */
  readonly what: string;
  /** Advice for the operator: `Check vertex_service_account_json`. */
  readonly remedy: string;
  /** Values sent in the request, removed from messages that quote the answer. */
  readonly secrets: readonly string[];
}

/** Error for a token that could not be obtained. The message quotes the other side without the secrets sent to it. */
export function credentialsFailed(step: TokenStep, why: string, cause?: unknown): GatewayError {
  const text = withoutSecrets(why, step.secrets);
  return new GatewayError('credentials_failed', `${step.what}: ${text}. ${step.remedy}.`, { cause });
}

/** Shorter values are not treated as secrets: replacing them would make the message unreadable. */
const minSecretLength = 6;

/** The text as one log line. An answer may quote the submitted form, so URL-encoded secrets are removed too. */
function withoutSecrets(text: string, secrets: readonly string[]): string {
  let clean = text;
  for (const secret of secrets) {
    if (secret.length < minSecretLength) continue;
    const encoded = new URLSearchParams([['', secret]]).toString().slice(1);
    clean = clean.replaceAll(secret, '[secret]').replaceAll(encoded, '[secret]');
  }
  return clean
    .replaceAll(/[\p{Cc}\s]+/gu, ' ')
    .trim()
    .slice(0, maxQuoted)
    .replace(/\.$/, '');
}

/** Dependencies of credentials. */
export interface CredentialContext {
  readonly clock: Clock;
  readonly fetch: TokenFetch;
  /** Variables of the process; only those named in the documentation of a credential are read. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** The operator wrote the fields: identities of the machine may be used, and addresses in the fields are trusted. */
  readonly machineIdentity: boolean;
}

/**
 * An environment variable that names a host or URL. Throws `invalid_request` for one that is neither https nor loopback.
 */
function endpointOf(
  { environment }: Pick<CredentialContext, 'environment'>,
  variable: string,
  fallback: string,
): string {
  const value = environment[variable]?.trim() || fallback;
  const url = URL.canParse(value) ? new URL(value) : undefined;
  if (url === undefined || (value !== fallback && url.protocol !== 'https:' && !isLoopback(url))) {
    throw fieldProblem(variable, 'is no https URL. Correct the environment variable, or unset it.');
  }
  return value.replace(/\/+$/, '');
}

/** Plain HTTP to this machine. */
function isLoopback(url: URL): boolean {
  return url.protocol === 'http:' && ['127.0.0.1', '[::1]', 'localhost'].includes(url.hostname);
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
