import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { knownScopes } from '../../../core/access/scopes.ts';
import type { KeyRecord } from '../../../core/ports/directory.ts';
import { sha256 } from '../../../core/base/bytes.ts';
import { openResourcesOfFile, startAdministration } from '../../../tests/kit/administration-kit.ts';

const resources = await openResourcesOfFile();

const service = '/api-keys/workspace/service';
const user = '/api-keys/workspace/user';
const organisation = '/api-keys/organisation/service';

describe('a key', () => {
  test('is created, read, listed, changed and deleted; its secret is shown once', async (t) => {
    const { tenant, call } = await startAdministration(t, resources);
    const { owner, organisationId, workspaceId } = await tenant('life');
    const body = {
      name: 'batch',
      workspace_id: 'ws-life-default',
      scopes: ['completions:write', 'logs.view', 'logs.view'],
      description: 'Nightly',
      alert_emails: ['ops@example.com'],
      expires_at: '2099-01-01T00:00:00Z',
      rate_limits: [{ type: 'tokens', unit: 'rps', value: 0 }],
      usage_limits: { credit_limit: 10, periodic_reset: 'weekly' },
      defaults: {
        metadata: { team: 'a' },
        config_id: 'main',
        allowed_models: ['gpt-4o', 'claude-*'],
        allow_config_override: false,
        log_bodies: false,
      },
    };
    const made = await call(owner, { path: service, body });
    assert.equal(made.status, 200, made.text);
    const { id, key: secret, object, ...more } = made.json();
    assert.deepEqual([object, Object.keys(more)], ['api-key', []]);
    assert.match(secret, /^wk_[A-Za-z0-9_-]{40}$/);
    const stored = await resources.read(({ apiKeys }) => apiKeys.find(organisationId, id));
    assert.deepEqual(stored?.secrets, [{ hash: sha256(secret, 'base64'), expiresAt: undefined }]);
    assert.ok(!JSON.stringify(stored).includes(secret));

    const read = await call(owner, { path: `/api-keys/${id}` });
    const shown = read.json();
    assert.equal(read.headers['etag'], '"1"');
    const { created_at: created, last_updated_at: updated, usage_limits: usage, ...rest } = shown;
    assert.equal(created, updated);
    assert.deepEqual(
      [usage.type, usage.credit_limit, usage.periodic_reset, usage.current_usage],
      ['cost', 10, 'weekly', 0],
    );
    assert.equal(new Date(rest.next_usage_reset_at).getUTCDay(), 1, 'a week begins on Monday');
    assert.deepEqual(rest, {
      id,
      object,
      name: 'batch',
      description: 'Nightly',
      type: 'workspace-service',
      status: 'active',
      key: `${secret.slice(0, 5)}…${secret.slice(-2)}`,
      organisation_id: organisationId,
      workspace_id: workspaceId,
      user_id: null,
      creation_mode: 'api',
      scopes: ['completions.write', 'logs.view'],
      rate_limits: body.rate_limits,
      defaults: body.defaults,
      alert_emails: body.alert_emails,
      expires_at: '2099-01-01T00:00:00.000Z',
      // The store of analytics answers that no request was sent with it.
      key_transition_expires_at: null,
      rotation_policy: null,
      last_reset_at: null,
      next_usage_reset_at: rest.next_usage_reset_at,
      current_usage: 0,
      managed_by: 'api',
    });
    assert.deepEqual((await call(owner, { path: '/api-keys' })).json(), {
      object: 'list',
      total: 1,
      data: [shown],
    });

    const change = { name: 'daily', scopes: ['logs.view'], expires_at: null, usage_limits: null };
    const changed = await call(owner, { method: 'PUT', path: `/api-keys/${id}`, body: change });
    assert.deepEqual([changed.status, changed.headers['etag']], [200, '"2"'], changed.text);
    const now = changed.json();
    assert.deepEqual(
      [now.name, now.scopes, now.expires_at, now.usage_limits, now.description, now.defaults],
      ['daily', ['logs.view'], null, null, 'Nightly', body.defaults],
    );
    const stale = { method: 'DELETE', path: `/api-keys/${id}`, headers: { 'if-match': '"1"' } };
    assert.equal((await call(owner, stale)).status, 412);
    const gone = await call(owner, { method: 'DELETE', path: `/api-keys/${id}` });
    assert.deepEqual([gone.status, gone.json()], [200, {}]);
    assert.equal((await call(owner, { path: `/api-keys/${id}` })).status, 404);
    assert.equal((await call(owner, { method: 'DELETE', path: `/api-keys/${id}` })).status, 404);
  });

  test('of every type knows where it belongs', async (t) => {
    const { tenant, call } = await startAdministration(t, resources);
    const { owner, key, workspaceId } = await tenant('types');
    const manager = key({ kind: 'workspace-service' });
    const make = async (caller: KeyRecord, path: string, body: object): Promise<unknown> => {
      const made = await call(caller, { path, body });
      if (made.status !== 200)
        return [made.status, made.json().errors?.[0].path ?? made.json().data.message.split(/[.:]/)[0]];
      const { type, workspace_id, user_id } = (
        await call(owner, { path: `/api-keys/${made.json().id}` })
      ).json();
      return [type, workspace_id, user_id];
    };
    const scopes = ['logs.view'];
    assert.deepEqual(await make(owner, organisation, { name: 'a', scopes }), [
      'organisation-service',
      null,
      null,
    ]);
    assert.deepEqual(await make(owner, service, { name: 'a', scopes }), [400, '/workspace_id']);
    for (const workspace_id of ['nowhere', (await tenant('foreign')).workspaceId])
      assert.deepEqual(await make(owner, service, { name: 'a', scopes, workspace_id }), [
        400,
        '/workspace_id',
      ]);
    assert.deepEqual(await make(manager, service, { name: 'a', scopes }), [
      'workspace-service',
      workspaceId,
      null,
    ]);
    assert.deepEqual(await make(manager, user, { name: 'b', scopes }), ['workspace-user', workspaceId, null]);
    assert.deepEqual(await make(manager, user, { name: 'b', scopes }), [
      409,
      'The workspace has a key of type workspace-user named "b" already; choose another name',
    ]);
    assert.deepEqual(await make(owner, organisation, { name: 'c', scopes, organisation_id: 'another' }), [
      400,
      '/organisation_id',
    ]);
  });

  const bad: readonly [name: string, body: object, place: string][] = [
    ['no scopes', { scopes: [] }, '/scopes'],
    ['an unknown scope', { scopes: ['logs.view', 'logs.veiw'] }, '/scopes/1'],
    ['everything', { scopes: ['*'] }, '/scopes/0'],
    ['a scope of another type', { scopes: ['audit_logs.list'] }, '/scopes/0'],
    ['an end in the past', { expires_at: '2020-01-01T00:00:00Z' }, '/expires_at'],
    ['a second that is none', { expires_at: '2099-01-01T00:00:00' }, '/expires_at'],
    ['an address that is none', { alert_emails: ['ops'] }, '/alert_emails/0'],
    ['a rotation policy that says no time', { rotation_policy: {} }, '/rotation_policy'],
    [
      'two periods of rotation',
      { rotation_policy: { rotation_period: 'weekly', rotation_period_days: 7 } },
      '/rotation_policy/rotation_period_days',
    ],
    [
      'a rotation in the past',
      { rotation_policy: { next_rotation_at: '2020-01-01T00:00:00Z' } },
      '/rotation_policy/next_rotation_at',
    ],
    [
      'a transition that is longer than the period of rotation',
      { rotation_policy: { rotation_period_days: 1, key_transition_period_ms: 86_400_000 } },
      '/rotation_policy/key_transition_period_ms',
    ],
    [
      'a transition that is too short',
      { rotation_policy: { rotation_period: 'weekly', key_transition_period_ms: 60_000 } },
      '/rotation_policy/key_transition_period_ms',
    ],
    ['a reset of its usage', { reset_usage: true }, '/reset_usage'],
    [
      'an unknown unit',
      { rate_limits: [{ type: 'requests', unit: 'rpy', value: 1 }] },
      '/rate_limits/0/unit',
    ],
  ];
  for (const [name, body, place] of bad) {
    test(`is not created with ${name}`, async (t) => {
      const { tenant, call } = await startAdministration(t, resources);
      const { owner, workspaceId } = await tenant('bad');
      const whole = { name: 'k', workspace_id: workspaceId, scopes: ['logs.view'], ...body };
      const answer = await call(owner, { path: service, body: whole });
      const { data, errors } = answer.json();
      assert.deepEqual([answer.status, data.errorCode], [400, 'AB01']);
      assert.deepEqual(
        errors.map(({ path }: { path: string }) => path),
        [place],
      );
      assert.equal((await call(owner, { path: '/api-keys' })).json().total, 0);
    });
  }

  test('is not created in an archived workspace: 409 resource_conflict', async (t) => {
    const { tenant, call } = await startAdministration(t, resources);
    const { owner } = await tenant('archived');
    const { id } = (await call(owner, { path: '/workspaces', body: { name: 'Old' } })).json();
    await call(owner, { method: 'DELETE', path: `/workspaces/${id}` });
    const answer = await call(owner, {
      path: service,
      body: { name: 'k', workspace_id: id, scopes: ['logs.view'] },
    });
    assert.deepEqual([answer.status, answer.json().data.errorCode], [409, 'AB07']);
  });
});

