import assert from 'node:assert/strict';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { generateKeyPairSync } from 'node:crypto';
import { describe, type TestContext, test } from 'node:test';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import { systemClock } from '../../core/ports/clock.ts';
import { type OauthClients, oauthErrorOf } from '../../core/ports/oauth.ts';
import {
  type AuthorizationServerOptions,
  startAuthorizationServer,
} from '../../tests/kit/authorization-server.ts';
import { Browser } from '../../tests/kit/browser.ts';
import { testFetch } from '../guarded-fetch/guarded-fetch.test-support.ts';
import { createOauthClients } from './create-oauth-clients.ts';

const redirectUri = 'http://127.0.0.1:1/callback';
const resource = 'https://tickets.example.com/mcp';

/** An authorization server with clients that trust its host, and those of others. */
async function servers(t: TestContext, options: AuthorizationServerOptions = {}) {
  const authority = await startAuthorizationServer(options);
  t.after(() => authority.close());
  return { authority, clients: clientsFor(authority.host) };
}

function clientsFor(...trustedHosts: readonly string[]): OauthClients {
  return createOauthClients({ fetch: testFetch({ trustedHosts }), clock: systemClock });
}

/** The code with which a user's browser comes back. */
async function codeOf(url: URL): Promise<string> {
  const end = await new Browser(redirectUri).open(url);
  const code = 'left' in end ? end.left.searchParams.get('code') : null;
  assert.ok(code !== null, JSON.stringify(end));
  return code;
}

async function failure(work: Promise<unknown>): Promise<GatewayError> {
  const result = await work.catch((error: unknown) => error);
  if (!GatewayError.is(result)) throw new Error('It succeeded, or failed otherwise.', { cause: result });
  return result;
}

describe('a user authorizes the gateway', () => {
  test('it registers, sends the browser, redeems the code, refreshes with rotation, and revokes', async (t) => {
    const { authority, clients } = await servers(t);
    const { server } = await clients.discover({ url: `http://${authority.host}/mcp` });
    const scope = 'tickets:read offline_access';
    const { client } = await clients.register(server, { redirectUri, scope });
    assert.equal(client.method, 'client_secret_basic');
    const asked = { clientId: client.id, redirectUri, scope, resource };
    const { url, verifier } = await clients.authorize(server, asked);
    assert.equal(url.searchParams.get('code_challenge_method'), 'S256');
    const code = await codeOf(url);
    const grant = { grant_type: 'authorization_code', code, redirect_uri: redirectUri, resource };
    const stolen = await failure(clients.token(server, client, { ...grant, code_verifier: 'x'.repeat(43) }));
    assert.equal(oauthErrorOf(stolen), 'invalid_grant');

    const again = await clients.authorize(server, asked);
    const tokens = await clients.token(server, client, {
      ...grant,
      code: await codeOf(again.url),
      code_verifier: again.verifier,
    });
    assert.notEqual(verifier, again.verifier);
    assert.deepEqual(await authority.token(tokens.accessToken), {
      subject: 'ann',
      clientId: client.id,
      scope: 'tickets:read',
      audience: resource,
    });
    const lifeMs = (tokens.expiresAt ?? 0) - Date.now();
    assert.ok(lifeMs > 3_500_000 && lifeMs <= 3_600_000, `${lifeMs} ms`);

    const refreshing = { grant_type: 'refresh_token', refresh_token: tokens.refreshToken, resource };
    const fresh = await clients.token(server, client, refreshing);
    assert.notEqual(fresh.refreshToken, tokens.refreshToken);
    assert.equal(await authority.isSpent(tokens.refreshToken), true);

    const { issuer, revocationEndpoint = '' } = server;
    await clients.revoke({ issuer, revocationEndpoint }, client, fresh.refreshToken);
    const after = await failure(
      clients.token(server, client, { ...refreshing, refresh_token: fresh.refreshToken }),
    );
    assert.equal(after.code, 'credentials_failed');
    assert.equal(oauthErrorOf(after), 'invalid_grant');
  });

  test('a server below a path is found at the places with an inserted path', async (t) => {
    const { authority, clients } = await servers(t, { path: '/tenant1' });
    const { server } = await clients.discover({ url: resource, issuer: authority.issuer });
    assert.equal(server.issuer, authority.issuer);
    assert.ok(server.tokenEndpoint.startsWith(`${authority.issuer}/`), server.tokenEndpoint);
    assert.equal(server.hasOfflineScope, true);
  });

  test('where clients are not registered, the error says what to do', async (t) => {
    const { authority, clients } = await servers(t, { registers: false });
    const { server } = await clients.discover({ url: `http://${authority.host}/mcp` });
    const error = await failure(clients.register(server, { redirectUri, scope: '' }));
    assert.match(
      error.message,
      /registers no clients.*redirect URI http:\/\/127\.0\.0\.1:1\/callback.*client_id/,
    );
  });
});

