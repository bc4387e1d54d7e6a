import type { Analytics, TimeWindow, TraceSummary, Visibility } from '../../core/ports/analytics.ts';
import type { RequestRow } from '../../core/ports/request-row.ts';
import { checkRange } from './check-range.ts';
import { filterSql } from './filter-sql.ts';
import { requestColumns } from './row-columns.ts';
import type { Select } from './select.ts';
import { visible } from './visible.ts';

const mostRequests = 1000;
const mostTraces = 500;
const maxOffset = 1_000_000;

/** See `Analytics.trace`. */
export function trace(
  select: Select,
  traceId: string,
  window: TimeWindow,
  visibility: Visibility,
): Promise<readonly RequestRow[]> {
  const { where, parameters } = visible(window, visibility);
  const sql = `SELECT ${requestColumns.join(', ')} FROM requests WHERE ${where} AND trace_id = {trace:String} ORDER BY created_at, id LIMIT ${mostRequests}`;
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
}

/** See `Analytics.traces`. A trace is there when any of its requests matches the filter, and then with all of them. */
export async function traces(
  select: Select,
  query: Parameters<Analytics['traces']>[0],
): ReturnType<Analytics['traces']> {
  const { limit, offset } = query;
  checkRange('limit', limit, mostTraces);
  checkRange('offset', offset, maxOffset);
  const { where, parameters } = visible(query.window, query.visibility);
  const { conditions, parameters: values } = filterSql(query.filter);
  const ofTraces = `FROM requests WHERE ${where} AND trace_id != ''`;
  const matching = conditions.length === 0 ? '' : ` AND ${conditions.join(' AND ')}`;
  const among = matching === '' ? '' : ` AND trace_id IN (SELECT trace_id ${ofTraces}${matching})`;
  const sql = [
    'SELECT trace_id AS group_trace, toUnixTimestamp64Milli(min(created_at)) AS group_from,',
    'max(toUnixTimestamp64Milli(created_at) + toInt64(ceil(latency_ms))) AS group_to, count() AS group_requests,',
    "countIf(status >= 400 OR outcome = 'failed') AS group_errors, sum(total_tokens) AS group_tokens, sum(cost) AS group_cost",
    `${ofTraces}${among} GROUP BY group_trace`,
    'ORDER BY group_from DESC, group_trace DESC LIMIT {limit:UInt32} OFFSET {offset:UInt32}',
  ].join(' ');
  const bound = { ...parameters, ...values };
  const [found, counted] = await Promise.all([
    select<TraceRow>(sql, { ...bound, limit, offset }),
    select<{ traces: number }>(`SELECT uniqExact(trace_id) AS traces ${ofTraces}${matching}`, bound),
  ]);
  return { total: counted[0]?.traces ?? 0, rows: found.map((row) => summaryOf(row)) };
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
