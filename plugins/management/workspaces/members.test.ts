import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { KeyRecord } from '../../../core/ports/directory.ts';
import {
  openResourcesOfFile,
  startAdministration,
  type AdminCall,
} from '../../../tests/kit/administration-kit.ts';
import {
  addKeyOf,
  addMember,
  addUser,
  aUser,
  auditedActions,
  keysOfPeople,
} from '../users/people.test-support.ts';

const resources = await openResourcesOfFile();

const membersOf = async (organisationId: string, workspaceId: string) => {
  const all = { offset: 0, limit: 100 };
  const { data } = await resources.read(({ members }) => members.list(organisationId, workspaceId, {}, all));
  return data.map(({ user, member }) => `${user.email} ${member.role}`).sort();
};

/** Every route about the members of a workspace, and about one of them. */
const callsAbout = (workspace: string, user: string): readonly AdminCall[] =>
  ['/admin/workspaces', '/workspaces'].flatMap((base) => [
    { path: `${base}/${workspace}/users` },
    { path: `${base}/${workspace}/users/${user}` },
    ...changesOf(`${base}/${workspace}`, user),
  ]);

const changesOf = (workspace: string, user: string): readonly AdminCall[] => [
  { path: `${workspace}/users`, body: { users: [{ id: user, role: 'member' }] } },
  { method: 'PUT', path: `${workspace}/users/${user}`, body: { role: 'manager' } },
  { method: 'DELETE', path: `${workspace}/users/${user}` },
];

