/** Ways in which a client proves itself at a token endpoint. */
export const oauthClientMethods = [
  'client_secret_basic',
  'client_secret_post',
  'private_key_jwt',
  'none',
] as const;

export type OauthClientMethod = (typeof oauthClientMethods)[number];

/** A client of an authorization server. Holds a secret: never log it. */
export interface OauthClient {
  readonly id: string;
  readonly method: OauthClientMethod;
  /** The client secret, or for `private_key_jwt` the private key (PKCS #8 as PEM, or a JWK); empty for `none`. */
  readonly secret: string;
}

/** An authorization server, as far as a client needs it. URLs are `https`, or `http` for a resource that is. */
export interface OauthServer {
  /** Empty where the settings name endpoints alone. */
  readonly issuer: string;
  readonly tokenEndpoint: string;
  readonly authorizationEndpoint: string | undefined;
  readonly registrationEndpoint: string | undefined;
  readonly revocationEndpoint: string | undefined;
  /** Page that ends the session of a browser there (OpenID Connect RP-Initiated Logout); `http` on loopback alone. */
  readonly endSessionEndpoint: string | undefined;
  /** Ways to prove itself at the token endpoint that it names; empty when it names none. */
  readonly methods: readonly string[];
  /** It names itself in its answers to browsers (`iss`, RFC 9207). */
  readonly namesIssuer: boolean;
  /** It supports PKCE with S256, or does not say whether. */
  readonly hasPkce: boolean;
  /** It knows the scope `offline_access`, which stands for refresh tokens. */
  readonly hasOfflineScope: boolean;
}

/** A protected resource whose authorization server is looked for. */
export interface OauthResource {
  /** Address of the resource. */
  readonly url: string;
  /** `resource_metadata` of a challenge; undefined: the well-known places of the resource. */
  readonly metadata?: string | undefined;
  /** The authorization server of the settings, which the resource cannot replace. */
  readonly issuer?: string | undefined;
}

/** What a resource and its authorization server say of themselves. */
export interface OauthDiscovery {
  readonly server: OauthServer;
  /** Name of the resource (RFC 9728); undefined when it does not describe itself. */
  readonly resource: string | undefined;
  /** Scopes that the resource names; empty for none. */
  readonly scopes: readonly string[];
}

/** A client as an authorization server registers it. */
export interface OauthRegistration {
  readonly client: OauthClient;
  /** End of the secret, milliseconds since the epoch; undefined for never. */
  readonly expiresAt: number | undefined;
}

/** The request of a browser that begins an authorization. */
export interface OauthAuthorization {
  readonly clientId: string;
  readonly redirectUri: string;
  /** Separated by spaces; empty for none. */
  readonly scope: string;
  readonly resource: string | undefined;
}

/** Tokens of an authorization server. */
export interface OauthTokens {
  readonly accessToken: string;
  /** Milliseconds since the epoch; undefined when the server does not say. */
  readonly expiresAt: number | undefined;
  /** Empty for none. */
  readonly refreshToken: string;
  /** Granted scopes, separated by spaces; undefined when they are those that were asked for. */
  readonly scope: string | undefined;
}

/**
 * Client of authorization servers that records, requests and strangers name: public addresses and trusted hosts only,
 * 10 seconds and 256 KiB an answer. Rejects with `address_refused`, and with `credentials_failed` for everything else
 * that goes wrong; where the server gave a reason of RFC 6749 it is `oauth_error` in the error's details. No error holds
 * other words of the server.
 */
export interface OauthClients {
  /** Finds the authorization server of a resource: RFC 9728, RFC 8414 and OpenID Connect Discovery. */
  discover(resource: OauthResource): Promise<OauthDiscovery>;
  /** Registers a client (RFC 7591). Rejects when the server registers none. */
  register(
    server: OauthServer,
    client: { readonly redirectUri: string; readonly scope: string },
  ): Promise<OauthRegistration>;
  /** The address for the browser, without `state`, and the verifier of its PKCE challenge (S256). */
  authorize(
    server: OauthServer,
    asked: OauthAuthorization,
  ): Promise<{ readonly url: URL; readonly verifier: string }>;
  /** Asks for a token. `grant` has the parameters of the grant (`grant_type` …), without those that prove the client. */
  token(
    server: Pick<OauthServer, 'issuer' | 'tokenEndpoint'>,
    client: OauthClient,
    grant: Readonly<Record<string, string>>,
  ): Promise<OauthTokens>;
  /** Revokes a token and its grant (RFC 7009). */
  revoke(
    server: Pick<OauthServer, 'issuer'> & { readonly revocationEndpoint: string },
    client: OauthClient,
    token: string,
  ): Promise<void>;
}

/** The server's reason of RFC 6749 (`invalid_grant`); undefined for another error. */
export function oauthErrorOf(error: unknown): string | undefined {
  if (typeof error !== 'object' || error === null || !('extra' in error)) return undefined;
  const { extra } = error;
  if (typeof extra !== 'object' || extra === null || !('oauth_error' in extra)) return undefined;
  return typeof extra.oauth_error === 'string' ? extra.oauth_error : undefined;
}

/** Whether both name the same authorization server: URLs that differ in a final slash at most. */
export function isSameIssuer(one: string, other: string): boolean {
  const plain = (text: string): string => text.replace(/\/$/, '');
  return plain(one) === plain(other);
}

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
