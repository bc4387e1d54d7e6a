import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import {
  openResourcesOfFile,
  startAdministration,
  type AdminCall,
} from '../../../tests/kit/administration-kit.ts';
import { addUser } from '../users/people.test-support.ts';

const resources = await openResourcesOfFile();

const limits = {
  usage_limits: [
    { type: 'cost', credit_limit: 100, alert_threshold: 80, periodic_reset: 'monthly' },
    {
      type: 'tokens',
      credit_limit: 1000,
      periodic_reset_days: 7,
      next_usage_reset_at: '2030-01-01T00:00:00Z',
    },
  ],
  rate_limits: [{ type: 'requests', unit: 'rpm', value: 60 }],
};

describe('a workspace', () => {
  for (const base of ['/admin/workspaces', '/workspaces']) {
    test(`is created, read, listed, changed and archived under ${base}`, async (t) => {
      const { tenant, call } = await startAdministration(t, resources);
      const { owner, organisationId, workspaceId } = await tenant('life');
      const defaults = { metadata: { team: 'a' }, config_id: 'main', allowed_models: ['gpt-*'] };
      const made = await call(owner, {
        path: base,
        body: { name: 'Team Ä 1', icon: '🌊', defaults, ...limits },
      });
      assert.equal(made.status, 200, made.text);
      const created = made.json();
      assert.match(created.slug, /^ws-team-a-1-[a-z]{6}$/);
      assert.deepEqual([made.headers['etag'], created.status, created.description], ['"1"', 'active', '']);
      const noGuardrails = { input_guardrails: [], output_guardrails: [] };
      assert.deepEqual(created.defaults, {
        ...defaults,
        ...noGuardrails,
        is_default: 0,
        object: 'workspace',
      });
      assert.deepEqual(created.rate_limits, limits.rate_limits);
      assert.deepEqual(created.usage_limits[1], {
        ...{
          type: 'tokens',
          credit_limit: 1000,
          current_usage: 0,
          last_reset_at: null,
          alert_threshold: null,
          periodic_reset: null,
        },
        ...{ periodic_reset_days: 7, next_usage_reset_at: '2030-01-01T00:00:00.000Z' },
      });
      for (const id of [created.id, created.slug])
        assert.deepEqual((await call(owner, { path: `${base}/${id}` })).json(), created);

      const changed = await call(owner, {
        method: 'PUT',
        path: `${base}/${created.slug}`,
        headers: { 'if-match': 'W/"1"' },
        body: { name: 'Renamed', usage_limits: null },
      });
      assert.deepEqual([changed.status, changed.headers['etag']], [200, '"2"'], changed.text);
      const { last_updated_at: updated, ...rest } = changed.json();
      const { last_updated_at: before, ...was } = created;
      assert.ok(updated >= before);
      assert.match(
        was.next_usage_reset_at,
        /-01T00:00:00\.000Z$/,
        'the first of its limits begins anew first',
      );
      assert.deepEqual(rest, { ...was, name: 'Renamed', usage_limits: [], next_usage_reset_at: null });

      const listed = (await call(owner, { path: base })).json();
      assert.deepEqual([listed.object, listed.total], ['list', 2]);
      assert.deepEqual(
        listed.data.map(({ id }: { id: string }) => id),
        [workspaceId, created.id],
      );
      const gone = await call(owner, { method: 'DELETE', path: `${base}/${created.id}` });
      assert.deepEqual([gone.status, gone.json()], [200, {}]);
      assert.equal((await call(owner, { path: `${base}/${created.id}` })).json().status, 'archived');
      const again = await call(owner, { method: 'DELETE', path: `${base}/${created.id}` });
      assert.equal(again.status, 200);
      const late = await call(owner, { method: 'PUT', path: `${base}/${created.id}`, body: { name: 'x' } });
      assert.deepEqual([late.status, late.json().data.errorCode], [409, 'AB07']);
      const stored = await resources.read(({ workspaces }) => workspaces.find(organisationId, created.id));
      assert.deepEqual([stored?.status, stored?.version], ['archived', 3]);
    });
  }

  const bad: readonly [name: string, body: object, places: readonly string[]][] = [
    ['no name', {}, ['/name']],
    ['several mistakes at once', { nmae: 'x', icon: 7, rate_limits: [{ type: 'x' }] }, ['/nmae', '/icon']],
    ['a long name', { name: 'x'.repeat(256) }, ['/name']],
    ['NUL', { name: 'a\0b' }, ['/name']],
    [
      'half a surrogate pair',
      { name: 'a', defaults: { metadata: { k: '\ud800' } } },
      ['/defaults/metadata/k'],
    ],
    [
      'a config that is not there',
      { name: 'a', defaults: { config_id: 'nowhere' } },
      ['/defaults/config_id'],
    ],
    [
      'two ways of beginning anew',
      { name: 'a', usage_limits: [{ credit_limit: 2, periodic_reset: 'weekly', periodic_reset_days: 2 }] },
      ['/usage_limits/0/periodic_reset_days'],
    ],
    [
      'a threshold that is never reached',
      { name: 'a', usage_limits: [{ credit_limit: 2, alert_threshold: 2 }] },
      ['/usage_limits/0/alert_threshold'],
    ],
    [
      'a limit of nothing',
      { name: 'a', usage_limits: [{ credit_limit: 0 }] },
      ['/usage_limits/0/credit_limit'],
    ],
    [
      'two usage limits of one thing in the same periods',
      {
        name: 'a',
        usage_limits: [
          { credit_limit: 2 },
          { credit_limit: 2, periodic_reset: 'weekly' },
          { credit_limit: 3 },
        ],
      },
      ['/usage_limits/2'],
    ],
    [
      'two limits of one thing',
      { name: 'a', rate_limits: [limits.rate_limits[0], limits.rate_limits[0]] },
      ['/rate_limits/1'],
    ],
    ['members who are not there', { name: 'a', users: ['u', 'v@example.com'] }, ['/users/0', '/users/1']],
    ['101 members', { name: 'a', users: Array.from({ length: 101 }, () => 'u') }, ['/users']],
  ];
  for (const [name, body, places] of bad) {
    test(`is not created with ${name}`, async (t) => {
      const { tenant, call } = await startAdministration(t, resources);
      const { owner } = await tenant('bad');
      const answer = await call(owner, { path: '/workspaces', body });
      const { data, errors } = answer.json();
      assert.deepEqual([answer.status, data.errorCode], [400, 'AB01']);
      const found = errors.map(({ path }: { path: string }) => path);
      for (const place of places) assert.ok(found.includes(place), `${place} in ${answer.text}`);
      assert.equal((await call(owner, { path: '/workspaces' })).json().total, 1);
    });
  }

  test('has a name of its own: 409 already_exists', async (t) => {
    const { tenant, call } = await startAdministration(t, resources);
    const { owner, organisationId } = await tenant('twice');
    const audited = () =>
      resources.read(({ audit }) => audit.list(organisationId, {}, { offset: 0, limit: 100 }));
    assert.equal((await call(owner, { path: '/workspaces', body: { name: 'One' } })).status, 200);
    const answer = await call(owner, { path: '/workspaces', body: { name: 'One' } });
    assert.deepEqual([answer.status, answer.json().data.errorCode], [409, 'AB07']);
    assert.equal((await audited()).total, 1, 'what did not happen is not in the audit trail');
  });

  test('is not changed over a version that somebody has not seen: 412 version_mismatch', async (t) => {
    const { tenant, call } = await startAdministration(t, resources);
    const { owner, workspaceId } = await tenant('versions');
    const change = (tag: string): AdminCall => ({
      method: 'PUT',
      path: `/workspaces/${workspaceId}`,
      body: { description: tag },
      headers: { 'if-match': tag },
    });
    assert.equal((await call(owner, change('"1"'))).status, 200);
    const answer = await call(owner, change('"1"'));
    assert.deepEqual([answer.status, answer.json().data.errorCode], [412, 'AB01']);
    assert.match(answer.json().data.message, /version 2 now, and If-Match asks for "1"/);
    for (const tag of ['"7", "2"', '*']) assert.equal((await call(owner, change(tag))).status, 200);
    const removal = { method: 'DELETE', path: `/workspaces/${workspaceId}`, headers: { 'if-match': '"1"' } };
    assert.equal((await call(owner, removal)).status, 412);
  });

  test('of the start is not archived: 409 resource_conflict', async (t) => {
    const { tenant, call } = await startAdministration(t, resources);
    const { owner, workspaceId } = await tenant('first');
    const answer = await call(owner, { method: 'DELETE', path: `/workspaces/${workspaceId}` });
    assert.equal(answer.status, 409);
    assert.match(answer.json().data.message, /default workspace cannot be archived/);
  });
});

