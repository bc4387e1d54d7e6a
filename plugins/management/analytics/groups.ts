import { defineRoute, GatewayError, type Scope, type Static, Type } from '../../../core/pipeline/plugin.ts';
import {
  type GroupBy,
  type GroupColumn,
  groupColumns,
  groupOrders,
  type Grouping,
  groupings,
  type GroupOrder,
  type GroupQuery,
  type GroupRow,
} from '../../../core/ports/analytics.ts';
import type { RouteDefinition, RouteInput } from '../../../core/pipeline/define-route.ts';
import { analyticsQuestion } from '../shared/data-visibility.ts';
import { filterQuery } from '../shared/request-filter.ts';
import { nearest, strict } from '../shared/fields.ts';
import { dollars, graphSchemas } from './graph.ts';
import { isoTime, listReplies } from '../shared/replies.ts';

const defaultPageSize = 50;

/** Column that every answer has; clients may name it all the same. */
const requestCount = 'requests';
const columnNames = [requestCount, ...groupColumns] as const;

/** Query parameter for the columns of groups. */
function columnsQuery(without: string) {
  return Type.Optional(
    Type.String({
      maxLength: 2000,
      description: `Columns, with commas between them or repeated: ${groupColumns.join(', ')}. ${without}`,
    }),
  );
}

/** Query parameters for the page of groups. */
export const groupPageQuery = {
  current_page: Type.Optional(
    Type.Integer({ minimum: 0, maximum: 1_000_000, default: 0, description: 'Page, from 0.' }),
  ),
  page_size: Type.Optional(
    Type.Integer({ minimum: 1, maximum: 500, default: defaultPageSize, description: 'Groups on a page.' }),
  ),
};

/** Query parameters for the order of groups. */
const orderQuery = {
  order_by: Type.Optional(
    Type.Union(
      groupOrders.map((name) => Type.Literal(name)),
      {
        description:
          'Figure that the groups are ordered by, over all of them, whether it is among the columns or not. Default `requests`.',
      },
    ),
  ),
  order: Type.Optional(
    Type.Union([Type.Literal('desc'), Type.Literal('asc')], {
      description: 'The highest first, or the lowest. Groups without the figure come last. Default `desc`.',
    }),
  ),
};

/** The page of a `groupPageQuery`: the first 50 groups by default. */
export function groupPage({
  page_size: limit = defaultPageSize,
  current_page: page = 0,
}: {
  readonly page_size?: number;
  readonly current_page?: number;
}): { readonly limit: number; readonly offset: number } {
  return { limit, offset: page * limit };
}

/** Page and order of groups: by default those with the most requests first. */
function pageOf({
  order_by: orderBy = 'requests',
  order,
  ...page
}: Parameters<typeof groupPage>[0] & {
  readonly order_by?: GroupOrder;
  readonly order?: 'desc' | 'asc';
}): Pick<GroupQuery, 'limit' | 'offset' | 'orderBy' | 'ascending'> {
  return { ...groupPage(page), orderBy, ascending: order === 'asc' };
}

/** A cell for the API: stores return decimals and large counts as text, and times without a zone. */
function cellOf(column: string, cell: string | number | null): string | number | null {
  if (typeof cell !== 'string') return cell;
  return column === 'first_seen' || column === 'last_seen' ? isoTime(cell) : Number(cell);
}

/** The columns of a query, without duplicates. Throws `invalid_request` with a suggestion for an unknown one. */
function columnsOf(list = ''): readonly GroupColumn[] {
  const given = list.split(',').map((name) => name.trim());
  const names = given
    .filter((name) => name !== '')
    .map((name) => requireChoice('columns', name, columnNames));
  return [...new Set(names)].filter((name) => name !== requestCount);
}

/** The value, typed as one of `choices`; throws `invalid_request` with a suggestion for any other. */
function requireChoice<T extends string>(param: string, value: string, choices: readonly T[]): T {
  const found = choices.find((choice) => choice === value);
  if (found !== undefined) return found;
  const shown = value.slice(0, 64);
  const near = nearest(shown, choices);
  const hint = near === undefined ? '' : ` Did you mean "${near}"?`;
  throw new GatewayError(
    'invalid_request',
    `"${shown}" is no value of "${param}".${hint} Known: ${choices.join(', ')}.`,
    {
      param,
    },
  );
}

const NamedQuery = Type.Object(
  { columns: columnsQuery('Without it the usual ones.'), ...filterQuery, ...groupPageQuery, ...orderQuery },
  strict,
);
type Call = Pick<RouteInput<unknown, Static<typeof NamedQuery>, unknown>, 'query' | 'key' | 'role'>;

