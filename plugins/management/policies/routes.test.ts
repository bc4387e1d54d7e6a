import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { KeyRecord } from '../../../core/ports/directory.ts';
import {
  openResourcesOfFile,
  startAdministration,
  type Administration,
  type TestTenant,
} from '../../../tests/kit/administration-kit.ts';
import { readFeatures } from '../../../core/access/features.ts';

const resources = await openResourcesOfFile();

const rates = '/policies/rate-limits';
const usages = '/policies/usage-limits';
const conditions = [{ key: 'workspace_id', value: '*' }];
const group_by = [{ key: 'api_key' }];
const rate = { conditions, group_by, type: 'requests', unit: 'rpm', value: 100 };
const usage = { conditions, group_by, type: 'cost', credit_limit: 50 };

async function made(
  { call }: Administration,
  key: KeyRecord,
  path: string,
  body: object,
): Promise<{ id: string; object: string }> {
  const answer = await call(key, { path, body });
  assert.equal(answer.status, 200, answer.text);
  return answer.json();
}

/** A key that the store knows, so that policies can name it. */
async function plantKey(tenant: TestTenant, id: string, userId = ''): Promise<void> {
  const { organisationId, workspaceId } = tenant;
  await resources.write(organisationId, ({ apiKeys }) =>
    apiKeys.insert({
      ...{ id, organisationId, workspaceId, userId, name: `${id} name`, description: '' },
      type: userId === '' ? 'workspace-service' : 'workspace-user',
      ...{ status: 'active', scopes: [], rateLimits: [], usageLimits: undefined, defaults: {} },
      ...{ alertEmails: [], masked: 'wk_…', secrets: [{ hash: `${id}-hash`, expiresAt: undefined }] },
      ...{ creationMode: 'api', expiresAt: undefined, rotation: undefined },
      ...{ createdAt: 1, updatedAt: 1, version: 1 },
    }),
  );
}

async function plantUser({ organisationId }: TestTenant, id: string): Promise<void> {
  await resources.write(organisationId, ({ users }) =>
    users.insert({
      ...{ id, organisationId, email: `${id}@example.com`, firstName: '', lastName: '', role: 'member' },
      ...{ createdAt: 1, updatedAt: 1, version: 1 },
    }),
  );
}

