import type { RouteDefinition } from '../../core/pipeline/define-route.ts';
import { defineRoute, GatewayError, Type, type Scope, type Static } from '../../core/pipeline/plugin.ts';
import type { TraceSummary } from '../../core/ports/analytics.ts';
import type { RequestRow } from '../../core/ports/request-row.ts';
import { visibilityIn } from './data-visibility.ts';
import { groupPage, groupPageQuery } from './group-page.ts';
import { filterQuery, readFilter } from './request-filter.ts';
import { strict } from './text-schema.ts';
import { startOf, TraceSpan, traceTree } from './trace-tree.ts';

const dayMs = 86_400_000;
/** How far back a trace is looked for. */
const reachMs = 366 * dayMs;
/** Rows of other replicas may carry a clock that is ahead. */
const aheadMs = 3_600_000;
/** How long to wait, once, for rows that are still on their way to the store. */
const settleMs = 2_000;
const mostRequests = 1000;

const numbers = {
  trace_id: Type.String(),
  object: Type.Literal('trace'),
  started_at: Type.String({ description: 'Acceptance of its first request, ISO 8601.' }),
  ended_at: Type.String(),
  duration_ms: Type.Number(),
  requests: Type.Integer(),
  errors: Type.Integer({ description: 'Requests with a status from 400 on, or that failed.' }),
  total_tokens: Type.Integer(),
  cost: Type.Number({ description: 'US dollars.' }),
  cost_currency: Type.Literal('USD'),
};
const Trace = Type.Object(numbers);
const whereQuery = { workspace_id: filterQuery.workspace_id, workspace_slug: filterQuery.workspace_slug };

/** `GET /traces` and `GET /traces/{id}`: requests that belong together. */
export function traceRoutes(scope: Scope): readonly RouteDefinition[] {
  return [listRoute(scope), getRoute(scope)];
}

function listRoute({ analytics, clock, directory }: Scope): RouteDefinition {
  return defineRoute({
    id: 'traces.list',
    method: 'GET',
    path: '/traces',
    summary: 'Traces that have a request that matches, the one that began last first',
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
      truncated: Type.Boolean({ description: `It has more than the ${mostRequests} requests shown.` }),
      spans: Type.Array(
        Type.Object({
          ...TraceSpan.properties,
          children: Type.Array(
            Type.Unknown({ description: 'Requests that this one led to, in the same shape.' }),
          ),
        }),
        { description: 'Requests without a parent, or whose parent is not there; oldest first.' },
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
      const truncated = rows.length >= mostRequests;
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
