import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { recordingLog } from '../../../core/lifecycle/recording-services.test-support.ts';
import { connectionSlug } from '../../../core/organisation/mcp-connection.ts';
import type { OauthClient } from '../../../core/ports/oauth.ts';
import type { McpClients } from '../../../core/ports/mcp.ts';
import { openResourcesOfFile } from '../../../tests/kit/administration-kit.ts';
import { Browser } from '../../../tests/kit/browser.ts';
import { testScope } from '../../../tests/kit/plugin-kit.ts';
import { type Account, Connections } from './connections.ts';
import { failure, identity, startProtected } from './upstream.test-support.ts';

const resources = await openResourcesOfFile();
const organisationId = 'org-of-connections';
await resources.write(organisationId, ({ organisations }) =>
  organisations.ensure({ id: organisationId, name: 'Connections', createdAt: 1 }),
);
const redirectUri = 'http://127.0.0.1:1/mcp/callback';

/** Two gateways with one store, at which a user has connected an account. */
async function start(t: TestContext) {
  const around = await startProtected(t);
  const { authority, protectedServer, clock, mcp } = around;
  const server = identity({ url: protectedServer.url, id: `yaml:${authority.host}` });
  const account: Account = { server, organisationId, userId: 'ann' };
  const { secrets } = testScope().scope;
  const gateways = [1, 2].map(
    () => new Connections({ resources, secrets, clock, mcp, log: recordingLog([]) }),
  );
  const [one, two] = gateways as [Connections, Connections];
  const { oauth } = mcp;
  const found = await oauth.discover({ url: server.url });
  const { client } = await oauth.register(found.server, { redirectUri, scope: '' });
  const asked = { clientId: client.id, redirectUri, scope: 'tickets:read', resource: server.url };
  const { url, verifier } = await oauth.authorize(found.server, asked);
  const end = await new Browser(redirectUri).open(url);
  assert.ok('left' in end);
  const tokens = await oauth.token(found.server, client, {
    ...{ grant_type: 'authorization_code', code: end.left.searchParams.get('code') ?? '' },
    ...{ redirect_uri: redirectUri, code_verifier: verifier, resource: server.url },
  });
  const { issuer, tokenEndpoint, revocationEndpoint = '' } = found.server;
  const told = { issuer, tokenEndpoint, revocationEndpoint, isRegistered: true, audience: '' };
  await one.save(account, { ...told, client, tokens, scope: asked.scope, resource: server.url });
  const stored = () =>
    resources.read(({ records }) =>
      records.find('mcp_connection', { organisationId }, connectionSlug(server.id, 'ann')),
    );
  const refreshes = () =>
    authority.tokenRequests.filter((form) => form.get('grant_type') === 'refresh_token').length;
  return { ...around, account, one, two, tokens, stored, refreshes };
}

test('an account that is connected again with another client: the tokens of the earlier one are revoked', async (t) => {
  const { account, one, tokens, mcp, stored, authority } = await start(t);
  const before = await stored();
  assert.ok(before);
  const { issuer, tokenEndpoint, revocationEndpoint } = before.data;
  const told = { issuer, tokenEndpoint, revocationEndpoint, resource: account.server.url, audience: '' };
  const { server } = await mcp.oauth.discover({ url: account.server.url });
  const again = async (client: OauthClient) => {
    const asked = { clientId: client.id, redirectUri, scope: 'tickets:read', resource: account.server.url };
    const { url, verifier } = await mcp.oauth.authorize(server, asked);
    const end = await new Browser(redirectUri).open(url);
    assert.ok('left' in end);
    const made = await mcp.oauth.token(server, client, {
      ...{ grant_type: 'authorization_code', code: end.left.searchParams.get('code') ?? '' },
      ...{ redirect_uri: redirectUri, code_verifier: verifier, resource: account.server.url },
    });
    await one.save(account, { ...told, isRegistered: true, client, tokens: made, scope: asked.scope });
    return made;
  };
  const revocations = () => authority.requests.filter((asked) => asked === 'POST /token/revocation').length;
  const { client } = await mcp.oauth.register(server, { redirectUri, scope: '' });
  const second = await again(client);
  assert.equal(revocations(), 1);
  assert.equal((await one.token(account))?.accessToken, second.accessToken);
  const renew = { grant_type: 'refresh_token', refresh_token: tokens.refreshToken };
  const secret = testScope().scope.secrets.open(
    before.secrets['client_secret'] ?? '',
    `${before.id}/client_secret`,
  );
  const { clientId: id, clientMethod: method } = before.data;
  const refused = await failure(mcp.oauth.token(server, { id, method, secret }, renew));
  assert.deepEqual(refused.extra, { oauth_error: 'invalid_grant' });
  // The same client has the same grant at many servers: it would end with its earlier tokens.
  const third = await again(client);
  assert.equal(revocations(), 1);
  assert.equal((await one.token(account))?.accessToken, third.accessToken);
});

