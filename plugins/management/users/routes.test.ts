import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { KeyRecord } from '../../../core/ports/directory.ts';
import type { UserRecord } from '../../../core/ports/people.ts';
import {
  openResourcesOfFile,
  startAdministration,
  type AdminCall,
} from '../../../tests/kit/administration-kit.ts';
import { testRouteInput, testScope } from '../../../tests/kit/plugin-kit.ts';
import { addKeyOf, addMember, addUser, auditedActions, keysOfPeople } from './people.test-support.ts';
import { userRoutes } from './routes.ts';

const resources = await openResourcesOfFile();

const stored = (user: UserRecord) => resources.read(({ users }) => users.find(user.organisationId, user.id));

/** Every route about one user. */
const callsAbout = (id: string): readonly AdminCall[] => [
  { path: `/admin/users/${id}` },
  { method: 'PUT', path: `/admin/users/${id}`, body: { role: 'member' } },
  { method: 'DELETE', path: `/admin/users/${id}` },
];

describe('somebody of the organisation', () => {
  test('is read, listed, changed and removed', async (t) => {
    const { tenant, call } = await startAdministration(t, resources);
    const { owner, organisationId, workspaceId } = await tenant('life');
    await addUser(resources, organisationId, { role: 'owner', createdAt: 0 });
    const user = await addUser(resources, organisationId, { email: 'Ann@Example.com' });
    await addMember(resources, user, { workspaceId });
    const path = `/admin/users/${user.id}`;
    const shown = await call(owner, { path });
    assert.deepEqual([shown.status, shown.headers['etag']], [200, '"1"'], shown.text);
    assert.deepEqual(shown.json(), {
      object: 'user',
      id: user.id,
      first_name: 'Ann',
      last_name: 'Lee',
      role: 'member',
      email: 'ann@example.com',
      workspace_ids: [workspaceId],
      created_at: '1970-01-01T00:00:00.001Z',
      last_updated_at: '1970-01-01T00:00:00.001Z',
    });
    const listed = (await call(owner, { path: '/admin/users' })).json();
    assert.deepEqual([listed.object, listed.total, listed.data[1]], ['list', 2, shown.json()]);

    const body = { role: 'admin', first_name: 'Anna', last_name: '' };
    const changed = await call(owner, { method: 'PUT', path, body, headers: { 'if-match': '"1"' } });
    assert.deepEqual([changed.status, changed.headers['etag']], [200, '"2"'], changed.text);
    const { last_updated_at: updated, ...rest } = changed.json();
    const { last_updated_at: was, ...before } = shown.json();
    assert.ok(updated > was);
    assert.deepEqual(rest, { ...before, ...body });
    assert.deepEqual((await call(owner, { path })).json(), changed.json());
    const named = await call(owner, { method: 'PUT', path, body: { first_name: 'Ann' } });
    assert.deepEqual([named.json().role, named.json().last_name], ['admin', '']);

    const gone = await call(owner, { method: 'DELETE', path });
    assert.deepEqual([gone.status, gone.json()], [200, {}]);
    assert.equal((await call(owner, { path })).status, 404);
    assert.deepEqual(await auditedActions(resources, organisationId), [
      ...['update', 'update', 'delete'].map((action) => `${action} users ${user.id} of ""`),
    ]);
  });

  test('takes memberships and keys along, everywhere and theirs alone', async (t) => {
    const { tenant, call } = await startAdministration(t, resources);
    const { owner, organisationId, workspaceId } = await tenant('keys');
    const other = (await call(owner, { path: '/workspaces', body: { name: 'Other' } })).json();
    const user = await addUser(resources, organisationId);
    const somebody = await addUser(resources, organisationId);
    const kept = await addKeyOf(resources, somebody, workspaceId);
    for (const id of [workspaceId, other.id]) {
      await addMember(resources, user, { workspaceId: id });
      await addKeyOf(resources, user, id);
    }
    await addMember(resources, somebody, { workspaceId });
    assert.equal((await keysOfPeople(resources, organisationId)).length, 3);
    assert.equal((await call(owner, { method: 'DELETE', path: `/admin/users/${user.id}` })).status, 200);
    assert.deepEqual(await keysOfPeople(resources, organisationId), [kept]);
    for (const [id, members] of [
      [workspaceId, [somebody.id]],
      [other.id, []],
    ]) {
      const { data } = (await call(owner, { path: `/workspaces/${id}/users` })).json();
      assert.deepEqual(
        data.map((one: { id: string }) => one.id),
        members,
      );
    }
  });

  test('is not changed over a version that somebody has not seen: 412', async (t) => {
    const { tenant, call } = await startAdministration(t, resources);
    const { owner, organisationId } = await tenant('versions');
    const user = await addUser(resources, organisationId);
    for (const one of callsAbout(user.id).slice(1)) {
      const answer = await call(owner, { ...one, headers: { 'if-match': '"7"' } });
      assert.deepEqual([answer.status, answer.json().data.errorCode], [412, 'AB01'], one.method);
    }
    assert.deepEqual(await stored(user), user);
  });

  const bad: readonly [name: string, body: unknown, place: string][] = [
    ['made an owner', { role: 'owner' }, '/role'],
    ['given a role that there is not', { role: 'manager' }, '/role'],
    ['given another address', { email: 'b@example.com' }, '/email'],
    ['given a long name', { first_name: 'x'.repeat(256) }, '/first_name'],
    ['given NUL', { last_name: 'a\0b' }, '/last_name'],
  ];
  for (const [name, body, place] of bad) {
    test(`is not ${name}`, async (t) => {
      const { tenant, call } = await startAdministration(t, resources);
      const { owner, organisationId } = await tenant('bad');
      const user = await addUser(resources, organisationId);
      const answer = await call(owner, { method: 'PUT', path: `/admin/users/${user.id}`, body });
      assert.deepEqual([answer.status, answer.json().data.errorCode], [400, 'AB01']);
      assert.deepEqual(
        answer.json().errors.map(({ path }: { path: string }) => path),
        [place],
      );
      assert.deepEqual(await stored(user), user);
    });
  }
});

