import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, test, type TestContext } from 'node:test';
import type { Directory, KeyRecord } from '../../../core/ports/directory.ts';
import type { OrganisationRole, WorkspaceRole } from '../../../core/ports/people.ts';
import { openResourcesOfFile, startAdministration } from '../../../tests/kit/administration-kit.ts';

const resources = await openResourcesOfFile();

const dayMs = 86_400_000;
const userKeys = '/api-keys/workspace/user';
const scopes = ['logs.view'];

/** A tenant with people, and calls of its administration. */
async function start(t: TestContext) {
  const people = new Map<string, { role: OrganisationRole; member?: WorkspaceRole }>();
  const directory: Partial<Directory> = {
    user: (_, id) => (people.has(id) ? { id, role: people.get(id)!.role } : undefined),
    memberRole: (_, id) => people.get(id)?.member,
  };
  const { tenant, call } = await startAdministration(t, resources, { directory });
  const made = await tenant('users');
  const { organisationId, workspaceId, owner, key } = made;
  const manager = key({ kind: 'workspace-service' });

  /** Adds somebody; their key. */
  async function person(name: string, role: OrganisationRole, member?: WorkspaceRole): Promise<KeyRecord> {
    const id = randomUUID();
    const now = { createdAt: 1, updatedAt: 1, version: 1 };
    await resources.write(organisationId, async (writer) => {
      const email = `${name}@example.com`;
      await writer.users.insert({ id, organisationId, email, firstName: name, lastName: '', role, ...now });
      if (member)
        await writer.members.insert({ organisationId, workspaceId, userId: id, role: member, ...now });
    });
    people.set(id, { role, ...(member && { member }) });
    return key({ kind: 'workspace-user', userId: id, name: `${name}'s` });
  }

  /** Makes a key for somebody; its record, or the status and places of what is wrong. */
  async function make(caller: KeyRecord, body: object): Promise<any> {
    const answer = await call(caller, { path: userKeys, body: { name: randomUUID(), scopes, ...body } });
    if (answer.status === 200) return (await call(owner, { path: `/api-keys/${answer.json().id}` })).json();
    const { errors = [], data } = answer.json();
    return { refused: [answer.status, ...errors.map(({ path }: any) => path)], message: data.message };
  }
  const allow = (rules: object) =>
    call(owner, { method: 'PUT', path: '/admin/organisation/settings', body: { user_api_keys: rules } });
  return { ...made, call, manager, person, make, allow };
}

