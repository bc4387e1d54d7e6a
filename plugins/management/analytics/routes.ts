import type { RouteDefinition } from '../../../core/pipeline/define-route.ts';
import { defineRoute, type Scope, Type } from '../../../core/pipeline/plugin.ts';
import { analyticsQuestion } from '../shared/data-visibility.ts';
import {
  bucketsOf,
  dataPoints,
  dollars,
  feedbackOverTime,
  type Graph,
  graphSchemas,
  graphSource,
  overTime,
  per,
  percent,
  splitCounts,
  stacked,
} from './graph.ts';
import { filterQuery } from '../shared/request-filter.ts';
import { strict } from '../shared/fields.ts';
import type { Measure, Measures } from '../../../core/ports/analytics.ts';

const Reply = Type.Object({
  object: Type.Literal('analytics-summary'),
  summary: Type.Object({
    hits: graphSchemas.Count('Requests that the cache answered.'),
    avg_latency: graphSchemas.Figure('Milliseconds of these, on average.'),
    total_requests: graphSchemas.Count('All requests.'),
    cache_speedup: graphSchemas.Figure(
      'By how many percent faster they were than the other successful requests: 1900 when 20 times as fast.',
    ),
  }),
});

/** `GET /analytics/summary/cache`: hits and savings of the cache in a period. */
export function cacheSummaryRoute(scope: Scope): RouteDefinition {
  return defineRoute({
    id: 'analytics.summary.cache',
    method: 'GET',
    path: '/analytics/summary/cache',
    summary: 'Hits of the cache in a period, and the time saved',
    scope: 'analytics.view',
    // Reads only.
    audit: null,
    query: Type.Object(filterQuery, strict),
    reply: Reply,
    async handle({ query, key, role }) {
      const { totals } = await scope.analytics.series({
        ...analyticsQuestion({ query, key, role }, scope),
        measures: ['requests', 'simple_hits', 'semantic_hits', 'avg_hit_latency', 'avg_miss_latency'],
        // Only totals are needed, so the points are as few as possible.
        buckets: { unit: 'month', size: 1, timeZone: 'UTC' },
      });
      const all = totals[0]?.values ?? {};
      const hit = measured(all, 'avg_hit_latency');
      const miss = measured(all, 'avg_miss_latency');
      return {
        object: 'analytics-summary' as const,
        summary: {
          hits: hitsOf(all),
          avg_latency: hit,
          total_requests: counted(all, 'requests'),
          cache_speedup: miss === null || hit === null ? null : per(100 * (miss - hit), hit),
        },
      };
    },
  });
}

const Query = Type.Object({ ...filterQuery, ...graphSchemas.granularity }, strict);

/** `GET /analytics/graphs/…`, each under its own path and under its alias. */
export function graphRoutes(scope: Scope): readonly RouteDefinition[] {
  return graphs.flatMap((graph) => [
    graphRoute(graph, graph.path, scope),
    ...(graph.alias === undefined
      ? []
      : [{ ...graphRoute(graph, graph.alias, scope), deprecated: true as const }]),
  ]);
}

function graphRoute(graph: Graph, path: string, scope: Scope): RouteDefinition {
  return defineRoute({
    id: `analytics.graphs.${path.replaceAll('/', '.').replaceAll('-', '_')}`,
    method: 'GET',
    path: `/analytics/graphs/${path}`,
    summary: graph.title,
    scope: 'analytics.view',
    // Reads only.
    audit: null,
    query: Query,
    reply: Type.Object({
      object: Type.Literal('analytics-graph'),
      summary: Type.Object(graph.summary, { description: 'Totals of the whole window.' }),
      data_points: Type.Array(Type.Object(graph.point)),
    }),
    async handle({ query, key, role }) {
      const question = analyticsQuestion({ query, key, role }, scope);
      const buckets = bucketsOf(query, question.window);
      const answer = await graph.read(graphSource(scope, { ...question, buckets }));
      return { object: 'analytics-graph' as const, ...answer };
    },
  });
}

const Saved = (description: string) =>
  Type.Union([Type.Number(), Type.Null()], {
    description: `${description} An estimate; null if there is no answer from the cache, or no answer from a provider.`,
  });

/**
 * Cache hits over time, with cumulative savings up to the end of each point. The estimate values every hit like the
 * average request without a hit in the whole window.
 */
