import { defineRoute, Type, type Scope } from '../../core/pipeline/plugin.ts';
import { groupings, type GroupRow, type Grouping } from '../../core/ports/analytics.ts';
import type { RouteDefinition } from '../../core/pipeline/define-route.ts';
import { analyticsQuestion } from './analytics-question.ts';
import { cellOf, columnsOf, columnsQuery, groupPage, groupPageQuery, known } from './group-page.ts';
import { filterQuery } from './request-filter.ts';
import { strict } from './text-schema.ts';

const Params = Type.Object({
  groupBy: Type.String({
    maxLength: 64,
    examples: [...groupings],
    description: `What to group by: ${groupings.join(', ')}.`,
  }),
});

const Query = Type.Object(
  {
    columns: columnsQuery('Without it only the request count is returned.'),
    include_total: Type.Optional(
      Type.Boolean({ description: 'Existing clients send it; `total` is always there.' }),
    ),
    ...filterQuery,
    ...groupPageQuery,
  },
  strict,
);

const Reply = Type.Object({
  object: Type.Literal('list'),
  total: Type.Integer({ description: 'Groups in all, on every page.' }),
  data: Type.Array(
    Type.Record(Type.String(), Type.Union([Type.String(), Type.Number(), Type.Null()]), {
      description:
        'The value under the name that was grouped by, `requests`, and the columns that were asked for: `cost` in US dollars, latencies in milliseconds, rates from 0 to 1, times in ISO 8601.',
    }),
  ),
});

/** `GET /analytics/groups/{groupBy}` and its older name `GET /logs/groups/{groupBy}`. */
export function groupRoutes(scope: Scope): readonly RouteDefinition[] {
  return [groupRoute('analytics', scope), groupRoute('logs', scope)];
}

function groupRoute(area: 'analytics' | 'logs', scope: Scope): RouteDefinition {
  return defineRoute({
    id: `${area}.groups`,
    method: 'GET',
    path: `/${area}/groups/{groupBy}`,
    summary: 'Requests of a period, counted by one of their properties',
    scope: 'analytics.view',
    // Reads only.
    audit: null,
    params: Params,
    query: Query,
    reply: Reply,
    examples: {
      response: { object: 'list', total: 1, data: [{ model: 'gpt-5-mini', requests: 12, cost: 0.34 }] },
    },
    async handle({ params, query, key, role }) {
      const question = analyticsQuestion({ query, key, role }, scope);
      const by = known('groupBy', params.groupBy, groupings);
      const { total, rows } = await scope.analytics.groups({
        ...question,
        by,
        columns: columnsOf(query.columns),
        ...groupPage(query),
      });
      return { object: 'list' as const, total, data: rows.map((row) => groupOf(by, row)) };
    },
  });
}

function groupOf(
  by: Grouping,
  { value, requests, columns }: GroupRow,
): Record<string, string | number | null> {
  const group: Record<string, string | number | null> = {
    [by]: by === 'status_code' ? Number(value) : value,
    requests,
  };
  for (const [column, cell] of Object.entries(columns)) group[column] = cellOf(column, cell);
  return group;
}
