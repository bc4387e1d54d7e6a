import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test, type TestContext } from 'node:test';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import { connectionSlug, sealedConnection } from '../../../core/organisation/mcp-connection.ts';
import type { OauthClient } from '../../../core/ports/oauth.ts';
import {
  expecting,
  openResourcesOfFile,
  startAdministration,
} from '../../../tests/kit/administration-kit.ts';
import { fakeMcp, noOauth } from '../../../tests/kit/fake-mcp.ts';
import { TestClock, testScope } from '../../../tests/kit/plugin-kit.ts';

const resources = await openResourcesOfFile();
const planted = 'planted-token-canary';
const path = '/mcp-servers/mine/connections';

/** A server at which users have connected accounts, and what the authorization server is asked to revoke. */
async function start(t: TestContext, revoke?: () => Promise<void>) {
  const revoked: { token: string; client: OauthClient }[] = [];
  const mcp = fakeMcp({
    ...noOauth,
    async revoke(_server, client, token) {
      revoked.push({ token, client });
      await revoke?.();
    },
  });
  const clock = new TestClock();
  const { tenant, call } = await startAdministration(t, resources, { mcp, clock });
  const { owner, key, organisationId, workspaceId } = await tenant('mcp');
  const { ok, refused } = expecting(call, key({ kind: 'workspace-service', name: 'service' }));
  await ok(
    {
      path: '/mcp-integrations',
      body: {
        name: 'Tickets',
        url: 'https://tickets.example.com/mcp',
        auth_type: 'oauth_auto',
        transport: 'http',
        workspace_id: workspaceId,
        configurations: {
          oauth: { client_id: 'weir', client_secret: 'of the settings', issuer: 'https://login.example.com' },
        },
        slug: 'tickets',
      },
    },
    owner,
  );
  const made = await ok({
    path: '/mcp-servers',
    body: { name: 'Mine', slug: 'mine', mcp_integration_id: 'tickets' },
  });
  const serverId = String(made.id);
  const { secrets } = testScope().scope;
  const connect = async (name: string, isRegistered: boolean) => {
    const [id, userId] = [randomUUID(), randomUUID()];
    const now = clock.now();
    const times = { createdAt: now, updatedAt: now, version: 1 };
    await resources.write(organisationId, async ({ records, users, members }) => {
      const email = `${name}-${userId}@example.com`;
      await users.insert({
        id: userId,
        organisationId,
        email,
        firstName: name,
        lastName: '',
        role: 'member',
        ...times,
      });
      await members.insert({ organisationId, workspaceId, userId, role: 'member', ...times });
      await records.insert({
        ...{ kind: 'mcp_connection', id, organisationId, workspaceId, parentId: serverId, status: 'active' },
        ...{
          slug: connectionSlug(serverId, userId),
          name: 'mine',
          createdBy: userId,
          updatedBy: userId,
          ...times,
        },
        data: {
          ...{ userId, server: serverId, binding: 'b', issuer: 'https://login.example.com' },
          ...{
            tokenEndpoint: 'https://login.example.com/token',
            revocationEndpoint: 'https://login.example.com/revoke',
          },
          ...{
            clientId: isRegistered ? 'registered' : 'weir',
            clientMethod: 'client_secret_basic',
            isRegistered,
          },
          ...{
            resource: '',
            audience: '',
            scope: '',
            obtainedAt: now,
            expiresAt: now + 1000,
            isRefreshed: isRegistered,
          },
          leasedUntil: 0,
        },
        secrets: sealedConnection(
          id,
          {
            access_token: `${planted}-access-${name}`,
            refresh_token: isRegistered ? `${planted}-refresh-${name}` : '',
            client_secret: isRegistered ? `${planted}-client` : '',
          },
          secrets,
        ),
      });
    });
    clock.advance(1);
    return userId;
  };
  const count = () =>
    resources.read(
      async ({ records }) =>
        (
          await records.list(
            'mcp_connection',
            organisationId,
            { parentId: serverId },
            { offset: 0, limit: 10 },
          )
        ).total,
    );
  return { ok, refused, call, key, owner, organisationId, revoked, connect, count, clock };
}