describe('rate-limit policies', () => {
  test('are created, read, listed, changed and archived', async (t) => {
    const administration = await startAdministration(t, resources);
    const { call, tenant } = administration;
    const { owner, workspaceId, organisationId } = await tenant('rates');
    const workspace_id = `ws-rates-default`;
    const { id, object } = await made(administration, owner, rates, { ...rate, name: 'All', workspace_id });
    assert.equal(object, 'policy_rate_limits');
    const path = `${rates}/${id}`;
    const read = (await call(owner, { path })).json();
    const { created_at, last_updated_at, ...rest } = read;
    assert.deepEqual(rest, {
      ...{ id, name: 'All', ...rate, target: 'llm', status: 'active', managed_by: 'api', object },
      ...{ workspace_id: workspaceId, organisation_id: organisationId },
    });
    assert.equal(new Date(created_at).toISOString(), last_updated_at);

    const changed = await call(owner, { method: 'PUT', path, body: { unit: 'rph', value: 5 } });
    assert.deepEqual(
      [changed.json().unit, changed.json().value, changed.json().name, changed.headers['etag']],
      ['rph', 5, 'All', '"2"'],
    );
    const list = async (query: string) => (await call(owner, { path: `${rates}?${query}` })).json();
    assert.equal((await list('unit=rph&type=requests')).total, 1);
    assert.equal((await list('unit=rpm')).total, 0);
    assert.equal((await list(`workspace_id=${workspaceId}`)).data[0].id, id);

    assert.deepEqual((await call(owner, { method: 'DELETE', path })).json(), {});
    assert.equal((await call(owner, { method: 'DELETE', path })).status, 200);
    assert.equal((await list('')).total, 0);
    assert.equal((await list('status=archived')).data[0].status, 'archived');
    assert.equal((await call(owner, { path: `${path}?status=active` })).status, 404);
    assert.equal((await call(owner, { path: `${path}?status=archived` })).status, 200);
    const late = await call(owner, { method: 'PUT', path, body: { value: 1 } });
    assert.deepEqual([late.status, late.json().data.errorCode], [409, 'AB07']);
    const { data: trail } = await resources.read(({ audit }) =>
      audit.list(organisationId, { resourceType: 'rate_limit_policies' }, { offset: 0, limit: 10 }),
    );
    assert.deepEqual(
      trail.map(({ action, resourceId, workspaceId: place }) => [action, resourceId, place]),
      ['delete', 'delete', 'update', 'create'].map((action) => [action, id, workspaceId]),
    );
  });

  test('are named by what they say when nobody names them', async (t) => {
    const administration = await startAdministration(t, resources);
    const { owner } = await administration.tenant('named');
    const { id } = await made(administration, owner, rates, { ...rate, type: 'tokens', unit: 'rpd' });
    const { name, workspace_id } = (await administration.call(owner, { path: `${rates}/${id}` })).json();
    assert.deepEqual([name, workspace_id], ['100 tokens per day', null]);
  });

  const refusals: [string, object, string, RegExp][] = [
    ['no condition', { conditions: [] }, '/conditions', /a list of 1 to/],
    ['no group', { group_by: [] }, '/group_by', /a list of 1 to/],
    [
      'an unknown key',
      { conditions: [{ key: 'modle', value: 'x' }] },
      '/conditions/0/key',
      /did you mean \\"model\\"/,
    ],
    ['metadata without a name', { group_by: [{ key: 'metadata.' }] }, '/group_by/0/key', /metadata\.<name>/],
    ['a group twice', { group_by: [...group_by, ...group_by] }, '/group_by/1/key', /twice/],
    ['another unit', { unit: 'rps' }, '/unit', /rpm/],
    ['another type', { type: 'cost' }, '/type', /requests/],
    ['a long name', { name: 'x'.repeat(256) }, '/name', /255/],
    ['a negative value', { value: -1 }, '/value', /0/],
    ['something unknown', { colour: 'red' }, '/colour', /colour/],
    ['another target', { target: 'mcp' }, '/target', /mcp_tools/],
    [
      'a key of calls of tools',
      { conditions: [{ key: 'mcp_tool', value: 'x' }] },
      '/conditions/0/key',
      /only rules of policies with the target \\"mcp_tools\\"/,
    ],
    ['a strange workspace', { workspace_id: 'ws-elsewhere' }, '/workspace_id', /no such workspace/],
    ['a strange organisation', { organisation_id: 'other' }, '/organisation_id', /not your organisation/],
    [
      'a key that is not there',
      { conditions: [{ key: 'api_key', value: 'k' }] },
      '/conditions/0/value',
      /no such key/,
    ],
    [
      'a workspace that is not there',
      { conditions: [{ key: 'workspace_id', value: 'w' }] },
      '/conditions/0/value',
      /no such workspace/,
    ],
    [
      'a config that is not there',
      { conditions: [{ key: 'config', value: 'pc-x' }] },
      '/conditions/0/value',
      /no such config/,
    ],
    [
      'a prompt that is not there',
      { conditions: [{ key: 'prompt', value: 'pp' }] },
      '/conditions/0/value',
      /no such prompt/,
    ],
    [
      'another organisation',
      { conditions: [{ key: 'organisation_id', value: 'o' }] },
      '/conditions/0/value',
      /no such organisation/,
    ],
  ];
  test('are refused with the place of what is wrong', async (t) => {
    const { call, tenant } = await startAdministration(t, resources);
    const { owner } = await tenant('wrong');
    for (const [what, change, param, message] of refusals) {
      const answer = await call(owner, { path: rates, body: { ...rate, ...change } });
      assert.equal(answer.status, 400, `${what}: ${answer.text}`);
      assert.match(answer.text, message, what);
      assert.ok(answer.text.includes(param), `${what}: ${answer.text}`);
    }
  });

  test('keep names as requests are told by them', async (t) => {
    const administration = await startAdministration(t, resources);
    const tenant = await administration.tenant('names');
    const { owner, workspaceId, organisationId } = tenant;
    await plantKey(tenant, 'names-key');
    const named = [
      { key: 'workspace_id', value: 'ws-names-default' },
      { key: 'organisation_id', value: organisationId },
      { key: 'api_key', value: 'names-key' },
      { key: 'config', value: 'main' },
      { key: 'provider', value: '@openai' },
      { key: 'model', value: 'gpt-4*' },
      { key: 'metadata.team', value: 'red' },
    ];
    const { id } = await made(administration, owner, rates, {
      ...rate,
      conditions: named,
      workspace_id: workspaceId,
    });
    const { conditions: kept } = (await administration.call(owner, { path: `${rates}/${id}` })).json();
    assert.deepEqual(
      kept.map(({ value }: { value: string }) => value),
      [workspaceId, organisationId, 'names-key', 'main', 'openai', 'gpt-4*', 'red'],
    );
  });

  test('of a token say where they belong', async (t) => {
    const { call, tenant } = await startAdministration(t, resources);
    const { key, organisationId, workspaceId } = await tenant('token');
    const token = key({ kind: 'workspace-user', isToken: true, userId: 'ann' });
    assert.match((await call(token, { path: rates, body: rate })).text, /workspace_id.*where a token/);
    const without = { ...rate, workspace_id: workspaceId };
    assert.match((await call(token, { path: rates, body: without })).text, /organisation_id.*where a token/);
    const whole = { ...without, organisation_id: organisationId };
    assert.equal((await call(token, { path: rates, body: whole })).status, 200);
  });

  test('of the organisation are seen and not changed by keys of workspaces', async (t) => {
    const administration = await startAdministration(t, resources);
    const { call, tenant } = administration;
    const { owner, key } = await tenant('above');
    const service = key({ kind: 'workspace-service' });
    const { id } = await made(administration, owner, rates, rate);
    const path = `${rates}/${id}`;
    assert.equal((await call(service, { path })).status, 200);
    for (const method of ['PUT', 'DELETE']) {
      const body = method === 'PUT' ? { value: 1 } : undefined;
      assert.equal((await call(service, { method, path, body })).status, 403);
    }
    const stranger = key({ kind: 'workspace-service', workspaceId: 'elsewhere' });
    const own = await made(administration, service, rates, rate);
    assert.equal((await call(stranger, { path: `${rates}/${own.id}` })).status, 404);
    assert.equal((await call(stranger, { path: rates })).json().total, 0);
  });

  test('keep lists of values and exclusions, and look up the names in them', async (t) => {
    const administration = await startAdministration(t, resources);
    const { call, tenant } = administration;
    const place = await tenant('lists');
    await plantKey(place, 'lists-a');
    const conditions = [
      { key: 'api_key', value: ['lists-a', '*'], excludes: 'lists-a' },
      { key: 'endpoint_type', value: ['chat.completions', 'audio*'] },
    ];
    const { id } = await made(administration, place.owner, rates, { ...rate, unit: 'rpw', conditions });
    const read = (await call(place.owner, { path: `${rates}/${id}` })).json();
    assert.deepEqual([read.conditions, read.unit], [conditions, 'rpw']);
    const wrong = [
      { key: 'api_key', value: '*', excludes: ['lists-a', 'nobody'] },
      { key: 'endpoint_type', value: 'chat.completion' },
      { key: 'model', value: [] },
    ];
    const answer = async (condition: object) => {
      const { text, status } = await call(place.owner, {
        path: rates,
        body: { ...rate, conditions: [condition] },
      });
      assert.equal(status, 400);
      return text;
    };
    assert.match(await answer(wrong[0] as object), /conditions.0.excludes.1.*nobody/);
    assert.match(await answer(wrong[1] as object), /conditions.0.value.*did you mean .*chat\.completions/);
    assert.match(await answer(wrong[2] as object), /conditions.0.value.*a list of 1 to 100/);
  });

  test('are refused while policies are switched off', async (t) => {
    const features = readFeatures({ POLICY_ENABLED: 'OFF' });
    const { call, tenant } = await startAdministration(t, resources, { features });
    const { owner } = await tenant('off');
    const answer = await call(owner, { path: rates, body: rate });
    assert.equal(answer.status, 403);
    assert.match(answer.text, /POLICY_ENABLED/);
  });
});

