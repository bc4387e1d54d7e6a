import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Ajv2020 } from 'ajv/dist/2020.js';
import formats from 'ajv-formats';
import type {
  Analytics,
  FeedbackSeries,
  FeedbackSeriesQuery,
  Measures,
  RequestSeries,
  RequestSeriesQuery,
} from '../../../core/ports/analytics.ts';
import {
  testAnalytics,
  testKey,
  testRouteInput,
  testScope,
  testStart,
} from '../../../tests/kit/plugin-kit.ts';
import { cacheSummaryRoute, graphRoutes } from './routes.ts';

const hour = 3_600_000;
const [first, second] = [testStart - 2 * hour, testStart - hour];
const times = [first, second].map((at) => new Date(at).toISOString());

/** A series of the whole: its total, and one point each for `first` and `second`. */
function whole(total: Measures, ...values: Measures[]): RequestSeries {
  return {
    totals: [{ split: undefined, values: total }],
    points: values.map((one, index) => ({
      at: [first, second][index] as number,
      split: undefined,
      values: one,
    })),
  };
}

/** Calls the graph behind this path (or the route that is given) and checks its answer against its schema. */
async function ask(
  path: string,
  analytics: Partial<Pick<Analytics, 'series' | 'feedbackSeries'>>,
  query: object = {},
  key = testKey(),
) {
  const { scope } = testScope({ analytics: testAnalytics(analytics) });
  const all = [...graphRoutes(scope), cacheSummaryRoute(scope)];
  const route = all.find((one) => one.path === `/analytics/${path}`);
  assert.ok(route, path);
  const reply = await route.handle(testRouteInput({ query, key }));
  const validate = formats.default(new Ajv2020()).compile(route.reply);
  assert.ok(validate(reply), JSON.stringify(validate.errors));
  return reply as { summary: object; data_points: object[]; object: string };
}

/** Answers by the split that is asked for; each question is kept. */
function answering(answers: Partial<Record<string, RequestSeries>>, asked: RequestSeriesQuery[] = []) {
  return {
    series(query: RequestSeriesQuery) {
      asked.push(query);
      return Promise.resolve(answers[query.split ?? 'whole'] ?? { totals: [], points: [] });
    },
  };
}