test('a workspace has the members that it was made with, by id or address, and shows them', async (t) => {
  const { tenant, call } = await startAdministration(t, resources);
  const { owner, key, organisationId } = await tenant('users');
  const [ann, bob] = [
    await addUser(resources, organisationId, { email: 'ann@example.com' }),
    await addUser(resources, organisationId, { email: 'bob@example.com' }),
  ];
  const body = { name: 'Team', users: ['Ann@Example.com', bob.id] };
  const made = await call(owner, { path: '/admin/workspaces', body });
  assert.equal(made.status, 200, made.text);
  const { id, users, ...workspace } = made.json();
  assert.deepEqual(
    new Map(users.map((one: { id: string; role: string }) => [one.id, one.role])),
    new Map([ann, bob].map((user) => [user.id, 'member'])),
  );
  const listed = (await call(owner, { path: `/workspaces/${id}/users` })).json();
  assert.deepEqual(listed.data, users);
  assert.deepEqual((await call(owner, { path: `/workspaces/${id}` })).json(), { id, users, ...workspace });
  const again = await call(owner, {
    path: '/workspaces',
    body: { ...body, name: 'Twice', users: [ann.id, ann.email] },
  });
  assert.deepEqual([again.status, again.json().errors[0].path], [400, '/users/1']);

  const scopes = ['workspaces.read', 'workspaces.list', 'workspaces.update'];
  const blind = key({ kind: 'organisation-service', scopes });
  const asked: readonly AdminCall[] = [
    { path: `/workspaces/${id}` },
    { path: '/workspaces' },
    { method: 'PUT', path: `/workspaces/${id}`, body: { icon: 'x' } },
  ];
  for (const one of asked) {
    const answer = await call(blind, one);
    assert.equal(answer.status, 200);
    assert.ok(!answer.text.includes('example.com'), 'people are shown to who may list them');
  }
});

