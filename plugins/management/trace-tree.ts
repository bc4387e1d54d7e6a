import { Type, type Static } from '../../core/pipeline/plugin.ts';
import type { RequestRow } from '../../core/ports/request-row.ts';
import { isoTime } from './iso-time.ts';

/** One request of a trace. */
export const TraceSpan = Type.Object({
  id: Type.String({ description: 'The log entry.' }),
  name: Type.String({ description: '`span_name`, else the endpoint.' }),
  span_id: Type.String(),
  parent_span_id: Type.String(),
  start_ms: Type.Number({ description: 'Milliseconds after the beginning of the trace.' }),
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

/** A request with those that it led to. */
export interface TraceNode extends Static<typeof TraceSpan> {
  readonly children: TraceNode[];
}

/**
 * The requests of a trace, oldest first, as trees by their span ids. At the root: those without a parent, whose parent is
 * not there, and one of every circle. Of several with the same span id the oldest has the children.
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
    if (parent === undefined || leadsTo(parents, parent, node)) roots.push(node);
    else {
      parents.set(node, parent);
      parent.children.push(node);
    }
  }
  return roots;
}

/** Whether going up from `from` meets `node`, which must not become its child then. */
function leadsTo(parents: ReadonlyMap<TraceNode, TraceNode>, from: TraceNode, node: TraceNode): boolean {
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
export function startOf({ created_at: at }: RequestRow): number {
  return Date.parse(isoTime(at));
}
