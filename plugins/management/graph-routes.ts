import type { RouteDefinition } from '../../core/pipeline/define-route.ts';
import { defineRoute, Type, type Scope } from '../../core/pipeline/plugin.ts';
import { analyticsQuestion } from './analytics-question.ts';
import { bucketsOf, granularityQuery } from './granularity.ts';
import { graphSource, type Graph } from './graph.ts';
import { graphs } from './graphs.ts';
import { filterQuery } from './request-filter.ts';
import { strict } from './text-schema.ts';

const Query = Type.Object({ ...filterQuery, ...granularityQuery }, strict);

/** `GET /analytics/graphs/…`, each under its own path and under the one where some clients look for it. */
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
      summary: Type.Object(graph.summary, { description: 'The window as a whole.' }),
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
