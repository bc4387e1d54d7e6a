import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import type { CallerToken } from '../../../core/pipeline/keys.ts';
import type { AuthorizationServerOptions } from '../../../tests/kit/authorization-server.ts';
import { readChallenge } from './server-identity.ts';
import { UpstreamCredentials } from './upstream-credentials.ts';
import { caller, callTool, failure, identity, noAccounts, startProtected } from './upstream.test-support.ts';

const secret = { name: 'client_secret', value: 'the secret of the gateway' } as const;
const exchange = 'urn:ietf:params:oauth:grant-type:token-exchange';
const clients = [
  {
    client_id: 'gateway',
    client_secret: secret.value,
    grant_types: ['client_credentials', exchange],
    redirect_uris: [],
    response_types: [],
  },
];

async function start(t: TestContext, options: AuthorizationServerOptions = {}) {
  const around = await startProtected(t, { clients, ...options });
  const { authority, protectedServer, clock, mcp } = around;
  const server = identity({
    url: protectedServer.url,
    authType: 'oauth_client_credentials',
    oauth: { client_id: 'gateway', issuer: authority.issuer, scope: 'tickets:read' },
    oauthSecret: () => Promise.resolve(secret),
  });
  return { ...around, server, credentials: new UpstreamCredentials({ clock, mcp }, noAccounts) };
}

const tokenRequests = (requests: readonly string[]) => requests.filter((one) => one === 'POST /token').length;

describe('a client of the gateway itself (client_credentials)', () => {
  test('its token is fetched once for all callers, and sent at once until a minute before its end', async (t) => {
    const { authority, protectedServer, clock, server, credentials } = await start(t);
    const [one, two] = [caller({ id: 'one' }), caller({ id: 'two' })];
    const answers = await Promise.all([one, two, one].map((by) => callTool(credentials, server, by)));
    assert.deepEqual(answers, Array(3).fill('nobody by gateway'));
    assert.equal(tokenRequests(authority.requests), 1);
    const held = credentials.headersFor(server, two);
    assert.ok(!(held instanceof Promise));
    clock.ahead = 3_539_000;
    assert.ok(!(credentials.headersFor(server, two) instanceof Promise));
    clock.ahead = 3_541_000;
    const fresh = await credentials.headersFor(server, two);
    assert.notDeepEqual(fresh, held);
    assert.equal(tokenRequests(authority.requests), 2);
    assert.equal(new Set(protectedServer.tokens).size, 1);
  });

  test('a token that the server refuses is replaced once, for all requests that it was sent with', async (t) => {
    const { authority, protectedServer, clock, server, credentials } = await start(t);
    await callTool(credentials, server, caller());
    protectedServer.refused.add(protectedServer.tokens[0] ?? '');
    clock.ahead = 60_000;
    const answers = await Promise.all([1, 2, 3].map(() => callTool(credentials, server, caller())));
    assert.deepEqual(answers, Array(3).fill('nobody by gateway'));
    assert.equal(tokenRequests(authority.requests), 2);
  });

  test('a server that refuses every token costs no more tokens than one in ten seconds', async (t) => {
    const { authority, server, credentials } = await start(t, {
      resources: ['https://elsewhere.example.com/'],
    });
    const elsewhere = { ...server, oauth: { ...server.oauth, resource: 'https://elsewhere.example.com/' } };
    for (let i = 0; i < 5; i += 1) {
      const error = await failure(callTool(credentials, elsewhere, caller()));
      assert.match(error.message, /"tickets" refuses the credentials.*HTTP 401: invalid_token/);
    }
    assert.equal(tokenRequests(authority.requests), 1);
  });

  test('more scopes are asked for when the server needs them, and kept', async (t) => {
    const { authority, server, credentials } = await start(t);
    assert.equal(await callTool(credentials, server, caller(), 'write'), 'nobody by gateway');
    assert.equal(await callTool(credentials, server, caller(), 'write'), 'nobody by gateway');
    assert.deepEqual(
      authority.tokenRequests.map((form) => form.get('scope')),
      ['tickets:read', 'tickets:read tickets:write'],
    );
  });

  test('an authorization server that fails is asked once in two seconds, and its error names the step', async (t) => {
    const { authority, clock, server, credentials } = await start(t);
    const wrong = { ...server, oauthSecret: () => ({ ...secret, value: 'wrong' }) };
    for (let i = 0; i < 3; i += 1) {
      const error = await failure(callTool(credentials, wrong, caller()));
      assert.equal(error.code, 'credentials_failed');
      assert.match(error.message, /refuses to give a token: invalid_client/);
      assert.doesNotMatch(error.message, /wrong/);
    }
    assert.equal(tokenRequests(authority.requests), 1);
    clock.ahead = 2001;
    await failure(callTool(credentials, wrong, caller()));
    assert.equal(tokenRequests(authority.requests), 2);
  });

  test('changed settings make another token; the server alone does not say where the secret goes', async (t) => {
    const { authority, server, credentials } = await start(t);
    await callTool(credentials, server, caller());
    await callTool(
      credentials,
      { ...server, oauth: { ...server.oauth, scope: 'tickets:write tickets:read' } },
      caller(),
    );
    assert.equal(tokenRequests(authority.requests), 2);
    const unnamed = { ...server, oauth: { client_id: 'gateway', scope: 'tickets:read' } };
    const error = await failure(callTool(credentials, unnamed, caller()));
    assert.match(error.message, /secret .* is not sent to .* Set issuer/);
    assert.equal(tokenRequests(authority.requests), 2);
  });
});

