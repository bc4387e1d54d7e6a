import { GatewayError, quoteClaim, tokenInvalid } from '../../core/errors/gateway-error.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { GuardedFetch } from '../../core/ports/transport.ts';
import type { Log } from '../../core/ports/log.ts';
import { type CryptoKey, importJWK, type JWK } from 'jose';
import type { TokenAlgorithm } from '../../core/ports/token-verifier.ts';

/** A larger key set counts as an error. */
const maxKeys = 100;

/** Key type of each algorithm, and its curve if it has one. */
const families: Readonly<Record<TokenAlgorithm, readonly [kty: string, crv?: string]>> = {
  RS256: ['RSA'],
  RS384: ['RSA'],
  RS512: ['RSA'],
  PS256: ['RSA'],
  PS384: ['RSA'],
  PS512: ['RSA'],
  ES256: ['EC', 'P-256'],
  ES384: ['EC', 'P-384'],
  ES512: ['EC', 'P-521'],
  EdDSA: ['OKP', 'Ed25519'],
};

/** Public keys that verify signatures. */
export class KeySet {
  /** Source text, equal for equal sets. */
  readonly source: string;
  private readonly keys: readonly JWK[];
  private readonly imported = new Map<string, Promise<CryptoKey>>();

  /** Throws an error sentence for a value that is not a JSON Web Key Set, or that has no key for verification. */
  constructor(value: unknown) {
    const all = (value as { keys?: unknown } | null | undefined)?.keys;
    if (!Array.isArray(all)) throw new Error('it is no JSON Web Key Set: "keys" is not a list');
    if (all.length > maxKeys) throw new Error(`it holds more than ${maxKeys} keys`);
    this.keys = all.filter(verifies);
    if (this.keys.length === 0)
      throw new Error('it holds no public RSA, EC or Ed25519 key that is there to verify signatures');
    this.source = JSON.stringify(this.keys);
  }

  /** Number of keys. */
  get size(): number {
    return this.keys.length;
  }

  /** True when a key has this id. A token without an id uses the only key of a set. */
  has(kid: string | undefined): boolean {
    return kid === undefined || this.keys.some((key) => key.kid === kid);
  }

  /** The key for a token. Rejects with `token_invalid` when none fits. */
  async find(kid: string | undefined, algorithm: TokenAlgorithm): Promise<CryptoKey> {
    if (kid === undefined && this.size !== 1)
      throw tokenInvalid(
        `does not say which key signed it (kid), and there are ${this.size} keys. Have its issuer name the key.`,
      );
    if (!this.has(kid)) throw unknownKey(kid, this.size);
    const at = this.keys.findIndex(
      (key) => (kid === undefined || key.kid === kid) && isForAlgorithm(key, algorithm),
    );
    const key = this.keys[at];
    if (key === undefined)
      throw tokenInvalid(`is signed with ${algorithm}, and the key that it names is not one for that.`);
    const name = `${at}/${algorithm}`;
    let imported = this.imported.get(name);
    if (imported === undefined) {
      imported = importKey(key, algorithm);
      this.imported.set(name, imported);
    }
    return imported;
  }
}

function unknownKey(kid: string | undefined, size: number): Error {
  return tokenInvalid(
    `is signed by the key ${quoteClaim(kid)}, which is none of the ${size} that are known. Get a new token from the issuer that this gateway accepts.`,
  );
}

async function importKey(key: JWK, algorithm: TokenAlgorithm): Promise<CryptoKey> {
  try {
    const imported = await importJWK(key, algorithm);
    if (!(imported instanceof Uint8Array)) return imported;
  } catch {
    // For the caller, the same as a key of another kind.
  }
  throw tokenInvalid(`names a key that cannot be used for ${algorithm}. Report it to the issuer.`);
}

/** A private key is an error here, and a shared secret would allow every verifier to sign. */
function verifies(value: unknown): value is JWK {
  if (typeof value !== 'object' || value === null) return false;
  const { kty, kid, use, d, key_ops: operations } = value as Partial<Record<keyof JWK, unknown>>;
  if (kty !== 'RSA' && kty !== 'EC' && kty !== 'OKP') return false;
  if (kid !== undefined && typeof kid !== 'string') return false;
  if (d !== undefined || (use !== undefined && use !== 'sig')) return false;
  return operations === undefined || (Array.isArray(operations) && operations.includes('verify'));
}

function isForAlgorithm({ kty, crv, alg }: JWK, algorithm: TokenAlgorithm): boolean {
  const [type, curve] = families[algorithm];
  if (alg !== undefined && alg !== algorithm) return false;
  return kty === type && (curve === undefined || curve === crv);
}

const maxBytes = 1_048_576;
/** Minimum interval of fetches for unknown keys, and after a failed fetch while there are keys. */
const refreshEveryMs = 30_000;
/** Delay after a failed fetch while there are no keys. */
const retryAfterMs = 5000;

/** Source of keys. */
export interface KeySource {
  /** The cached keys; reads them when there are none. Rejects with `token_keys_unavailable`. */
  known(): KeySet | Promise<KeySet>;
  /** The keys after another read, unless the last one was a moment ago. Never rejects. */
  newer(known: KeySet): KeySet | Promise<KeySet>;
  /** Reads the keys again when they are too old. */
  keepFresh(): void;
  /** Grows when the keys change. */
  readonly version: number;
}

/** Keys from the configuration. */
export function fixedKeys(keys: KeySet): KeySource {
  return { known: () => keys, newer: () => keys, keepFresh: () => undefined, version: 1 };
}

interface FetchedKeysOptions {
  readonly url: string;
  readonly maxAgeMs: number;
  readonly timeoutMs: number;
  readonly fetch: GuardedFetch;
  readonly clock: Clock;
  readonly log: Log;
}

/** Keys at an address: read on first use, one fetch at a time, and kept when a later fetch fails. */
export class FetchedKeys implements KeySource {
  version = 0;
  readonly #options: FetchedKeysOptions;
  #keys: KeySet | undefined;
  #fetching: Promise<void> | undefined;
  /** Time of the last read and of the last attempt, on the monotonic clock. */
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

/** The URL without its query, which could hold a secret. */
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

/** Verification is impossible: no keys have ever been read. */
function keysUnavailable(retryAfterMs: number): GatewayError {
  return new GatewayError(
    'token_keys_unavailable',
    "The keys that tokens are verified with could not be read yet. Try again shortly; the gateway's log says why.",
    { headers: ['retry-after', String(Math.max(1, Math.ceil(retryAfterMs / 1000)))] },
  );
}
