/** Signature algorithms of tokens. None and those with shared secrets are left out on purpose. */
export const tokenAlgorithms = [
  ...(['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'] as const),
  ...(['ES256', 'ES384', 'ES512', 'EdDSA'] as const),
] as const;

export type TokenAlgorithm = (typeof tokenAlgorithms)[number];

/** Rules for the verification of tokens. */
export interface TokenVerifierOptions {
  /** A JSON Web Key Set, or the URL of one. */
  readonly keys: { readonly set: unknown } | { readonly url: string };
  /** Accepted issuers; every one when empty. */
  readonly issuers: readonly string[];
  /**
   * Accepted audiences, one of which a token must name; every audience, or none, when empty. One that ends in `/*` stands
   * for the URL before it and all below.
   */
  readonly audiences: readonly string[];
  readonly algorithms: readonly TokenAlgorithm[];
  /** Tolerated difference between clocks. */
  readonly clockToleranceMs: number;
  /** Age from which the set at a URL is fetched again. */
  readonly maxAgeMs: number;
  /** Deadline of one fetch of the set. */
  readonly timeoutMs: number;
}

/** A token with valid signature, times, issuer and audience. */
export interface VerifiedToken {
  readonly claims: Readonly<Record<string, unknown>>;
  /** Its claim `exp`, milliseconds since the epoch. */
  readonly expiresAt: number;
}

/** Verifies JSON Web Tokens with one set of keys. */
export interface TokenVerifier {
  /**
   * Verifies a token. An unknown key causes a new fetch of the set, at most once in 30 seconds. Rejects with
   * `token_invalid` and the reason, or `token_keys_unavailable` when no fetch of the set has ever succeeded.
   */
  verify(token: string): Promise<VerifiedToken>;
  /** Whether the present keys accept the token. Never rejects. */
  accepts(token: string): Promise<boolean>;
  /** Fetches the set again in the background when it has reached `maxAgeMs`. Costs a comparison otherwise. */
  keepFresh(): void;
  /** Grows when the keys change: earlier verifications may then be invalid. */
  readonly version: number;
}

/** Creates verifiers of JSON Web Tokens. */
export interface Tokens {
  /** Throws `invalid_request` for a set without a usable key. */
  verifier(options: TokenVerifierOptions): TokenVerifier;
}
