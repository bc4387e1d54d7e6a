// Every analytics route over HTTP, in front of the real embedded engine with a handful of known rows.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, test, type TestContext } from 'node:test';
import type { FeedbackRow, RequestRow } from '../../core/ports/request-row.ts';
import { chdbMissing } from '../../storage/embedded/chdb-fixture.ts';
import { dayStart, ndjson, requestRow, storedTime } from '../conformance/analytics-rows.ts';
import { startAdministration } from '../kit/administration-kit.ts';
import { openAnalyticsOfFile } from '../kit/embedded-analytics.ts';
import { testKey } from '../kit/plugin-kit.ts';

const hour = 3_600_000;
const organisationId = randomUUID();
const at = (hours: number, minutes = 0) => storedTime(dayStart + hours * hour + minutes * 60_000);
const iso = (hours: number) => new Date(dayStart + hours * hour).toISOString();

const shared = {
  organisation_id: organisationId,
  workspace_id: 'alpha',
  api_key_id: 'k1',
  user_id: '',
  metadata: {},
  option: '',
  tries: '',
  retries: 0,
  trace_id: '',
};
const failed = { is_success: false, cost: '0', total_tokens: 0, prompt_tokens: 0, completion_tokens: 0 };
const hit = { cost: '0', total_tokens: 0, prompt_tokens: 0, completion_tokens: 0 };

/** Two failures, two answers from the cache and three others, in the first and the third hour of the day. */
const requests: readonly RequestRow[] = [
  requestRow({
    ...shared,
    created_at: at(0),
    model: 'gpt',
    cost: '0.010000000001',
    latency_ms: 100,
    cache_status: 'MISS',
    metadata: { _user: 'ann', team: 'search' },
    trace_id: 't1',
  }),
  requestRow({
    ...shared,
    ...hit,
    created_at: at(0, 10),
    model: 'gpt',
    latency_ms: 10,
    cache_status: 'HIT',
    trace_id: 't2',
    metadata: { _user: 'ann', team: 'search' },
  }),
  requestRow({
    ...shared,
    ...failed,
    created_at: at(0, 20),
    model: 'gpt',
    status: 429,
    outcome: 'refused',
    latency_ms: 20,
  }),
  requestRow({
    ...shared,
    created_at: at(2),
    model: 'claude',
    ai_service: 'anthropic',
    cost: '0.03',
    latency_ms: 300,
    retries: 2,
    user_id: 'bob',
    workspace_id: 'beta',
    virtual_key: 'vk',
    trace_id: 't3',
    metadata: { team: 'shop' },
  }),
  requestRow({
    ...shared,
    ...hit,
    created_at: at(2, 1),
    model: 'claude',
    latency_ms: 30,
    cache_status: 'SEMANTIC HIT',
    user_id: 'bob',
  }),
  requestRow({
    ...shared,
    ...failed,
    created_at: at(2, 2),
    model: 'claude',
    status: 502,
    outcome: 'failed',
    latency_ms: 40,
  }),
  requestRow({
    ...shared,
    created_at: at(2, 3),
    model: 'gpt',
    cost: '0.02',
    latency_ms: 200,
    option: 'config.targets[1]',
    tries: JSON.stringify([
      { option: 'config.targets[0]', status: 500, start_ms: 0, end_ms: 1 },
      { option: 'config.targets[1]', status: 200, start_ms: 1, end_ms: 2 },
    ]),
  }),
];

function feedback(trace_id: string, hours: number, value: number, weight: number): FeedbackRow {
  const id = randomUUID();
  return {
    id,
    feedback_id: id,
    created_at: at(hours),
    revision: 1,
    organisation_id: organisationId,
    workspace_id: 'alpha',
    api_key_id: 'k1',
    user_id: '',
    trace_id,
    value,
    weight,
    metadata: '{}',
  };
}

/** Calls of tools on the next day. */
const calls: readonly RequestRow[] = [
  ['tickets', 'find', true],
  ['tickets', 'find', false],
  ['wiki', 'find', true],
].map(([mcp_server, mcp_tool, is_success], index) =>
  requestRow({
    ...shared,
    ...hit,
    created_at: at(30, index),
    endpoint: 'mcp.tools.call',
    ai_service: 'mcp',
    model: '',
    latency_ms: 100,
    mcp_server: String(mcp_server),
    mcp_tool: String(mcp_tool),
    trace_id: `call-${index}`,
    is_success: is_success === true,
  }),
);