describe('the gateway asks in its own name', () => {
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const awkward = 'a b+c%d:e/&=';
  const known = [
    { client_id: 'basic', client_secret: awkward, token_endpoint_auth_method: 'client_secret_basic' },
    { client_id: 'post', client_secret: awkward, token_endpoint_auth_method: 'client_secret_post' },
    {
      client_id: 'signed',
      token_endpoint_auth_method: 'private_key_jwt',
      jwks: { keys: [{ ...publicKey.export({ format: 'jwk' }), alg: 'RS256', use: 'sig' }] },
    },
  ];
  const options = {
    clients: known.map((client) => ({
      ...{ grant_types: ['client_credentials'], redirect_uris: [], response_types: [] },
      ...client,
    })),
  };
  const pem = privateKey.export({ format: 'pem', type: 'pkcs8' }).toString();
  const jwk = JSON.stringify({ ...privateKey.export({ format: 'jwk' }), alg: 'RS256' });

  for (const [id, method, secret] of [
    ['basic', 'client_secret_basic', awkward],
    ['post', 'client_secret_post', awkward],
    ['signed', 'private_key_jwt', pem],
    ['signed', 'private_key_jwt', jwk],
  ] as const)
    test(`with ${method}${secret === jwk ? ' of a JWK' : ''}`, async (t) => {
      const { authority, clients } = await servers(t, options);
      const { server } = await clients.discover({ url: resource, issuer: authority.issuer });
      const grant = { grant_type: 'client_credentials', scope: 'tickets:read', resource };
      const { accessToken } = await clients.token(server, { id, method, secret }, grant);
      assert.deepEqual(await authority.token(accessToken), {
        subject: undefined,
        clientId: id,
        scope: 'tickets:read',
        audience: resource,
      });
      const error = await failure(
        clients.token(server, { id, method, secret: method === 'private_key_jwt' ? '{}' : 'wrong' }, grant),
      );
      assert.equal(error.code, 'credentials_failed');
      if (method === 'private_key_jwt') assert.match(error.message, /private key is neither/);
      else assert.equal(oauthErrorOf(error), 'invalid_client');
      assert.ok(!error.message.includes(secret));
    });
});