describe('the rotation of a key', () => {
  test('gives a new secret, and takes the old one for a while; not twice at once', async (t) => {
    const { tenant, call } = await startAdministration(t, resources);
    const { owner, workspaceId, organisationId } = await tenant('rotate');
    const body = { name: 'k', workspace_id: workspaceId, scopes: ['logs.view'] };
    const { id, key: old } = (await call(owner, { path: service, body })).json();
    const rotate = { method: 'POST', path: `/api-keys/${id}/rotate` };
    const short = await call(owner, { ...rotate, body: { key_transition_period_ms: 1_799_999 } });
    assert.deepEqual([short.status, short.json().errors[0].path], [400, '/key_transition_period_ms']);
    const started = Date.now();
    const rotated = await call(owner, rotate);
    assert.equal(rotated.status, 200, rotated.text);
    const { key: next, key_transition_expires_at: until } = rotated.json();
    assert.notEqual(next, old);
    const stays = Date.parse(until) - started;
    assert.ok(stays >= 1_800_000 && stays < 1_860_000, `${stays} ms`);
    const stored = await resources.read(({ apiKeys }) => apiKeys.find(organisationId, id));
    assert.deepEqual(stored?.secrets, [
      { hash: sha256(next, 'base64'), expiresAt: undefined },
      { hash: sha256(old, 'base64'), expiresAt: Date.parse(until) },
    ]);
    const shown = (await call(owner, { path: `/api-keys/${id}` })).json();
    assert.equal(shown.key_transition_expires_at, until);
    assert.equal(shown.key.slice(-2), next.slice(-2));
    const again = await call(owner, rotate);
    assert.deepEqual([again.status, again.json().data.errorCode], [409, 'AB07']);
  });

  test('that a policy made due answers the new secret once; the old one ends when the rotation said', async (t) => {
    const { tenant, call } = await startAdministration(t, resources);
    const { owner, workspaceId, organisationId } = await tenant('due');
    for (const [name, endsIn, isTaken] of [
      ['soon', 3_600_000, true],
      ['over', -1000, false],
    ] as const) {
      const policy = { rotation_period_days: 7 };
      const body = { name, workspace_id: workspaceId, scopes: ['logs.view'], rotation_policy: policy };
      const { id, key: old } = (await call(owner, { path: service, body })).json();
      const hash = sha256(old, 'base64');
      const ends = Date.now() + endsIn;
      // As the job does when the rotation is due.
      await resources.write(organisationId, async ({ apiKeys }) => {
        const before = await apiKeys.find(organisationId, id);
        assert.ok(before);
        await apiKeys.replace({ ...before, secrets: [{ hash, expiresAt: ends }], version: 2 });
      });
      const shown = (await call(owner, { path: `/api-keys/${id}` })).json();
      const until = new Date(ends).toISOString();
      assert.deepEqual([shown.key_transition_expires_at, shown.status], [until, 'active']);
      const rotate = { method: 'POST', path: `/api-keys/${id}/rotate` };
      const asked = await call(owner, rotate);
      assert.deepEqual([asked.status, asked.json().key_transition_expires_at], [200, until], asked.text);
      const stored = await resources.read(({ apiKeys }) => apiKeys.find(organisationId, id));
      const next = { hash: sha256(asked.json().key, 'base64'), expiresAt: undefined };
      assert.deepEqual(stored?.secrets, isTaken ? [next, { hash, expiresAt: ends }] : [next]);
      const after = (await call(owner, { path: `/api-keys/${id}` })).json();
      assert.deepEqual(after.rotation_policy, shown.rotation_policy, 'it puts no rotation off');
      assert.equal((await call(owner, rotate)).status, isTaken ? 409 : 200);
    }
  });

  test('by hand puts the next one of a policy off', async (t) => {
    const { tenant, call } = await startAdministration(t, resources);
    const { owner, workspaceId } = await tenant('off');
    const next = new Date(Date.now() + 3_600_000).toISOString();
    const policy = { rotation_period_days: 7, next_rotation_at: next };
    const body = { name: 'k', workspace_id: workspaceId, scopes: ['logs.view'], rotation_policy: policy };
    const { id } = (await call(owner, { path: service, body })).json();
    const nextOf = async () =>
      (await call(owner, { path: `/api-keys/${id}` })).json().rotation_policy.next_rotation_at;
    assert.equal(await nextOf(), next);
    await call(owner, { method: 'POST', path: `/api-keys/${id}/rotate` });
    const days = (Date.parse(await nextOf()) - Date.now()) / 86_400_000;
    assert.equal(Math.round(days), 7);
  });

  test('is refused to whoever lacks a scope of the key: its secret would be theirs', async (t) => {
    const { tenant, call } = await startAdministration(t, resources);
    const { owner, key, workspaceId } = await tenant('lend');
    const body = { name: 'k', workspace_id: workspaceId, scopes: ['logs.view', 'prompts.list'] };
    const { id } = (await call(owner, { path: service, body })).json();
    const scopes = ['workspace_service_api_keys.rotate', 'logs.view'];
    const answer = await call(key({ kind: 'workspace-service', scopes }), {
      method: 'POST',
      path: `/api-keys/${id}/rotate`,
      body: {},
    });
    assert.deepEqual(
      [answer.status, answer.json().errors],
      [403, [{ path: '/scopes/1', message: 'your key lacks "prompts.list" and cannot give it' }]],
    );
  });
});

