import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { AuditRecord } from '../../core/ports/resources.ts';
import { openResourcesOfFile, startAdministration } from '../../tests/kit/administration-kit.ts';
import { eventually } from '../../tests/kit/process-kit.ts';

const resources = await openResourcesOfFile();

const trailOf = async (organisationId: string): Promise<readonly AuditRecord[]> =>
  (await resources.read(({ audit }) => audit.list(organisationId, {}, { offset: 0, limit: 100 }))).data;

describe('the audit trail', () => {
  test('says who did what to what, with the secrets of the request masked', async (t) => {
    const { tenant, call } = await startAdministration(t, resources);
    const { owner, organisationId } = await tenant('who');
    const created = await call(owner, {
      path: '/workspaces?apiKey=s3cret-1&x=1',
      headers: { cookie: 's3cret-2', 'x-service-config': '{"virtual_key":"s3cret-3"}', 'x-note': 'kept' },
      body: { name: 'New', defaults: { metadata: { clientSecret: 's3cret-4', team: 'a' } } },
    });
    const { id } = created.json();
    const [entry, ...others] = await trailOf(organisationId);
    assert.deepEqual(others, []);
    assert.ok(entry);
    const { details, hash, at, id: entryId, ...rest } = entry;
    assert.ok(hash.length === 64 && entryId !== '' && at > 0);
    assert.deepEqual(rest, {
      number: 1,
      organisationId,
      workspaceId: id,
      resourceId: id,
      resourceType: 'workspaces',
      action: 'create',
      actorType: 'api_key',
      actorId: owner.id,
      actorName: 'who owner',
      method: 'POST',
      uri: '/v1/workspaces',
      status: 200,
      clientIp: '127.0.0.1',
      requestId: created.headers['x-service-request-id'],
    });
    assert.doesNotMatch(details, /s3cret|wk_/);
    const { body, headers, query } = JSON.parse(details);
    assert.deepEqual(query, { apiKey: '***', x: '1' });
    assert.deepEqual(body.defaults.metadata, { clientSecret: '***', team: 'a' });
    assert.deepEqual([headers['x-note'], headers['x-service-api-key']], ['kept', '***']);
  });

  test('is read by filter and page', async (t) => {
    const { tenant, call } = await startAdministration(t, resources);
    const { owner, key, organisationId, workspaceId } = await tenant('read');
    const admin = key({ kind: 'organisation-service', name: 'admin' });
    const { id } = (await call(owner, { path: '/workspaces', body: { name: 'A' } })).json();
    await call(admin, { method: 'PUT', path: `/workspaces/${id}`, body: { name: 'B' } });
    const made = { name: 'k', workspace_id: workspaceId, scopes: ['logs.view'] };
    const { id: keyId } = (await call(owner, { path: '/api-keys/workspace/service', body: made })).json();
    await call(owner, { method: 'POST', path: `/api-keys/${keyId}/rotate` });
    await call(owner, { method: 'DELETE', path: '/cache?all=true' });
    const found = async (query: string): Promise<unknown> => {
      const answer = await call(owner, { path: `/audit-logs${query}` });
      if (answer.status !== 200) return answer.status;
      const { records, object } = answer.json();
      assert.equal(object, 'list');
      return records.map(
        (one: Record<string, unknown>) => `${String(one['resource_type'])}.${String(one['action'])}`,
      );
    };
    const whole = [
      'cache.delete',
      'api_keys.rotate',
      'api_keys.create',
      'workspaces.update',
      'workspaces.create',
    ];
    const cases: readonly [query: string, expected: unknown][] = [
      ['', whole],
      [
        `?organisation_id=${organisationId}&start_time=2020-01-01T00:00:00Z&end_time=2099-01-01T00:00:00Z`,
        whole,
      ],
      ['?organisation_id=another', 400],
      ['?end_time=2020-01-01T00:00:00Z', []],
      ['?page_size=2&current_page=1', ['api_keys.create', 'workspaces.update']],
      ['?method=DELETE', ['cache.delete']],
      [`?user_id=${admin.id}`, ['workspaces.update']],
      ['?user_type=user', []],
      ['?user_type=api_key&action=rotate', ['api_keys.rotate']],
      ['?resource_type=workspaces', whole.slice(3)],
      ['?resource_type=nothing,workspaces', whole.slice(3)],
      ['?resource_type=work', []],
      [`?workspace_id=${id}`, whole.slice(3)],
      [`?resource_id=${id}`, whole.slice(3)],
      [`?uri=/v1/workspaces/${id}`, ['workspaces.update']],
      ['?response_status_code=403', []],
      ['?client_ip=127.0.0.1&page_size=1', ['cache.delete']],
      ['?country=DE', []],
      ['?country=', whole],
      ['?planet=earth', 400],
    ];
    for (const [query, expected] of cases) assert.deepEqual(await found(query), expected, query);
    const [first] = (await call(owner, { path: `/audit-logs?user_id=${admin.id}` })).json().records;
    assert.deepEqual(
      [first.user_name, first.resource_id, first.request_body, first.response_status_code, first.number],
      ['admin', id, '{"name":"B"}', 200, 2],
    );
    const service = key({ kind: 'workspace-service' });
    assert.equal((await call(service, { path: '/audit-logs' })).status, 403);
    const verified = (await call(owner, { path: '/audit-logs/verification' })).json();
    const { verified: last, end, is_complete: isComplete, fault } = verified;
    assert.deepEqual([last === end && last > 0, isComplete, fault], [true, true, null]);
    assert.equal((await call(service, { path: '/audit-logs/verification' })).status, 403);
  });

  test('holds attempts that were refused, those that are alike once', async (t) => {
    const { tenant, call } = await startAdministration(t, resources);
    const { key, organisationId } = await tenant('denied');
    const weak = key({ kind: 'workspace-service', name: 'weak', scopes: ['logs.view'] });
    for (let number = 0; number < 40; number++)
      assert.equal((await call(weak, { path: '/workspaces', body: { name: 'x' } })).status, 403);
    assert.equal((await call(undefined, { path: '/audit-logs' })).status, 401);
    const entries = await eventually(async () => {
      const trail = await trailOf(organisationId);
      return trail.length > 0 ? trail : undefined;
    });
    assert.equal(entries.length, 1);
    const { action, resourceType, actorId, actorName, status, resourceId } = entries[0] as AuditRecord;
    assert.deepEqual(
      [action, resourceType, actorId, actorName, status, resourceId],
      ['create', 'workspaces', weak.id, 'weak', 403, ''],
    );
    assert.deepEqual([entries[0]?.number, entries[0]?.hash], [0, '']);
    // Trails of organisations are written one after the other.
    const stranger = await eventually(async () =>
      (await trailOf('default-org')).find(({ uri }) => uri === '/v1/audit-logs'),
    );
    assert.deepEqual([stranger.actorId, stranger.action, stranger.status], ['', 'read', 401]);
  });
});

