import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Ajv2020 } from 'ajv/dist/2020.js';
import formats from 'ajv-formats';
import type { GroupQuery, GroupRow } from '../../../core/ports/analytics.ts';
import { testAnalytics, testRouteInput, testScope } from '../../../tests/kit/plugin-kit.ts';
import { namedGroupRoutes } from './groups.ts';

/** Calls the route of this path; its answer, and what it asked the store. */
async function ask(path: string, rows: readonly GroupRow[], params = {}, query = {}) {
  const asked: GroupQuery[] = [];
  const analytics = testAnalytics({
    groups(one) {
      asked.push(one);
      return Promise.resolve({ total: 7, rows });
    },
  });
  const route = namedGroupRoutes(testScope({ analytics }).scope).find((one) => one.path === path);
  assert.ok(route, path);
  const reply = await route.handle(testRouteInput({ params, query }));
  const validate = formats.default(new Ajv2020()).compile(route.reply);
  assert.ok(validate(reply), JSON.stringify(validate.errors));
  return { reply: reply as { data: object[] }, asked: asked[0] as GroupQuery };
}

for (const [path, by, field] of [
  ['users', 'user', 'user'],
  ['ai-models', 'model', 'ai_model'],
  ['workspaces', 'workspace', 'workspace'],
] as const) {
  test(`groups/${path}: with the cost in dollars`, async () => {
    const rows = [{ value: 'one', requests: 3, columns: { cost: '0.070000000000' } }];
    const { reply, asked } = await ask(`/analytics/groups/${path}`, rows);
    assert.deepEqual([asked.by, asked.columns, asked.limit, asked.offset], [by, ['cost'], 50, 0]);
    assert.deepEqual(reply, {
      object: 'list',
      total: 7,
      data: [{ object: 'analytics-group', [field]: 'one', requests: 3, cost: 0.07 }],
    });
  });
}

test('groups show the columns that are asked for instead of the usual ones', async () => {
  const columns = { p95_latency: 12.5, first_seen: '2026-11-21 08:59:59.001' };
  const rows = [{ value: 'ann', requests: 1, columns }];
  const query = { columns: 'p95_latency, first_seen,requests' };
  const { reply, asked } = await ask('/analytics/groups/users', rows, {}, query);
  assert.deepEqual(asked.columns, ['p95_latency', 'first_seen']);
  assert.deepEqual(reply.data, [
    {
      object: 'analytics-group',
      user: 'ann',
      requests: 1,
      p95_latency: 12.5,
      first_seen: '2026-11-21T08:59:59.001Z',
    },
  ]);
  await assert.rejects(ask('/analytics/groups/users', rows, {}, { columns: 'p95_latencyy' }), {
    code: 'invalid_request',
    message: /Did you mean "p95_latency"/,
  });
});

test('groups are ordered by the figure that is asked for, the most requests by default', async () => {
  const orderOf = async (query: object) => {
    const { asked } = await ask('/analytics/groups/users', [], {}, query);
    return [asked.orderBy, asked.ascending, asked.columns];
  };
  assert.deepEqual(await orderOf({}), ['requests', false, ['cost']]);
  assert.deepEqual(await orderOf({ order_by: 'p95_latency' }), ['p95_latency', false, ['cost']]);
  assert.deepEqual(await orderOf({ order_by: 'cost', order: 'asc' }), ['cost', true, ['cost']]);
  const [{ query } = {}] = namedGroupRoutes(testScope({}).scope);
  assert.ok(query);
  const validate = formats.default(new Ajv2020()).compile(query);
  for (const bad of [{ order_by: 'user' }, { order_by: 'avg_weighted_feedback' }, { order: 'up' }])
    assert.ok(!validate(bad), JSON.stringify(bad));
  assert.ok(validate({ order_by: 'error_count', order: 'desc' }));
});

test('groups/metadata/{metadataKey}: everything that is known of its values', async () => {
  const columns = {
    cost: '1.5',
    avg_tokens: 2.5,
    avg_weighted_feedback: null,
    requests_with_feedback: '0',
    last_seen: '2026-11-21 08:59:59.001',
  };
  const query = { page_size: 2, current_page: 3, virtual_keys: 'a' };
  const { reply, asked } = await ask(
    '/analytics/groups/metadata/{metadataKey}',
    [{ value: 'ann', requests: 1, columns }],
    { metadataKey: '_user' },
    query,
  );
  assert.deepEqual(asked.by, { metadata: '_user' });
  assert.deepEqual([asked.limit, asked.offset, asked.filter], [2, 6, { virtualKeys: ['a'] }]);
  assert.deepEqual(reply.data, [
    {
      object: 'analytics-group',
      metadata_value: 'ann',
      requests: 1,
      cost: 1.5,
      avg_tokens: 2.5,
      avg_weighted_feedback: null,
      requests_with_feedback: 0,
      last_seen: '2026-11-21T08:59:59.001Z',
    },
  ]);
});
