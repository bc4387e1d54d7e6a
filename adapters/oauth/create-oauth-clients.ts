import type { AuthorizationServerMetadata } from '@modelcontextprotocol/sdk/shared/auth.js';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import { isLoopbackHost } from '../../core/base/host-rules.ts';
import { isJsonObject } from '../../core/base/json.ts';
import type { Clock } from '../../core/ports/clock.ts';
import {
  isSameIssuer,
  type OauthAuthorization,
  type OauthClient,
  type OauthClientMethod,
  oauthClientMethods,
  type OauthClients,
  type OauthDiscovery,
  type OauthRegistration,
  type OauthResource,
  type OauthServer,
  type OauthTokens,
} from '../../core/ports/oauth.ts';
import type { GuardedFetch } from '../../core/ports/transport.ts';
import { proveClient, UnusableKey } from './prove-client.ts';
import type { FetchLike } from '@modelcontextprotocol/sdk/shared/transport.js';

type Library = Awaited<ReturnType<typeof importLibrary>>;

let library: Promise<Library> | undefined;

/** Loaded on first use: it has hundreds of modules, which would delay the start. */
function oauthLibrary(): Promise<Library> {
  library ??= importLibrary();
  return library;
}

async function importLibrary() {
  const [auth, resources, errors] = await Promise.all([
    import('@modelcontextprotocol/sdk/client/auth.js'),
    import('@modelcontextprotocol/sdk/shared/auth-utils.js'),
    import('@modelcontextprotocol/sdk/server/auth/errors.js'),
  ]);
  return { ...auth, checkResourceAllowed: resources.checkResourceAllowed, OAuthError: errors.OAuthError };
}

const clientName = 'Weir';
/** Longest token that is put into a header. */
const maxTokenLength = 16_384;
const maxAddress = 2_048;
const longestLifeMs = 10 * 365 * 86_400_000;

/** Options of `createOauthClients`. */
interface OauthClientsOptions {
  readonly fetch: GuardedFetch;
  readonly clock: Clock;
}

/** Creates clients of authorization servers. Nothing is kept between calls. */
export function createOauthClients(options: OauthClientsOptions): OauthClients {
  return new GuardedOauthClients(options);
}

class GuardedOauthClients implements OauthClients {
  readonly #guarded: GuardedFetch;
  readonly #clock: Clock;

  constructor({ fetch, clock }: OauthClientsOptions) {
    this.#guarded = fetch;
    this.#clock = clock;
  }

