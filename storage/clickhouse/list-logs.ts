import type { LogQuery, LogRecord, TimeWindow } from '../../core/ports/analytics.ts';
import type { BodyRow, RequestRow } from '../../core/ports/request-row.ts';
import { checkRange } from './check-range.ts';
import { filterSql } from './filter-sql.ts';
import { bodyColumns, requestColumns } from './row-columns.ts';
import { inPairs, pairsAtOnce, pairsOf } from './row-pairs.ts';
import type { Select } from './select.ts';
import { timeSlices } from './time-slices.ts';
import { moments, visible } from './visible.ts';

/** Lists show bodies, and nothing else of what stands beside them. */
const listedColumns = bodyColumns.filter((name) => name !== 'request_headers' && name !== 'provider_call');
const mostRows = 10_000;

/** See `Analytics.logs`. */
export async function logs(select: Select, query: LogQuery): Promise<readonly LogRecord[]> {
  const { order, limit, bodies = false } = query;
  checkRange('limit', limit, mostRows);
  const rows: RequestRow[] = [];
  const window = windowBehind(query);
  // Rows stand in the order of time within a workspace alone, and a text is looked for before anything else: all else
  // costs what its window costs. Where they do, the end alone touches fewer parts of the table than the whole window.
  const isOrdered = query.visibility.workspaceId !== undefined && query.filter?.text === undefined;
  for (const slice of timeSlices(window, order, isOrdered ? Infinity : undefined)) {
    if (rows.length >= limit) break;
    rows.push(...(await page(select, query, slice, limit - rows.length)));
  }
  if (!bodies) return rows.map((request) => ({ request, body: undefined }));
  return withBodies(select, query, rows);
}

/** See `Analytics.countLogs`. */
export async function countLogs(
  select: Select,
  { window, visibility, filter }: Pick<LogQuery, 'window' | 'visibility' | 'filter'>,
): Promise<number> {
  const { where, parameters } = visible(window, visibility);
  const { conditions, parameters: values } = filterSql(filter);
  const sql = `SELECT count() AS entries FROM requests WHERE ${[where, ...conditions].join(' AND ')}`;
  const [row] = await select<{ entries: number }>(sql, { ...parameters, ...values });
  return row?.entries ?? 0;
}

/** The window without what lies before the cursor: the primary key can tell that, and not what a pair comes behind. */
function windowBehind({ window, after, order }: LogQuery): TimeWindow {
  const { from, to } = moments(window);
  if (after === undefined) return { from, to };
  return order === 'newest'
    ? { from, to: Math.min(to, after.createdAt + 1) }
    : { from: Math.max(from, after.createdAt), to };
}

function page(
  select: Select,
  { visibility, filter, order, after }: LogQuery,
  window: TimeWindow,
  limit: number,
): Promise<RequestRow[]> {
  const { where, parameters } = visible(window, visibility);
  const { conditions, parameters: values } = filterSql(filter);
  const [direction, beyond] = order === 'newest' ? ['DESC', '<'] : ['ASC', '>'];
  const behind =
    after === undefined
      ? []
      : [`(created_at, id) ${beyond} (fromUnixTimestamp64Milli({after_at:Int64}, 'UTC'), {after_id:UUID})`];
  const sql = [
    `SELECT ${requestColumns.join(', ')} FROM requests`,
    `WHERE ${[where, ...behind, ...conditions].join(' AND ')}`,
    `ORDER BY created_at ${direction}, id ${direction} LIMIT {rows:UInt32}`,
  ].join(' ');
  return select<RequestRow>(sql, {
    ...{ ...parameters, ...values, rows: limit },
    ...(after !== undefined && { after_at: after.createdAt, after_id: after.id }),
  });
}

/** Bodies do not say who sent them: they are asked for by the requests that were found. */
async function withBodies(
  select: Select,
  { visibility }: Pick<LogQuery, 'visibility'>,
  rows: readonly RequestRow[],
): Promise<LogRecord[]> {
  const found = new Map<string, BodyRow>();
  for (let start = 0; start < rows.length; start += pairsAtOnce) {
    const some = rows.slice(start, start + pairsAtOnce);
    const wanted = pairsOf(some.map((row) => ({ id: row.id, createdAt: millisecondsOf(row.created_at) })));
    const { place, parameters } = visible(wanted.window, visibility);
    const sql = `SELECT ${listedColumns.join(', ')} FROM bodies WHERE ${place} AND ${inPairs} LIMIT 1 BY id`;
    const bodies = await select<BodyRow>(sql, { ...parameters, ...wanted.parameters });
    for (const body of bodies) found.set(body.id, body);
  }
  return rows.map((request) => ({ request, body: found.get(request.id) }));
}

/** Of a stored time, `YYYY-MM-DD HH:MM:SS.mmm` in UTC. */
function millisecondsOf(stored: string): number {
  return Date.parse(`${stored.replace(' ', 'T')}Z`);
}
