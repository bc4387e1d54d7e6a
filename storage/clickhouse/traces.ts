import type { Analytics, TimeWindow, TraceSummary, Visibility } from '../../core/ports/analytics.ts';
import type { RequestRow } from '../../core/ports/request-row.ts';
import { between, checkRange, filterSql, moments, visible } from './filter-sql.ts';
import { requestColumns } from './row-columns.ts';
import type { Select } from './select.ts';
import { timeSlices } from './bucket-starts.ts';

const maxRequests = 1000;
const maxTraces = 500;
const maxOffset = 1_000_000;

/** See `Analytics.trace`. */
export function trace(
  select: Select,
  traceId: string,
  window: TimeWindow,
  visibility: Visibility,
): Promise<readonly RequestRow[]> {
  const { where, parameters } = visible(window, visibility);
  const sql = `SELECT ${requestColumns.join(', ')} FROM requests WHERE ${where} AND trace_id = {trace:String} ORDER BY created_at, id LIMIT ${maxRequests}`;
  return select<RequestRow>(sql, { ...parameters, trace: traceId });
}

interface TraceRow {
  readonly group_trace: string;
  readonly group_from: number;
  readonly group_to: number;
  readonly group_requests: number;
  readonly group_errors: number;
  readonly group_tokens: number;
  readonly group_cost: string;
  /** Total number, before paging. */
  readonly group_count: number;
}

/**
 * See `Analytics.traces`. A trace matches when any of its requests matches the filter, and is returned with all of
 * them. Up to `atOnce` traces are aggregated at once. More would exceed the memory of a query, so they are read from
 * the end of the window on, in parts of growing length, until the page is full.
 */
export async function traces(
  select: Select,
  query: Parameters<Analytics['traces']>[0],
  atOnce = 200_000,
): ReturnType<Analytics['traces']> {
  const { limit, offset, window } = query;
  checkRange('limit', limit, maxTraces);
  checkRange('offset', offset, maxOffset);
  const { where, whose, parameters } = visible(window, query.visibility);
  const { conditions, parameters: values } = filterSql(query.filter);
  const bound = { ...parameters, ...values };
  const ofTraces = `FROM requests WHERE ${where} AND ${hasTrace}`;
  const matching = conditions.length === 0 ? undefined : conditions.join(' AND ');
  const matches = matching === undefined ? ofTraces : `${ofTraces} AND ${matching}`;
  const total = await totalOf(select, matches, bound);
  const page = (among: string, having: string): string =>
    [
      'SELECT trace_id AS group_trace, toUnixTimestamp64Milli(min(created_at)) AS group_from,',
      'max(toUnixTimestamp64Milli(created_at) + toInt64(ceil(latency_ms))) AS group_to, count() AS group_requests,',
      "countIf(status >= 400 OR outcome = 'failed') AS group_errors, sum(total_tokens) AS group_tokens,",
      'sum(cost) AS group_cost, count() OVER () AS group_count',
      `${ofTraces} AND trace_number IN (${among}) GROUP BY group_trace HAVING ${having}`,
      'ORDER BY group_from DESC, group_trace DESC LIMIT {limit:UInt32} OFFSET {offset:UInt32}',
    ].join(' ');
  if (total <= atOnce) {
    const sql = page(`SELECT trace_number ${matches}`, 'true');
    const rows = await select<TraceRow>(sql, { ...bound, limit, offset });
    return { total, rows: rows.map((row) => summaryOf(row)) };
  }

  const found: TraceRow[] = [];
  let toSkip = offset;
  // A trace belongs to the part in which it started.
  const sql = page(
    `SELECT trace_number FROM requests WHERE ${whose} AND ${hasTrace} AND ${inSlice}`,
    `group_from >= {slice_from:Int64}${matching === undefined ? '' : ` AND countIf(${matching}) > 0`}`,
  );
  for (const slice of timeSlices(moments(window), 'newest')) {
    const wanted = limit - found.length;
    if (wanted === 0) break;
    const place = { slice_from: slice.from, slice_to: slice.to };
    const rows = await select<TraceRow>(sql, { ...bound, ...place, limit: wanted + toSkip, offset: 0 });
    found.push(...rows.slice(toSkip));
    toSkip = Math.max(0, toSkip - (rows[0]?.group_count ?? 0));
  }
  return { total, rows: found.map((row) => summaryOf(row)) };
}

/** Does not read the names themselves. */
const hasTrace = "trace_number != sipHash64('')";
const inSlice = between('slice_from', 'slice_to');

/**
 * Exact up to some hundred thousand; beyond, within a third of a percent, because all trace numbers would not fit into
 * memory.
 */
async function totalOf(
  select: Select,
  matches: string,
  parameters: Readonly<Record<string, unknown>>,
): Promise<number> {
  const sql = `SELECT uniqCombined64(20)(trace_number) AS traces ${matches}`;
  return (await select<{ traces: number }>(sql, parameters))[0]?.traces ?? 0;
}

function summaryOf(row: TraceRow): TraceSummary {
  return {
    traceId: row.group_trace,
    from: row.group_from,
    to: row.group_to,
    requests: row.group_requests,
    errors: row.group_errors,
    totalTokens: row.group_tokens,
    cost: row.group_cost,
  };
}
