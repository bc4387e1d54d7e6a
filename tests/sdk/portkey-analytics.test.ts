// Analytics as users of the `portkey-ai` client read them: with only the base URL changed.
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { Portkey } from 'portkey-ai';
import type { GroupQuery, RequestSeriesQuery } from '../../core/ports/analytics.ts';
import { startAdministration } from '../kit/administration-kit.ts';
import { testKey } from '../kit/plugin-kit.ts';
import { failureOf } from './sdk-setting.ts';

const at = Date.parse('2026-11-20T09:00:00Z');
const window = {
  time_of_generation_min: '2026-11-20T00:00:00Z',
  time_of_generation_max: '2026-11-21T00:00:00Z',
};

/** A client with the key of a workspace, and what it makes the gateway ask the store. */
async function clientOf(t: TestContext) {
  const series: RequestSeriesQuery[] = [];
  const groups: GroupQuery[] = [];
  const values = { requests: 3, cost: '0.05', errors: 1 };
  const { gateway, call } = await startAdministration(t, undefined, {
    directory: { workspaceId: (_, named) => (named === 'ws-shared' ? 'ws-1' : undefined) },
    analytics: {
      series(query) {
        series.push(query);
        const split = query.split === undefined ? undefined : '1';
        return Promise.resolve({ totals: [{ split, values }], points: [{ at, split, values }] });
      },
      groups(query) {
        groups.push(query);
        const known = new Map<string, string | number>([
          ['requests_with_feedback', 0],
          ['last_seen', '2026-11-20 09:00:00.000'],
        ]);
        const columns = Object.fromEntries(query.columns.map((name) => [name, known.get(name) ?? '0.05']));
        return Promise.resolve({
          total: 1,
          rows: [{ value: 'one', requests: 3, columns }],
        });
      },
    },
  });
  const key = testKey({ kind: 'workspace-service' });
  // The key is known to the gateway from its first call on.
  await call(key, { path: '/analytics/summary/cache' });
  series.length = 0;
  const portkey = new Portkey({ apiKey: `wk_${key.id}`, baseURL: `${gateway.url}/v1` });
  return { analytics: portkey.analytics, series, groups };
}

/** An answer, as far as these tests look into it. */
interface Answer {
  readonly object?: string;
  readonly summary?: { readonly total_requests?: number };
  readonly data_points?: unknown;
  readonly data?: unknown;
}

test('every graph', async (t) => {
  const { analytics } = await clientOf(t);
  const names = Object.getOwnPropertyNames(Object.getPrototypeOf(analytics.graphs)).filter(
    (name) => name !== 'constructor',
  );
  assert.equal(names.length, 17);
  for (const name of names) {
    const graph = analytics.graphs[name as 'requests'].bind(analytics.graphs);
    const answer = (await graph(window)) as Answer;
    assert.equal(answer.object, 'analytics-graph', name);
    assert.ok(Array.isArray(answer.data_points), name);
  }
});

test('a graph with every filter', async (t) => {
  const { analytics, series } = await clientOf(t);
  const query = {
    ...window,
    total_units_min: 1,
    total_units_max: 9,
    cost_min: 1,
    cost_max: 250,
    prompt_token_min: 0,
    prompt_token_max: 9,
    completion_token_min: 0,
    completion_token_max: 9,
    status_code: '200,429',
    weighted_feedback_min: -10,
    weighted_feedback_max: 10,
    virtual_keys: 'a,b',
    configs: 'pc-1',
    workspace_slug: 'ws-shared',
    api_key_ids: 'k',
    ai_org_model: 'openai__gpt-5',
    metadata: '{"_user":"ann"}',
    cache_status: 'HIT',
  };
  const answer = (await analytics.graphs.cost(query)) as Answer;
  assert.deepEqual(answer.summary, { total: 0.05, avg: 0.0166666666666667 });
  assert.deepEqual(answer.data_points, [
    { timestamp: new Date(at).toISOString(), total: 0.05, avg: 0.0166666666666667 },
  ]);
  assert.deepEqual(series[0]?.visibility, { organisationId: 'org-1', workspaceId: 'ws-1', asker: 'key-1' });
  assert.deepEqual(series[0]?.filter?.cost, { min: 0.01, max: 2.5 });
  assert.equal(Object.keys(series[0]?.filter ?? {}).length, 12);
});

test('groups and the summary', async (t) => {
  const { analytics, groups } = await clientOf(t);
  const page = { ...window, page_size: 10, current_page: 0 };
  const users = (await analytics.groups.users(page)) as Answer;
  assert.deepEqual(users.data, [{ object: 'analytics-group', user: 'one', requests: 3, cost: 0.05 }]);
  await analytics.groups.aiModels(page);
  await analytics.groups.workspaces(page);
  await analytics.groups.metadata('team', page);
  const columns = { columns: 'requests,cost', include_total: true };
  const models = (await analytics.groups.groupedData('model', { ...page, ...columns })) as Answer;
  assert.deepEqual(models.data, [{ model: 'one', requests: 3, cost: 0.05 }]);
  assert.deepEqual(
    groups.map(({ by }) => by),
    ['user', 'model', 'workspace', { metadata: 'team' }, 'model'],
  );
  const { summary } = (await analytics.summary.cache(window)) as Answer;
  assert.equal(summary?.total_requests, 3);
});

test('what is wrong with a filter', async (t) => {
  const { analytics } = await clientOf(t);
  const wrong = await failureOf(analytics.graphs.requests({ ...window, status_code: '2xx' }));
  assert.equal(Reflect.get(wrong, 'status'), 400);
  assert.match(wrong.message, /2xx.* is no status code; write numbers like 200,429/);
});
