import type { RouteDefinition, RouteInput } from '../../core/pipeline/define-route.ts';
import { defineRoute, Type, type Scope, type Static } from '../../core/pipeline/plugin.ts';
import { groupColumns, type GroupBy, type GroupColumn, type GroupRow } from '../../core/ports/analytics.ts';
import { analyticsQuestion } from './analytics-question.ts';
import { Count, dollars, Figure } from './graph-values.ts';
import { cellOf, columnsOf, columnsQuery, groupPage, groupPageQuery } from './group-page.ts';
import { listReply } from './page-query.ts';
import { filterQuery } from './request-filter.ts';
import { strict } from './text-schema.ts';

const Query = Type.Object(
  { columns: columnsQuery('Without it the usual ones.'), ...filterQuery, ...groupPageQuery },
  strict,
);
type Call = Pick<RouteInput<unknown, Static<typeof Query>, unknown>, 'query' | 'key' | 'role'>;

/** What can be said of each group beside its requests. */
const cells = {
  cost: Type.Number({ description: 'US dollars.' }),
  avg_tokens: Figure('Tokens per request.'),
  avg_weighted_feedback: Figure('Weighted average of the feedback of their traces.'),
  requests_with_feedback: Count('Requests whose trace has feedback.'),
  last_seen: Type.String({ description: 'When the latest of them was accepted, ISO 8601.' }),
  first_seen: Type.String({ description: 'When the first of them was accepted, ISO 8601.' }),
};
type Cell = keyof typeof cells;

/** Groups in the words of existing clients. */
interface NamedGroup {
  readonly title: string;
  /** The field that holds the value, and what that is. */
  readonly field: string;
  readonly about: string;
  readonly columns: readonly Cell[];
}

/** Those of `/analytics/groups/` that need nothing else than their path. */
const named: readonly (NamedGroup & { readonly path: string; readonly by: GroupBy })[] = [
  {
    path: 'users',
    title: 'Requests of a period, counted by who sent them',
    by: 'user',
    field: 'user',
    about: 'The metadata `_user`, else the user whose key it was; empty for nobody in particular.',
    columns: ['cost'],
  },
  {
    path: 'ai-models',
    title: 'Requests of a period, counted by the model that answered',
    by: 'model',
    field: 'ai_model',
    about: 'The model.',
    columns: ['cost'],
  },
  {
    path: 'workspaces',
    title: 'Requests of a period, counted by workspace',
    by: 'workspace',
    field: 'workspace',
    about: 'Its id.',
    columns: ['cost'],
  },
];

const ofMetadata: NamedGroup = {
  title: 'Requests of a period, counted by the values of one of their metadata',
  field: 'metadata_value',
  about: 'The value.',
  columns: ['cost', 'avg_tokens', 'avg_weighted_feedback', 'requests_with_feedback', 'last_seen'],
};

/** `GET /analytics/groups/users`, `ai-models`, `workspaces` and `metadata/{metadataKey}`. */
export function namedGroupRoutes(scope: Scope): readonly RouteDefinition[] {
  return [
    ...named.map((group) =>
      defineRoute({
        ...plainRoute(group),
        id: `analytics.groups.${group.path.replace('-', '_')}`,
        path: `/analytics/groups/${group.path}`,
        handle: (call) => pageOfGroups(group, group.by, call, scope),
      }),
    ),
    defineRoute({
      ...plainRoute(ofMetadata),
      id: 'analytics.groups.metadata',
      path: '/analytics/groups/metadata/{metadataKey}',
      params: Type.Object({
        metadataKey: Type.String({ minLength: 1, maxLength: 255, description: 'Name of the metadata.' }),
      }),
      handle: (call) => pageOfGroups(ofMetadata, { metadata: call.params.metadataKey }, call, scope),
    }),
  ];
}

function plainRoute(group: NamedGroup) {
  const columns = Object.fromEntries(
    groupColumns.map((column) => [
      column,
      Type.Optional(Object.hasOwn(cells, column) ? cells[column as Cell] : Figure('As it was asked for.')),
    ]),
  );
  return {
    method: 'GET' as const,
    summary: group.title,
    scope: 'analytics.view',
    // Reads only.
    audit: null,
    query: Query,
    reply: Type.Object({
      ...listReply,
      data: Type.Array(
        Type.Object({
          object: Type.Literal('analytics-group'),
          [group.field]: Type.String({ description: group.about }),
          requests: Count('Requests.'),
          ...columns,
        }),
      ),
    }),
  };
}

async function pageOfGroups(group: NamedGroup, by: GroupBy, call: Call, scope: Scope) {
  const columns = call.query.columns === undefined ? group.columns : columnsOf(call.query.columns);
  const { total, rows } = await scope.analytics.groups({
    ...analyticsQuestion(call, scope),
    ...{ by, columns },
    ...groupPage(call.query),
  });
  return { object: 'list' as const, total, data: rows.map((row) => shownGroup(group.field, columns, row)) };
}

function shownGroup(field: string, columns: readonly GroupColumn[], row: GroupRow) {
  const group: Record<string, string | number | null> = { [field]: row.value, requests: row.requests };
  for (const column of columns) {
    const cell = row.columns[column] ?? null;
    group[column] = column === 'cost' ? dollars(cell) : cellOf(column, cell);
  }
  return { object: 'analytics-group' as const, ...group };
}