const analytics = await openAnalyticsOfFile();
await analytics.insert('requests', ndjson(calls), randomUUID());
const others = requests.map((row) => ({ ...row, id: randomUUID(), organisation_id: randomUUID() }));
await analytics.insert('requests', ndjson([...requests, ...others]), randomUUID());
const given = [feedback('t1', 0, 5, 1), feedback('t1', 2, -5, 0.5), feedback('t2', 2, 5, 1)];
given.push(feedback('call-1', 31, -5, 1));
await analytics.insert('feedback', ndjson(given), randomUUID());

const owner = testKey({ kind: 'owner', organisationId });
const window = { time_of_generation_min: iso(0), time_of_generation_max: iso(3) };

/** Asks as the owner of the organisation. */
async function ask(t: TestContext, path: string, query: Record<string, string> = {}) {
  const workspaceId = (organisation: string, named: string) =>
    organisation === organisationId && ['alpha', 'beta'].includes(named) ? named : undefined;
  const { call } = await startAdministration(t, undefined, {
    analytics,
    directory: { workspaceId },
  });
  const text = String(new URLSearchParams({ ...window, ...query }));
  const answer = await call(owner, { path: `/analytics/${path}?${text}` });
  return { status: answer.status, text: answer.text, json: answer.json() as Record<string, unknown> };
}

test(
  'GET /feedback lists what was given, by value and page, for keys that may read it',
  { skip: chdbMissing },
  async (t) => {
    const { call } = await startAdministration(t, undefined, { analytics });
    const list = async (query: Record<string, string>, key = owner) => {
      const text = String(new URLSearchParams({ ...window, ...query }));
      const answer = await call(key, { path: `/feedback?${text}` });
      if (answer.status !== 200) return [answer.status];
      const { total, data } = answer.json() as { total: number; data: { trace_id: string; value: number }[] };
      return [answer.status, total, data.map(({ trace_id: trace, value }) => `${trace} ${value}`).sort()];
    };
    assert.deepEqual(await list({}), [200, 3, ['t1 -5', 't1 5', 't2 5']]);
    assert.deepEqual(await list({ value_max: '-1' }), [200, 1, ['t1 -5']]);
    assert.deepEqual(await list({ trace_id: 't2' }), [200, 1, ['t2 5']]);
    assert.deepEqual(await list({ page_size: '2', current_page: '1' }), [200, 3, ['t1 5']]);
    assert.equal((await list({ page_size: '101' }))[0], 400);
    const writer = testKey({ kind: 'workspace-service', organisationId, scopes: ['feedbacks.write'] });
    assert.equal((await list({}, writer))[0], 403);
  },
);

