import type { RouteDefinition } from '../../core/pipeline/define-route.ts';
import { defineRoute, Type, type Scope } from '../../core/pipeline/plugin.ts';
import { analyticsQuestion } from './analytics-question.ts';
import { hitsOf } from './cache-hit-rate.ts';
import { Count, counted, Figure, measured, per } from './graph-values.ts';
import { filterQuery } from './request-filter.ts';
import { strict } from './text-schema.ts';

const Reply = Type.Object({
  object: Type.Literal('analytics-summary'),
  summary: Type.Object({
    hits: Count('Requests that the cache answered.'),
    avg_latency: Figure('Milliseconds of these, on average.'),
    total_requests: Count('All requests.'),
    cache_speedup: Figure(
      'By how many percent faster they were than the other successful requests: 1900 when 20 times as fast.',
    ),
  }),
});

/** `GET /analytics/summary/cache`: how much the cache helped in a period. */
export function cacheSummaryRoute(scope: Scope): RouteDefinition {
  return defineRoute({
    id: 'analytics.summary.cache',
    method: 'GET',
    path: '/analytics/summary/cache',
    summary: 'How many requests of a period the cache answered, and how much faster',
    scope: 'analytics.view',
    // Reads only.
    audit: null,
    query: Type.Object(filterQuery, strict),
    reply: Reply,
    async handle({ query, key, role }) {
      const { totals } = await scope.analytics.series({
        ...analyticsQuestion({ query, key, role }, scope),
        measures: ['requests', 'simple_hits', 'semantic_hits', 'avg_hit_latency', 'avg_miss_latency'],
        // The whole is asked for: the fewer points, the better.
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