describe('usage-limit policies', () => {
  test('are created, changed and archived', async (t) => {
    const administration = await startAdministration(t, resources);
    const { call, tenant } = administration;
    const { owner } = await tenant('usage');
    const body = { ...usage, alert_threshold: 40, periodic_reset: 'monthly' };
    const { id, object } = await made(administration, owner, usages, body);
    assert.equal(object, 'policy_usage_limits');
    const path = `${usages}/${id}`;
    const { next_reset_at: end, next_usage_reset_at: given } = (await call(owner, { path })).json();
    assert.match(end, /-01T00:00:00\.000Z$/, 'the beginning of a month');
    assert.equal(given, null);
    const change = { credit_limit: 60, alert_threshold: null, periodic_reset_days: 10 };
    const changed = (await call(owner, { method: 'PUT', path, body: change })).json();
    assert.deepEqual(
      [changed.credit_limit, changed.alert_threshold, changed.periodic_reset, changed.periodic_reset_days],
      [60, null, null, 10],
    );
    const read = (await call(owner, { path: `${path}?include_usage=true` })).json();
    assert.deepEqual(read, { ...changed, value_key_usage_map: {} });
    assert.equal((await call(owner, { path: `${usages}?type=tokens` })).json().total, 0);
    assert.equal((await call(owner, { method: 'DELETE', path })).status, 200);
    assert.equal((await call(owner, { path: usages })).json().total, 0);
  });

  const refusals: [object, RegExp][] = [
    [{ alert_threshold: 50 }, /alert_threshold must be below credit_limit/],
    [{ periodic_reset: 'monthly', periodic_reset_days: 3 }, /periodic_reset_days/],
    [{ periodic_reset_days: 366 }, /periodic_reset_days/],
    [{ type: 'users' }, /type/],
    [{ credit_limit: -1 }, /credit_limit/],
  ];
  test('are refused with what is wrong', async (t) => {
    const { call, tenant } = await startAdministration(t, resources);
    const { owner } = await tenant('wrong-usage');
    for (const [change, message] of refusals) {
      const answer = await call(owner, { path: usages, body: { ...usage, ...change } });
      assert.equal(answer.status, 400, answer.text);
      assert.match(answer.text, message);
    }
  });
});