test('no answer holds an id or a name of another organisation', async (t) => {
  const { tenant, call } = await startAdministration(t, resources);
  const [one, two] = [await tenant('mine'), await tenant('theirs')];
  const made = async (name: string, { owner }: typeof one) => {
    const workspace = (await call(owner, { path: '/workspaces', body: { name: `${name} space` } })).json();
    const body = { name: `${name} key`, workspace_id: workspace.id, scopes: ['logs.view'] };
    const key = (await call(owner, { path: '/api-keys/workspace/service', body })).json();
    return { workspace, key };
  };
  await made('mine', one);
  const { workspace, key } = await made('theirs', two);
  const body = { name: 'x' };
  const create = { ...body, scopes: ['logs.view'] };
  const calls = [
    { path: '/workspaces?status=active,archived' },
    { path: `/workspaces/${workspace.id}` },
    { path: `/workspaces/${workspace.slug}` },
    { path: `/workspaces/${two.workspaceId}` },
    { path: `/workspaces/${workspace.id}`, method: 'PUT', body },
    { path: `/workspaces/${workspace.id}`, method: 'DELETE' },
    { path: '/workspaces?name=theirs' },
    { path: '/api-keys' },
    { path: `/api-keys?ids=${key.id}` },
    { path: `/api-keys?workspace_id=${workspace.id}` },
    { path: `/api-keys/${key.id}` },
    { path: `/api-keys/${key.id}`, method: 'PUT', body },
    { path: `/api-keys/${key.id}`, method: 'DELETE' },
    { path: `/api-keys/${key.id}/rotate`, method: 'POST', body: {} },
    { path: '/api-keys/workspace/service', body: { ...create, workspace_id: workspace.id } },
    { path: '/api-keys/organisation/service', body: { ...create, organisation_id: two.organisationId } },
    { path: '/audit-logs?page_size=100' },
    { path: `/audit-logs?workspace_id=${workspace.id}` },
    { path: `/audit-logs?user_id=${two.owner.id}` },
  ];
  const secrets = [
    workspace.id,
    workspace.slug,
    two.workspaceId,
    two.organisationId,
    key.id,
    key.key,
    two.owner.id,
  ];
  const callers = [
    one.owner,
    one.key({ kind: 'organisation-service' }),
    one.key({ kind: 'workspace-service' }),
  ];
  for (const caller of callers) {
    for (const each of calls) {
      const answer = await call(caller, each);
      assert.ok(answer.status < 500, `${each.path}: ${answer.text}`);
      // What the caller named itself may come back to it, in the sentence or in its own trail.
      const sent = JSON.stringify(each);
      const own = each.path.startsWith('/audit-logs');
      for (const secret of secrets.filter((text) => !own && !sent.includes(text)))
        assert.ok(!answer.text.includes(secret), `${each.path} tells ${secret}: ${answer.text}`);
      assert.ok(!/theirs (space|key|owner|default)/.test(answer.text), `${each.path}: ${answer.text}`);
    }
  }
  // Nothing of theirs has changed.
  assert.equal((await call(two.owner, { path: `/workspaces/${workspace.id}` })).json().name, 'theirs space');
  assert.equal((await call(two.owner, { path: `/api-keys/${key.id}` })).json().name, 'theirs key');
  assert.ok((await trailOf(two.organisationId)).every(({ actorId }) => actorId === two.owner.id));
});