describe('a server that is not to be trusted', () => {
  /** A resource and an authorization server in one, which answer what they are told by path. */
  async function scripted(t: TestContext, answers: Readonly<Record<string, unknown>>) {
    const arrived: string[] = [];
    const server = http.createServer((request, response) => {
      const [path = ''] = (request.url ?? '').split('?');
      arrived.push(`${request.method} ${path}`);
      const found = answers[path];
      if (found === undefined) response.writeHead(404).end();
      else if (typeof found === 'function') found(response);
      else response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(found));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    t.after(() => server.close());
    t.after(() => server.closeAllConnections());
    const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
    return { origin: `http://${host}`, host, arrived, answers: answers as Record<string, unknown> };
  }
  const described = '/.well-known/oauth-protected-resource/mcp';
  const metadata = '/.well-known/oauth-authorization-server';
  const about = (origin: string, others: object = {}) => ({
    issuer: origin,
    authorization_endpoint: `${origin}/authorize`,
    token_endpoint: `${origin}/token`,
    response_types_supported: ['code'],
    ...others,
  });

  const cases: readonly [what: string, (origin: string) => Record<string, unknown>, RegExp][] = [
    [
      'describes another resource',
      (origin) => ({
        [described]: { resource: 'https://bank.example.com/', authorization_servers: [origin] },
      }),
      /describes another resource, "https:\/\/bank\.example\.com\/"/,
    ],
    [
      'names an authorization server within the network',
      (origin) => ({
        [described]: { resource: `${origin}/mcp`, authorization_servers: ['http://169.254.169.254/latest'] },
      }),
      /169\.254\.169\.254/,
    ],
    [
      'describes itself under the name of another issuer',
      (origin) => ({
        [metadata]: about('https://accounts.example.com', { token_endpoint: `${origin}/token` }),
      }),
      /calls itself "https:\/\/accounts\.example\.com"/,
    ],
    [
      'leads the browser to a script',
      (origin) => ({ [metadata]: about(origin, { authorization_endpoint: 'javascript:alert(1)' }) }),
      /fails to describe itself \(HTTP 200\)/,
    ],
    [
      'answers without end',
      () => ({
        [described]: (response: http.ServerResponse) => response.end('x'.repeat(300_000)),
      }),
      /larger than 262144 bytes/,
    ],
    [
      'answers with nonsense',
      () => ({
        [metadata]: (response: http.ServerResponse) => response.end('<script>secret words</script>'),
      }),
      /fails to describe itself \(HTTP 200\); its answer is none/,
    ],
    [
      'says nothing of an authorization server',
      () => ({}),
      /does not say which authorization server.*issuer/,
    ],
  ];
  for (const [what, answers, expected] of cases)
    test(`it ${what}`, async (t) => {
      const server = await scripted(t, {});
      Object.assign(server.answers, answers(server.origin));
      const error = await failure(clientsFor(server.host).discover({ url: `${server.origin}/mcp` }));
      assert.match(error.message, expected);
      assert.ok(['credentials_failed', 'address_refused'].includes(error.code), error.code);
      assert.doesNotMatch(error.message, /secret words|javascript/);
    });

  test('a browser is led to the page that ends its session with TLS, or on this machine', async (t) => {
    const server = await scripted(t, {});
    const { origin, host } = server;
    const clients = clientsFor(host);
    const given: readonly [unknown, string | undefined][] = [
      ['https://login.example.com/out?policy=a', 'https://login.example.com/out?policy=a'],
      [`${origin}/out`, `${origin}/out`],
      [undefined, undefined],
      ['http://login.example.com/out', undefined],
      ['https://ann@login.example.com/out', undefined],
      ['javascript:alert(1)', undefined],
      ['/out', undefined],
      [`https://login.example.com/${'x'.repeat(3000)}`, undefined],
      [{ url: `${origin}/out` }, undefined],
    ];
    // The second is what most providers have, and the library knows fewer of its members.
    for (const place of [metadata, '/.well-known/openid-configuration'])
      for (const [endpoint, expected] of given) {
        for (const one of Object.keys(server.answers)) delete server.answers[one];
        server.answers[place] = about(origin, {
          ...{ jwks_uri: `${origin}/jwks`, subject_types_supported: ['public'] },
          ...{ id_token_signing_alg_values_supported: ['ES256'], end_session_endpoint: endpoint },
          ...{
            revocation_endpoint: `${origin}/revoke`,
            authorization_response_iss_parameter_supported: true,
          },
        });
        const found = await clients.discover({ url: resource, issuer: origin });
        const { endSessionEndpoint, revocationEndpoint, namesIssuer } = found.server;
        assert.equal(endSessionEndpoint, expected, `${place} ${JSON.stringify(endpoint)}`);
        assert.deepEqual([revocationEndpoint, namesIssuer], [`${origin}/revoke`, true], place);
      }
  });

  test('what it says of its tokens is checked, and its words are not repeated', async (t) => {
    const server = await scripted(t, {});
    const clients = clientsFor(server.host);
    const client = { id: 'gateway', method: 'none', secret: '' } as const;
    const place = { issuer: server.origin, tokenEndpoint: `${server.origin}/token` };
    const ask = () => failure(clients.token(place, client, { grant_type: 'client_credentials' }));
    const given = { access_token: 'a', token_type: 'Bearer', expires_in: 60 };
    const bad: readonly [unknown, RegExp][] = [
      [{ ...given, token_type: 'mac' }, /type "mac", where "Bearer" is needed/],
      [{ ...given, access_token: 'a\r\nx: y' }, /no header can hold/],
      [{ ...given, access_token: 'a'.repeat(20_000) }, /no header can hold/],
      [{ token_type: 'Bearer' }, /its answer is none/],
      [
        (response: http.ServerResponse) =>
          response.writeHead(400).end('{"error":"invalid_scope","error_description":"secret words"}'),
        /invalid_scope \(HTTP 400\)/,
      ],
      [(response: http.ServerResponse) => response.writeHead(500).end('secret words'), /HTTP 500/],
      [
        (response: http.ServerResponse) => response.writeHead(307, { location: '/elsewhere' }).end(),
        /redirects/,
      ],
    ];
    for (const [answer, expected] of bad) {
      server.answers['/token'] = answer;
      const { message } = await ask();
      assert.match(message, expected);
      assert.doesNotMatch(message, /secret words/);
    }
    assert.ok(!server.arrived.includes('POST /elsewhere'));
  });

  test('it cannot lead to plain http what has begun with TLS', async () => {
    const answers: Record<string, unknown> = {
      'https://tickets.example.com/.well-known/oauth-authorization-server': about(
        'https://tickets.example.com',
        {
          token_endpoint: 'http://tickets.example.com/token',
        },
      ),
    };
    const clients = createOauthClients({
      clock: systemClock,
      fetch: {
        fetch: ({ url }) => ({
          abort: () => undefined,
          answer: Promise.resolve({
            status: url in answers ? 200 : 404,
            headers: [],
            body: Buffer.from(JSON.stringify(answers[url] ?? null)),
          }),
        }),
      },
    });
    const error = await failure(clients.discover({ url: resource }));
    assert.match(error.message, /token endpoint without TLS/);
  });
});
