/** An organisation's identity provider for tests: the real `oidc-provider`, which signs in whoever gives a name. */
import http, { type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { TestContext } from 'node:test';
import { exportJWK, generateKeyPair } from 'jose';
import Provider from 'oidc-provider';

/** What a test says about its provider; everything has a default. */
interface IdentityProviderOptions {
  /** Clients that it knows from the beginning, in the members of RFC 7591. */
  readonly clients?: readonly object[];
  /** Clients may register themselves (RFC 7591). Default: they may not. */
  readonly registration?: boolean;
  /** Scopes beside `openid` and `offline_access`. Default: `mcp.invoke`. */
  readonly scopes?: readonly string[];
  /** Audience of every access token. Default: the `resource` that the client asks for (RFC 8707). */
  readonly audience?: string;
  /** Lifetime of an access token in seconds. Default 600. */
  readonly accessTokenSeconds?: number;
  /** More of its configuration. */
  readonly configuration?: Readonly<Record<string, unknown>>;
  /** Answers a request in the provider's place, and returns true. */
  intercept?(request: IncomingMessage, response: ServerResponse): boolean;
}

/** A provider on 127.0.0.1. */
export interface IdentityProvider {
  readonly issuer: string;
  /** `127.0.0.1:PORT`, for trusted hosts. */
  readonly host: string;
  readonly jwksUrl: string;
  /** Method and URL of every request, in order. */
  readonly requests: readonly string[];
}

/** Starts one; it ends with the test. Access tokens are JSON Web Tokens (ES256), and codes need PKCE. */
export async function startIdentityProvider(
  t: TestContext,
  options: IdentityProviderOptions = {},
): Promise<IdentityProvider> {
  const { clients = [], registration = false, scopes = ['mcp.invoke'], accessTokenSeconds = 600 } = options;
  const { privateKey } = await generateKeyPair('ES256', { extractable: true });
  const key = { ...(await exportJWK(privateKey)), kid: 'one', alg: 'ES256', use: 'sig' };
  const requests: string[] = [];
  let answer: ReturnType<Provider['callback']> = () => undefined;
  const server = http.createServer((request, response) => {
    requests.push(`${request.method} ${request.url}`);
    if (options.intercept?.(request, response) !== true) answer(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const issuer = `http://${host}`;
  const anyResource = 'urn:any';
  const provider = new Provider(issuer, {
    clients,
    jwks: { keys: [key] },
    clientDefaults: { id_token_signed_response_alg: 'ES256' },
    enabledJWA: { idTokenSigningAlgValues: ['ES256'] },
    findAccount: (_context: unknown, id: string) => ({ accountId: id, claims: () => ({ sub: id }) }),
    cookies: { keys: ['signs the cookies of a test'] },
    scopes: ['openid', 'offline_access', ...scopes],
    pkce: { required: () => true },
    issueRefreshToken: () => true,
    ttl: {
      AccessToken: accessTokenSeconds,
      AuthorizationCode: 60,
      Grant: 3600,
      IdToken: 600,
      Interaction: 600,
      RefreshToken: 3600,
      Session: 3600,
    },
    features: {
      devInteractions: { enabled: true },
      registration: { enabled: registration },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => anyResource,
        useGrantedResource: () => true,
        getResourceServerInfo: (_context: unknown, resource: string) => ({
          scope: scopes.join(' '),
          audience: options.audience ?? resource,
          accessTokenFormat: 'jwt',
          jwt: { sign: { alg: 'ES256' } },
        }),
      },
    },
    ...options.configuration,
  });
  answer = provider.callback();
  return { issuer, host, jwksUrl: `${issuer}/jwks`, requests };
}
