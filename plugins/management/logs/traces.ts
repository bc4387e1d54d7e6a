import type { RouteDefinition } from '../../../core/pipeline/define-route.ts';
import { defineRoute, GatewayError, type Scope, type Static, Type } from '../../../core/pipeline/plugin.ts';
import type { TraceSummary } from '../../../core/ports/analytics.ts';
import type { RequestRow } from '../../../core/ports/request-row.ts';
import { visibilityIn } from '../shared/data-visibility.ts';
import { groupPage, groupPageQuery } from '../analytics/groups.ts';
import { filterQuery, readFilter } from '../shared/request-filter.ts';
import { strict } from '../shared/fields.ts';
import { isoTime } from '../shared/replies.ts';

/** One request of a trace. */
const TraceSpan = Type.Object({
  id: Type.String({ description: 'The log entry.' }),
  name: Type.String({ description: '`span_name`, else the endpoint.' }),
  span_id: Type.String(),
  parent_span_id: Type.String(),
  start_ms: Type.Number({ description: 'Milliseconds after the start of the trace.' }),
  duration_ms: Type.Number(),
  status: Type.Integer(),
  is_success: Type.Boolean(),
  error_code: Type.String(),
  provider: Type.String(),
  model: Type.String(),
  cost: Type.Number({ description: 'US dollars.' }),
  prompt_tokens: Type.Integer(),
  completion_tokens: Type.Integer(),
  total_tokens: Type.Integer(),
  source: Type.String(),
});

/** A request with its child requests. */
export interface TraceNode extends Static<typeof TraceSpan> {
  readonly children: TraceNode[];
}

/**
 * The requests of a trace, oldest first, as trees by their span ids. Roots: requests without a parent, with an unknown
 * parent, and one of every cycle. Among requests with the same span id, the oldest has the children.
 */
export function traceTree(rows: readonly RequestRow[]): TraceNode[] {
  const [first] = rows;
  const begin = first === undefined ? 0 : startOf(first);
  const nodes = rows.map((row) => nodeOf(row, begin));
  const bySpan = new Map<string, TraceNode>();
  for (const node of nodes)
    if (node.span_id !== '' && !bySpan.has(node.span_id)) bySpan.set(node.span_id, node);
  const parents = new Map<TraceNode, TraceNode>();
  const roots: TraceNode[] = [];
  for (const node of nodes) {
    const parent = bySpan.get(node.parent_span_id);
    if (parent === undefined || isAncestor(parents, parent, node)) roots.push(node);
    else {
      parents.set(node, parent);
      parent.children.push(node);
    }
  }
  return roots;
}

/** True when `node` is an ancestor of `from`: making it a child of `from` would close a cycle. */
function isAncestor(parents: ReadonlyMap<TraceNode, TraceNode>, from: TraceNode, node: TraceNode): boolean {
  for (let at: TraceNode | undefined = from; at !== undefined; at = parents.get(at))
    if (at === node) return true;
  return false;
}

function nodeOf(row: RequestRow, begin: number): TraceNode {
  return {
    id: row.id,
    name: row.span_name === '' ? row.endpoint : row.span_name,
    span_id: row.span_id,
    parent_span_id: row.parent_span_id,
    start_ms: startOf(row) - begin,
    duration_ms: row.latency_ms,
    status: row.status,
    is_success: row.is_success,
    error_code: row.error_code,
    provider: row.provider,
    model: row.model,
    cost: Number(row.cost),
    prompt_tokens: row.prompt_tokens,
    completion_tokens: row.completion_tokens,
    total_tokens: row.total_tokens,
    source: row.source,
    children: [],
  };
}

/** Acceptance, milliseconds since the epoch. */
function startOf({ created_at: at }: RequestRow): number {
  return Date.parse(isoTime(at));
}

const dayMs = 86_400_000;
/** Time back from now within which a trace is searched. */
const reachMs = 366 * dayMs;
/** Allowance for rows of replicas whose clock is ahead. */
const aheadMs = 3_600_000;
/** Single wait for rows that are not in the store yet. */
const settleMs = 2_000;
const maxRequests = 1000;