test('connections are listed without their tokens, also by user, and shown in the access of users', async (t) => {
  const { ok, refused, call, key, connect, clock } = await start(t);
  const [ann, bob] = [await connect('ann', true), await connect('bob', false)];
  clock.advance(1000);
  const { data, ...rest } = await ok({ path });
  assert.deepEqual(rest, { object: 'list', total: 2, has_more: false });
  assert.deepEqual(
    data.map((one: Record<string, unknown>) => [one['user_id'], one['connected'], Object.keys(one).length]),
    [
      [ann, true, 4],
      [bob, false, 4],
    ],
  );
  assert.ok(!JSON.stringify(data).includes(planted));
  assert.deepEqual((await ok({ path: `${path}?user_id=${bob}` })).data.length, 1);
  assert.deepEqual((await ok({ path: `${path}?user_id=bob-${bob}@example.com` })).data[0]?.user_id, bob);
  assert.deepEqual((await ok({ path: `${path}?user_id=nobody` })).data, []);
  const { has_more: hasMore, total } = await ok({ path: `${path}?page_size=1` });
  assert.deepEqual([hasMore, total], [true, 2]);
  const access = await ok({ path: '/mcp-servers/mine/user-access' });
  const statuses = access.data.map((one: Record<string, unknown>) => [
    one['user_id'],
    one['connection_status'],
  ]);
  assert.deepEqual(statuses, [
    [ann, 'connected'],
    [bob, 'connected'],
  ]);
  const stranger = key({ kind: 'workspace-service', name: 'other', workspaceId: randomUUID() });
  for (const method of ['GET', 'DELETE']) await refused({ method, path }, 404, /No MCP server/, stranger);
  assert.equal((await call(undefined, { path })).status, 401);
});

test('an ended connection is forgotten, and its tokens are revoked by the client that has got them', async (t) => {
  const { ok, revoked, connect, count } = await start(t);
  const [ann, bob] = [await connect('ann', true), await connect('bob', false)];
  await ok({ method: 'DELETE', path: `${path}?user_id=${ann}` });
  assert.deepEqual(revoked, [
    {
      token: `${planted}-refresh-ann`,
      client: { id: 'registered', method: 'client_secret_basic', secret: `${planted}-client` },
    },
  ]);
  assert.equal(await count(), 1);
  await ok({ method: 'DELETE', path: `${path}?user_id=${ann}` });
  assert.equal(revoked.length, 1);
  await ok({ method: 'DELETE', path: `${path}?user_id=bob-${bob}@example.com` });
  assert.deepEqual(revoked[1], {
    token: `${planted}-access-bob`,
    client: { id: 'weir', method: 'client_secret_basic', secret: 'of the settings' },
  });
  assert.equal(await count(), 0);
});

test('a server is deleted with the connections of its users, whether or not their tokens can be revoked', async (t) => {
  const { ok, revoked, connect, count } = await start(t, () =>
    Promise.reject(new GatewayError('credentials_failed', 'The server is away.')),
  );
  await connect('ann', true);
  await connect('bob', false);
  await ok({ method: 'DELETE', path: '/mcp-servers/mine' });
  assert.equal(revoked.length, 2);
  assert.equal(await count(), 0);
});

test('a user who is removed leaves no connection behind, at servers of the YAML neither, and others keep theirs', async (t) => {
  const { ok, owner, organisationId, revoked, connect, count } = await start(t);
  const [ann, bob] = [await connect('ann', true), await connect('bob', false)];
  const [{ data: shown }] = [await ok({ path })];
  assert.equal(shown.length, 2);
  const all = async () => {
    const page = { offset: 0, limit: 10 };
    const found = await resources.read(({ records }) =>
      records.list('mcp_connection', organisationId, {}, page),
    );
    return found.data;
  };
  const ofAnn = (await all()).find(({ data }) => data.userId === ann);
  assert.ok(ofAnn);
  const id = randomUUID();
  const { secrets } = testScope().scope;
  const slug = connectionSlug('file:wiki', ann);
  const data = { ...ofAnn.data, server: 'file:wiki' };
  const sealed = sealedConnection(
    id,
    { access_token: `${planted}-of-the-wiki`, client_secret: `${planted}-client` },
    secrets,
  );
  await resources.write(organisationId, ({ records }) =>
    records.insert({
      ...ofAnn,
      ...{ id, slug, data, workspaceId: undefined, parentId: '', secrets: sealed },
    }),
  );
  await ok({ method: 'DELETE', path: `/admin/users/${ann}` }, owner);
  assert.deepEqual(
    (await all()).map((one) => one.data.userId),
    [bob],
  );
  assert.deepEqual(revoked.map(({ token }) => token).sort(), [
    `${planted}-of-the-wiki`,
    `${planted}-refresh-ann`,
  ]);
  assert.equal(await count(), 1);
});