describe('whose a key is', () => {
  test('the caller, or whom a manager names; somebody who belongs to the workspace', async (t) => {
    const { person, make, manager, owner, workspaceId } = await start(t);
    const ann = await person('ann', 'member', 'manager');
    const bob = await person('bob', 'member', 'member');
    const eve = await person('eve', 'member');
    const root = await person('root', 'owner');
    const at = { workspace_id: workspaceId };
    assert.equal((await make(ann, {})).user_id, ann.userId);
    assert.equal((await make(ann, { user_id: bob.userId })).user_id, bob.userId);
    assert.equal((await make(ann, { user_id: 'BOB@example.com' })).user_id, bob.userId);
    assert.equal((await make(manager, {})).user_id, null);
    assert.equal((await make(manager, { user_id: bob.userId })).user_id, bob.userId);
    assert.equal((await make(owner, at)).user_id, null);
    assert.equal((await make(owner, { ...at, user_id: root.userId })).user_id, root.userId);
    assert.equal((await make(root, {})).user_id, root.userId);
    assert.deepEqual((await make(ann, { user_id: 'nobody' })).refused, [400, '/user_id']);
    const outside = await make(ann, { user_id: eve.userId });
    assert.deepEqual(outside.refused, [400, '/user_id']);
    assert.match(outside.message, /eve@example\.com, who is no member of the workspace/);
    const member = await make(bob, {});
    assert.deepEqual(member.refused, [403]);
    assert.match(
      member.message,
      /acts as member: managers of a workspace, and owners and admins.+manage keys/,
    );
    assert.deepEqual((await make(bob, { user_id: ann.userId })).refused, [403]);
    const foreign = await (await start(t)).person('zoe', 'owner');
    assert.deepEqual((await make(ann, { user_id: foreign.userId })).refused, [400, '/user_id']);
  });

  test('a manager neither makes a key for an owner nor takes the secret of theirs', async (t) => {
    const { person, make, manager, owner, call, workspaceId } = await start(t);
    const root = await person('root', 'owner');
    assert.deepEqual((await make(manager, { user_id: root.userId })).refused, [403]);
    const { id } = await make(owner, { workspace_id: workspaceId, user_id: root.userId });
    const rotate = { method: 'POST', path: `/api-keys/${id}/rotate`, body: {} };
    assert.equal((await call(manager, rotate)).status, 403);
    assert.equal((await call(root, rotate)).status, 200);
  });

  test('members see their own keys alone', async (t) => {
    const { person, make, manager, call, key } = await start(t);
    const ann = await person('ann', 'member', 'member');
    const bob = await person('bob', 'member', 'member');
    const mine = await make(manager, { user_id: ann.userId });
    const other = await make(manager, { user_id: bob.userId });
    const nobodys = await make(manager, {});
    const seen = async (caller: KeyRecord, query = ''): Promise<unknown> => {
      const { total, data } = (await call(caller, { path: `/api-keys${query}` })).json();
      return [total, ...data.map(({ id }: { id: string }) => id)];
    };
    assert.deepEqual(await seen(manager), [3, mine.id, other.id, nobodys.id]);
    assert.deepEqual(await seen(ann), [1, mine.id]);
    assert.deepEqual(await seen(ann, `?ids=${other.id},${nobodys.id}`), [0]);
    assert.equal((await call(ann, { path: `/api-keys/${mine.id}` })).status, 200);
    const hidden = await call(ann, { path: `/api-keys/${other.id}` });
    const missing = await call(ann, { path: '/api-keys/nothing' });
    const words = (text: string, id: string): string => text.replaceAll(id, 'ID');
    assert.equal(hidden.status, 404);
    assert.equal(words(hidden.json().data.message, other.id), words(missing.json().data.message, 'nothing'));
    const nobody = key({ kind: 'workspace-user', id: nobodys.id, userId: '' });
    assert.deepEqual(await seen(nobody), [1, nobodys.id]);
    assert.deepEqual(await seen(nobody, `?ids=${mine.id}`), [0]);
    assert.equal((await call(nobody, { path: `/api-keys/${mine.id}` })).status, 404);
    assert.equal((await call(nobody, { path: `/api-keys/${nobodys.id}` })).status, 200);
  });
});