describe('graphs whose points are made of measures', () => {
  const cases: [
    path: string,
    measures: string[],
    total: Measures,
    point: Measures,
    summary: object,
    shown: object,
  ][] = [
    [
      'overview',
      [
        ...['requests', 'errors', 'total_tokens', 'cost', 'simple_hits', 'semantic_hits'],
        ...['avg_latency', 'p50_latency', 'p95_latency', 'p99_latency'],
      ],
      {
        ...{ requests: 8, errors: 2, total_tokens: '90', cost: '0.07', simple_hits: 1, semantic_hits: 1 },
        ...{ avg_latency: 1.5, p50_latency: 1, p95_latency: 3, p99_latency: 4 },
      },
      {
        ...{ requests: 0, errors: 0, total_tokens: 0, cost: '0', simple_hits: 0, semantic_hits: 0 },
        ...{ avg_latency: null, p50_latency: null, p95_latency: null, p99_latency: null },
      },
      {
        ...{ requests: 8, errors: 2, tokens: 90, cost: 0.07, cache_hits: 2, cache_hit_rate: 25 },
        ...{ avg_latency: 1.5, p50_latency: 1, p95_latency: 3, p99_latency: 4 },
      },
      {
        ...{ requests: 0, errors: 0, tokens: 0, cost: 0, cache_hits: 0, cache_hit_rate: null },
        ...{ avg_latency: null, p50_latency: null, p95_latency: null, p99_latency: null },
      },
    ],
    ['requests', ['requests'], { requests: 3 }, { requests: 0 }, { total: 3 }, { total: 0 }],
    [
      'cost',
      ['cost', 'requests'],
      { cost: '0.070000000003', requests: 2 },
      { cost: '0', requests: 0 },
      { total: 0.070000000003, avg: 0.0350000000015 },
      { total: 0, avg: null },
    ],
    [
      'latency',
      ['avg_latency', 'p50_latency', 'p90_latency', 'p95_latency', 'p99_latency'],
      { avg_latency: 1.5, p50_latency: 1, p90_latency: 2, p95_latency: 3, p99_latency: 4 },
      { avg_latency: null, p50_latency: null, p90_latency: null, p95_latency: null, p99_latency: null },
      { avg: 1.5, p50: 1, p90: 2, p95: 3, p99: 4 },
      { avg: null, p50: null, p90: null, p95: null, p99: null },
    ],
    [
      'tokens',
      ['total_tokens', 'requests'],
      { total_tokens: '9007199254740991', requests: 1 },
      { total_tokens: 7, requests: 2 },
      { total: 9007199254740991, avg: 9007199254740990 },
      { total: 7, avg: 3.5 },
    ],
    ['users', ['users'], { users: 3 }, { users: 1 }, { total: 3 }, { total: 1 }],
    [
      'users/requests',
      ['requests', 'users'],
      { requests: 9, users: 4 },
      { requests: 1, users: 0 },
      { total: 9, unique: 4, avg: 2.25 },
      { total: 1, unique: 0, avg: null },
    ],
    ['errors', ['errors'], { errors: 2 }, { errors: 1 }, { total: 2 }, { total: 1 }],
    [
      'errors/rate',
      ['errors', 'requests'],
      { errors: 1, requests: 8 },
      { errors: 0, requests: 0 },
      { rate: 12.5 },
      { rate: null },
    ],
    [
      'cache/latency',
      ['avg_hit_latency'],
      { avg_hit_latency: 2.25 },
      { avg_hit_latency: null },
      { avg: 2.25 },
      { avg: null },
    ],
  ];
  for (const [path, measures, total, point, summary, shown] of cases) {
    test(path, async () => {
      const asked: RequestSeriesQuery[] = [];
      const reply = await ask(`graphs/${path}`, answering({ whole: whole(total, point, total) }, asked));
      assert.deepEqual(
        asked.map((one) => [one.measures, one.split]),
        [[measures, undefined]],
      );
      assert.deepEqual(reply, {
        object: 'analytics-graph',
        summary,
        data_points: [
          { timestamp: times[0], ...shown },
          { timestamp: times[1], ...summary },
        ],
      });
    });
  }
});

const byStatus: RequestSeries = {
  totals: [
    { split: '200', values: { errors: 0 } },
    { split: '429', values: { errors: 1 } },
    { split: '500', values: { errors: 3 } },
  ],
  points: [
    { at: second, split: '500', values: { errors: 3 } },
    { at: second, split: '429', values: { errors: 1 } },
    { at: second, split: '200', values: { errors: 0 } },
  ],
};

test('errors/stacks: the codes of every point, none where nothing failed', async () => {
  const reply = await ask(
    'graphs/errors/stacks',
    answering({ whole: whole({ errors: 4 }, { errors: 0 }, { errors: 4 }), status_code: byStatus }),
  );
  assert.deepEqual(reply.summary, { total: 4 });
  assert.deepEqual(reply.data_points, [
    { timestamp: times[0], stats: [] },
    {
      timestamp: times[1],
      stats: [
        { response_status_code: 429, count: 1 },
        { response_status_code: 500, count: 3 },
      ],
    },
  ]);
});

test('errors/status-codes: the codes of the window, the most frequent first', async () => {
  const reply = await ask('graphs/errors/status-codes', answering({ status_code: byStatus }));
  assert.deepEqual(reply.summary, { total_errors: 4, unique_error_codes: 2 });
  assert.deepEqual(reply.data_points, [
    { status_code: 500, count: 3 },
    { status_code: 429, count: 1 },
  ]);
});