const cacheHitRate: Graph = {
  path: 'cache/hit-rate',
  alias: 'cache-hit-rate',
  title: 'Answers from the cache over time, and what they saved',
  summary: {
    total: graphSchemas.Count('Requests that the cache answered.'),
    rate: graphSchemas.Figure('Percent of the requests: 0 to 100.'),
  },
  point: {
    timestamp: graphSchemas.Timestamp,
    simple_hits: graphSchemas.Count('Answered by an equal request.'),
    semantic_hits: graphSchemas.Count('Answered by a request of the same meaning.'),
    rate: graphSchemas.Figure('Percent of the requests: 0 to 100.'),
    cumulative_simple_cache_savings: Saved('US dollars that the former have saved since the window began.'),
    cumulative_semantic_cache_savings: Saved('US dollars that the latter have saved since the window began.'),
    cumulative_time_savings: Saved('Milliseconds that both have saved since the window began.'),
  },
  async read(source) {
    const { totals, points } = await source.series([
      ...(['requests', 'simple_hits', 'semantic_hits', 'cost'] as const),
      ...(['avg_hit_latency', 'avg_miss_latency'] as const),
    ]);
    const all = totals[0]?.values ?? {};
    const saved = savingsOf(all);
    let [simple, semantic] = [0, 0];
    return {
      summary: { total: hitsOf(all), rate: percent(hitsOf(all), counted(all, 'requests')) },
      data_points: await dataPoints(points, ({ values }) => {
        simple += counted(values, 'simple_hits');
        semantic += counted(values, 'semantic_hits');
        return {
          simple_hits: counted(values, 'simple_hits'),
          semantic_hits: counted(values, 'semantic_hits'),
          rate: percent(hitsOf(values), counted(values, 'requests')),
          cumulative_simple_cache_savings: times(saved.cost, simple),
          cumulative_semantic_cache_savings: times(saved.cost, semantic),
          cumulative_time_savings: times(saved.ms, simple + semantic),
        };
      }),
    };
  },
};

/** Number of cache hits. */
function hitsOf(values: Measures): number {
  return counted(values, 'simple_hits') + counted(values, 'semantic_hits');
}

/** Estimated savings of one hit: US dollars and milliseconds; null without data. */
function savingsOf(all: Measures): { readonly cost: number | null; readonly ms: number | null } {
  const [hit, miss] = [measured(all, 'avg_hit_latency'), measured(all, 'avg_miss_latency')];
  return {
    cost: per(dollars(all.cost), counted(all, 'requests') - hitsOf(all)),
    ms: hit === null || miss === null ? null : miss - hit,
  };
}

function times(one: number | null, count: number): number | null {
  return one === null ? null : one * count;
}

/** Upper bound of models in an answer: those with the most feedback. */
const maxModels = 1000;

/** The graphs of feedback. */
const feedbackGraphs: readonly Graph[] = [
  {
    path: 'feedbacks',
    title: 'Feedback over time',
    ...feedbackOverTime({ total: graphSchemas.Count('Pieces of feedback.') }, ({ total }) => ({ total })),
  },
  {
    path: 'feedbacks/scores',
    alias: 'feedbacks/score',
    title: 'Values of the feedback of a period',
    summary: { total: graphSchemas.Count('Pieces of feedback.') },
    point: {
      score: graphSchemas.Count('Value, from -10 to 10.'),
      total: graphSchemas.Count('Pieces of feedback with it.'),
    },
    async read(source) {
      const { totals } = await source.feedback('score');
      return {
        summary: { total: totals.reduce((sum, { total }) => sum + total, 0) },
        data_points: totals
          .map(({ split, total }) => ({ score: Number(split), total }))
          .sort((one, other) => one.score - other.score),
      };
    },
  },
  {
    path: 'feedbacks/weighted',
    title: 'Average feedback over time, by its weights',
    ...feedbackOverTime(
      { avg: graphSchemas.Figure('Sum of value × weight over the sum of weights, from -10 to 10.') },
      ({ averageWeighted }) => ({ avg: averageWeighted }),
    ),
  },
  {
    path: 'feedbacks/ai-models',
    title: 'Feedback of a period by the models that answered',
    summary: {},
    point: {
      ai_model: Type.String({
        description:
          'Model of the latest successful request of the trace, as named in the answer; empty if unknown.',
      }),
      total: graphSchemas.Count('Pieces of feedback.'),
      avg_weighted_feedback: graphSchemas.Figure('Sum of value × weight over the sum of weights.'),
    },
    async read(source) {
      const { totals } = await source.feedback('model');
      const models = totals.toSorted((one, other) => other.total - one.total).slice(0, maxModels);
      return {
        summary: {},
        data_points: models.map(({ split = '', total, averageWeighted }) => ({
          ai_model: split,
          total,
          avg_weighted_feedback: averageWeighted,
        })),
      };
    },
  },
];

