import type {
  LogRecord,
  NewLogs,
  NewLogsQuery,
  RequestFilter,
  TimeWindow,
  Visibility,
} from '../../core/ports/analytics.ts';
import type { RequestRow } from '../../core/ports/request-row.ts';
import { checkRange } from './check-range.ts';
import { filterSql } from './filter-sql.ts';
import { keyOf, readMark, writeMark, type Mark } from './new-logs-mark.ts';
import { requestColumns } from './row-columns.ts';
import { inPairs, pairsOf } from './row-pairs.ts';
import type { Select } from './select.ts';
import { visible } from './visible.ts';

const mostRows = 1000;
/** Longest time between the stamp of a row and the end of its insert, and between the clocks of two servers. */
const overlapMs = 10_000;
/** What was accepted longer before it came into the store is not live any more. */
const liveMs = 86_400_000;
/** Rows that are looked at in one go; of more, the newest. */
const mostCandidates = 10_000;

interface Candidate {
  readonly id: string;
  readonly createdAt: number;
  readonly storedAt: number;
}

/**
 * See `Analytics.newLogs`. Rows carry the time when their insert began, and inserts do not end in that order: every
 * question looks at the last seconds before the newest known row again, and leaves out what has been told.
 */
export async function newLogs(select: Select, query: NewLogsQuery): Promise<NewLogs> {
  const { since, limit } = query;
  checkRange('limit', limit, mostRows);
  const mark = since === undefined ? await beginning(select) : readMark(since);
  const { seen, fresh } = await look(select, query, mark);
  const kept = since === undefined ? [] : fresh.slice(-limit);
  const newest = seen.reduce((latest, { storedAt }) => Math.max(latest, storedAt), mark.newest);
  const next = { newest, told: toldBy({ ...mark, newest }, seen, fresh) };
  return {
    records: await recordsOf(select, query, kept),
    since: writeMark(next),
    resume: writeMark({ newest, told: new Set() }),
    left: since === undefined ? 0 : fresh.length - kept.length,
  };
}

async function beginning(select: Select): Promise<Mark> {
  const [row] = await select<{ now: number }>('SELECT toUnixTimestamp64Milli(now64(3)) AS now', {});
  return { newest: row?.now ?? 0, told: new Set() };
}

/** Everything behind the mark and shortly before it; and of that what is to be told, oldest first. */
async function look(
  select: Select,
  { visibility, filter = {} }: NewLogsQuery,
  { newest, told }: Mark,
): Promise<{ readonly seen: readonly Candidate[]; readonly fresh: readonly Candidate[] }> {
  const storedFrom = newest - overlapMs;
  const window = { from: storedFrom - liveMs, to: Number.MAX_SAFE_INTEGER };
  const { text, ...others } = filter;
  const seen = await candidates(select, { visibility, storedFrom, window, filter: others });
  const fresh = seen.filter(({ id }) => !told.has(keyOf(id)));
  if (text === undefined || fresh.length === 0) return { seen, fresh };
  // Texts are looked for in the bodies of these alone. A body may come later than its request, which is therefore
  // looked at for some seconds.
  const holding = await candidates(select, { visibility, storedFrom, filter, window: pairsOf(fresh).window });
  return { seen, fresh: holding.filter(({ id }) => !told.has(keyOf(id))) };
}

/** What must be remembered: everything told that the next look will see again. */
function toldBy({ newest, told }: Mark, seen: readonly Candidate[], fresh: readonly Candidate[]) {
  const next = new Set(fresh.map(({ id }) => keyOf(id)));
  for (const { id, storedAt } of seen) {
    const key = keyOf(id);
    if (storedAt < newest - overlapMs) next.delete(key);
    else if (told.has(key)) next.add(key);
  }
  return next;
}

/** The newest rows that came into the store since a time, oldest first. */
async function candidates(
  select: Select,
  {
    visibility,
    filter,
    window,
    storedFrom,
  }: {
    readonly visibility: Visibility;
    readonly filter: RequestFilter;
    readonly window: TimeWindow;
    readonly storedFrom: number;
  },
): Promise<Candidate[]> {
  const { where, parameters } = visible(window, visibility);
  const { conditions, parameters: values } = filterSql(filter);
  const stored = "stored_at >= fromUnixTimestamp64Milli({stored_from:Int64}, 'UTC')";
  const sql = [
    // The clock of another server may be ahead; what it stamps must not hide what this one will.
    'SELECT id, toUnixTimestamp64Milli(created_at) AS createdAt, toUnixTimestamp64Milli(least(stored_at, now64(3))) AS storedAt',
    `FROM requests WHERE ${[where, stored, ...conditions].join(' AND ')}`,
    'ORDER BY storedAt DESC, created_at DESC, id DESC LIMIT {rows:UInt32}',
  ].join(' ');
  const bounds = { stored_from: Math.max(storedFrom, 0), rows: mostCandidates };
  return (await select<Candidate>(sql, { ...parameters, ...values, ...bounds })).reverse();
}

async function recordsOf(
  select: Select,
  { visibility }: NewLogsQuery,
  kept: readonly Candidate[],
): Promise<LogRecord[]> {
  if (kept.length === 0) return [];
  const wanted = pairsOf(kept);
  const { where, parameters } = visible(wanted.window, visibility);
  const sql = `SELECT ${requestColumns.join(', ')} FROM requests WHERE ${where} AND ${inPairs} LIMIT 1 BY id`;
  const rows = await select<RequestRow>(sql, { ...parameters, ...wanted.parameters });
  const byId = new Map(rows.map((row) => [row.id, row]));
  return kept.flatMap(({ id }) => {
    const request = byId.get(id);
    return request === undefined ? [] : [{ request, body: undefined }];
  });
}