describe('the list of workspaces', () => {
  test('by name, status and page, in either spelling', async (t) => {
    const { tenant, call } = await startAdministration(t, resources);
    const { owner, key, workspaceId } = await tenant('list');
    for (const name of ['Alpha', 'Alphabet', 'Beta'])
      await call(owner, { path: '/workspaces', body: { name } });
    const [beta] = (await call(owner, { path: '/workspaces?exact_name=Beta' })).json().data;
    await call(owner, { method: 'DELETE', path: `/workspaces/${beta.id}` });
    const names = async (query: string, caller = owner): Promise<unknown> => {
      const answer = await call(caller, { path: `/admin/workspaces${query}` });
      if (answer.status !== 200) return [answer.status, answer.json().data.errorCode];
      return answer.json().data.map(({ name }: { name: string }) => name);
    };
    const cases: readonly [query: string, expected: unknown][] = [
      ['', ['list default', 'Alpha', 'Alphabet']],
      ['?status=archived', ['Beta']],
      ['?status=active,archived&name=a', ['list default', 'Alpha', 'Alphabet', 'Beta']],
      ['?name=ALPHA', ['Alpha', 'Alphabet']],
      ['?exact_name=Alpha', ['Alpha']],
      ['?page_size=2', ['list default', 'Alpha']],
      ['?page_size=2&current_page=1', ['Alphabet']],
      ['?pageSize=1&currentPage=1', ['Alpha']],
      ['?pageSize=1&page_size=1', [400, 'AB01']],
      ['?page_size=101', [400, 'AB01']],
      ['?status=gone', [400, 'AB01']],
      ['?nme=x', [400, 'AB01']],
    ];
    for (const [query, expected] of cases) assert.deepEqual(await names(query), expected, query);
    const admin = key({ kind: 'organisation-service', scopes: ['workspaces.list'] });
    assert.deepEqual(await names('?status=archived', admin), ['Beta']);
    const service = key({ kind: 'workspace-service', scopes: ['workspaces.list'], workspaceId });
    assert.deepEqual(await names('', service), ['list default']);
    assert.deepEqual(await names('?current_page=1', service), []);
    assert.deepEqual(await names('?name=Alpha', service), []);
    assert.deepEqual(await names('?status=archived', service), [403, 'AB03']);
  });
});

test('a workspace key reads its own workspace, and cannot even ask about another one', async (t) => {
  const { tenant, call } = await startAdministration(t, resources);
  const { owner, key, workspaceId } = await tenant('reach');
  const other = (await call(owner, { path: '/workspaces', body: { name: 'Other' } })).json();
  const service = key({ kind: 'workspace-service' });
  assert.equal((await call(service, { path: `/workspaces/${workspaceId}` })).status, 200);
  const known = await call(service, { path: `/workspaces/${other.id}` });
  const unknown = await call(service, { path: `/workspaces/nowhere` });
  assert.deepEqual([known.status, known.json().data.errorCode], [404, 'AB08']);
  assert.equal(known.text.replace(other.id, 'nowhere'), unknown.text);
  // Its `*` does not reach what workspace keys cannot do.
  const change = { method: 'PUT', path: `/workspaces/${workspaceId}`, body: { name: 'Mine' } };
  assert.deepEqual((await call(service, change)).status, 403);
});

test('a gateway without a store says how to get one: not_supported', async (t) => {
  const { tenant, call } = await startAdministration(t);
  const { owner } = await tenant('none');
  const asked = [
    { path: '/workspaces' },
    { path: '/workspaces', body: { name: 'a' } },
    { path: '/audit-logs' },
  ];
  for (const one of asked) {
    const answer = await call(owner, one);
    assert.deepEqual([answer.status, answer.json().data.errorCode], [400, 'AB01']);
    assert.match(answer.json().data.message, /storage\.resources is "none:".*pglite:/);
  }
});

test('a body over 1 MiB is refused, also when it only unpacks to that', async (t) => {
  const { tenant, call } = await startAdministration(t, resources);
  const { owner } = await tenant('large');
  const body = { name: 'a', description: 'x'.repeat(1_048_576) };
  const small = gzipSync(JSON.stringify(body));
  const calls = [{ body }, { body: small, headers: { 'content-encoding': 'gzip' } }];
  for (const one of calls) {
    const answer = await call(owner, { path: '/workspaces', ...one });
    assert.deepEqual([answer.status, answer.json().data.errorCode], [413, 'AB01']);
    assert.match(answer.json().data.message, /larger than 1048576 bytes/);
  }
});
