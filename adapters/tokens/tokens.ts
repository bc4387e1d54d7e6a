import { compactVerify, type CryptoKey, decodeProtectedHeader, importJWK, type JWK } from 'jose';
import { GatewayError, messageOf, quoteClaim, tokenInvalid } from '../../core/errors/gateway-error.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { GuardedFetch } from '../../core/ports/transport.ts';
import type { Log } from '../../core/ports/log.ts';
import type {
  TokenAlgorithm,
  Tokens,
  TokenVerifier,
  TokenVerifierOptions,
  VerifiedToken,
} from '../../core/ports/oauth.ts';

type Rules = Pick<TokenVerifierOptions, 'issuers' | 'audiences' | 'clockToleranceMs'>;

/** Last valid second of a JavaScript date since the epoch. */
const lastSecond = 8.64e12;

/** Checks time, issuer and audience of a verified token. Throws `token_invalid`. */
function checkClaims(claims: Readonly<Record<string, unknown>>, rules: Rules, now: number): VerifiedToken {
  const { clockToleranceMs: tolerance } = rules;
  const expiresAt = timeOf(claims, 'exp');
  const validFrom = timeOf(claims, 'nbf');
  const issuedAt = timeOf(claims, 'iat');
  if (expiresAt === undefined) throw tokenInvalid('has no claim "exp". Only tokens that expire are taken.');
  if (now >= expiresAt + tolerance)
    throw tokenInvalid(`expired at ${new Date(expiresAt).toISOString()}. Get a new one.`);
  if (validFrom !== undefined && now < validFrom - tolerance)
    throw tokenInvalid(`is not valid before ${new Date(validFrom).toISOString()} (nbf). Use it then.`);
  if (issuedAt !== undefined && now < issuedAt - tolerance)
    throw tokenInvalid(
      `was issued at ${new Date(issuedAt).toISOString()} (iat), which is yet to come. Check the clocks.`,
    );
  checkIssuer(claims['iss'], rules.issuers);
  checkAudience(claims['aud'], rules.audiences);
  return { claims, expiresAt };
}

function timeOf(claims: Readonly<Record<string, unknown>>, name: 'exp' | 'nbf' | 'iat'): number | undefined {
  const value = claims[name];
  if (value === undefined) return undefined;
  if (typeof value === 'number' && value >= 0 && value <= lastSecond) return Math.floor(value * 1000);
  throw tokenInvalid(`has a claim "${name}" that is no time in seconds since 1970.`);
}

function checkIssuer(issuer: unknown, accepted: readonly string[]): void {
  if (accepted.length === 0 || (typeof issuer === 'string' && accepted.includes(issuer))) return;
  throw tokenInvalid(
    issuer === undefined
      ? 'names no issuer (iss), and this gateway accepts only certain ones.'
      : `was issued by ${quoteClaim(issuer)} (iss), which is not accepted here. Use one of the issuer that is.`,
  );
}

function checkAudience(audience: unknown, accepted: readonly string[]): void {
  if (accepted.length === 0) return;
  const named: readonly unknown[] = Array.isArray(audience) ? audience : [audience];
  if (named.some((one) => typeof one === 'string' && accepted.some((rule) => isAudience(one, rule)))) return;
  throw tokenInvalid(
    audience === undefined
      ? 'names no audience (aud), and this gateway takes only tokens that are meant for it.'
      : `is meant for ${quoteClaim(audience)} (aud), not for this gateway. Ask for one with its audience.`,
  );
}

/** `https://gateway.example.com/*` is that origin and every URL below it. */
function isAudience(named: string, rule: string): boolean {
  if (!rule.endsWith('/*')) return named === rule;
  return named === rule.slice(0, -2) || named.startsWith(rule.slice(0, -1));
}

const longestToken = 16_384;

/** Dependencies of verification. */
interface TokensOptions {
  /** Fetches key sets: public addresses and `security.trusted_hosts`. */
  readonly fetch: GuardedFetch;
  readonly clock: Clock;
  readonly log: Log;
}