describe('a member', () => {
  for (const base of ['/admin/workspaces', '/workspaces']) {
    test(`is added, read, listed, changed and taken out under ${base}`, async (t) => {
      const { tenant, call } = await startAdministration(t, resources);
      const { owner, organisationId, workspaceId } = await tenant('life');
      const ann = await addUser(resources, organisationId, { email: 'ann@example.com', role: 'admin' });
      const bob = await addUser(resources, organisationId, { email: 'bob@example.com' });
      const path = `${base}/ws-life-default/users`;
      const users = [{ id: ann.id, role: 'admin' }, { id: 'BOB@example.com' }];
      const added = await call(owner, { path, body: { users, workspace_id: 'ws-life-default' } });
      assert.equal(added.status, 200, added.text);
      const { object, total, data } = added.json();
      assert.deepEqual([object, total], ['list', 2]);
      const { created_at: at, last_updated_at: updated, ...shown } = data[0];
      assert.equal(at, updated);
      assert.deepEqual(shown, {
        object: 'workspace-user',
        id: ann.id,
        first_name: 'Ann',
        last_name: 'Lee',
        email: 'ann@example.com',
        org_role: 'admin',
        role: 'manager',
        status: 'active',
        scopes: [],
        settings: null,
        workspace_id: workspaceId,
      });
      assert.deepEqual([data[1].id, data[1].role, data[1].org_role], [bob.id, 'member', 'member']);
      const one = await call(owner, { path: `${path}/${ann.id}` });
      assert.deepEqual([one.headers['etag'], one.json()], ['"1"', data[0]]);
      const listed = (await call(owner, { path: `${path}?workspaceId=ws-life-default` })).json();
      assert.equal(listed.total, 2);
      assert.deepEqual(new Set(listed.data.map(JSON.stringify)), new Set(data.map(JSON.stringify)));
      const [user] = (await call(owner, { path: '/admin/users?email=bob%40example.com' })).json().data;
      assert.deepEqual(user.workspace_ids, [workspaceId]);

      const changed = await call(owner, {
        method: 'PUT',
        path: `${path}/${bob.id}`,
        headers: { 'if-match': '"1"' },
        body: { role: 'admin', user_id: bob.id },
      });
      assert.deepEqual([changed.status, changed.headers['etag']], [200, '"2"'], changed.text);
      assert.equal(changed.json().role, 'manager');
      const gone = await call(owner, { method: 'DELETE', path: `${path}/${bob.id}` });
      assert.deepEqual([gone.status, gone.json()], [200, {}]);
      assert.equal((await call(owner, { path: `${path}/${bob.id}` })).status, 404);
      assert.deepEqual(await membersOf(organisationId, workspaceId), ['ann@example.com manager']);
      assert.deepEqual(await auditedActions(resources, organisationId), [
        `create workspace_users ${ann.id},${bob.id} of "${workspaceId}"`,
        `update workspace_users ${bob.id} of "${workspaceId}"`,
        `delete workspace_users ${bob.id} of "${workspaceId}"`,
      ]);
    });
  }

  test('takes the keys along that they have there, and no others', async (t) => {
    const { tenant, call } = await startAdministration(t, resources);
    const { owner, organisationId, workspaceId } = await tenant('keys');
    const [ann, bob] = [await addUser(resources, organisationId), await addUser(resources, organisationId)];
    const other = (
      await call(owner, { path: '/workspaces', body: { name: 'Other', users: [ann.id] } })
    ).json();
    await addMember(resources, ann, { workspaceId });
    await addKeyOf(resources, ann, workspaceId);
    await addKeyOf(resources, ann, workspaceId);
    const kept = [
      await addKeyOf(resources, ann, other.id),
      await addKeyOf(resources, bob, workspaceId),
    ].sort();
    const path = `/workspaces/${workspaceId}/users/${ann.id}`;
    assert.equal((await call(owner, { method: 'DELETE', path })).status, 200);
    assert.deepEqual(await keysOfPeople(resources, organisationId), kept);
    assert.deepEqual(await membersOf(organisationId, other.id), [`${ann.email} member`]);
  });

  test('is not changed over a version that somebody has not seen: 412', async (t) => {
    const { tenant, call } = await startAdministration(t, resources);
    const { owner, organisationId, workspaceId } = await tenant('versions');
    const user = await addUser(resources, organisationId);
    await addMember(resources, user, { workspaceId });
    for (const one of changesOf(`/workspaces/${workspaceId}`, user.id).slice(1)) {
      const answer = await call(owner, { ...one, headers: { 'if-match': '"2"' } });
      assert.deepEqual([answer.status, answer.json().data.errorCode], [412, 'AB01'], one.method);
    }
    assert.deepEqual(await membersOf(organisationId, workspaceId), [`${user.email} member`]);
  });

  test('of an archived workspace stays, is shown, and is not changed: 409', async (t) => {
    const { tenant, call } = await startAdministration(t, resources);
    const { owner, organisationId } = await tenant('archived');
    const [ann, bob] = [await addUser(resources, organisationId), await addUser(resources, organisationId)];
    const body = { name: 'Old', users: [ann.id] };
    const { id } = (await call(owner, { path: '/workspaces', body })).json();
    await addKeyOf(resources, ann, id);
    assert.equal((await call(owner, { method: 'DELETE', path: `/workspaces/${id}` })).status, 200);
    const [, ...others] = changesOf(`/workspaces/${id}`, ann.id);
    for (const one of [...changesOf(`/workspaces/${id}`, bob.id).slice(0, 1), ...others]) {
      const answer = await call(owner, one);
      assert.deepEqual([answer.status, answer.json().data.errorCode], [409, 'AB07'], one.method);
      assert.match(answer.json().data.message, /"Old" is archived/);
    }
    assert.deepEqual(await membersOf(organisationId, id), [`${ann.email} member`]);
    assert.equal((await keysOfPeople(resources, organisationId)).length, 1);
    assert.equal((await call(owner, { path: `/workspaces/${id}/users/${ann.id}` })).status, 200);
  });
});