/** Columns of a group beside its requests. */
const cells = {
  cost: Type.Number({ description: 'US dollars.' }),
  avg_tokens: graphSchemas.Figure('Tokens per request.'),
  avg_weighted_feedback: graphSchemas.Figure('Weighted average of the feedback of their traces.'),
  requests_with_feedback: graphSchemas.Count('Requests whose trace has feedback.'),
  avg_latency: graphSchemas.Figure('Milliseconds, on average.'),
  p95_latency: graphSchemas.Figure('Milliseconds of the 95th percentile.'),
  success_rate: Type.Number({ description: 'From 0 to 1.' }),
  last_seen: Type.String({ description: 'Acceptance of the latest request, ISO 8601.' }),
  first_seen: Type.String({ description: 'Acceptance of the first request, ISO 8601.' }),
};
type Cell = keyof typeof cells;

/** Groups under the names of existing clients. */
interface NamedGroup {
  readonly title: string;
  /** Name of the field that holds the group's value. */
  readonly field: string;
  readonly about: string;
  readonly columns: readonly Cell[];
}

const callColumns = ['avg_latency', 'p95_latency', 'success_rate', 'last_seen'] as const;

/** Groups of `/analytics/groups/` without path parameters. */
const named: readonly (NamedGroup & { readonly path: string; readonly by: GroupBy })[] = [
  {
    path: 'users',
    title: 'Requests of a period, counted by who sent them',
    by: 'user',
    field: 'user',
    about: 'The metadata `_user`, else the user of the key; empty if there is none.',
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
  {
    path: 'mcp-servers',
    title: 'Calls of tools in a period, counted by MCP server',
    by: 'mcp_server',
    field: 'mcp_server',
    about: 'Its slug.',
    columns: callColumns,
  },
  {
    path: 'mcp-tools',
    title: 'Calls of tools in a period, counted by tool',
    by: 'mcp_tool',
    field: 'mcp_tool',
    about: 'Its name at the server; the filter `mcp_server` tells tools of the same name apart.',
    columns: callColumns,
  },
];

const ofMetadata: NamedGroup = {
  title: 'Requests of a period, counted by the values of one of their metadata',
  field: 'metadata_value',
  about: 'The value.',
  columns: ['cost', 'avg_tokens', 'avg_weighted_feedback', 'requests_with_feedback', 'last_seen'],
};

/** `GET /analytics/groups/users`, `ai-models`, `workspaces`, `mcp-servers`, `mcp-tools` and `metadata/{metadataKey}`. */
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
        metadataKey: Type.String({ minLength: 1, maxLength: 255, description: 'Key of the metadata.' }),
      }),
      handle: (call) => pageOfGroups(ofMetadata, { metadata: call.params.metadataKey }, call, scope),
    }),
  ];
}

function plainRoute(group: NamedGroup) {
  const columns = Object.fromEntries(
    groupColumns.map((column) => [
      column,
      Type.Optional(
        Object.hasOwn(cells, column) ? cells[column as Cell] : graphSchemas.Figure('As it was asked for.'),
      ),
    ]),
  );
  return {
    method: 'GET' as const,
    summary: group.title,
    scope: 'analytics.view',
    // Reads only.
    audit: null,
    query: NamedQuery,
    reply: Type.Object({
      ...listReplies.of,
      data: Type.Array(
        Type.Object({
          object: Type.Literal('analytics-group'),
          [group.field]: Type.String({ description: group.about }),
          requests: graphSchemas.Count('Requests.'),
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
    by,
    columns,
    ...pageOf(call.query),
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

const Params = Type.Object({
  groupBy: Type.String({
    maxLength: 64,
    examples: [...groupings],
    description: `Property to group by: ${groupings.join(', ')}.`,
  }),
});

const Query = Type.Object(
  {
    columns: columnsQuery('Without it only the request count is returned.'),
    include_total: Type.Optional(
      Type.Boolean({ description: 'Accepted for existing clients; `total` is always present.' }),
    ),
    ...filterQuery,
    ...groupPageQuery,
    ...orderQuery,
  },
  strict,
);

const Reply = Type.Object({
  object: Type.Literal('list'),
  total: Type.Integer({ description: 'Groups in all, on every page.' }),
  data: Type.Array(
    Type.Record(Type.String(), Type.Union([Type.String(), Type.Number(), Type.Null()]), {
      description:
        'The value of the group under the name of the property, `requests`, and the requested columns: `cost` in US dollars, latencies in milliseconds, rates from 0 to 1, times in ISO 8601.',
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
    summary: 'Requests of a period, grouped by one of their properties',
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
      const by = requireChoice('groupBy', params.groupBy, groupings);
      const { total, rows } = await scope.analytics.groups({
        ...question,
        by,
        columns: columnsOf(query.columns),
        ...pageOf(query),
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