describe('the rules of the settings', () => {
  test('a workspace has only so many keys of people; those that ended do not count', async (t) => {
    const { make, manager, owner, call, allow, organisationId, workspaceId } = await start(t);
    const soon = await make(manager, { expires_at: new Date(Date.now() + dayMs).toISOString() });
    await make(manager, {});
    await allow({ max_per_workspace: 2 });
    const full = await make(manager, {});
    assert.deepEqual(full.refused, [409]);
    assert.match(full.message, /has 2 keys of people .* allow 2 \(user_api_keys\.max_per_workspace\)/);
    const { id: other } = (await call(owner, { path: '/workspaces', body: { name: 'Other' } })).json();
    assert.equal((await make(owner, { workspace_id: other })).workspace_id, other);
    const service = {
      path: '/api-keys/workspace/service',
      body: { name: 's', scopes, workspace_id: workspaceId },
    };
    assert.equal((await call(owner, service)).status, 200);
    await resources.write(organisationId, async ({ apiKeys }) => {
      const record = (await apiKeys.find(organisationId, soon.id))!;
      await apiKeys.replace({ ...record, expiresAt: Date.now() - 1, version: record.version + 1 });
    });
    assert.equal((await make(manager, {})).status, 'active');
    assert.deepEqual((await make(manager, {})).refused, [409]);
    await allow({ max_per_workspace: null });
    assert.equal((await make(manager, {})).status, 'active');
  });

  test('made at once, keys do not pass the bound together', async (t) => {
    const { make, manager, allow } = await start(t);
    await allow({ max_per_workspace: 2 });
    const made = await Promise.all(Array.from({ length: 5 }, () => make(manager, {})));
    assert.equal(made.filter(({ refused }) => refused?.[0] === 409).length, 3);
  });

  test('when a key ends: what its maker said, else the default, else the most', async (t) => {
    const { make, manager, allow } = await start(t);
    const days = ({ created_at: from, expires_at: to }: any): number | null =>
      to === null ? null : (Date.parse(to) - Date.parse(from)) / dayMs;
    const at = (ms: number): string => new Date(Date.now() + ms).toISOString();
    assert.equal(days(await make(manager, {})), null);
    await allow({ default_days: 30 });
    assert.equal(days(await make(manager, {})), 30);
    assert.equal(days(await make(manager, { expires_at: null })), null);
    await allow({ max_days: 90 });
    assert.equal(days(await make(manager, {})), 30);
    assert.ok(Math.abs(days(await make(manager, { expires_at: at(89 * dayMs) }))! - 89) < 0.1);
    await allow({ default_days: null });
    assert.equal(days(await make(manager, {})), 90);
    for (const expires_at of [at(91 * dayMs), null]) {
      const { refused, message } = await make(manager, { expires_at });
      assert.deepEqual(refused, [400, '/expires_at']);
      const latest = Date.parse(/must be (\S+) or earlier: .* live for 90 days/.exec(message)?.[1] ?? '');
      assert.ok(Math.abs(latest - Date.now() - 90 * dayMs) < 60_000, message);
    }
  });

  test('hold for changes as well, from the creation of the key; not for service keys', async (t) => {
    const { make, manager, owner, call, allow, workspaceId } = await start(t);
    const { id, created_at: from } = await make(manager, {});
    await allow({ max_days: 10 });
    const change = async (body: object, of = id): Promise<unknown> => {
      const answer = await call(manager, { method: 'PUT', path: `/api-keys/${of}`, body });
      return answer.status === 200 ? answer.json().expires_at : [answer.status, answer.json().errors[0].path];
    };
    const latest = Date.parse(from) + 10 * dayMs;
    assert.equal(await change({ name: 'renamed' }), null, 'a change of something else is not about its end');
    const iso = (ms: number): string => new Date(ms).toISOString();
    assert.deepEqual(await change({ expires_at: null }), [400, '/expires_at']);
    assert.deepEqual(await change({ expires_at: iso(latest + 1) }), [400, '/expires_at']);
    assert.equal(await change({ expires_at: iso(latest) }), iso(latest));
    const service = {
      path: '/api-keys/workspace/service',
      body: { name: 's', scopes, workspace_id: workspaceId },
    };
    const made = (await call(owner, service)).json();
    assert.equal(await change({ expires_at: '2099-01-01T00:00:00Z' }, made.id), '2099-01-01T00:00:00.000Z');
  });

  test('how often its secret is replaced: as its maker said, else as they want; never less often', async (t) => {
    const { make, manager, owner, call, allow, workspaceId } = await start(t);
    const bare = await make(manager, {});
    await allow({ rotation_days: 30 });
    const days = ({ rotation_policy: policy, refused, message }: any): unknown =>
      refused !== undefined
        ? [...refused, message]
        : (policy?.rotation_period_days ?? policy?.rotation_period);
    const made = await make(manager, {});
    assert.equal(days(made), 30);
    const next = Date.parse(made.rotation_policy.next_rotation_at) - Date.parse(made.created_at);
    assert.equal(next, 30 * dayMs);
    assert.equal(days(await make(manager, { rotation_policy: { rotation_period_days: 7 } })), 7);
    assert.equal(days(await make(manager, { rotation_policy: { rotation_period: 'weekly' } })), 'weekly');
    const rare = [
      ...[null, { rotation_period_days: 31 }, { rotation_period: 'monthly' }],
      { next_rotation_at: new Date(Date.now() + dayMs).toISOString() },
    ];
    const change = async (body: object, id = made.id): Promise<any> => {
      const answer = await call(manager, { method: 'PUT', path: `/api-keys/${id}`, body });
      const { errors: [error] = [] } = answer.json();
      return answer.status === 200
        ? answer.json()
        : { refused: [answer.status, error?.path], message: error?.message };
    };
    for (const rotation_policy of rare) {
      const { refused, message } = await make(manager, { rotation_policy });
      assert.deepEqual(refused, [400, '/rotation_policy']);
      assert.match(message, /every 30 days or more often/);
      assert.deepEqual((await change({ rotation_policy })).refused, [400, '/rotation_policy']);
    }
    assert.equal(days(await change({ rotation_policy: { rotation_period_days: 3 } })), 3);
    assert.equal(days(await change({ name: 'as it was' }, bare.id)), undefined);
    const service = { name: 's', scopes, workspace_id: workspaceId };
    const { id } = (await call(owner, { path: '/api-keys/workspace/service', body: service })).json();
    assert.equal((await call(owner, { path: `/api-keys/${id}` })).json().rotation_policy, null);
  });

  test('are those of the workspace where it may say them itself', async (t) => {
    const { make, manager, owner, call, allow, workspaceId } = await start(t);
    await allow({ max_per_workspace: 0 });
    assert.deepEqual((await make(manager, {})).refused, [409]);
    const path = '/admin/organisation/settings';
    await call(owner, { method: 'PUT', path, body: { allow_workspace_overrides: ['user_api_keys'] } });
    const overrides = { user_api_keys: { max_per_workspace: 1 } };
    await call(owner, { method: 'PUT', path: `/workspaces/${workspaceId}/settings`, body: { overrides } });
    assert.equal((await make(manager, {})).status, 'active');
    assert.deepEqual((await make(manager, {})).refused, [409]);
  });
});