describe('graphs', { skip: chdbMissing }, () => {
  const none = { timestamp: iso(1) };
  const cases: [path: string, summary: object, points: [first: object, empty: object, third: object]][] = [
    ['requests', { total: 7 }, [{ total: 3 }, { total: 0 }, { total: 4 }]],
    [
      'cost',
      { total: 0.060000000001, avg: 0.00857142857157143 },
      [
        { total: 0.010000000001, avg: 0.00333333333366667 },
        { total: 0, avg: null },
        { total: 0.05, avg: 0.0125 },
      ],
    ],
    [
      'tokens',
      { total: 90, avg: 12.8571428571429 },
      [
        { total: 30, avg: 10 },
        { total: 0, avg: null },
        { total: 60, avg: 15 },
      ],
    ],
    ['users', { total: 2 }, [{ total: 1 }, { total: 0 }, { total: 1 }]],
    [
      'users/requests',
      { total: 7, unique: 2, avg: 3.5 },
      [
        { total: 3, unique: 1, avg: 3 },
        { total: 0, unique: 0, avg: null },
        { total: 4, unique: 1, avg: 4 },
      ],
    ],
    ['errors', { total: 2 }, [{ total: 1 }, { total: 0 }, { total: 1 }]],
    ['errors/rate', { rate: 28.5714285714286 }, [{ rate: 33.3333333333333 }, { rate: null }, { rate: 25 }]],
    [
      'errors/stacks',
      { total: 2 },
      [
        { stats: [{ response_status_code: 429, count: 1 }] },
        { stats: [] },
        { stats: [{ response_status_code: 502, count: 1 }] },
      ],
    ],
    [
      'requests/rescued',
      { retry: 1, fallback: 1 },
      [
        { retry: [], fallback: 0 },
        { retry: [], fallback: 0 },
        { retry: [{ retry_success_count: 2, count: 1 }], fallback: 1 },
      ],
    ],
    ['cache/latency', { avg: 20 }, [{ avg: 10 }, { avg: null }, { avg: 30 }]],
    ['feedbacks', { total: 3 }, [{ total: 1 }, { total: 0 }, { total: 2 }]],
    [
      'feedbacks/weighted',
      { avg: 3 },
      // (-5 × 0.5 + 5 × 1) / 1.5
      [{ avg: 5 }, { avg: null }, { avg: 2.5 / 1.5 }],
    ],
  ];
  for (const [path, summary, [first, empty, third]] of cases) {
    test(path, async (t) => {
      const { status, text, json } = await ask(t, `graphs/${path}`, { granularity: 'hour' });
      assert.equal(status, 200, text);
      const data_points = [
        { timestamp: iso(0), ...first },
        { ...none, ...empty },
        { timestamp: iso(2), ...third },
      ];
      assert.deepEqual(json, { object: 'analytics-graph', summary, data_points });
    });
  }

  test('the overview says what the single graphs say', async (t) => {
    type Point = Readonly<Record<string, unknown>>;
    const read = async (path: string) => {
      const { json } = await ask(t, `graphs/${path}`, { granularity: 'hour' });
      return json as { readonly summary: Point; readonly data_points: readonly Point[] };
    };
    const all = await read('overview');
    const [requests, errors, tokens] = [await read('requests'), await read('errors'), await read('tokens')];
    const [cost, latency, cache] = [await read('cost'), await read('latency'), await read('cache/hit-rate')];
    assert.equal(all.summary.requests, 7);
    const points = (graph: typeof all) => [graph.summary, ...graph.data_points];
    for (const [index, one] of points(all).entries()) {
      const of = (graph: typeof all): Point => points(graph)[index] ?? {};
      const { avg: avg_latency, p50: p50_latency, p95: p95_latency, p99: p99_latency } = of(latency);
      const { timestamp, ...others } = one;
      const { total: hits, simple_hits, semantic_hits } = of(cache);
      assert.equal(timestamp, of(requests).timestamp);
      assert.deepEqual(others, {
        ...{ requests: of(requests).total, errors: of(errors).total, tokens: of(tokens).total },
        ...{ cost: of(cost).total, cache_hit_rate: of(cache).rate },
        ...{ avg_latency, p50_latency, p95_latency, p99_latency },
        cache_hits: hits ?? Number(simple_hits) + Number(semantic_hits),
      });
    }
  });

  test('latency', async (t) => {
    const { json } = await ask(t, 'graphs/latency', { granularity: 'hour' });
    const { summary, data_points } = json as { summary: Record<string, number>; data_points: object[] };
    assert.equal(summary['avg'], 100);
    // Seven requests from 10 to 300 ms.
    for (const name of ['p50', 'p90', 'p95', 'p99'])
      assert.ok((summary[name] as number) >= 30 && (summary[name] as number) <= 300, name);
    assert.equal(data_points.length, 3);
    assert.deepEqual(data_points[1], { ...none, avg: null, p50: null, p90: null, p95: null, p99: null });
  });

  test('cache/hit-rate', async (t) => {
    const { json } = await ask(t, 'graphs/cache/hit-rate', { granularity: 'hour' });
    assert.deepEqual(json['summary'], { total: 2, rate: 28.5714285714286 });
    // Five requests that were no hits cost 0.06 dollars; three of them succeeded, in 200 ms, and hits took 20 ms.
    const one = 0.0120000000002;
    assert.deepEqual(json['data_points'], [
      {
        timestamp: iso(0),
        simple_hits: 1,
        semantic_hits: 0,
        rate: 33.3333333333333,
        cumulative_simple_cache_savings: one,
        cumulative_semantic_cache_savings: 0,
        cumulative_time_savings: 180,
      },
      {
        ...none,
        simple_hits: 0,
        semantic_hits: 0,
        rate: null,
        cumulative_simple_cache_savings: one,
        cumulative_semantic_cache_savings: 0,
        cumulative_time_savings: 180,
      },
      {
        timestamp: iso(2),
        simple_hits: 0,
        semantic_hits: 1,
        rate: 25,
        cumulative_simple_cache_savings: one,
        cumulative_semantic_cache_savings: one,
        cumulative_time_savings: 360,
      },
    ]);
  });

  const distributions: [path: string, summary: object, points: object[]][] = [
    [
      'errors/status-codes',
      { total_errors: 2, unique_error_codes: 2 },
      [
        { status_code: 429, count: 1 },
        { status_code: 502, count: 1 },
      ],
    ],
    [
      'feedbacks/scores',
      { total: 3 },
      [
        { score: -5, total: 1 },
        { score: 5, total: 2 },
      ],
    ],
    ['feedbacks/ai-models', {}, [{ ai_model: 'gpt', total: 3, avg_weighted_feedback: 3 }]],
  ];
  for (const [path, summary, data_points] of distributions)
    test(path, async (t) => {
      const { status, text, json } = await ask(t, `graphs/${path}`);
      assert.equal(status, 200, text);
      assert.deepEqual(json, { object: 'analytics-graph', summary, data_points });
    });

  test('the paths under which some clients look for them are the same', async (t) => {
    for (const [path, alias] of [
      ['users/requests', 'users-requests'],
      ['cache/hit-rate', 'cache-hit-rate'],
      ['feedbacks/scores', 'feedbacks/score'],
    ] as const)
      assert.deepEqual((await ask(t, `graphs/${alias}`)).json, (await ask(t, `graphs/${path}`)).json);
  });

  test('days of a time zone', async (t) => {
    const { json } = await ask(t, 'graphs/requests', { granularity: 'day', time_zone: 'America/New_York' });
    assert.deepEqual(json['data_points'], [{ timestamp: '2026-05-16T04:00:00.000Z', total: 7 }]);
    const tokyo = await ask(t, 'graphs/requests', { granularity: 'hour', time_zone: 'Asia/Kolkata' });
    assert.deepEqual(tokyo.json['data_points'], [
      { timestamp: '2026-05-16T23:30:00.000Z', total: 3 },
      { timestamp: '2026-05-17T00:30:00.000Z', total: 0 },
      { timestamp: '2026-05-17T01:30:00.000Z', total: 4 },
      { timestamp: '2026-05-17T02:30:00.000Z', total: 0 },
    ]);
  });
});