describe('policies for calls of tools', () => {
  const tools = {
    target: 'mcp_tools',
    conditions: [
      { key: 'mcp_server', value: ['tickets', 'wiki-*'] },
      { key: 'mcp_tool', value: '*', excludes: 'find' },
    ],
    group_by: [{ key: 'mcp_server' }, { key: 'metadata._user' }],
    type: 'requests',
  };
  const bodies: [string, object, string][] = [
    [rates, { ...tools, unit: 'rpm', value: 3 }, '3 tool calls per minute'],
    [usages, { ...tools, credit_limit: 7 }, '7 tool calls'],
  ];

  for (const [path, body, named] of bodies)
    test(`are saved, read and listed, and keep their target (${path})`, async (t) => {
      const administration = await startAdministration(t, resources);
      const { call, tenant } = administration;
      const { owner } = await tenant(`tools${path.length}`);
      const { id } = await made(administration, owner, path, body);
      const other = path === rates ? rate : usage;
      await made(administration, owner, path, other);
      const read = (await call(owner, { path: `${path}/${id}` })).json();
      const { target, conditions, group_by, type, name } = read;
      assert.deepEqual({ target, conditions, group_by, type }, tools);
      assert.equal(name, named);
      const listed = async (query: string) =>
        (await call(owner, { path: `${path}?${query}` }))
          .json()
          .data.map((one: { target: string }) => one.target) as string[];
      assert.deepEqual(await listed('target=mcp_tools'), ['mcp_tools']);
      assert.deepEqual(await listed('target=llm'), ['llm']);

      const changed = await call(owner, { method: 'PUT', path: `${path}/${id}`, body: { name: 'Other' } });
      assert.deepEqual([changed.status, changed.json().target], [200, 'mcp_tools'], changed.text);
      const put = (change: object) => call(owner, { method: 'PUT', path: `${path}/${id}`, body: change });
      for (const wanted of ['llm', 'mcp_tools']) {
        const refused = await put({ target: wanted });
        assert.equal(refused.status, 400);
        assert.match(refused.text, /target/);
      }
      const model = await put({ group_by: [{ key: 'model' }] });
      assert.equal(model.status, 400);
      assert.match(model.text, /only rules of policies with the target \\"llm\\"/);
      assert.equal((await put({ group_by: [{ key: 'mcp_tool' }] })).status, 200);
    });

  test('count requests: tokens and dollars are refused, with the reason', async (t) => {
    const { call, tenant } = await startAdministration(t, resources);
    const { owner } = await tenant('tool-types');
    const refused: [string, object][] = [
      [rates, { ...tools, type: 'tokens', unit: 'rpm', value: 3 }],
      [usages, { ...tools, type: 'tokens', credit_limit: 7 }],
      [usages, { ...tools, type: 'cost', credit_limit: 7 }],
    ];
    for (const [path, body] of refused) {
      const answer = await call(owner, { path, body });
      assert.equal(answer.status, 400);
      assert.match(answer.text, /\/type.*neither tokens nor a cost.*write \\"requests\\"/);
    }
  });

  test('name servers of the store by their slugs, and keep the names of others', async (t) => {
    const administration = await startAdministration(t, resources);
    const place = await administration.tenant('tool-names');
    const { owner, workspaceId } = place;
    const integration = { name: 'Tickets', slug: 'tool-tickets', url: 'https://tickets.example.com/mcp' };
    const own = { ...integration, transport: 'http', auth_type: 'none', workspace_id: workspaceId };
    await made(administration, owner, '/mcp-integrations', own);
    const server = { name: 'Tickets', slug: 'tool-tickets', mcp_integration_id: 'tool-tickets' };
    const { id: serverId } = await made(administration, owner, '/mcp-servers', {
      ...server,
      workspace_id: workspaceId,
    });
    const conditions = [{ key: 'mcp_server', value: [serverId, 'of-the-file'] }];
    const body = { ...tools, conditions, unit: 'rpm', value: 3, workspace_id: workspaceId };
    const { id } = await made(administration, owner, rates, body);
    const read = (await administration.call(owner, { path: `${rates}/${id}` })).json();
    assert.deepEqual(read.conditions[0].value, ['tool-tickets', 'of-the-file']);
  });
});