test('the list of people: by role, address and page, in either spelling', async (t) => {
  const { tenant, call } = await startAdministration(t, resources);
  const { owner, organisationId } = await tenant('list');
  const names = ['a', 'b', 'c', 'd'] as const;
  for (const [index, name] of names.entries()) {
    const role = (['owner', 'admin', 'member', 'member'] as const)[index] ?? 'member';
    await addUser(resources, organisationId, { role, email: `${name}@example.com`, createdAt: index });
  }
  const cases: readonly [query: string, expected: unknown, total?: number][] = [
    ['', ['a', 'b', 'c', 'd'], 4],
    ['?role=member', ['c', 'd'], 2],
    ['?role=owner', ['a'], 1],
    ['?email=B%40EXAMPLE.com', ['b'], 1],
    ['?email=b%40example.com&role=member', [], 0],
    ['?email=example.com', [], 0],
    ['?page_size=3', ['a', 'b', 'c'], 4],
    ['?pageSize=3&currentPage=1', ['d'], 4],
    ['?page_size=101', 'AB01'],
    ['?role=manager', 'AB01'],
    ['?nme=x', 'AB01'],
  ];
  for (const [query, expected, total] of cases) {
    const answer = (await call(owner, { path: `/admin/users${query}` })).json();
    const found = answer.data.errorCode ?? answer.data.map((one: { email: string }) => one.email[0]);
    assert.deepEqual([found, answer.total], [expected, total], query);
  }
});

