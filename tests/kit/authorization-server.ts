/** A real authorization server for tests (oidc-provider), whose users agree to everything at once. */
import { generateKeyPairSync } from 'node:crypto';
import http, { type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** A client that is registered before the start. */
interface KnownClient {
  readonly client_id: string;
  readonly client_secret?: string;
  readonly token_endpoint_auth_method?: string;
  readonly grant_types?: readonly string[];
  readonly application_type?: string;
  readonly redirect_uris?: readonly string[];
  readonly post_logout_redirect_uris?: readonly string[];
  readonly response_types?: readonly string[];
  readonly jwks?: object;
}

export interface AuthorizationServerOptions {
  readonly clients?: readonly KnownClient[];
  /** Below the origin, `/tenant1`; then its metadata is at the places with an inserted path. Default: none. */
  readonly path?: string;
  /** Protected resources, for which tokens are given. Default: each that is asked for. */
  readonly resources?: readonly string[];
  /** Makes access tokens for resources JSON Web Tokens. Default: texts that only the server can read. */
  readonly tokensAreJwt?: boolean;
  /** Of access tokens, seconds. Default 3600. */
  readonly tokenSeconds?: number;
  /** Registers clients (RFC 7591). Default true. */
  readonly registers?: boolean;
  /** Ends sessions of browsers (RP-Initiated Logout), and asks before. Default true. */
  readonly endsSessions?: boolean;
  /** Scopes of resources. */
  readonly scopes?: readonly string[];
}

/** What an access token stands for. */
export interface KnownToken {
  readonly subject: string | undefined;
  readonly clientId: string;
  readonly scope: string;
  /** The resource. */
  readonly audience: string;
}

export interface AuthorizationServer {
  readonly host: string;
  readonly issuer: string;
  /** Requests by method and path, without queries. */
  readonly requests: readonly string[];
  /** Bodies of requests for tokens, as forms. */
  readonly tokenRequests: readonly URLSearchParams[];
  /** Users who were asked to log in, in order: a browser with a session is not asked. */
  readonly logins: readonly string[];
  /** The valid access token, or undefined. */
  token(text: string): Promise<KnownToken | undefined>;
  /** The user who agrees from now on; undefined: who is asked refuses. */
  user: string | undefined;
  /** The refresh token has been used, and another one is in its place. */
  isSpent(refreshToken: string): Promise<boolean>;
  close(): void;
}

const exchangeGrant = 'urn:ietf:params:oauth:grant-type:token-exchange';
// Not a literal, so that the sources can be checked where the package is not installed.
const packageName: string = 'oidc-provider';
const memoryName = `${packageName}/lib/adapters/memory_adapter.js`;

/** Starts one on 127.0.0.1. */
export async function startAuthorizationServer(
  options: AuthorizationServerOptions = {},
): Promise<AuthorizationServer> {
  const { path = '', scopes = ['tickets:read', 'tickets:write'], tokenSeconds = 3600 } = options;
  const requests: string[] = [];
  const tokenRequests: URLSearchParams[] = [];
  const logins: string[] = [];
  let answer: (request: IncomingMessage, response: ServerResponse) => void = (_request, response) =>
    void response.writeHead(503).end();
  const server = http.createServer((request, response) => {
    requests.push(`${request.method} ${(request.url ?? '').split('?')[0]}`);
    answer(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const issuer = `http://${host}${path}`;
  const { Provider, errors } = await import(packageName);
  const { default: Memory } = await import(memoryName);
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const provider = new Provider(issuer, {
    adapter: class extends Memory {},
    jwks: { keys: [{ ...privateKey.export({ format: 'jwk' }), kid: 'of tests', alg: 'ES256', use: 'sig' }] },
    enabledJWA: { idTokenSigningAlgValues: ['ES256'] },
    clientDefaults: { id_token_signed_response_alg: 'ES256' },
    clients: options.clients ?? [],
    scopes: ['openid', 'offline_access', ...scopes],
    cookies: { keys: ['of tests'] },
    rotateRefreshToken: true,
    issueRefreshToken: () => true,
    ttl: {
      AccessToken: tokenSeconds,
      ClientCredentials: tokenSeconds,
      RefreshToken: 86_400,
      Interaction: 600,
      Session: 600,
      Grant: 86_400,
    },
    pkce: { required: () => true },
    clientAuthMethods: ['client_secret_basic', 'client_secret_post', 'private_key_jwt', 'none'],
    findAccount: (_context: unknown, id: string) => ({ accountId: id, claims: () => ({ sub: id }) }),
    interactions: { url: (_context: unknown, { uid }: { uid: string }) => `${path}/interaction/${uid}` },
    features: {
      devInteractions: { enabled: false },
      registration: { enabled: options.registers ?? true },
      revocation: { enabled: true },
      clientCredentials: { enabled: true },
      rpInitiatedLogout: {
        enabled: options.endsSessions ?? true,
        logoutSource(context: { body: unknown }, form: string) {
          context.body = `<!doctype html><title>Sign out</title>${form}
            <button type="submit" form="op.logoutForm" name="logout" value="yes">Yes, sign me out</button>`;
        },
      },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => undefined,
        useGrantedResource: () => true,
        getResourceServerInfo(_context: unknown, resource: string) {
          if (options.resources?.includes(resource) === false) throw new errors.InvalidTarget();
          if (options.tokensAreJwt !== true) return { scope: scopes.join(' '), accessTokenFormat: 'opaque' };
          return { scope: scopes.join(' '), accessTokenFormat: 'jwt', jwt: { sign: { alg: 'ES256' } } };
        },
      },
    },
  });
  const made: AuthorizationServer = {
    host,
    issuer,
    requests,
    tokenRequests,
    logins,
    user: 'ann',
    async token(text) {
      const found = (await provider.AccessToken.find(text)) ?? (await provider.ClientCredentials.find(text));
      if (found === undefined) return undefined;
      const { accountId: subject, clientId, scope = '', aud } = found;
      return { subject, clientId, scope, audience: String(aud) };
    },
    async isSpent(refreshToken) {
      const found = await provider.RefreshToken.find(refreshToken, { ignoreExpiration: true });
      return found?.consumed !== undefined || found === undefined;
    },
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
  allowExchange(provider, errors);
  provider.on('grant.error', () => undefined);
  provider.use(async (context: any, next: () => Promise<void>) => {
    await next();
    if (context.oidc?.route === 'token') tokenRequests.push(new URLSearchParams(context.oidc.params));
  });
  const callback = provider.callback();
  answer = (request, response) => {
    const url = request.url ?? '';
    if (url.startsWith(`${path}/interaction/`)) {
      void agree({ provider, user: made.user, logins }, request, response);
      return;
    }
    // The library serves below a path what is asked for without it.
    const inserted = new RegExp(`^/\\.well-known/(oauth-authorization-server|openid-configuration)${path}$`);
    request.url = inserted.test(url) ? '/.well-known/openid-configuration' : url.slice(path.length);
    if (path !== '') Object.assign(request, { originalUrl: url, baseUrl: path });
    callback(request, response);
  };
  return made;
}

/** Says yes in the name of the present user: logs in, and grants what is asked for. */
async function agree(
  { provider, user, logins }: { provider: any; user: string | undefined; logins: string[] },
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const details = await provider.interactionDetails(request, response);
  const { prompt, params, session } = details;
  if (user === undefined) {
    const refusal = { error: 'access_denied', error_description: '<b>no</b>' };
    await provider.interactionFinished(request, response, refusal, { mergeWithLastSubmission: false });
    return;
  }
  if (prompt.name === 'login') {
    logins.push(user);
    await provider.interactionFinished(request, response, { login: { accountId: user } });
    return;
  }
  const grant = new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
  const { missingOIDCScope = [], missingResourceScopes = {} } = prompt.details;
  grant.addOIDCScope(missingOIDCScope.join(' '));
  for (const [resource, scopes] of Object.entries<string[]>(missingResourceScopes))
    grant.addResourceScope(resource, scopes.join(' '));
  const consent = { grantId: await grant.save() };
  await provider.interactionFinished(request, response, { consent }, { mergeWithLastSubmission: true });
}

/** Exchanges every token of the form `subject:NAME` (RFC 8693); oidc-provider leaves what a token proves to its operator. */
function allowExchange(provider: any, errors: any): void {
  const parameters = ['subject_token', 'subject_token_type', 'audience', 'scope', 'requested_token_type'];
  const give = async (context: any) => {
    const { params, client } = context.oidc;
    const claims = /^e[^.]*\.([^.]+)\./.exec(params.subject_token)?.[1];
    if (claims === undefined) throw new errors.InvalidGrant('subject_token is none');
    const { sub } = JSON.parse(Buffer.from(claims, 'base64url').toString());
    if (sub === 'stranger') throw new errors.InvalidGrant('nobody');
    const grant = new provider.Grant({ accountId: sub, clientId: client.clientId });
    const token = new provider.AccessToken({
      ...{ accountId: sub, client, grantId: await grant.save(), gty: 'token_exchange' },
      ...{ scope: params.scope, aud: params.audience },
    });
    context.body = {
      access_token: await token.save(),
      issued_token_type: 'urn:ietf:params:oauth:token-type:access_token',
      token_type: 'Bearer',
      expires_in: token.expiration,
    };
  };
  provider.registerGrantType(exchangeGrant, give, parameters);
}