describe('all or nobody', () => {
  const named = (count: number) => Array.from({ length: count }, (_, index) => ({ id: `u${index}` }));
  const bad: readonly [name: string, body: unknown, places: readonly string[]][] = [
    ['nobody', { users: [] }, ['/users']],
    ['no list', {}, ['/users']],
    ['101 people', { users: named(101) }, ['/users']],
    ['a role that there is not', { users: [{ id: 'ann', role: 'owner' }] }, ['/users/0/role']],
    ['a field that there is not', { users: [{ id: 'ann', rol: 'member' }] }, ['/users/0/rol']],
    [
      'strangers among them: each is named',
      { users: [{ id: 'nobody' }, { id: 'ann@example.com' }, { id: 'no@example.com' }] },
      ['/users/0/id', '/users/2/id'],
    ],
    [
      'somebody twice',
      { users: [{ id: 'ann' }, { id: 'Ann@Example.com', role: 'manager' }, { id: 'no' }] },
      ['/users/1/id', '/users/2/id'],
    ],
  ];
  for (const [name, body, places] of bad) {
    test(`${name}: 400`, async (t) => {
      const { tenant, call } = await startAdministration(t, resources);
      const { owner, organisationId, workspaceId } = await tenant('bad');
      const { id } = await addUser(resources, organisationId, { email: 'ann@example.com' });
      // Ids are unique in the store: `ann` of the table is the one of this tenant.
      const sent = JSON.stringify(body).replaceAll('"ann"', JSON.stringify(id));
      const answer = await call(owner, { path: `/workspaces/${workspaceId}/users`, body: JSON.parse(sent) });
      assert.deepEqual([answer.status, answer.json().data.errorCode], [400, 'AB01'], answer.text);
      const found = answer.json().errors.map(({ path }: { path: string }) => path);
      assert.deepEqual(found, places);
      assert.deepEqual(await membersOf(organisationId, workspaceId), []);
      assert.deepEqual(await auditedActions(resources, organisationId), []);
    });
  }

  test('100 people at once', async (t) => {
    const { tenant, call } = await startAdministration(t, resources);
    const { owner, organisationId, workspaceId } = await tenant('many');
    const users = Array.from({ length: 100 }, (_, index) => ({ id: `${organisationId}-${index}` }));
    await resources.write(organisationId, async (writer) => {
      for (const { id } of users) await writer.users.insert(aUser(organisationId, { id }));
    });
    const path = `/workspaces/${workspaceId}/users`;
    const added = await call(owner, { path, body: { users } });
    assert.deepEqual([added.status, added.json().data.length], [200, 100]);
    const workspace = (await call(owner, { path: `/workspaces/${workspaceId}` })).json();
    assert.equal(workspace.users.length, 100);
  });

  test('somebody who is a member already: 409, and it says who', async (t) => {
    const { tenant, call } = await startAdministration(t, resources);
    const { owner, organisationId, workspaceId } = await tenant('twice');
    const [ann, bob] = [
      await addUser(resources, organisationId, { email: 'ann@example.com' }),
      await addUser(resources, organisationId, { email: 'bob@example.com' }),
    ];
    await addMember(resources, ann, { workspaceId, role: 'manager' });
    const body = { users: [{ id: bob.id }, { id: ann.id }] };
    const answer = await call(owner, { path: `/workspaces/${workspaceId}/users`, body });
    assert.deepEqual([answer.status, answer.json().data.errorCode], [409, 'AB07']);
    assert.match(answer.json().data.message, /already: ann@example\.com\. No member was added/);
    assert.deepEqual(await membersOf(organisationId, workspaceId), ['ann@example.com manager']);
  });

  test('what the path says is not said otherwise in query and body: 400', async (t) => {
    const { tenant, call } = await startAdministration(t, resources);
    const { owner, organisationId, workspaceId } = await tenant('path');
    const user = await addUser(resources, organisationId);
    const path = `/workspaces/${workspaceId}/users`;
    const asked: readonly [call: AdminCall, param: RegExp][] = [
      [{ path: `${path}?workspaceId=other` }, /workspaceId/],
      [{ path, body: { users: [{ id: user.id }], workspace_id: 'other' } }, /workspace_id/],
      [{ method: 'PUT', path: `${path}/${user.id}`, body: { role: 'member', user_id: 'other' } }, /user_id/],
    ];
    for (const [one, param] of asked) {
      const answer = await call(owner, one);
      assert.deepEqual([answer.status, answer.json().data.errorCode], [400, 'AB01'], one.path);
      assert.match(answer.json().data.message, param);
    }
    assert.deepEqual(await membersOf(organisationId, workspaceId), []);
  });
});

test('the list of members: by role, address and page, in either spelling', async (t) => {
  const { tenant, call } = await startAdministration(t, resources);
  const { owner, organisationId, workspaceId } = await tenant('list');
  for (const [index, name] of ['a', 'b', 'c'].entries()) {
    const user = await addUser(resources, organisationId, {
      email: `${name}@example.com`,
      id: `${organisationId}-${index}`,
    });
    await addMember(resources, user, { workspaceId, role: name === 'b' ? 'manager' : 'member' });
  }
  const cases: readonly [query: string, expected: unknown, total?: number][] = [
    ['', ['a', 'b', 'c'], 3],
    ['?role=manager', ['b'], 1],
    ['?role=admin', ['b'], 1],
    ['?role=member', ['a', 'c'], 2],
    ['?email=C%40example.com', ['c'], 1],
    ['?email=c%40example.com&role=manager', [], 0],
    ['?page_size=2&current_page=1', ['c'], 3],
    ['?pageSize=1&currentPage=1', ['b'], 3],
    ['?page_size=0', 'AB01'],
    ['?role=owner', 'AB01'],
    ['?user=x', 'AB01'],
  ];
  for (const [query, expected, total] of cases) {
    const answer = (await call(owner, { path: `/admin/workspaces/${workspaceId}/users${query}` })).json();
    const found = answer.data.errorCode ?? answer.data.map((one: { email: string }) => one.email[0]);
    assert.deepEqual([found, answer.total], [expected, total], query);
  }
});

