/** Signature algorithms of tokens. None and those with shared secrets are left out on purpose. */
export const tokenAlgorithms = [
  ...(['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'] as const),
  ...(['ES256', 'ES384', 'ES512', 'EdDSA'] as const),
] as const;

export type TokenAlgorithm = (typeof tokenAlgorithms)[number];

/** How tokens are verified. */
export interface TokenVerifierOptions {
  /** A JSON Web Key Set, or the address that answers one. */
  readonly keys: { readonly set: unknown } | { readonly url: string };
  /** Accepted issuers; every one when it is empty. */
  readonly issuers: readonly string[];
  /** Accepted audiences, one of which a token must name; every one, and none, when it is empty. */
  readonly audiences: readonly string[];
  readonly algorithms: readonly TokenAlgorithm[];
  /** How far clocks may differ. */
  readonly clockToleranceMs: number;
  /** Age from which on the set at an address is read again. */
  readonly maxAgeMs: number;
  /** Of one fetch of the set. */
  readonly timeoutMs: number;
}

/** A token whose signature, times, issuer and audience hold. */
export interface VerifiedToken {
  readonly claims: Readonly<Record<string, unknown>>;
  /** Its claim `exp`, milliseconds since the epoch. */
  readonly expiresAt: number;
}

/** Verifies JSON Web Tokens with one set of keys. */
export interface TokenVerifier {
  /**
   * Verifies a token. A key that is not known has the set read again, at most once in 30 seconds. Rejects with
   * `token_invalid`, which says what is wrong, or `token_keys_unavailable` when no set could ever be read.
   */
  verify(token: string): Promise<VerifiedToken>;
  /** Whether `verify` would take it by the keys that are known now. Never rejects. */
  accepts(token: string): Promise<boolean>;
  /** Has the set read again, behind the caller's back, when it has reached its age. Costs a comparison otherwise. */
  keepFresh(): void;
  /** Grows when the keys change: what was verified before need not hold any more. */
  readonly version: number;
}

/** Verifies who presents a JSON Web Token. */
export interface Tokens {
  /** Throws `invalid_request` for a set that holds no key to verify with. */
  verifier(options: TokenVerifierOptions): TokenVerifier;
}