describe('the change of a key', () => {
  test('is refused to callers that lack a scope of the key, and changes nothing', async (t) => {
    const { tenant, call } = await startAdministration(t, resources);
    const { owner, key, workspaceId } = await tenant('touch');
    const given = { name: 'k', workspace_id: workspaceId, scopes: ['logs.view', 'prompts.list'] };
    const { id } = (await call(owner, { path: service, body: given })).json();
    const scopes = ['workspace_service_api_keys.update', 'logs.view'];
    const caller = key({ kind: 'workspace-service', scopes });
    for (const body of [{ name: 'other' }, { scopes: ['logs.view'] }]) {
      const answer = await call(caller, { method: 'PUT', path: `/api-keys/${id}`, body });
      assert.deepEqual(
        [answer.status, answer.json().errors],
        [403, [{ path: '/scopes/1', message: 'your key lacks "prompts.list" and cannot give it' }]],
      );
    }
    const shown = (await call(owner, { path: `/api-keys/${id}` })).json();
    assert.deepEqual([shown.name, shown.scopes], ['k', given.scopes]);
  });
});

describe('who may do what with keys', () => {
  const all = [...knownScopes];
  const cases: readonly [
    name: string,
    key: Partial<KeyRecord>,
    path: string,
    scopes: string[],
    status: number,
  ][] = [
    [
      'an admin key makes admin keys',
      { kind: 'organisation-service' },
      organisation,
      ['audit_logs.list'],
      200,
    ],
    ['and keys that send requests', { kind: 'organisation-service' }, service, ['completions.write'], 200],
    [
      'but not without the scope',
      { kind: 'organisation-service', scopes: ['logs.view'] },
      organisation,
      ['logs.view'],
      403,
    ],
    [
      'nor with more than its own',
      { kind: 'organisation-service', scopes: ['organisation_service_api_keys.create'] },
      organisation,
      ['audit_logs.list'],
      403,
    ],
    [
      'a workspace key makes none',
      { kind: 'workspace-service', scopes: all },
      organisation,
      ['logs.view'],
      403,
    ],
    ['it makes workspace keys', { kind: 'workspace-service' }, service, ['completions.write'], 200],
    [
      'with no more than its own',
      { kind: 'workspace-service', scopes: ['workspace_service_api_keys.create'] },
      service,
      ['completions.write'],
      403,
    ],
    ["a person's key makes none", { kind: 'workspace-user', scopes: all }, user, ['logs.view'], 403],
  ];
  for (const [name, overrides, path, scopes, status] of cases) {
    test(`${name}: ${status}`, async (t) => {
      const { tenant, call } = await startAdministration(t, resources);
      const { key, workspaceId } = await tenant('who');
      const where = path === organisation ? {} : { workspace_id: workspaceId };
      const answer = await call(key(overrides), { path, body: { name: 'k', scopes, ...where } });
      assert.equal(answer.status, status, answer.text);
      if (status === 403) assert.equal(answer.json().data.errorCode, 'AB03');
    });
  }

  test('a list holds the types that the caller may list, of its own workspace, by id and page', async (t) => {
    const { tenant, call } = await startAdministration(t, resources);
    const { owner, key, workspaceId } = await tenant('list');
    const { id: other } = (await call(owner, { path: '/workspaces', body: { name: 'Other' } })).json();
    const scopes = ['logs.view'];
    const ids: Record<string, string> = {};
    const make = async (name: string, path: string, where: object): Promise<void> => {
      ids[name] = (await call(owner, { path, body: { name, scopes, ...where } })).json().id;
    };
    await make('admin', organisation, {});
    await make('service', service, { workspace_id: workspaceId });
    await make('user', user, { workspace_id: workspaceId });
    await make('elsewhere', service, { workspace_id: other });
    const names = async (caller: KeyRecord, query = ''): Promise<unknown> => {
      const answer = await call(caller, { path: `/api-keys${query}` });
      if (answer.status !== 200) return answer.status;
      const { data, total } = answer.json();
      return [total, ...data.map(({ name }: { name: string }) => name)];
    };
    assert.deepEqual(await names(owner), [4, 'admin', 'service', 'user', 'elsewhere']);
    assert.deepEqual(await names(owner, '?page_size=1&current_page=3'), [4, 'elsewhere']);
    assert.deepEqual(await names(owner, `?workspace_id=${other}`), [1, 'elsewhere']);
    assert.deepEqual(await names(owner, `?ids=${ids['user']},${ids['admin']}`), [2, 'admin', 'user']);
    const lists = ['organisation_service_api_keys.list', 'workspace_user_api_keys.list'];
    assert.deepEqual(await names(key({ kind: 'organisation-service', scopes: lists })), [2, 'admin', 'user']);
    const manager = key({ kind: 'workspace-service' });
    assert.deepEqual(await names(manager), [2, 'service', 'user']);
    assert.deepEqual(await names(manager, `?ids=${ids['elsewhere']},${ids['admin']}`), [0]);
    assert.deepEqual(await names(manager, `?workspace_id=${other}`), 404);
    assert.equal((await call(manager, { path: `/api-keys/${ids['elsewhere']}` })).status, 404);
    const half = key({ kind: 'workspace-service', scopes: ['workspace_user_api_keys.read'] });
    assert.equal((await call(half, { path: `/api-keys/${ids['user']}` })).status, 200);
    assert.equal((await call(half, { path: `/api-keys/${ids['service']}` })).status, 403);
  });
});