describe('an exchanged token', () => {
  const tokenOf = (
    claims: Readonly<Record<string, unknown>>,
    expiresAt = Date.now() + 3_600_000,
  ): CallerToken => {
    const part = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');
    return { text: `${part({ alg: 'none' })}.${part(claims)}.`, claims, expiresAt };
  };
  const withExchange = (token_exchange: 'preferred' | 'required') => async (t: TestContext) => {
    const around = await start(t);
    const oauth = { ...around.server.oauth, token_exchange, audience: around.protectedServer.url };
    return { ...around, server: { ...around.server, oauth } };
  };

  test('is made for each caller of the identity provider, whose own token goes nowhere else', async (t) => {
    const { authority, protectedServer, server, credentials } = await withExchange('preferred')(t);
    const [ann, bob] = [tokenOf({ sub: 'ann' }), tokenOf({ sub: 'bob' })];
    assert.equal(await callTool(credentials, server, caller({ isToken: true }, ann)), 'ann by gateway');
    assert.equal(await callTool(credentials, server, caller({ isToken: true }, bob)), 'bob by gateway');
    assert.equal(await callTool(credentials, server, caller({ isToken: true }, ann)), 'ann by gateway');
    // A caller with a service key has no token to exchange.
    assert.equal(await callTool(credentials, server, caller()), 'nobody by gateway');
    assert.equal(tokenRequests(authority.requests), 3);
    const [form] = authority.tokenRequests;
    assert.equal(form?.get('subject_token_type'), 'urn:ietf:params:oauth:token-type:jwt');
    assert.equal(form?.get('audience'), protectedServer.url);
    for (const token of [ann, bob]) assert.ok(!protectedServer.tokens.includes(token.text));
  });

  test('ends with the token that it was made of', async (t) => {
    const { authority, clock, server, credentials } = await withExchange('preferred')(t);
    const ann = caller({ isToken: true }, tokenOf({ sub: 'ann' }, Date.now() + 100_000));
    await callTool(credentials, server, ann);
    clock.ahead = 60_000;
    await callTool(credentials, server, ann);
    assert.equal(tokenRequests(authority.requests), 2);
  });

  test('is required, where the settings say so', async (t) => {
    const { authority, server, credentials } = await withExchange('required')(t);
    const error = await failure(callTool(credentials, server, caller()));
    assert.equal(error.code, 'mcp_connection_missing');
    assert.match(error.message, /callers with a token of the organisation's identity provider/);
    const stranger = await failure(
      callTool(credentials, server, caller({ isToken: true }, tokenOf({ sub: 'stranger' }))),
    );
    assert.match(stranger.message, /refuses to give a token: invalid_grant/);
    assert.equal(tokenRequests(authority.requests), 1);
  });
});

describe('claims of the caller', () => {
  const claims = {
    sub: 'ann',
    email: 'ann@example.com',
    name: 'Zoë, 100%\r\nx-evil: 1',
    groups: ['a,b', 'c d', 7],
    verified: true,
    half: '\ud800',
    nested: { a: 1 },
    long: 'x'.repeat(5000),
  };
  const token = { text: 'x', claims, expiresAt: 0 };
  const server = (identityHeaders: Readonly<Record<string, string>>) =>
    identity({ url: 'https://tickets.example.com/mcp', authType: 'headers', identityHeaders });
  const credentials = () =>
    new UpstreamCredentials(
      {
        clock: { now: () => 0, monotonic: () => 0, after: () => () => undefined },
        get mcp(): never {
          throw new Error('No server is asked.');
        },
      },
      noAccounts,
    );

  test('go as the headers that the settings name, encoded so that none looks like another', () => {
    const headers = credentials().headersFor(
      server({
        'X-User': 'sub',
        'X-Email': 'email',
        'X-Name': 'name',
        'X-Groups': 'groups',
        'X-Verified': 'verified',
        'X-Half': 'half',
        'X-Nested': 'nested',
        'X-None': 'toString',
      }),
      caller({}, token),
    );
    assert.deepEqual(headers, [
      ...['X-User', 'ann', 'X-Email', 'ann@example.com'],
      ...['X-Name', 'Zo%C3%AB, 100%25%0D%0Ax-evil: 1', 'X-Groups', 'a%2Cb,c d', 'X-Verified', 'true'],
      ...['X-Half', '%EF%BF%BD'],
    ]);
  });

  test('are those of verified tokens alone, and fit into a header', () => {
    assert.deepEqual(credentials().headersFor(server({ 'X-User': 'sub' }), caller()), []);
    assert.throws(
      () => credentials().headersFor(server({ 'X-Long': 'long' }), caller({}, token)),
      /claim "long" that is too long for the header X-Long/,
    );
  });
});

describe('a challenge', () => {
  const cases: readonly [string | undefined, object][] = [
    [undefined, {}],
    ['Basic realm="x", scope="no"', {}],
    ['Bearer', {}],
    [
      'Bearer error="insufficient_scope", scope="a b", resource_metadata="https://x.example.com/m"',
      { error: 'insufficient_scope', scope: 'a b', metadata: 'https://x.example.com/m' },
    ],
    ['bearer Scope=a,error=invalid_token', { error: 'invalid_token', scope: 'a' }],
    ['Basic realm="x", Bearer scope="a", Other scope="b"', { scope: 'a' }],
    ['Bearer scope="a\\"b", resource_metadata="nowhere"', {}],
    [`Bearer scope="${'a'.repeat(3000)}"`, {}],
  ];
  for (const [header, expected] of cases)
    test(`is read from ${String(header).slice(0, 60)}`, () => {
      const none = { error: undefined, scope: undefined, metadata: undefined };
      assert.deepEqual(readChallenge(header), { ...none, ...expected });
    });
});