const numbers = {
  trace_id: Type.String(),
  object: Type.Literal('trace'),
  started_at: Type.String({ description: 'Acceptance of its first request, ISO 8601.' }),
  ended_at: Type.String(),
  duration_ms: Type.Number(),
  requests: Type.Integer(),
  errors: Type.Integer({ description: 'Requests that failed, or have a status of 400 or higher.' }),
  total_tokens: Type.Integer(),
  cost: Type.Number({ description: 'US dollars.' }),
  cost_currency: Type.Literal('USD'),
};
const Trace = Type.Object(numbers);
const whereQuery = { workspace_id: filterQuery.workspace_id, workspace_slug: filterQuery.workspace_slug };

/** `GET /traces` and `GET /traces/{id}`: requests grouped by trace. */
export function traceRoutes(scope: Scope): readonly RouteDefinition[] {
  return [listRoute(scope), getRoute(scope)];
}

function listRoute({ analytics, clock, directory }: Scope): RouteDefinition {
  return defineRoute({
    id: 'traces.list',
    method: 'GET',
    path: '/traces',
    summary: 'Traces with a matching request, latest start first',
    scope: ['logs.list', 'logs.view'],
    // Reads only.
    audit: null,
    query: Type.Object({ ...filterQuery, ...groupPageQuery }, strict),
    reply: Type.Object({ object: Type.Literal('list'), total: Type.Integer(), data: Type.Array(Trace) }),
    async handle({ query, key, role }) {
      const visibility = visibilityIn({ key, role }, directory, query);
      const question = { ...readFilter(query, clock.now()), visibility };
      const { total, rows } = await analytics.traces({ ...question, ...groupPage(query) });
      return { object: 'list' as const, total, data: rows.map((row) => shownTrace(row)) };
    },
  });
}

function getRoute({ analytics, clock, directory, journal }: Scope): RouteDefinition {
  return defineRoute({
    id: 'traces.get',
    method: 'GET',
    path: '/traces/{id}',
    summary: 'One trace: its requests as a tree, with their times, tokens and cost',
    scope: 'logs.view',
    // Reads only.
    audit: null,
    params: Type.Object({ id: Type.String({ minLength: 1, maxLength: 255, description: 'The trace id.' }) }),
    query: Type.Object(whereQuery, strict),
    reply: Type.Object({
      ...numbers,
      truncated: Type.Boolean({ description: `It has more than the ${maxRequests} requests shown.` }),
      spans: Type.Array(
        Type.Object({
          ...TraceSpan.properties,
          children: Type.Array(Type.Unknown({ description: 'Child requests, in the same form.' })),
        }),
        { description: 'Requests without a parent, or with a missing parent; oldest first.' },
      ),
    }),
    async handle({ params, query, key, role }) {
      const visibility = visibilityIn({ key, role }, directory, query);
      const now = clock.now();
      const window = { from: now - reachMs, to: now + aheadMs };
      const find = () => analytics.trace(params.id, window, visibility);
      let rows = await find();
      if (rows.length === 0 && journal.state('requests').pending > 0) {
        await journal.settle(settleMs);
        rows = await find();
      }
      if (rows.length === 0) {
        throw new GatewayError(
          'resource_not_found',
          `No trace "${params.id}" is visible to this key. Check the id; entries end with their retention.`,
        );
      }
      const truncated = rows.length >= maxRequests;
      return { ...shownTrace(summaryOf(params.id, rows)), truncated, spans: traceTree(rows) };
    },
  });
}

function summaryOf(traceId: string, rows: readonly RequestRow[]): TraceSummary {
  const sum = (measure: (row: RequestRow) => number): number =>
    rows.reduce((total, row) => total + measure(row), 0);
  const ends = rows.map((row) => startOf(row) + Math.ceil(row.latency_ms));
  return {
    traceId,
    from: Math.min(...rows.map((row) => startOf(row))),
    to: Math.max(...ends),
    requests: rows.length,
    errors: sum(({ status, outcome }) => (status >= 400 || outcome === 'failed' ? 1 : 0)),
    totalTokens: sum((row) => row.total_tokens),
    cost: sum((row) => Number(row.cost)).toFixed(12),
  };
}

function shownTrace(trace: TraceSummary): Static<typeof Trace> {
  return {
    trace_id: trace.traceId,
    object: 'trace',
    started_at: new Date(trace.from).toISOString(),
    ended_at: new Date(trace.to).toISOString(),
    duration_ms: trace.to - trace.from,
    requests: trace.requests,
    errors: trace.errors,
    total_tokens: trace.totalTokens,
    cost: Number(trace.cost),
    cost_currency: 'USD',
  };
}
