import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { readFeatures } from '../../../core/access/features.ts';
import type { KeyRecord } from '../../../core/ports/directory.ts';
import {
  openResourcesOfFile,
  startAdministration,
  type AdminCall,
} from '../../../tests/kit/administration-kit.ts';
import { testRouteInput, testScope } from '../../../tests/kit/plugin-kit.ts';
import { groupMappingRoutes } from './group-mappings.ts';
import { auditedActions } from './people.test-support.ts';

const resources = await openResourcesOfFile();

const path = '/scim/workspaces';

describe('the role of a group', () => {
  const groups: readonly [said: object, id: string, name: string][] = [
    [{ scim_group_id: 'g-1' }, 'g-1', ''],
    [{ scim_group: 'Engineering, Ä' }, '', 'Engineering, Ä'],
    [{ scim_group_name: 'Sales' }, '', 'Sales'],
  ];
  for (const [said, id, name] of groups) {
    test(`is said, listed and forgotten: ${JSON.stringify(said)}`, async (t) => {
      const { tenant, call } = await startAdministration(t, resources);
      const { owner, organisationId, workspaceId } = await tenant('life');
      const body = { workspace_id: 'ws-life-default', role: 'admin', ...said };
      const made = await call(owner, { path, body });
      assert.equal(made.status, 200, made.text);
      const { id: mapping, created_at: at, ...shown } = made.json();
      assert.ok(Date.parse(at) > 0);
      assert.deepEqual(shown, {
        object: 'scim-workspace-group',
        workspace_id: workspaceId,
        role: 'manager',
        scim_group_id: id,
        scim_group: name,
      });
      assert.deepEqual((await call(owner, { path })).json(), {
        object: 'list',
        total: 1,
        total_count: 1,
        data: [made.json()],
        mappings: [made.json()],
      });
      const again = await call(owner, { path, body: { ...body, role: 'member' } });
      assert.deepEqual([again.status, again.json().data.errorCode], [409, 'AB07']);
      const gone = await call(owner, { method: 'DELETE', path: `${path}/${mapping}` });
      assert.deepEqual([gone.status, gone.json()], [200, { success: true }]);
      assert.equal((await call(owner, { method: 'DELETE', path: `${path}/${mapping}` })).status, 404);
      assert.equal((await call(owner, { path })).json().total, 0);
      assert.deepEqual(await auditedActions(resources, organisationId), [
        `create scim_workspaces ${mapping} of "${workspaceId}"`,
        `delete scim_workspaces ${mapping} of "${workspaceId}"`,
      ]);
    });
  }

  const bare = { workspace_id: 'ws-bad-default', role: 'member' };
  const good = { ...bare, scim_group: 'Engineering' };
  const bad: readonly [name: string, body: object, place: string][] = [
    ['no group', bare, '/scim_group'],
    ['a group by id and by name', { ...good, scim_group_id: 'g' }, '/scim_group_id'],
    ['a name in both spellings', { ...good, scim_group_name: 'Engineering' }, '/scim_group'],
    ['an empty name', { ...good, scim_group: '' }, '/scim_group'],
    ['no role', { ...good, role: undefined }, '/role'],
    ['a role of the organisation', { ...good, role: 'owner' }, '/role'],
    ['no workspace', { ...good, workspace_id: undefined }, '/workspace_id'],
    ['a workspace that there is not', { ...good, workspace_id: 'nowhere' }, '/workspace_id'],
    ['a field that there is not', { ...good, group: 'x' }, '/group'],
  ];
  for (const [name, body, place] of bad) {
    test(`is not said with ${name}: 400`, async (t) => {
      const { tenant, call } = await startAdministration(t, resources);
      const { owner } = await tenant('bad');
      const answer = await call(owner, { path, body });
      assert.deepEqual([answer.status, answer.json().data.errorCode], [400, 'AB01'], answer.text);
      const places = answer.json().errors.map((one: { path: string }) => one.path);
      assert.deepEqual(places, [place]);
      assert.equal((await call(owner, { path })).json().total, 0);
    });
  }

  test('in an archived workspace is not said: 409', async (t) => {
    const { tenant, call } = await startAdministration(t, resources);
    const { owner } = await tenant('old');
    const { id } = (await call(owner, { path: '/workspaces', body: { name: 'Old' } })).json();
    await call(owner, { method: 'DELETE', path: `/workspaces/${id}` });
    const answer = await call(owner, { path, body: { workspace_id: id, role: 'member', scim_group: 'a' } });
    assert.deepEqual([answer.status, answer.json().data.errorCode], [409, 'AB07']);
  });
});