/** Every graph of `/analytics/graphs/`. Costs are in US dollars and rates in percent. */
const graphs: readonly Graph[] = [
  {
    path: 'overview',
    title: 'Requests, errors, latency, tokens, cost and cache hits over time, of one query',
    ...overTime(
      [
        ...(['requests', 'errors', 'total_tokens', 'cost', 'simple_hits', 'semantic_hits'] as const),
        ...(['avg_latency', 'p50_latency', 'p95_latency', 'p99_latency'] as const),
      ],
      {
        requests: graphSchemas.Count('Requests.'),
        errors: graphSchemas.Count('Status 400 and above, or broken off.'),
        tokens: graphSchemas.Count('Tokens of prompts and answers.'),
        cost: Type.Number({ description: 'US dollars.' }),
        cache_hits: graphSchemas.Count('Requests that the cache answered.'),
        cache_hit_rate: graphSchemas.Figure('Percent of the requests: 0 to 100.'),
        avg_latency: graphSchemas.Figure('Milliseconds until the last byte, on average.'),
        p50_latency: graphSchemas.Figure('Half of the requests took at most so many milliseconds.'),
        p95_latency: graphSchemas.Figure('95 % of them did; within 1 % of their order, like the others.'),
        p99_latency: graphSchemas.Figure('99 % of them did.'),
      },
      (of) => ({
        requests: counted(of, 'requests'),
        errors: counted(of, 'errors'),
        tokens: counted(of, 'total_tokens'),
        cost: dollars(of.cost),
        cache_hits: hitsOf(of),
        cache_hit_rate: percent(hitsOf(of), counted(of, 'requests')),
        avg_latency: measured(of, 'avg_latency'),
        p50_latency: measured(of, 'p50_latency'),
        p95_latency: measured(of, 'p95_latency'),
        p99_latency: measured(of, 'p99_latency'),
      }),
    ),
  },
  {
    path: 'requests',
    title: 'Requests over time',
    ...overTime(['requests'], { total: graphSchemas.Count('Requests.') }, (of) => ({
      total: counted(of, 'requests'),
    })),
  },
  {
    path: 'cost',
    title: 'Cost over time',
    ...overTime(
      ['cost', 'requests'],
      {
        total: Type.Number({ description: 'US dollars.' }),
        avg: graphSchemas.Figure('US dollars per request.'),
      },
      (of) => {
        const total = dollars(of.cost);
        return { total, avg: per(total, counted(of, 'requests')) };
      },
    ),
  },
  {
    path: 'latency',
    title: 'Latency over time',
    ...overTime(
      ['avg_latency', 'p50_latency', 'p90_latency', 'p95_latency', 'p99_latency'],
      {
        avg: graphSchemas.Figure('Milliseconds until the last byte, on average.'),
        p50: graphSchemas.Figure('Half of the requests took at most so many milliseconds.'),
        p90: graphSchemas.Figure('90 % of them did; within 1 % of their order, like the others.'),
        p95: graphSchemas.Figure('95 % of them did.'),
        p99: graphSchemas.Figure('99 % of them did.'),
      },
      (of) => ({
        avg: measured(of, 'avg_latency'),
        p50: measured(of, 'p50_latency'),
        p90: measured(of, 'p90_latency'),
        p95: measured(of, 'p95_latency'),
        p99: measured(of, 'p99_latency'),
      }),
    ),
  },
  {
    path: 'tokens',
    title: 'Tokens over time',
    ...overTime(
      ['total_tokens', 'requests'],
      {
        total: graphSchemas.Count('Tokens of prompts and answers.'),
        avg: graphSchemas.Figure('Tokens per request.'),
      },
      (of) => ({
        total: counted(of, 'total_tokens'),
        avg: per(counted(of, 'total_tokens'), counted(of, 'requests')),
      }),
    ),
  },
  {
    path: 'users',
    title: 'Different users over time',
    ...overTime(['users'], { total: graphSchemas.Count('Different users, within 2 %.') }, (of) => ({
      total: counted(of, 'users'),
    })),
  },
  {
    path: 'users/requests',
    alias: 'users-requests',
    title: 'Requests per user over time',
    ...overTime(
      ['requests', 'users'],
      {
        total: graphSchemas.Count('Requests, including those without a user.'),
        unique: graphSchemas.Count('Different users, within 2 %.'),
        avg: graphSchemas.Figure('The one over the other.'),
      },
      (of) => ({
        total: counted(of, 'requests'),
        unique: counted(of, 'users'),
        avg: per(counted(of, 'requests'), counted(of, 'users')),
      }),
    ),
  },
  {
    path: 'errors',
    title: 'Failed requests over time',
    ...overTime(['errors'], { total: graphSchemas.Count('Status 400 and above, or broken off.') }, (of) => ({
      total: counted(of, 'errors'),
    })),
  },
  {
    path: 'errors/rate',
    alias: 'errors-rate',
    title: 'Share of failed requests over time',
    ...overTime(
      ['errors', 'requests'],
      { rate: graphSchemas.Figure('Percent of the requests: 0 to 100.') },
      (of) => ({
        rate: percent(counted(of, 'errors'), counted(of, 'requests')),
      }),
    ),
  },
  {
    path: 'errors/stacks',
    alias: 'errors-stack',
    title: 'Failed requests over time, by status code',
    ...stacked('errors', 'status_code', [], {
      summary: { total: graphSchemas.Count('Failed requests.') },
      point: {
        stats: Type.Array(
          Type.Object({
            response_status_code: graphSchemas.Count('Status code.'),
            count: graphSchemas.Count('Failed requests with it.'),
          }),
        ),
      },
      total: (_, total) => ({ total }),
      at: (_, counts) => ({
        stats: counts.map(({ value, count }) => ({ response_status_code: value, count })),
      }),
    }),
  },
  {
    path: 'errors/status-codes',
    alias: 'errors-status-code',
    title: 'Status codes of the failed requests of a period',
    summary: {
      total_errors: graphSchemas.Count('Failed requests.'),
      unique_error_codes: graphSchemas.Count('Different codes.'),
    },
    point: {
      status_code: graphSchemas.Count('Status code.'),
      count: graphSchemas.Count('Failed requests with it.'),
    },
    async read(source) {
      const counts = splitCounts('errors', (await source.series(['errors'], 'status_code')).totals);
      const total = counts.reduce((sum, { count }) => sum + count, 0);
      return {
        summary: { total_errors: total, unique_error_codes: counts.length },
        data_points: counts
          .toSorted((one, other) => other.count - one.count)
          .map(({ value, count }) => ({ status_code: value, count })),
      };
    },
  },
  {
    path: 'requests/rescued',
    alias: 'requests-rescued',
    title: 'Requests that another attempt or another target rescued, over time',
    ...stacked('rescued_by_retry', 'retries', ['rescued_by_fallback'], {
      summary: {
        retry: graphSchemas.Count('Requests that another attempt rescued.'),
        fallback: graphSchemas.Count('Requests that another target than the first rescued.'),
      },
      point: {
        retry: Type.Array(
          Type.Object({
            retry_success_count: graphSchemas.Count('Further attempts that were needed.'),
            count: graphSchemas.Count('Requests that they rescued.'),
          }),
        ),
        fallback: graphSchemas.Count('Requests that another target than the first rescued.'),
      },
      total: (of, retry) => ({ retry, fallback: counted(of, 'rescued_by_fallback') }),
      at: (of, counts) => ({
        retry: counts.map(({ value, count }) => ({ retry_success_count: value, count })),
        fallback: counted(of, 'rescued_by_fallback'),
      }),
    }),
  },
  cacheHitRate,
  {
    path: 'cache/latency',
    alias: 'cache-latency',
    title: 'Latency of answers from the cache over time',
    ...overTime(['avg_hit_latency'], { avg: graphSchemas.Figure('Milliseconds, on average.') }, (of) => ({
      avg: measured(of, 'avg_hit_latency'),
    })),
  },
  ...feedbackGraphs,
];

/** One count of the measures; 0 when absent. */
function counted(values: Measures, measure: Measure): number {
  return measured(values, measure) ?? 0;
}

/** One number of the measures; null when absent. The store returns sums as text. */
function measured(values: Measures, measure: Measure): number | null {
  const value = values[measure] ?? null;
  return value === null ? null : Number(value);
}