test('requests/rescued: by how many attempts, and by another target', async () => {
  const asked: RequestSeriesQuery[] = [];
  const total = { rescued_by_retry: 3, rescued_by_fallback: 2 };
  const retries: RequestSeries = {
    totals: [
      { split: '1', values: { rescued_by_retry: 2 } },
      { split: '2', values: { rescued_by_retry: 1 } },
    ],
    points: [
      { at: first, split: '2', values: { rescued_by_retry: 1 } },
      { at: first, split: '1', values: { rescued_by_retry: 2 } },
    ],
  };
  const none = { rescued_by_retry: 0, rescued_by_fallback: 0 };
  const reply = await ask(
    'graphs/requests/rescued',
    answering({ whole: whole(total, total, none), retries }, asked),
  );
  assert.deepEqual(
    asked.map(({ split }) => split),
    [undefined, 'retries'],
  );
  assert.deepEqual(reply.summary, { retry: 3, fallback: 2 });
  assert.deepEqual(reply.data_points, [
    {
      timestamp: times[0],
      retry: [
        { retry_success_count: 1, count: 2 },
        { retry_success_count: 2, count: 1 },
      ],
      fallback: 2,
    },
    { timestamp: times[1], retry: [], fallback: 0 },
  ]);
});

describe('cache/hit-rate', () => {
  const all = { requests: 10, simple_hits: 4, semantic_hits: 2, cost: '0.08' };

  test('adds up what every hit so far has saved', async () => {
    const total = { ...all, avg_hit_latency: 5, avg_miss_latency: 105 };
    const points = [
      { requests: 6, simple_hits: 3, semantic_hits: 0 },
      { requests: 4, simple_hits: 1, semantic_hits: 2 },
    ];
    const reply = await ask('graphs/cache/hit-rate', answering({ whole: whole(total, ...points) }));
    assert.deepEqual(reply.summary, { total: 6, rate: 60 });
    assert.deepEqual(reply.data_points, [
      {
        timestamp: times[0],
        simple_hits: 3,
        semantic_hits: 0,
        rate: 50,
        // Four requests that were no hits cost 0.08 dollars, and took 100 ms longer.
        cumulative_simple_cache_savings: 0.06,
        cumulative_semantic_cache_savings: 0,
        cumulative_time_savings: 300,
      },
      {
        timestamp: times[1],
        simple_hits: 1,
        semantic_hits: 2,
        rate: 75,
        cumulative_simple_cache_savings: 0.08,
        cumulative_semantic_cache_savings: 0.04,
        cumulative_time_savings: 600,
      },
    ]);
  });

  test('estimates nothing without hits or without others', async () => {
    const hits = { requests: 1, simple_hits: 1, semantic_hits: 0, cost: '0', avg_hit_latency: 1 };
    const reply = await ask('graphs/cache/hit-rate', answering({ whole: whole(hits, hits) }));
    const { cumulative_simple_cache_savings: saved, cumulative_time_savings: time } = reply
      .data_points[0] as Record<string, unknown>;
    assert.deepEqual([saved, time], [null, null]);
    const empty = await ask('graphs/cache/hit-rate', answering({ whole: whole({ requests: 0 }) }));
    assert.deepEqual(empty.summary, { total: 0, rate: null });
  });
});

describe('graphs of feedback', () => {
  const point = { split: undefined, total: 2, averageWeighted: -1.5 };
  const series: Record<string, FeedbackSeries> = {
    whole: {
      totals: [point],
      points: [
        { ...point, at: first },
        { at: second, split: undefined, total: 0, averageWeighted: null },
      ],
    },
    score: {
      totals: [
        { split: '10', total: 1, averageWeighted: 10 },
        { split: '-5', total: 3, averageWeighted: -5 },
      ],
      points: [],
    },
    model: {
      totals: [
        { split: '', total: 1, averageWeighted: null },
        { split: 'gpt', total: 2, averageWeighted: 1.5 },
      ],
      points: [],
    },
  };
  const cases: [path: string, summary: object, data_points: object[]][] = [
    [
      'feedbacks',
      { total: 2 },
      [
        { timestamp: times[0], total: 2 },
        { timestamp: times[1], total: 0 },
      ],
    ],
    [
      'feedbacks/weighted',
      { avg: -1.5 },
      [
        { timestamp: times[0], avg: -1.5 },
        { timestamp: times[1], avg: null },
      ],
    ],
    [
      'feedbacks/scores',
      { total: 4 },
      [
        { score: -5, total: 3 },
        { score: 10, total: 1 },
      ],
    ],
    [
      'feedbacks/ai-models',
      {},
      [
        { ai_model: 'gpt', total: 2, avg_weighted_feedback: 1.5 },
        { ai_model: '', total: 1, avg_weighted_feedback: null },
      ],
    ],
  ];
  for (const [path, summary, data_points] of cases) {
    test(path, async () => {
      const feedbackSeries = ({ split }: FeedbackSeriesQuery) =>
        Promise.resolve(series[split ?? 'whole'] as FeedbackSeries);
      const reply = await ask(`graphs/${path}`, { feedbackSeries });
      assert.deepEqual(reply, { object: 'analytics-graph', summary, data_points });
    });
  }
});