describe('nobody reaches above themselves', () => {
  const roles = ['owner', 'admin', 'member'] as const;
  for (const kind of ['owner', 'organisation-service'] as const) {
    for (const role of roles) {
      const expected = kind === 'owner' || role !== 'owner' ? 200 : 403;
      test(`a key of the kind ${kind} changes and removes somebody who is ${role}: ${expected}`, async (t) => {
        const { tenant, call } = await startAdministration(t, resources);
        const { key, organisationId } = await tenant('rank');
        await addUser(resources, organisationId, { role: 'owner' });
        const scopes = ['organisation_users.update', 'organisation_users.delete'];
        const actor = key({ kind, scopes: kind === 'owner' ? ['*'] : scopes });
        const user = await addUser(resources, organisationId, { role });
        const path = `/admin/users/${user.id}`;
        const asked = [
          { method: 'PUT', path, body: { first_name: 'New' } },
          { method: 'DELETE', path },
        ];
        for (const one of asked) {
          const answer = await call(actor, one);
          assert.equal(answer.status, expected, answer.text);
          if (expected === 200) continue;
          assert.match(answer.json().data.message, /^Your key acts as admin, which cannot give/);
          assert.deepEqual(await stored(user), user);
        }
      });
    }
  }

  const strangers: readonly [name: string, overrides: Partial<KeyRecord>][] = [
    ['a service key of a workspace', { kind: 'workspace-service', scopes: ['*'] }],
    ['a key of somebody', { kind: 'workspace-user', scopes: ['*'] }],
    ['an admin key without the scope', { kind: 'organisation-service', scopes: ['workspaces.list'] }],
  ];
  for (const [name, overrides] of strangers) {
    test(`${name} does not manage people: 403`, async (t) => {
      const { tenant, call } = await startAdministration(t, resources);
      const { key, organisationId } = await tenant('scopes');
      const user = await addUser(resources, organisationId);
      for (const one of [{ path: '/admin/users' }, ...callsAbout(user.id)]) {
        const answer = await call(key(overrides), one);
        assert.deepEqual([answer.status, answer.json().data.errorCode], [403, 'AB03'], one.path);
        assert.ok(!answer.text.includes(user.email));
      }
      assert.deepEqual(await stored(user), user);
    });
  }
});

test('the last owner is neither removed nor made less: 409', async (t) => {
  const { tenant, call } = await startAdministration(t, resources);
  const { owner, organisationId } = await tenant('last');
  const first = await addUser(resources, organisationId, { role: 'owner' });
  const [, change, removal] = callsAbout(first.id) as [AdminCall, AdminCall, AdminCall];
  for (const one of [change, removal]) {
    const answer = await call(owner, one);
    assert.deepEqual([answer.status, answer.json().data.errorCode], [409, 'AB07'], one.method);
    assert.match(answer.json().data.message, /is the last owner/);
  }
  const named = await call(owner, { ...change, body: { first_name: 'Still' } });
  assert.deepEqual([named.status, named.json().role], [200, 'owner']);
  const second = await addUser(resources, organisationId, { role: 'owner' });
  assert.equal((await call(owner, change)).json().role, 'member');
  assert.equal((await call(owner, removal)).status, 200);
  assert.equal((await call(owner, { method: 'DELETE', path: `/admin/users/${second.id}` })).status, 409);
});

test('people of another organisation are not there', async (t) => {
  const { tenant, call } = await startAdministration(t, resources);
  const [one, other] = [await tenant('one'), await tenant('other')];
  const user = await addUser(resources, other.organisationId, { email: 'secret@example.com' });
  const answers = async (id: string) => Promise.all(callsAbout(id).map((asked) => call(one.owner, asked)));
  const [known, unknown] = [await answers(user.id), await answers('nowhere')];
  known.forEach((answer, index) => {
    assert.deepEqual([answer.status, answer.json().data.errorCode], [404, 'AB08']);
    assert.equal(answer.text.replace(user.id, 'nowhere'), unknown[index]?.text);
  });
  for (const query of ['', '?email=secret%40example.com', '?role=member'])
    assert.equal((await call(one.owner, { path: `/admin/users${query}` })).json().total, 0);
  assert.deepEqual(await stored(user), user);
  assert.deepEqual(await auditedActions(resources, other.organisationId), []);
});

test('the bearer of a token hears of people, and of no workspace but their own', async (t) => {
  const { tenant, call } = await startAdministration(t, resources);
  const { owner, key, organisationId, workspaceId } = await tenant('token');
  const user = await addUser(resources, organisationId);
  const body = { name: 'Other', users: [user.id] };
  const other = (await call(owner, { path: '/workspaces', body })).json();
  await addMember(resources, user, { workspaceId });
  const bearer = key({ kind: 'workspace-user', isToken: true });
  const { scope } = testScope();
  const read = resources.read.bind(resources);
  for (const id of ['users.list', 'users.get']) {
    const route = userRoutes(scope).find((one) => one.id === id);
    const input = { read, params: { userId: user.id }, sendVersion() {} };
    const told = async (caller: KeyRecord) =>
      JSON.stringify(await route?.handle(testRouteInput({ ...input, key: caller })));
    const [mine, all] = [await told(bearer), await told(owner)];
    assert.deepEqual([mine.includes(workspaceId), mine.includes(other.id)], [true, false], id);
    assert.ok(all.includes(other.id), id);
  }
});