describe('entities of a policy', () => {
  test('are the keys, workspaces and users that it touches', async (t) => {
    const administration = await startAdministration(t, resources);
    const { call, tenant } = administration;
    const place = await tenant('touched');
    const { owner, workspaceId } = place;
    await plantUser(place, 'touched-user');
    await plantKey(place, 'touched-service');
    await plantKey(place, 'touched-person', 'touched-user');
    const list = async (body: object, query = '') => {
      const { id } = await made(administration, owner, usages, body);
      const { total, data } = (await call(owner, { path: `${usages}/${id}/entities?${query}` })).json();
      assert.equal(typeof total, 'number');
      return data.map((one: { type: string; id: string }) => `${one.type} ${one.id}`) as string[];
    };
    assert.deepEqual((await list(usage)).sort(), [
      'api_key touched-person',
      'api_key touched-service',
      'user touched-user',
      `workspace ${workspaceId}`,
    ]);
    const person = { ...usage, conditions: [{ key: 'api_key', value: 'touched-person' }] };
    assert.deepEqual(await list(person), [
      'api_key touched-person',
      `workspace ${workspaceId}`,
      'user touched-user',
    ]);
    const service = { ...usage, conditions: [{ key: 'api_key', value: 'touched-service' }] };
    assert.deepEqual(await list(service, 'type=user'), []);
    assert.deepEqual(await list({ ...usage, workspace_id: workspaceId }, 'type=workspace'), [
      `workspace ${workspaceId}`,
    ]);
    assert.deepEqual(await list(person, 'page_size=1&current_page=1'), [`workspace ${workspaceId}`]);
    assert.deepEqual(await list(usage, 'status=exhausted'), []);
    assert.deepEqual((await list(usage, 'search=TOUCHED-s')).sort(), ['api_key touched-service']);
    assert.deepEqual(await list(usage, 'search=metadata._user:&status=active'), ['user touched-user']);
  });

  test('are reset where the policy touches them', async (t) => {
    const administration = await startAdministration(t, resources);
    const place = await administration.tenant('reset');
    const { owner, organisationId } = place;
    await plantKey(place, 'reset-key');
    const { id } = await made(administration, owner, usages, usage);
    const reset = (entity: string) =>
      administration.call(owner, { method: 'PUT', path: `${usages}/${id}/entities/${entity}/reset` });
    assert.deepEqual((await reset('reset-key')).json(), {});
    assert.equal((await reset('nobody')).status, 404);
    const page = { offset: 0, limit: 10 };
    const { total } = await resources.read(({ audit }) =>
      audit.list(organisationId, { action: 'reset' }, page),
    );
    assert.equal(total, 1);
  });
});
