import { Type } from '../../core/pipeline/plugin.ts';
import { cacheHitRate } from './cache-hit-rate.ts';
import { feedbackGraphs } from './feedback-graphs.ts';
import { overTime, splitCounts, stacked, type Graph } from './graph.ts';
import { Count, counted, dollars, Figure, measured, per, percent } from './graph-values.ts';

/** Every graph of `/analytics/graphs/`. Costs are in US dollars and rates in percent. */
export const graphs: readonly Graph[] = [
  {
    path: 'requests',
    title: 'Requests over time',
    ...overTime(['requests'], { total: Count('Requests.') }, (of) => ({ total: counted(of, 'requests') })),
  },
  {
    path: 'cost',
    title: 'Cost over time',
    ...overTime(
      ['cost', 'requests'],
      { total: Type.Number({ description: 'US dollars.' }), avg: Figure('US dollars per request.') },
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
        avg: Figure('Milliseconds until the last byte, on average.'),
        p50: Figure('Half of the requests took at most so many milliseconds.'),
        p90: Figure('90 % of them did; within 1 % of their order, like the others.'),
        p95: Figure('95 % of them did.'),
        p99: Figure('99 % of them did.'),
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
      { total: Count('Tokens of prompts and answers.'), avg: Figure('Tokens per request.') },
      (of) => ({
        total: counted(of, 'total_tokens'),
        avg: per(counted(of, 'total_tokens'), counted(of, 'requests')),
      }),
    ),
  },
  {
    path: 'users',
    title: 'Different users over time',
    ...overTime(['users'], { total: Count('Different users, within 2 %.') }, (of) => ({
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
        total: Count('Requests, those of nobody in particular too.'),
        unique: Count('Different users, within 2 %.'),
        avg: Figure('The one over the other.'),
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
    ...overTime(['errors'], { total: Count('Status 400 and above, or broken off.') }, (of) => ({
      total: counted(of, 'errors'),
    })),
  },
  {
    path: 'errors/rate',
    alias: 'errors-rate',
    title: 'Share of failed requests over time',
    ...overTime(['errors', 'requests'], { rate: Figure('Percent of the requests: 0 to 100.') }, (of) => ({
      rate: percent(counted(of, 'errors'), counted(of, 'requests')),
    })),
  },
  {
    path: 'errors/stacks',
    alias: 'errors-stack',
    title: 'Failed requests over time, by status code',
    ...stacked('errors', 'status_code', [], {
      summary: { total: Count('Failed requests.') },
      point: {
        stats: Type.Array(
          Type.Object({
            response_status_code: Count('Status code.'),
            count: Count('Failed requests with it.'),
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
    summary: { total_errors: Count('Failed requests.'), unique_error_codes: Count('Different codes.') },
    point: { status_code: Count('Status code.'), count: Count('Failed requests with it.') },
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
    title: 'Requests that another try or another target rescued, over time',
    ...stacked('rescued_by_retry', 'retries', ['rescued_by_fallback'], {
      summary: {
        retry: Count('Requests that another try rescued.'),
        fallback: Count('Requests that another target than the first rescued.'),
      },
      point: {
        retry: Type.Array(
          Type.Object({
            retry_success_count: Count('Further tries that were needed.'),
            count: Count('Requests that they rescued.'),
          }),
        ),
        fallback: Count('Requests that another target than the first rescued.'),
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
    ...overTime(['avg_hit_latency'], { avg: Figure('Milliseconds, on average.') }, (of) => ({
      avg: measured(of, 'avg_hit_latency'),
    })),
  },
  ...feedbackGraphs,
];