describe('summary/cache', () => {
  const cases: [name: string, total: Measures, summary: object][] = [
    [
      'hits and misses',
      { requests: 9, simple_hits: 2, semantic_hits: 1, avg_hit_latency: 5, avg_miss_latency: 100 },
      { hits: 3, avg_latency: 5, total_requests: 9, cache_speedup: 1900 },
    ],
    [
      'no hits',
      { requests: 1, avg_miss_latency: 3, avg_hit_latency: null },
      { hits: 0, avg_latency: null, total_requests: 1, cache_speedup: null },
    ],
    [
      'hits in no time',
      { requests: 1, simple_hits: 1, avg_miss_latency: 3, avg_hit_latency: 0 },
      { hits: 1, avg_latency: 0, total_requests: 1, cache_speedup: null },
    ],
  ];
  for (const [name, total, summary] of cases)
    test(name, async () => {
      const reply = await ask('summary/cache', answering({ whole: whole(total) }));
      assert.deepEqual(reply, { object: 'analytics-summary', summary });
    });
});

describe('what every graph asks', () => {
  const { scope } = testScope();
  const paths = graphRoutes(scope).map(({ path }) => path.replace('/analytics/', ''));

  for (const path of [...paths, 'summary/cache']) {
    test(`${path}: the window, what may be seen of it, and the filter`, async () => {
      const asked: (RequestSeriesQuery | FeedbackSeriesQuery)[] = [];
      const keep = (query: RequestSeriesQuery | FeedbackSeriesQuery) =>
        Promise.resolve(void asked.push(query)).then(() => ({ totals: [], points: [] }));
      const query = { virtual_keys: 'a', cost_min: 5, time_of_generation_min: new Date(first).toISOString() };
      await ask(path, { series: keep, feedbackSeries: keep }, query);
      assert.ok(asked.length > 0);
      for (const one of asked) {
        assert.deepEqual(one.window, { from: first, to: testStart });
        assert.deepEqual(one.visibility, { organisationId: 'org-1', workspaceId: 'ws-1', asker: 'key-1' });
        assert.deepEqual(one.filter, { virtualKeys: ['a'], cost: { min: 0.05 } });
      }
    });
  }

  test('18 graphs, and the paths under which some clients look for eight of them', () => {
    const routes = graphRoutes(scope);
    assert.equal(routes.filter((route) => route.deprecated === undefined).length, 18);
    assert.deepEqual(
      routes.filter((route) => route.deprecated).map(({ path }) => path.replace('/analytics/graphs/', '')),
      [
        ...['users-requests', 'errors-rate', 'errors-stack', 'errors-status-code', 'requests-rescued'],
        ...['cache-hit-rate', 'cache-latency', 'feedbacks/score'],
      ],
    );
  });

  test('points as long as the query says, in its time zone', async () => {
    const asked: RequestSeriesQuery[] = [];
    await ask('graphs/requests', answering({}, asked), { granularity: '5m', time_zone: 'Europe/Berlin' });
    await ask('graphs/requests', answering({}, asked));
    assert.deepEqual(
      asked.map(({ buckets }) => buckets),
      [
        { unit: 'minute', size: 5, timeZone: 'Europe/Berlin' },
        { unit: 'hour', size: 1, timeZone: 'UTC' },
      ],
    );
  });
});