describe('who may do what with members', () => {
  const all = ['create', 'list', 'read', 'update', 'delete'].map((action) => `workspace_users.${action}`);
  const cases: readonly [name: string, overrides: Partial<KeyRecord>, statuses: readonly number[]][] = [
    // List, read, add somebody, change and take out a member.
    ['an owner', { kind: 'owner', scopes: ['*'] }, [200, 200, 200, 200, 200]],
    ['an admin key', { kind: 'organisation-service', scopes: all }, [200, 200, 200, 200, 200]],
    [
      'an admin key that reads',
      { kind: 'organisation-service', scopes: ['workspace_users.read'] },
      [403, 200, 403, 403, 403],
    ],
    [
      'an admin key of workspaces',
      { kind: 'organisation-service', scopes: ['workspaces.update'] },
      [403, 403, 403, 403, 403],
    ],
    [
      'a service key of the workspace',
      { kind: 'workspace-service', scopes: ['*'] },
      [200, 200, 200, 200, 200],
    ],
    [
      'a service key of the workspace that reads',
      { kind: 'workspace-service', scopes: ['workspace_users.list'] },
      [200, 403, 403, 403, 403],
    ],
    ['a key of somebody', { kind: 'workspace-user', scopes: all }, [200, 200, 403, 403, 403]],
    [
      'a service key of another workspace',
      { kind: 'workspace-service', scopes: ['*'], workspaceId: 'ws-other' },
      [404, 404, 404, 404, 404],
    ],
  ];
  for (const [name, overrides, statuses] of cases) {
    test(`${name}: ${statuses.join(', ')}`, async (t) => {
      const { tenant, call } = await startAdministration(t, resources);
      const { key, organisationId, workspaceId } = await tenant('roles');
      const [ann, bob] = [await addUser(resources, organisationId), await addUser(resources, organisationId)];
      await addMember(resources, ann, { workspaceId });
      const path = `/workspaces/${workspaceId}`;
      const [add, change, removal] = [
        ...changesOf(path, bob.id).slice(0, 1),
        ...changesOf(path, ann.id).slice(1),
      ] as [AdminCall, AdminCall, AdminCall];
      const asked = [{ path: `${path}/users` }, { path: `${path}/users/${ann.id}` }, add, change, removal];
      const found: number[] = [];
      for (const one of asked) found.push((await call(key(overrides), one)).status);
      assert.deepEqual(found, statuses);
    });
  }
});

test('a manager adds people to the workspace and makes keys for them, and reaches nobody above', async (t) => {
  const managers = new Set<string>();
  const memberRole = (_: string, id: string) => (managers.has(id) ? 'manager' : 'member');
  const { tenant, call } = await startAdministration(t, resources, { directory: { memberRole } });
  const { key, organisationId, workspaceId } = await tenant('manager');
  const person = (name: string, role: 'admin' | 'member' = 'member') =>
    addUser(resources, organisationId, { email: `${name}@example.com`, role });
  const [manager, bob, admin] = [await person('meg'), await person('bob'), await person('ada', 'admin')];
  await addMember(resources, manager, { workspaceId, role: 'manager' });
  managers.add(manager.id);
  await addMember(resources, admin, { workspaceId });
  const scopes = ['workspace_users', 'workspace_user_api_keys'].flatMap((one) =>
    ['create', 'update', 'delete'].map((action) => `${one}.${action}`),
  );
  const own = key({ kind: 'workspace-user', userId: manager.id, scopes: [...scopes, 'completions.write'] });
  const path = `/workspaces/${workspaceId}/users`;
  const added = await call(own, { path, body: { users: [{ id: 'bob@example.com', role: 'manager' }] } });
  assert.equal(added.status, 200, added.text);
  const forBob = { name: 'bob', scopes: ['completions.write'], user_id: 'bob@example.com' };
  const made = await call(own, { path: '/api-keys/workspace/user', body: forBob });
  assert.equal(made.status, 200, made.text);
  assert.deepEqual(await keysOfPeople(resources, organisationId), [made.json().id]);
  const above: readonly AdminCall[] = [
    { path, body: { users: [{ id: (await person('eve', 'admin')).id }] } },
    { method: 'PUT', path: `${path}/${admin.id}`, body: { role: 'manager' } },
    { method: 'DELETE', path: `${path}/${admin.id}` },
    { path: '/api-keys/workspace/user', body: { ...forBob, user_id: 'ada@example.com' } },
    { path: '/api-keys/workspace/user', body: { ...forBob, scopes: ['logs.view'] } },
  ];
  for (const one of above) assert.equal((await call(own, one)).status, 403, one.path);
  const gone = await call(own, { method: 'DELETE', path: `${path}/${bob.id}` });
  assert.equal(gone.status, 200, gone.text);
  assert.deepEqual(await membersOf(organisationId, workspaceId), [
    'ada@example.com member',
    'meg@example.com manager',
  ]);
  assert.deepEqual(await keysOfPeople(resources, organisationId), []);
});