test('the list of groups: by workspace, group, role and page', async (t) => {
  const { tenant, call } = await startAdministration(t, resources);
  const { owner, workspaceId } = await tenant('list');
  const other = (await call(owner, { path: '/workspaces', body: { name: 'Other' } })).json();
  for (const [workspace, role, group] of [
    [workspaceId, 'member', 'g1'],
    [workspaceId, 'manager', 'g2'],
    [other.id, 'member', 'g1'],
  ]) {
    const body = { workspace_id: workspace, role, scim_group_id: group };
    assert.equal((await call(owner, { path, body })).status, 200);
  }
  const cases: readonly [query: string, expected: unknown][] = [
    ['', 3],
    [`?workspace_id=${workspaceId}`, 2],
    [`?workspace_id=${other.slug}`, 1],
    ['?scim_group_id=g1', 2],
    ['?role=admin', 1],
    ['?role=member&scim_group_id=g1', 2],
    ['?page_size=2&current_page=1', 3],
    ['?workspace_id=nowhere', 'AB08'],
    ['?page_size=0', 'AB01'],
    ['?group=g1', 'AB01'],
  ];
  for (const [query, expected] of cases) {
    const answer = (await call(owner, { path: path + query })).json();
    assert.deepEqual(answer.data.errorCode ?? answer.total, expected, query);
  }
  const second = (await call(owner, { path: `${path}?page_size=2&current_page=1` })).json();
  assert.deepEqual([second.data.length, second.mappings.length, second.total_count], [1, 1, 3]);
});

describe('who may say it', () => {
  const update = 'organisation_settings.update';
  const cases: readonly [name: string, overrides: Partial<KeyRecord>, statuses: readonly number[]][] = [
    // List, create, delete.
    ['an owner', { kind: 'owner', scopes: ['*'] }, [200, 200, 200]],
    ['an admin key', { kind: 'organisation-service', scopes: [update] }, [403, 200, 200]],
    [
      'an admin key that reads',
      { kind: 'organisation-service', scopes: ['organisation_settings.read'] },
      [200, 403, 403],
    ],
    ['a service key of the workspace', { kind: 'workspace-service', scopes: ['*'] }, [403, 403, 403]],
    ['a key of somebody', { kind: 'workspace-user', scopes: ['*', update] }, [403, 403, 403]],
  ];
  for (const [name, overrides, statuses] of cases) {
    test(`${name}: ${statuses.join(', ')}`, async (t) => {
      const { tenant, call } = await startAdministration(t, resources);
      const { owner, key, workspaceId } = await tenant('roles');
      const body = { workspace_id: workspaceId, role: 'manager', scim_group: 'a' };
      const { id } = (await call(owner, { path, body })).json();
      const asked: readonly AdminCall[] = [
        { path },
        { path, body: { ...body, scim_group: 'b' } },
        { method: 'DELETE', path: `${path}/${id}` },
      ];
      const found: number[] = [];
      for (const one of asked) found.push((await call(key(overrides), one)).status);
      assert.deepEqual(found, statuses);
    });
  }
});

test('while SCIM is switched off, every route of it refuses and says how to switch it on', async (t) => {
  const features = readFeatures({ SCIM_ENABLED: 'off' });
  const { tenant, call } = await startAdministration(t, resources, { features });
  const { owner, workspaceId } = await tenant('off');
  const asked: readonly AdminCall[] = [
    { path },
    { path, body: { workspace_id: workspaceId, role: 'member', scim_group: 'a' } },
    { method: 'DELETE', path: `${path}/some` },
  ];
  for (const one of asked) {
    const answer = await call(owner, one);
    assert.equal(answer.status, 403, answer.text);
    assert.match(answer.json().data.message, /SCIM_ENABLED is OFF/);
  }
  assert.equal((await call(owner, { path: '/admin/users' })).status, 200);
});

test('groups and workspaces of another organisation are not there', async (t) => {
  const { tenant, call } = await startAdministration(t, resources);
  const [one, other] = [await tenant('one'), await tenant('other')];
  const body = { workspace_id: other.workspaceId, role: 'member', scim_group: 'Secret' };
  const theirs = (await call(other.owner, { path, body })).json();
  const pairs: readonly [id: string, ask: (id: string) => AdminCall][] = [
    [theirs.id, (id) => ({ method: 'DELETE', path: `${path}/${id}` })],
    [other.workspaceId, (id) => ({ path, body: { ...body, workspace_id: id } })],
    [other.workspaceId, (id) => ({ path: `${path}?workspace_id=${id}` })],
  ];
  for (const [id, ask] of pairs) {
    const [known, unknown] = [await call(one.owner, ask(id)), await call(one.owner, ask('nowhere'))];
    assert.ok(known.status === 404 || known.status === 400, known.text);
    assert.equal(known.text.replaceAll(id, 'nowhere'), unknown.text);
  }
  assert.equal((await call(one.owner, { path })).json().total, 0);
  assert.equal((await call(other.owner, { path })).json().total, 1);
});

test('the bearer of a token hears of the groups of their own workspace alone', async (t) => {
  const { tenant, call } = await startAdministration(t, resources);
  const { owner, key, workspaceId } = await tenant('token');
  const other = (await call(owner, { path: '/workspaces', body: { name: 'Other' } })).json();
  for (const id of [workspaceId, other.id])
    await call(owner, { path, body: { workspace_id: id, role: 'member', scim_group: 'a' } });
  const route = groupMappingRoutes(testScope().scope).find((one) => one.id === 'scim_workspaces.list');
  const read = resources.read.bind(resources);
  const bearer = key({ kind: 'workspace-user', isToken: true });
  const mine = JSON.stringify(await route?.handle(testRouteInput({ read, key: bearer })));
  assert.deepEqual([mine.includes(workspaceId), mine.includes(other.id)], [true, false]);
});