describe('filters of graphs', { skip: chdbMissing }, () => {
  const cases: [query: Record<string, string>, total: number][] = [
    [{}, 7],
    [{ workspace_slug: 'beta' }, 1],
    [{ workspace_id: 'alpha' }, 6],
    [{ ai_service: 'anthropic' }, 1],
    [{ ai_model: 'claude,gpt' }, 7],
    [{ model: 'claude' }, 3],
    [{ ai_org_model: 'anthropic__claude,openai__nothing' }, 1],
    [{ virtual_keys: 'vk,other' }, 1],
    [{ api_key_ids: 'k1' }, 7],
    [{ user: 'ann' }, 2],
    [{ user: '["bob"]' }, 2],
    [{ cache_status: 'HIT,SEMANTIC HIT' }, 2],
    [{ status_code: '429,502' }, 2],
    [{ success: 'false' }, 2],
    [{ success: 'true' }, 5],
    [{ metadata: '{"team":"search","_user":"ann"}' }, 2],
    [{ metadata: '{"team":"search","_user":"bob"}' }, 0],
    [{ trace_id: 't1,t2' }, 2],
    // Cents: the requests cost 1.0000000001, 3 and 2.
    [{ cost_min: '2' }, 2],
    [{ cost_min: '1.0000000001', cost_max: '2' }, 2],
    [{ cost_min: '1.1', cost_max: '1.9' }, 0],
    [{ total_units_min: '1' }, 3],
    [{ completion_token_max: '0', prompt_token_max: '0' }, 4],
    [{ response_time_min: '100', response_time_max: '200' }, 2],
    [{ weighted_feedback_min: '4' }, 1],
    [{ weighted_feedback_max: '4' }, 1],
    [{ prompt_slug: 'none' }, 0],
    [{ endpoint: 'chat.completions', provider: 'openai', configs: '[""]' }, 7],
  ];
  for (const [query, total] of cases)
    test(JSON.stringify(query), async (t) => {
      const { json, text } = await ask(t, 'graphs/requests', query);
      assert.deepEqual(json['summary'], { total }, text);
    });

  const refused: [query: Record<string, string>, status: number, message: RegExp][] = [
    [{ workspace_slug: 'gamma' }, 404, /No workspace \\"gamma\\" is visible/],
    [{ status_code: 'ok' }, 400, /\\"status_code\\" \\"ok\\" is no status code/],
    [{ time_zone: 'Moon' }, 400, /names no time zone/],
    [{ granularity: 'second' }, 400, /granularity/],
    [{ statuscode: '200' }, 400, /statuscode.*status_code/],
  ];
  for (const [query, status, message] of refused)
    test(`${JSON.stringify(query)} is refused`, async (t) => {
      const answer = await ask(t, 'graphs/requests', query);
      assert.equal(answer.status, status, answer.text);
      assert.match(answer.text, message);
    });
});

