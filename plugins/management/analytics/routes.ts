import type { RouteDefinition } from '../../../core/pipeline/define-route.ts';
import { defineRoute, type Scope, Type } from '../../../core/pipeline/plugin.ts';
import { analyticsQuestion } from '../shared/data-visibility.ts';
import {
  bucketsOf,
  Count,
  counted,
  Figure,
  granularityQuery,
  type Graph,
  graphSource,
  measured,
  per,
} from './graph.ts';
import { graphs, hitsOf } from './graphs.ts';
import { filterQuery } from '../shared/request-filter.ts';
import { strict } from '../shared/fields.ts';

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

const Query = Type.Object({ ...filterQuery, ...granularityQuery }, strict);

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