test('people are named by e-mail on every route', async (t) => {
  const { tenant, call } = await startAdministration(t, resources);
  const { owner, organisationId, workspaceId } = await tenant('mail');
  const ann = await addUser(resources, organisationId, { email: 'ann@example.com' });
  await addMember(resources, ann, { workspaceId });
  for (const name of ['ann@example.com', 'ANN%40Example.com']) {
    const member = `/workspaces/${workspaceId}/users/${name}`;
    assert.equal((await call(owner, { path: member })).json().id, ann.id);
    const put = await call(owner, { method: 'PUT', path: member, body: { role: 'manager' } });
    assert.equal(put.status, 200, put.text);
    assert.equal((await call(owner, { path: `/admin/users/${name}` })).json().id, ann.id);
  }
  const gone = { method: 'DELETE', path: `/workspaces/${workspaceId}/users/ann@example.com` };
  assert.deepEqual([(await call(owner, gone)).status, (await call(owner, gone)).status], [200, 404]);
  const user = { method: 'DELETE', path: '/admin/users/ann%40example.com' };
  assert.deepEqual([(await call(owner, user)).status, (await call(owner, user)).status], [200, 404]);
});

test('workspaces and people of another organisation are not there', async (t) => {
  const { tenant, call } = await startAdministration(t, resources);
  const [one, other] = [await tenant('one'), await tenant('other')];
  const theirs = await addUser(resources, other.organisationId, { email: 'secret@example.com' });
  await addMember(resources, theirs, { workspaceId: other.workspaceId });
  const same = async (known: readonly AdminCall[], unknown: readonly AdminCall[], id: string) => {
    for (const [index, asked] of known.entries()) {
      const answer = await call(one.owner, asked);
      const expected = await call(one.owner, unknown[index] as AdminCall);
      const place = `${asked.method ?? 'GET'} ${asked.path}`;
      assert.ok(answer.status === 404 || (answer.status === 400 && asked.body !== undefined), place);
      assert.equal(answer.text.replaceAll(id, 'nowhere'), expected.text, place);
    }
  };
  const elsewhere = callsAbout(other.workspaceId, theirs.id);
  await same(elsewhere, callsAbout('nowhere', theirs.id), other.workspaceId);
  const mine = (id: string) => callsAbout(one.workspaceId, id).filter(({ path }) => path.endsWith(id));
  await same(mine(theirs.id), mine('nowhere'), theirs.id);
  const add = (id: string): AdminCall => ({
    path: `/workspaces/${one.workspaceId}/users`,
    body: { users: [{ id }] },
  });
  await same([add(theirs.id)], [add('nowhere')], theirs.id);
  await same([add(theirs.email)], [add('nowhere')], theirs.email);
  const made = (id: string): AdminCall => ({ path: '/workspaces', body: { name: 'New', users: [id] } });
  await same([made(theirs.id)], [made('nowhere')], theirs.id);
  assert.deepEqual(await membersOf(other.organisationId, other.workspaceId), [`${theirs.email} member`]);
  assert.deepEqual(await membersOf(one.organisationId, one.workspaceId), []);
  assert.equal((await call(one.owner, { path: '/workspaces' })).json().total, 1);
});
