// Administration as users of the `portkey-ai` client do it: with only the base URL changed.
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { Portkey } from 'portkey-ai';
import { openResourcesOfFile, startAdministration } from '../kit/administration-kit.ts';
import { failureOf } from './sdk-setting.ts';

const resources = await openResourcesOfFile();

/** A client with the key of an organisation that has one workspace and nobody in it. */
async function clientOf(t: TestContext) {
  const { gateway, tenant, call } = await startAdministration(t, resources);
  const { owner, ...rest } = await tenant('sdk');
  // The key is known to the gateway from its first call on.
  await call(owner, { path: '/admin/users' });
  const portkey = new Portkey({ apiKey: `wk_${owner.id}`, baseURL: `${gateway.url}/v1` });
  const accept = async (link: string | undefined, name: string): Promise<string> => {
    const token = link?.slice(link.indexOf('#') + 1);
    const accepted = await call(undefined, { path: '/invites/accept', body: { token, first_name: name } });
    assert.equal(accepted.status, 200, accepted.text);
    return accepted.json().user.id as string;
  };
  return { portkey, accept, ...rest };
}

test('workspaces', async (t) => {
  const { workspaces } = (await clientOf(t)).portkey.admin;
  const made = await workspaces.create({
    name: 'research',
    description: 'What comes next',
    defaults: { metadata: { team: 'research' } },
  });
  assert.ok(made.id);
  const workspaceId = made.id;
  assert.equal((await workspaces.retrieve({ workspaceId })).name, 'research');
  await workspaces.update({ workspaceId, name: 'laboratory', description: 'Renamed' });
  const { total, data } = await workspaces.list({ page_size: 10, current_page: 0 });
  assert.deepEqual([total, data?.map(({ name }) => name)], [2, ['sdk default', 'laboratory']]);
  await workspaces.delete({ workspaceId });
  assert.equal((await workspaces.list({})).total, 1);
});

test('invites and users', async (t) => {
  const { portkey, accept, workspaceId } = await clientOf(t);
  const { users } = portkey.admin;
  const invited = await users.invites.create({
    email: 'ann@example.com',
    role: 'member',
    workspaces: [{ id: workspaceId, role: 'admin' }],
    workspace_api_key_details: { scopes: ['logs.view', 'completions.write'] },
  });
  const inviteId = invited.id ?? '';
  assert.equal((await users.invites.retrieve({ inviteId })).email, 'ann@example.com');
  assert.equal((await users.invites.list({ status: 'pending', pageSize: 5, currentPage: 0 })).total, 1);
  await users.invites.resend({ inviteId });
  const other = await users.invites.create({ email: 'bob@example.com', role: 'admin', workspaces: [] });
  await users.invites.delete({ inviteId: other.id ?? '' });
  assert.equal((await users.invites.retrieve({ inviteId: other.id ?? '' })).status, 'cancelled');
  await users.invites.delete({ inviteId });

  const again = await users.invites.create({ email: 'ann@example.com', role: 'member', workspaces: [] });
  const userId = await accept(again.invite_link, 'Ann');
  const ann = await users.retrieve({ userId });
  assert.deepEqual([ann.email, ann.first_name, ann.role], ['ann@example.com', 'Ann', 'member']);
  await users.update({ userId, role: 'admin' });
  const { total, data } = await users.list({ role: 'admin', pageSize: 10, currentPage: 0 });
  assert.deepEqual([total, data?.[0]?.id], [1, userId]);
  await users.delete({ userId });
  assert.equal((await users.list({ email: 'ann@example.com' })).total, 0);
});

test('members of a workspace', async (t) => {
  const { portkey, accept, workspaceId } = await clientOf(t);
  const { users, workspaces } = portkey.admin;
  const invited = await users.invites.create({ email: 'cleo@example.com', role: 'member', workspaces: [] });
  const userId = await accept(invited.invite_link, 'Cleo');
  await workspaces.users.create({ workspaceId, users: [{ id: userId, role: 'member' }] });
  const member = await workspaces.users.retrieve({ workspaceId, userId });
  assert.deepEqual([member.first_name, member.role, member.org_role], ['Cleo', 'member', 'member']);
  await workspaces.users.update({ workspaceId, userId, role: 'admin' });
  const { total, data } = await workspaces.users.list({ workspaceId });
  assert.deepEqual([total, data?.[0]?.role], [1, 'manager']);
  await workspaces.users.delete({ workspaceId, userId });
  assert.equal((await workspaces.users.list({ workspaceId })).total, 0);
});

test('keys', async (t) => {
  const { portkey, workspaceId } = await clientOf(t);
  const { apiKeys } = portkey;
  const made = await apiKeys.create({
    type: 'workspace',
    'sub-type': 'service',
    name: 'backend',
    workspace_id: workspaceId,
    scopes: ['completions.write', 'logs.view'],
    rate_limits: [{ type: 'requests', unit: 'rpm', value: 100 }],
    usage_limits: { credit_limit: 10, periodic_reset: 'monthly', alert_threshold: 9 },
    defaults: { metadata: { team: 'a' } },
  });
  assert.match(made.key ?? '', /^wk_/);
  const id = made.id ?? '';
  const organisation = await apiKeys.create({
    type: 'organisation',
    'sub-type': 'service',
    name: 'terraform',
    scopes: ['workspaces.list'],
  });
  const stored = await apiKeys.retrieve({ id });
  assert.deepEqual([stored.name, stored.type, stored.status], ['backend', 'workspace-service', 'active']);
  assert.notEqual(stored.key, made.key);
  await apiKeys.update({ id, name: 'server', scopes: ['completions.write'] });
  const { total, data } = await apiKeys.list({ page_size: 10, current_page: 0, workspace_id: workspaceId });
  assert.deepEqual([total, data?.[0]?.name], [1, 'server']);
  await apiKeys.delete({ id });
  const gone = await failureOf(apiKeys.retrieve({ id }));
  assert.equal(Reflect.get(gone, 'status'), 404);
  await apiKeys.delete({ id: organisation.id ?? '' });
});
