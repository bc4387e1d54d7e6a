import { compactVerify, decodeProtectedHeader } from 'jose';
import { GatewayError, quoteClaim, tokenInvalid } from '../../core/errors/gateway-error.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { GuardedFetch } from '../../core/ports/transport.ts';
import type { Log } from '../../core/ports/log.ts';
import type {
  TokenAlgorithm,
  Tokens,
  TokenVerifier,
  TokenVerifierOptions,
  VerifiedToken,
} from '../../core/ports/token-verifier.ts';
import { FetchedKeys, fixedKeys, KeySet, type KeySource } from './key-source.ts';

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