  async discover(resource: OauthResource): Promise<OauthDiscovery> {
    const sdk = await oauthLibrary();
    const around = boundedFetch(this.#guarded);
    const host = hostOf(resource.url);
    const purpose = 'to say which authorization server it belongs to';
    const describing = talk(host, purpose, around, () => describedResource(sdk, resource, around));
    // With an issuer of the settings, the description is only of use for the name of the resource.
    const described = await (resource.issuer === undefined ? describing : describing.catch(() => undefined));
    const issuer = resource.issuer ?? described?.servers[0] ?? new URL('/', resource.url).href;
    const metadata = await talk(hostOf(issuer), 'to describe itself', around, () =>
      sdk.discoverAuthorizationServerMetadata(issuer, { fetchFn: around.fetch }),
    );
    if (metadata === undefined) throw undescribed(resource, issuer, described !== undefined);
    if (!isSameIssuer(metadata.issuer, issuer))
      throw oauthFailed(hostOf(issuer), `calls itself ${quoted(metadata.issuer)}, which is another server`);
    return {
      server: serverOf(metadata, around.document(), {
        issuer,
        mayBePlain: isPlain(resource.issuer ?? resource.url),
      }),
      resource: described?.resource,
      scopes: described?.scopes ?? [],
    };
  }

  async register(
    server: OauthServer,
    { redirectUri, scope }: { readonly redirectUri: string; readonly scope: string },
  ): Promise<OauthRegistration> {
    const { issuer, registrationEndpoint: endpoint } = server;
    const host = hostOf(issuer);
    if (endpoint === undefined) {
      const why = `registers no clients by itself. Register one there with the redirect URI ${redirectUri}, and give its client_id in the settings of the MCP server`;
      throw oauthFailed(host, why);
    }
    const sdk = await oauthLibrary();
    const around = boundedFetch(this.#guarded);
    const made = await talk(host, 'to register a client', around, () =>
      sdk.registerClient(issuer, {
        metadata: metadataOf(server),
        clientMetadata: {
          client_name: clientName,
          redirect_uris: [redirectUri],
          grant_types: ['authorization_code', 'refresh_token'],
          response_types: ['code'],
          token_endpoint_auth_method: usualMethod(server.methods),
          ...(scope !== '' && { scope }),
        },
        fetchFn: around.fetch,
      }),
    );
    const { client_id: id, client_secret: secret = '', client_secret_expires_at: expires = 0 } = made;
    return {
      client: { id, method: registeredMethod(made.token_endpoint_auth_method, secret, host), secret },
      expiresAt: secret === '' || expires === 0 ? undefined : expires * 1000,
    };
  }

  async authorize(
    server: OauthServer,
    { clientId, redirectUri, scope, resource }: OauthAuthorization,
  ): Promise<{ readonly url: URL; readonly verifier: string }> {
    const sdk = await oauthLibrary();
    const host = hostOf(server.issuer);
    if (server.authorizationEndpoint === undefined)
      throw oauthFailed(host, 'names no authorization endpoint');
    if (!server.hasPkce)
      throw oauthFailed(host, 'does not support PKCE with S256, without which no code is safe');
    const around = boundedFetch(this.#guarded);
    const started = await talk(host, 'to authorize a client', around, () =>
      sdk.startAuthorization(server.issuer, {
        metadata: metadataOf(server),
        clientInformation: { client_id: clientId },
        redirectUrl: redirectUri,
        ...(scope !== '' && { scope }),
        ...(resource !== undefined && { resource }),
      }),
    );
    return { url: started.authorizationUrl, verifier: started.codeVerifier };
  }

  async token(
    { issuer, tokenEndpoint: endpoint }: Pick<OauthServer, 'issuer' | 'tokenEndpoint'>,
    client: OauthClient,
    grant: Readonly<Record<string, string>>,
  ): Promise<OauthTokens> {
    const sdk = await oauthLibrary();
    const host = hostOf(endpoint);
    const around = boundedFetch(this.#guarded);
    const clock = this.#clock;
    const asked = clock.now();
    const tokens = await talk(host, 'to give a token', around, () =>
      sdk.fetchToken(
        {
          redirectUrl: undefined,
          clientMetadata: { redirect_uris: [] },
          clientInformation: () => undefined,
          tokens: () => undefined,
          saveTokens: () => undefined,
          redirectToAuthorization: () => undefined,
          saveCodeVerifier: () => undefined,
          codeVerifier: () => '',
          prepareTokenRequest: () => new URLSearchParams({ ...grant }),
          addClientAuthentication: (headers, form) =>
            proveClient(client, { headers, form }, { issuer, endpoint }, clock),
        },
        issuer || endpoint,
        { metadata: metadataOf({ issuer, tokenEndpoint: endpoint }), fetchFn: around.fetch },
      ),
    );
    return tokensOf(tokens, asked, host);
  }

  async revoke(
    {
      issuer,
      revocationEndpoint: endpoint,
    }: { readonly issuer: string; readonly revocationEndpoint: string },
    client: OauthClient,
    token: string,
  ): Promise<void> {
    const headers = new Headers({ 'content-type': 'application/x-www-form-urlencoded' });
    const form = new URLSearchParams({ token });
    const around = boundedFetch(this.#guarded);
    await talk(hostOf(endpoint), 'to revoke a token', around, async () => {
      await proveClient(client, { headers, form }, { issuer, endpoint }, this.#clock);
      const answer = await around.fetch(endpoint, { method: 'POST', headers, body: form });
      if (!answer.ok) throw new Error('The token is not revoked.');
    });
  }
}

interface DescribedResource {
  readonly resource: string;
  readonly servers: readonly string[];
  readonly scopes: readonly string[];
}

/** Metadata of the resource (RFC 9728); undefined when it has none. */
async function describedResource(
  sdk: Library,
  { url, metadata: place }: OauthResource,
  around: BoundedFetch,
): Promise<DescribedResource | undefined> {
  try {
    const found = await sdk.discoverOAuthProtectedResourceMetadata(
      url,
      { resourceMetadataUrl: place },
      around.fetch,
    );
    const { resource, authorization_servers: servers = [], scopes_supported: scopes = [] } = found;
    if (!sdk.checkResourceAllowed({ requestedResource: url, configuredResource: resource }))
      throw oauthFailed(hostOf(url), `describes another resource, ${quoted(resource)}`);
    return { resource, servers, scopes };
  } catch (error) {
    const isAbsent = around.status >= 400 && around.status < 500;
    if (isAbsent && place === undefined && !GatewayError.is(error)) return undefined;
    throw error;
  }
}

/**
 * The metadata without what a client must not use. Throws when the rest is not enough. `others` is the whole document: of
 * one of OpenID Connect the library leaves out the members that it does not know.
 */
function serverOf(
  metadata: AuthorizationServerMetadata,
  others: Readonly<Record<string, unknown>>,
  { issuer, mayBePlain }: { readonly issuer: string; readonly mayBePlain: boolean },
): OauthServer {
  const secure = (endpoint: string | undefined): string | undefined =>
    endpoint !== undefined && (mayBePlain || new URL(endpoint).protocol === 'https:') ? endpoint : undefined;
  const tokenEndpoint = secure(metadata.token_endpoint);
  if (tokenEndpoint === undefined)
    throw oauthFailed(hostOf(issuer), 'names a token endpoint without TLS; it must be https');
  return {
    issuer,
    tokenEndpoint,
    authorizationEndpoint: secure(metadata.authorization_endpoint),
    registrationEndpoint: secure(metadata.registration_endpoint),
    revocationEndpoint: secure(textOf(others['revocation_endpoint'])),
    endSessionEndpoint: secure(pageOf(others['end_session_endpoint'])),
    methods: metadata.token_endpoint_auth_methods_supported ?? [],
    namesIssuer: others['authorization_response_iss_parameter_supported'] === true,
    hasPkce: metadata.code_challenge_methods_supported?.includes('S256') ?? true,
    hasOfflineScope: metadata.scopes_supported?.includes('offline_access') ?? false,
  };
}

/** Without TLS by the settings, which name its address. */
function isPlain(address: string): boolean {
  return new URL(address).protocol === 'http:';
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && URL.canParse(value) ? value : undefined;
}

/** An address that a browser may be sent to: with TLS, or on this machine. */
function pageOf(value: unknown): string | undefined {
  const address = textOf(value);
  if (address === undefined || address.length > maxAddress) return undefined;
  const { protocol, host, username, password } = new URL(address);
  const isSafe = protocol === 'https:' || (protocol === 'http:' && isLoopbackHost(host));
  return isSafe && username === '' && password === '' ? address : undefined;
}

/** The metadata that the library needs of a server. */
function metadataOf(
  server: Pick<OauthServer, 'issuer' | 'tokenEndpoint'> & Partial<OauthServer>,
): AuthorizationServerMetadata {
  return {
    issuer: server.issuer,
    token_endpoint: server.tokenEndpoint,
    authorization_endpoint: server.authorizationEndpoint ?? server.tokenEndpoint,
    registration_endpoint: server.registrationEndpoint,
    response_types_supported: ['code'],
  };
}

function undescribed({ url, issuer }: OauthResource, place: string, isNamed: boolean): GatewayError {
  if (issuer !== undefined || isNamed)
    return oauthFailed(hostOf(place), 'does not describe itself under /.well-known (RFC 8414)');
  const why =
    'does not say which authorization server it belongs to (RFC 9728). Give its issuer in the settings of the MCP server';
  return oauthFailed(hostOf(url), why);
}

/** How a client is registered: with a secret where the server takes one. */
function usualMethod(methods: readonly string[]): OauthClientMethod {
  const order = ['client_secret_basic', 'client_secret_post', 'none'] as const;
  return order.find((one) => methods.includes(one)) ?? 'client_secret_basic';
}

function registeredMethod(named: string | undefined, secret: string, host: string): OauthClientMethod {
  if (secret === '') return 'none';
  const method = oauthClientMethods.find((one) => one === (named ?? 'client_secret_basic'));
  if (method === 'client_secret_basic' || method === 'client_secret_post') return method;
  throw oauthFailed(host, 'registers the client with a way of authentication that it was not asked for');
}

type GivenTokens = Awaited<ReturnType<Library['fetchToken']>>;

function tokensOf(given: GivenTokens, asked: number, host: string): OauthTokens {
  const { access_token: accessToken, token_type: type, expires_in: seconds } = given;
  const { refresh_token: refreshToken = '', scope } = given;
  if (type.toLowerCase() !== 'bearer')
    throw oauthFailed(host, `gives a token of the type ${quoted(type)}, where "Bearer" is needed`);
  if (!isToken(accessToken) || (refreshToken !== '' && refreshToken.length > maxTokenLength))
    throw oauthFailed(host, 'gives a token that no header can hold');
  const lifeMs = Math.min(Math.max(0, (seconds ?? 0) * 1000), longestLifeMs);
  return {
    accessToken,
    expiresAt: seconds === undefined || !Number.isFinite(seconds) ? undefined : asked + lifeMs,
    refreshToken,
    scope,
  };
}

function isToken(text: string): boolean {
  return text.length <= maxTokenLength && /^[\x21-\x7e]+$/.test(text);
}

/** Runs one exchange; whatever is thrown becomes an error for the client without words of the server. */
async function talk<T>(
  host: string,
  purpose: string,
  around: BoundedFetch,
  exchange: () => Promise<T>,
): Promise<T> {
  try {
    return await exchange();
  } catch (error) {
    if (GatewayError.is(error) && error.code === 'fetch_failed')
      throw oauthFailed(host, `fails ${purpose}: ${error.message.replace(/\.$/, '')}`);
    if (GatewayError.is(error)) throw error;
    if (error instanceof UnusableKey)
      throw oauthFailed(host, `gets no proof of the client: its private key ${error.message}`);
    const { OAuthError } = await oauthLibrary();
    const status = around.status === 0 ? '' : ` (HTTP ${around.status})`;
    if (!(error instanceof OAuthError) || error.errorCode === 'server_error')
      throw oauthFailed(host, `fails ${purpose}${status}; its answer is none that OAuth has for it`);
    throw oauthFailed(host, `refuses ${purpose}: ${error.errorCode}${status}`, error.errorCode);
  }
}

function oauthFailed(host: string, why: string, code?: string): GatewayError {
  return new GatewayError('credentials_failed', `The server ${quoted(host)} ${why}.`, {
    ...(code !== undefined && { extra: { oauth_error: code } }),
  });
}

function hostOf(address: string): string {
  return URL.canParse(address) ? new URL(address).host : address;
}

function quoted(text: string): string {
  return `"${text.slice(0, 128).replace(/[^\x20-\x7e]/g, '?')}"`;
}

const timeoutMs = 10_000;
const maxBytes = 256 * 1024;
const maxRequestBytes = 64 * 1024;
/** A body with a secret is sent to the address that it is meant for, and to no other. */
const noRedirects = 0;
/** Metadata alone is fetched with `GET`. */
const redirectsOfMetadata = 3;
/** Headers of a `Response` cannot be set on these statuses, which have no body. */
const bodiless = new Set([101, 204, 205, 304]);

/** The guarded fetch in the form of the protocol library, with the status of the last answer. */
interface BoundedFetch {
  readonly fetch: FetchLike;
  /** 0 without an answer. */
  readonly status: number;
  /** The last answer as a JSON object; empty for anything else. */
  document(): Readonly<Record<string, unknown>>;
}

/** Requests of one conversation with an authorization server; each is bounded, and none goes to a closed address. */
function boundedFetch(guarded: GuardedFetch): BoundedFetch {
  let status = 0;
  let last: Uint8Array = new Uint8Array();
  return {
    get status() {
      return status;
    },
    document() {
      try {
        const value: unknown = JSON.parse(Buffer.from(last).toString('utf8'));
        return isJsonObject(value) ? value : {};
      } catch {
        return {};
      }
    },
    async fetch(url, init = {}) {
      status = 0;
      const method = init.method ?? 'GET';
      const body = bodyOf(init.body);
      const headers = [...new Headers(init.headers)].flat();
      const { answer } = guarded.fetch({
        url: String(url),
        method,
        headers,
        ...(body !== undefined && { body }),
        timeoutMs,
        maxBytes,
        maxRedirects: method === 'GET' ? redirectsOfMetadata : noRedirects,
      });
      const received = await answer;
      status = received.status;
      last = received.body;
      if (status < 200 || status > 599)
        throw new GatewayError('fetch_failed', 'The server answers a status that HTTP does not have.');
      return new Response(bodiless.has(status) ? null : new Uint8Array(received.body), { status });
    },
  };
}

function bodyOf(body: RequestInit['body']): Uint8Array | undefined {
  if (body === undefined || body === null) return undefined;
  if (typeof body !== 'string' && !(body instanceof URLSearchParams))
    throw new TypeError('Only texts and forms are sent to authorization servers.');
  const bytes = Buffer.from(String(body), 'utf8');
  if (bytes.length > maxRequestBytes)
    throw new GatewayError('fetch_failed', `The request is larger than ${maxRequestBytes} bytes.`);
  return bytes;
}