/** Verifies JSON Web Tokens (RFC 7519) in the compact form, signed with a key of a JSON Web Key Set. */
export function createTokens({ fetch, clock, log }: TokensOptions): Tokens {
  return {
    verifier(options) {
      const { keys, maxAgeMs, timeoutMs } = options;
      const source =
        'url' in keys
          ? new FetchedKeys({ url: keys.url, maxAgeMs, timeoutMs, fetch, clock, log })
          : fixedKeys(readSet(keys.set));
      return new SetVerifier(source, options, clock);
    },
  };
}

function readSet(set: unknown): KeySet {
  try {
    return new KeySet(set);
  } catch (error) {
    throw new GatewayError('invalid_request', `The key set cannot be used: ${(error as Error).message}.`);
  }
}

/** Signature parameters in the header of a token. */
interface Signature {
  readonly kid: string | undefined;
  readonly algorithm: TokenAlgorithm;
}

class SetVerifier implements TokenVerifier {
  readonly #source: KeySource;
  readonly #options: TokenVerifierOptions;
  readonly #clock: Clock;

  constructor(source: KeySource, options: TokenVerifierOptions, clock: Clock) {
    this.#source = source;
    this.#options = options;
    this.#clock = clock;
  }

  get version(): number {
    return this.#source.version;
  }

  keepFresh(): void {
    this.#source.keepFresh();
  }

  async verify(token: string): Promise<VerifiedToken> {
    const signature = this.#signatureOf(token);
    const known = await this.#source.known();
    const keys = known.has(signature.kid) ? known : await this.#source.newer(known);
    return this.#check(token, signature, keys);
  }

  async accepts(token: string): Promise<boolean> {
    try {
      const signature = this.#signatureOf(token);
      await this.#check(token, signature, await this.#source.known());
      return true;
    } catch {
      return false;
    }
  }

  async #check(token: string, { kid, algorithm }: Signature, keys: KeySet): Promise<VerifiedToken> {
    const key = await keys.find(kid, algorithm);
    let payload: Uint8Array;
    try {
      ({ payload } = await compactVerify(token, key, { algorithms: [algorithm] }));
    } catch {
      throw tokenInvalid('has a signature that is not of the key that it names. Send it as it was issued.');
    }
    return checkClaims(claimsOf(payload), this.#options, this.#clock.now());
  }

  #signatureOf(token: string): Signature {
    if (token.length > longestToken) throw tokenInvalid(`is longer than ${longestToken} characters.`);
    let header: ReturnType<typeof decodeProtectedHeader>;
    try {
      header = decodeProtectedHeader(token);
    } catch {
      throw tokenInvalid('is malformed: its header is no JSON object. Send it as it was issued.');
    }
    const { alg, kid } = header;
    const algorithm = this.#options.algorithms.find((accepted) => accepted === alg);
    if (algorithm === undefined)
      throw tokenInvalid(
        `is signed with ${quoteClaim(alg ?? 'none')} (alg), which is not accepted. Have it signed with ${this.#options.algorithms.join(', ')}.`,
      );
    if ('crit' in header) throw tokenInvalid('asks for extensions (crit), and none is supported.');
    if (kid !== undefined && typeof kid !== 'string')
      throw tokenInvalid('names a key (kid) that is no text.');
    return { kid, algorithm };
  }
}

function claimsOf(payload: Uint8Array): Readonly<Record<string, unknown>> {
  let claims: unknown;
  try {
    claims = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(payload));
  } catch {
    // Refused below.
  }
  if (typeof claims === 'object' && claims !== null && !Array.isArray(claims))
    return claims as Readonly<Record<string, unknown>>;
  throw tokenInvalid('is malformed: its claims are no JSON object. Report it to the issuer.');
}

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
class KeySet {
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
interface KeySource {
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
function fixedKeys(keys: KeySet): KeySource {
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
class FetchedKeys implements KeySource {
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
  return messageOf(error);
}

/** Verification is impossible: no keys have ever been read. */
function keysUnavailable(retryAfterMs: number): GatewayError {
  return new GatewayError(
    'token_keys_unavailable',
    "The keys that tokens are verified with could not be read yet. Try again shortly; the gateway's log says why.",
    { headers: ['retry-after', String(Math.max(1, Math.ceil(retryAfterMs / 1000)))] },
  );
}
