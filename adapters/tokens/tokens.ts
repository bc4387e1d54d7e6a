import { compactVerify, decodeProtectedHeader } from 'jose';
import { GatewayError, quoteClaim, tokenInvalid } from '../../core/errors/gateway-error.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { GuardedFetch } from '../../core/ports/guarded-fetch.ts';
import type { Log } from '../../core/ports/log.ts';
import {
  type TokenAlgorithm,
  type Tokens,
  type TokenVerifier,
  type TokenVerifierOptions,
  type VerifiedToken,
} from '../../core/ports/token-verifier.ts';
import { checkClaims } from './check-claims.ts';
import { FetchedKeys, fixedKeys, type KeySource } from './key-source.ts';
import { KeySet } from './key-set.ts';

const longestToken = 16_384;

/** What verifying needs from outside. */
export interface TokensOptions {
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

/** What the header of a token says about its signature. */
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