test('what was read of a usage limit can be sent back; without a limit there is no usage', async (t) => {
  const { make, manager, call } = await start(t);
  const limited = await make(manager, { usage_limits: { credit_limit: 10, type: 'tokens' } });
  assert.deepEqual([limited.current_usage, limited.usage_limits.current_usage], [0, 0]);
  assert.equal((await make(manager, {})).current_usage, null);
  const body = { usage_limits: { ...limited.usage_limits, credit_limit: 99 } };
  const changed = await call(manager, { method: 'PUT', path: `/api-keys/${limited.id}`, body });
  assert.deepEqual([changed.status, changed.json().usage_limits.credit_limit], [200, 99]);
});

test('more than a hundred ids are refused, not cut', async (t) => {
  const { call, manager } = await start(t);
  const ids = Array.from({ length: 101 }, () => randomUUID());
  const refused = await call(manager, { path: `/api-keys?ids=${ids.join(',')}` });
  assert.deepEqual([refused.status, refused.json().data.errorCode], [400, 'AB01']);
  assert.match(refused.json().data.message, /"ids" names 101 keys, and 100 is the most/);
  const taken = await call(manager, { path: `/api-keys?ids=${ids.slice(1).join(',')}` });
  assert.deepEqual([taken.status, taken.json().total], [200, 0]);
});

test('a rotation policy says when the key rotates next; said again it puts nothing off, and null takes it away', async (t) => {
  const { make, manager, call } = await start(t);
  const policy = { rotation_period_days: 30, key_transition_period_ms: 86_400_000 };
  const made = await make(manager, { rotation_policy: policy });
  const shown = made.rotation_policy;
  assert.deepEqual(
    { ...shown, next_rotation_at: undefined },
    { ...policy, rotation_period: null, next_rotation_at: undefined },
  );
  const inDays = (Date.parse(shown.next_rotation_at) - Date.parse(made.created_at)) / 86_400_000;
  assert.equal(Math.round(inDays), 30);
  const put = async (rotation_policy: unknown) => {
    const body = { rotation_policy };
    return (await call(manager, { method: 'PUT', path: `/api-keys/${made.id}`, body })).json()
      .rotation_policy;
  };
  assert.deepEqual(await put({ ...policy }), shown);
  assert.deepEqual(await put(shown), shown, 'as it was answered');
  assert.match((await put({ rotation_period: 'monthly' })).next_rotation_at, /-01T00:00:00\.000Z$/);
  assert.equal(await put(null), null);
});