describe('summary and groups', { skip: chdbMissing }, () => {
  test('summary/cache', async (t) => {
    const { json } = await ask(t, 'summary/cache');
    assert.deepEqual(json, {
      object: 'analytics-summary',
      summary: { hits: 2, avg_latency: 20, total_requests: 7, cache_speedup: 900 },
    });
  });

  const nextDay = { time_of_generation_min: iso(24), time_of_generation_max: iso(48) };
  test('groups/mcp-servers and groups/mcp-tools', async (t) => {
    const servers = await ask(t, 'groups/mcp-servers', nextDay);
    assert.equal(servers.status, 200, servers.text);
    const counted = (json: Record<string, unknown>, name: string) =>
      (json['data'] as Record<string, unknown>[]).map((one) => [
        one[name],
        one['requests'],
        one['success_rate'],
      ]);
    assert.deepEqual(counted(servers.json, 'mcp_server'), [
      ['tickets', 2, 0.5],
      ['wiki', 1, 1],
    ]);
    const tools = await ask(t, 'groups/mcp-tools', { ...nextDay, mcp_server: 'wiki' });
    assert.deepEqual(counted(tools.json, 'mcp_tool'), [['find', 1, 1]]);
    const columns = 'avg_weighted_feedback,requests_with_feedback';
    const rated = await ask(t, 'groups/mcp-servers', { ...nextDay, columns });
    assert.deepEqual(rated.json['data'], [
      {
        object: 'analytics-group',
        mcp_server: 'tickets',
        requests: 2,
        avg_weighted_feedback: -5,
        requests_with_feedback: 1,
      },
      {
        object: 'analytics-group',
        mcp_server: 'wiki',
        requests: 1,
        avg_weighted_feedback: null,
        requests_with_feedback: 0,
      },
    ]);
    const models = await ask(t, 'groups/ai-models', nextDay);
    assert.deepEqual(counted(models.json, 'ai_model'), [['', 3, undefined]], 'tools are no models');
  });

  const groups: [path: string, query: Record<string, string>, data: object[]][] = [
    [
      'groups/users',
      {},
      [
        { user: '', requests: 3, cost: 0.02 },
        { user: 'ann', requests: 2, cost: 0.010000000001 },
        { user: 'bob', requests: 2, cost: 0.03 },
      ],
    ],
    [
      'groups/ai-models',
      { page_size: '1', current_page: '1' },
      [{ ai_model: 'claude', requests: 3, cost: 0.03 }],
    ],
    [
      'groups/workspaces',
      { user: 'bob' },
      [
        { workspace: 'alpha', requests: 1, cost: 0 },
        { workspace: 'beta', requests: 1, cost: 0.03 },
      ],
    ],
    [
      'groups/metadata/team',
      {},
      [
        {
          metadata_value: 'search',
          requests: 2,
          cost: 0.010000000001,
          avg_tokens: 15,
          avg_weighted_feedback: 3,
          requests_with_feedback: 2,
          last_seen: '2026-05-17T00:10:00.000Z',
        },
        {
          metadata_value: 'shop',
          requests: 1,
          cost: 0.03,
          avg_tokens: 30,
          avg_weighted_feedback: null,
          requests_with_feedback: 0,
          last_seen: iso(2),
        },
      ],
    ],
  ];
  for (const [path, query, data] of groups)
    test(path, async (t) => {
      const { status, text, json } = await ask(t, path, query);
      assert.equal(status, 200, text);
      assert.deepEqual(
        json['data'],
        data.map((group) => ({ object: 'analytics-group', ...group })),
      );
    });

  test('groups/model: in dollars', async (t) => {
    const { json } = await ask(t, 'groups/model', { columns: 'requests,cost', success: 'true' });
    assert.deepEqual(json['data'], [
      { model: 'gpt', requests: 3, cost: 0.030000000001 },
      { model: 'claude', requests: 2, cost: 0.03 },
    ]);
  });
});