test('a token is kept sealed, and found by every gateway for its user and server alone', async (t) => {
  const { account, two, tokens, stored } = await start(t);
  assert.equal((await two.token(account))?.accessToken, tokens.accessToken);
  const text = JSON.stringify(await stored());
  for (const secret of [tokens.accessToken, tokens.refreshToken]) assert.ok(!text.includes(secret));
  assert.equal(await two.token({ ...account, userId: 'bob' }), undefined);
  assert.equal(
    await two.token({ ...account, server: { ...account.server, url: 'https://elsewhere.example.com/mcp' } }),
    undefined,
  );
  assert.equal(await two.token({ ...account, server: { ...account.server, id: 'another' } }), undefined);
});

test('two gateways that need another token at the same time use the refresh token once', async (t) => {
  const { account, one, two, tokens, clock, refreshes, authority } = await start(t);
  clock.ahead = 3_550_000;
  const found = await Promise.all([one, two, one, two].map((by) => by.token(account, tokens.accessToken)));
  const [fresh, ...others] = new Set(found.map((token) => token?.accessToken));
  assert.ok(fresh !== undefined && fresh !== tokens.accessToken);
  assert.deepEqual(others, []);
  assert.equal(refreshes(), 1);
  assert.ok(await authority.token(fresh));
  // The refused one is an earlier token: the present one has not been refused.
  assert.equal((await two.token(account, tokens.accessToken))?.accessToken, fresh);
  assert.equal(refreshes(), 1);
});

test('a gateway that dies while it refreshes holds the others up for twenty seconds at the most', async (t) => {
  const { account, two, clock, stored, refreshes } = await start(t);
  clock.ahead = 3_650_000;
  const record = await stored();
  assert.ok(record);
  const data = { ...record.data, leasedUntil: clock.now() + 20_000 };
  await resources.write(organisationId, ({ records }) =>
    records.replace({ ...record, data, version: record.version + 1 }),
  );
  const waiting = two.token(account);
  clock.ahead += 20_000;
  assert.ok(await waiting);
  assert.equal(refreshes(), 1);
});

test('an account whose grant was taken back has to be connected again', async (t) => {
  const { account, one, two, tokens, mcp, clock, stored } = await start(t);
  const record = await stored();
  const {
    issuer = '',
    revocationEndpoint = '',
    clientId: id = '',
    clientMethod: method = 'none',
  } = record?.data ?? {};
  const client = await one.client(account, redirectUri, issuer);
  assert.equal(client, undefined, 'this test has registered it by itself');
  clock.ahead = 3_550_000;
  const secret = testScope().scope.secrets.open(
    record?.secrets['client_secret'] ?? '',
    `${record?.id}/client_secret`,
  );
  await mcp.oauth.revoke({ issuer, revocationEndpoint }, { id, method, secret }, tokens.refreshToken);
  assert.equal(await two.token(account), undefined);
  assert.equal(await stored(), undefined);
});

test('an authorization server that is away costs nothing while the token is valid, and an error afterwards', async (t) => {
  const { account, one, tokens, clock, authority } = await start(t);
  authority.close();
  clock.ahead = 3_550_000;
  assert.equal((await one.token(account))?.accessToken, tokens.accessToken);
  clock.ahead = 3_601_000;
  assert.equal((await failure(one.token(account))).code, 'credentials_failed');
  assert.equal((await failure(one.token(account))).code, 'credentials_failed');
});

test('tokens that come for a connection which was ended meanwhile are revoked, and not used', async (t) => {
  const { account, mcp, clock, stored, authority } = await start(t);
  const { secrets } = testScope().scope;
  const given: string[] = [];
  const oauth: McpClients['oauth'] = {
    discover: (resource) => mcp.oauth.discover(resource),
    register: (server, client) => mcp.oauth.register(server, client),
    authorize: (server, asked) => mcp.oauth.authorize(server, asked),
    revoke: (server, client, token) => mcp.oauth.revoke(server, client, token),
    async token(server, client, grant) {
      const tokens = await mcp.oauth.token(server, client, grant);
      given.push(tokens.accessToken);
      const record = await stored();
      assert.ok(record);
      await resources.write(organisationId, ({ records }) =>
        records.remove('mcp_connection', organisationId, record.id),
      );
      return tokens;
    },
  };
  const slow = new Connections({ resources, secrets, clock, mcp: { ...mcp, oauth }, log: recordingLog([]) });
  clock.ahead = 3_550_000;
  assert.equal(await slow.token(account), undefined);
  assert.equal(given.length, 1);
  assert.equal(await stored(), undefined);
  assert.ok(authority.requests.includes('POST /token/revocation'), authority.requests.join());
});
