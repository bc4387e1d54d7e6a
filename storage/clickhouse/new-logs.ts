import { mapInTurns } from '../../core/base/turns.ts';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import type {
  LeftOut,
  LogPlace,
  LogRecord,
  NewLogs,
  NewLogsQuery,
  RequestFilter,
  TimeWindow,
} from '../../core/ports/analytics.ts';
import type { RequestRow } from '../../core/ports/request-row.ts';
import { logSql } from './filter-sql.ts';
import { logRows } from './list-logs.ts';
import { rowColumns } from './row-columns.ts';
import type { Select } from './select.ts';

const maxNewRows = 1000;
/**
 * Upper bound of the time between a row's stamp and the end of its insert, and of the clock difference of two servers.
 */
const overlapMs = 10_000;
/** A row that was stored this long after its acceptance is no longer live. */
const liveMs = 86_400_000;
/** Time between two looks for inserts that have grown: the rows of one insert may become visible in parts. */
const growthMs = 5000;
/** An insert that began this long before the newest row has been looked at after its last row. */
const keptMs = overlapMs + growthMs + 1000;
/** An entry waits so long for its body, from which its preview is made. */
const bodyWaitMs = 2000;
/** Upper bound of rows in one search of bodies, and of inserts in a look at them; of more, the newest. */
const maxRead = 10_000;
/** Upper bound of ids that a query excludes: they are sent in the query string. */
const maxExcluded = 5000;

/** The rows that share a stamp, which for almost all of them means: one insert. */
interface Arrival {
  /** Rows that were returned, left out, or wait for their body. */
  readonly rows: number;
  /** Those of them that were returned or wait. */
  readonly ids: ReadonlySet<string>;
}

/**
 * Position of a client that follows the log: the storage time of the newest row seen, milliseconds since the epoch, and
 * what is known of the last seconds before it. Rows are known by the stamp of their insert, so that those of a busy log
 * need not be read again and again.
 */
export class Mark {
  readonly newest: number;
  /** Ids of returned rows that are not in `arrivals`, and the newest row's time from which on they are of no use. */
  readonly told: ReadonlySet<string>;
  readonly toldUntil: number;
  /** By stamp. */
  readonly arrivals: ReadonlyMap<number, Arrival>;
  /** Ids of rows without a body, whose preview is waited for. */
  readonly waiting: ReadonlySet<string>;
  /** The rows that `arrivals` counts: visibility and filter. */
  readonly counted: string;
  /** Of this process, milliseconds since the epoch: the last look for growth, and the last arrival. */
  readonly lookedAt: number;
  readonly arrivedAt: number;
  /** State of the store before the read and before the last look, where it is known; see `newLogs`. */
  readonly asOf: object | undefined;
  readonly lookedAsOf: object | undefined;

  constructor(newest: number, known: Partial<Omit<Mark, 'newest'>> = {}) {
    this.newest = newest;
    this.told = known.told ?? new Set();
    this.toldUntil = known.toldUntil ?? newest + keptMs;
    this.arrivals = known.arrivals ?? new Map<number, Arrival>();
    this.waiting = known.waiting ?? new Set();
    this.counted = known.counted ?? '';
    this.lookedAt = known.lookedAt ?? 0;
    this.arrivedAt = known.arrivedAt ?? 0;
    this.asOf = known.asOf;
    this.lookedAsOf = known.lookedAsOf;
  }
}

/** Throws `invalid_request` for text that is no `resume`. */
export function markOf(place: LogPlace): Mark {
  if (place instanceof Mark) return place;
  if (typeof place === 'string' && /^\d{1,16}$/.test(place)) return new Mark(Number(place));
  const message = 'There is no such place in the log to go on from. Begin anew, without it.';
  throw new GatewayError('invalid_request', message, { param: 'since' });
}

/**
 * See `Analytics.newLogs`. Rows carry the start time of their insert, and inserts end in another order: every read
 * repeats the last seconds before the newest known row, and skips rows already returned. `state` is replaced whenever
 * an insert of requests begins or ends, where no other process inserts any: while it is the same, the store need not be
 * asked. Undefined: it is not known.
 */
export async function newLogs(
  select: Select,
  query: NewLogsQuery,
  state: object | undefined,
): Promise<NewLogs> {
  const { since, limit, preview, filter = {} } = query;
  logSql.checkRange('limit', limit, maxNewRows);
  if (preview !== undefined) logSql.checkRange('preview', preview, logRows.maxPreview);
  // An insert may have more of them later: such rows are known by their ids alone.
  const isSearch = Object.keys(filter).some((name) => searched.has(name));
  if (since !== undefined) {
    const mark = markOf(since);
    if (isSearch) return found(select, query, mark);
    return isUpToDate(query, mark, state) ? nothingSince(mark) : arrived(select, query, mark, state);
  }
  const [row] = await select<{ now: number }>('SELECT toUnixTimestamp64Milli(now64(3)) AS now', {});
  const mark = new Mark(row?.now ?? 0, { asOf: state, lookedAsOf: state });
  const next = isSearch
    ? new Mark(mark.newest, { told: idsOf((await candidates(select, query, mark)).seen) })
    : await beginning(select, query, mark);
  return nothingSince(next);
}

function nothingSince(mark: Mark): NewLogs {
  return { records: [], since: mark, resume: String(mark.newest), left: undefined };
}

function isUpToDate(query: NewLogsQuery, mark: Mark, state: object | undefined): boolean {
  return (
    state !== undefined &&
    mark.asOf === state &&
    mark.counted === countedBy(query) &&
    mark.waiting.size === 0 &&
    !mayHaveGrown(mark, state)
  );
}

/** The mark with the inserts of the last seconds, whose rows are not told. */
async function beginning(select: Select, query: NewLogsQuery, mark: Mark): Promise<Mark> {
  const looked = await inserts(select, query, { storedFrom: mark.newest - keptMs });
  const arrivals = new Map(looked.map(({ stamp, rows }) => [stamp, { rows, ids: new Set<string>() }]));
  const now = Date.now();
  const counted = countedBy(query);
  return new Mark(mark.newest, { ...mark, arrivals, counted, lookedAt: now, arrivedAt: now });
}

function countedBy({ visibility, filter = {} }: NewLogsQuery): string {
  return JSON.stringify([{ ...visibility, asker: '' }, filter]);
}

/** A mark of another visibility has other counts: only the ids count then. */
function markFor(query: NewLogsQuery, mark: Mark): Mark {
  const counted = countedBy(query);
  return mark.counted === counted ? mark : new Mark(mark.newest, { told: toldOf(mark), counted });
}

function toldOf({ told, arrivals, waiting }: Mark): ReadonlySet<string> {
  const ids = [...told, ...[...arrivals.values()].flatMap((arrival) => [...arrival.ids])];
  return new Set(ids.filter((id) => !waiting.has(id)).slice(-maxExcluded));
}

/** Filters by what another table says of a row, which may come after it. */
const searched: ReadonlySet<string> = new Set<keyof RequestFilter>(['text', 'weightedFeedback']);

/** A row as it is read. */
type ReadRow = RequestRow & { readonly read_stamp: number; readonly read_now: number };

/** Rows behind a mark: those of other inserts, and those that waited. */
async function arrived(
  select: Select,
  query: NewLogsQuery,
  given: Mark,
  state: object | undefined,
): Promise<NewLogs> {
  const { limit } = query;
  const grown = await withGrowth(select, query, markFor(query, given), state);
  const { mark } = grown;
  const rows = await readRows(select, query, grown);
  const kept = rows.slice(0, limit);
  const newest = kept.reduce((latest, row) => Math.max(latest, storedAt(row)), mark.newest);
  const { records, waiting } = await recordsOf(select, query, unseen(kept, toldOf(mark)).reverse());

  const arrivals = new Map([...mark.arrivals].filter(([stamp]) => stamp >= newest - keptMs));
  const told = new Map<number, string[]>();
  for (const { read_stamp: stamp, id } of kept) told.set(stamp, [...(told.get(stamp) ?? []), id]);
  const counts = new Map([...told].map(([stamp, ids]) => [stamp, new Set(ids).size]));
  const lefts = [...grown.left];
  const beyond = rows[limit];
  if (beyond !== undefined) {
    for (const one of await unknownInserts(select, query, grown, rows)) {
      const ofIt = counts.get(one.stamp) ?? 0;
      counts.set(one.stamp, Math.max(one.rows, ofIt));
      if (one.rows <= ofIt) continue;
      // Of an insert that was told in part, the latest rows were.
      const to = ofIt === 0 ? one.to : Math.min(one.to, logRows.milliseconds(beyond.created_at));
      lefts.push({ count: one.rows - ofIt, window: { from: one.from, to: to + 1 } });
    }
  }
  for (const [stamp, count] of counts) {
    const before = mark.arrivals.get(stamp);
    const ids = told.get(stamp) ?? [];
    const waited = ids.filter((id) => mark.waiting.has(id)).length;
    // An insert that was known before, and has not grown, has only rows that waited.
    const isKnown = before !== undefined && !grown.again.has(stamp);
    const seen = isKnown ? before.rows : (before?.rows ?? 0) + count - waited;
    if (stamp >= newest - keptMs)
      arrivals.set(stamp, { rows: seen, ids: new Set([...(before?.ids ?? []), ...ids]) });
  }
  return {
    records,
    since: new Mark(newest, {
      ...{ arrivals, waiting, counted: mark.counted, lookedAt: mark.lookedAt },
      ...{ asOf: state, lookedAsOf: mark.lookedAsOf },
      arrivedAt: counts.size > 0 ? Date.now() : mark.arrivedAt,
      ...(newest < mark.toldUntil && { told: mark.told, toldUntil: mark.toldUntil }),
    }),
    resume: String(newest),
    left: sumOf(lefts),
  };
}

/** The first row of each id that was not told: after a crash a row may be stored twice. */
function unseen(rows: readonly ReadRow[], told: ReadonlySet<string>): ReadRow[] {
  const seen = new Set(told);
  return rows.filter(({ id }) => {
    const isNew = !seen.has(id);
    seen.add(id);
    return isNew;
  });
}

/** A mark whose inserts have been looked at again. */
interface Grown {
  readonly mark: Mark;
  /** Stamps of inserts with more rows, all of whose earlier rows are known by id. */
  readonly again: ReadonlySet<number>;
  /** Rows that cannot be told from earlier ones of their insert. */
  readonly left: readonly LeftOut[];
  /** Inserts with new rows that the look has seen, and the number of those rows. Undefined: it did not look. */
  readonly seen?: readonly Insert[];
}

/** Whether to look if inserts have grown, which is done once in a while after the last arrival. */
function mayHaveGrown(
  { arrivals, lookedAt, arrivedAt, lookedAsOf }: Mark,
  state: object | undefined,
): boolean {
  const isLate = lookedAt > arrivedAt + overlapMs;
  const isSame = state !== undefined && lookedAsOf === state;
  return arrivals.size > 0 && !isLate && !isSame && Date.now() - lookedAt >= growthMs;
}

async function withGrowth(
  select: Select,
  query: NewLogsQuery,
  mark: Mark,
  state: object | undefined,
): Promise<Grown> {
  const again = new Set<number>();
  const left: LeftOut[] = [];
  if (!mayHaveGrown(mark, state)) return { mark, again, left };
  const lookedAt = Date.now();
  const arrivals = new Map(mark.arrivals);
  const seen: Insert[] = [];
  const { told } = mark;
  for (const one of await inserts(select, query, { storedFrom: mark.newest - keptMs, told })) {
    const known = arrivals.get(one.stamp);
    if (known === undefined) seen.push(one);
    if (known === undefined || one.rows <= known.rows) continue;
    if (known.ids.size === known.rows) {
      again.add(one.stamp);
      seen.push({ ...one, rows: one.rows - known.rows });
    } else {
      left.push({ count: one.rows - known.rows, window: { from: one.from, to: one.to + 1 } });
      arrivals.set(one.stamp, { ...known, rows: one.rows });
    }
  }
  return {
    mark: new Mark(mark.newest, { ...mark, arrivals, lookedAt, lookedAsOf: state }),
    again,
    left,
    seen,
  };
}

/** Inserts with new rows, as the look has seen them if it saw all that have been read since. */
function unknownInserts(
  select: Select,
  query: NewLogsQuery,
  grown: Grown,
  rows: readonly ReadRow[],
): readonly Insert[] | Promise<readonly Insert[]> {
  const { seen, mark } = grown;
  const stamps = new Set(seen?.map(({ stamp }) => stamp));
  const hasSeenAll = rows.every(({ read_stamp: stamp }) => stamps.has(stamp));
  if (seen !== undefined && hasSeenAll && mark.waiting.size === 0) return seen;
  const before = Math.max(...rows.map(({ read_stamp: stamp }) => stamp));
  return inserts(select, query, { ...unknownOf(grown), before });
}

/** Conditions on rows by the time of their insert and by what is known. */
interface Unknown {
  readonly storedFrom: number;
  /** Stamps of inserts without new rows. */
  readonly known?: readonly number[];
  readonly waiting?: ReadonlySet<string>;
  /** Ids of rows that are known. */
  readonly told?: ReadonlySet<string>;
  /** The newest stamp. */
  readonly before?: number;
}

function unknownOf({ mark, again }: Grown): Unknown {
  const { arrivals, waiting, told } = mark;
  const storedFrom = mark.newest - overlapMs;
  const known = [...arrivals.keys()].filter((stamp) => stamp >= storedFrom && !again.has(stamp));
  const ofGrown = [...again].flatMap((stamp) => [...(arrivals.get(stamp)?.ids ?? [])]);
  return {
    storedFrom,
    known,
    waiting,
    told: new Set([...told, ...ofGrown.filter((id) => !waiting.has(id))]),
  };
}

function whereUnknown(
  { visibility, filter }: NewLogsQuery,
  { storedFrom, known = [], waiting = new Set(), told = new Set(), before }: Unknown,
) {
  const window = { from: storedFrom - liveMs, to: Number.MAX_SAFE_INTEGER };
  const { where, parameters } = logSql.visible(window, visibility);
  const { conditions, parameters: values } = logSql.filter(filter);
  const all = [where, stored];
  const bound: Record<string, unknown> = { ...parameters, ...values, stored_from: Math.max(storedFrom, 0) };
  if (known.length > 0) {
    const isKnown = 'toUnixTimestamp64Milli(stored_at) IN {known:Array(Int64)}';
    all.push(waiting.size === 0 ? `NOT ${isKnown}` : `(NOT ${isKnown} OR id IN {waiting:Array(UUID)})`);
    Object.assign(bound, { known, ...(waiting.size > 0 && { waiting: [...waiting] }) });
  }
  if (told.size > 0) {
    all.push('id NOT IN {told:Array(UUID)}');
    bound['told'] = [...told];
  }
  if (before !== undefined) {
    all.push('toUnixTimestamp64Milli(stored_at) <= {before:Int64}');
    bound['before'] = before;
  }
  return { where: [...all, ...conditions].join(' AND '), bound };
}

const stored = "stored_at >= fromUnixTimestamp64Milli({stored_from:Int64}, 'UTC')";
// The clock of another server may be ahead; its stamps must not hide later rows of this one.
const clampedStamp = 'least(stored_at, now64(3))';

/** Of what is new the newest rows, the newest first, and one more. */
function readRows(select: Select, query: NewLogsQuery, grown: Grown): Promise<ReadRow[]> {
  const { where, bound } = whereUnknown(query, unknownOf(grown));
  const sql = [
    `SELECT ${rowColumns.request.join(', ')}, toUnixTimestamp64Milli(stored_at) AS read_stamp,`,
    `toUnixTimestamp64Milli(now64(3)) AS read_now FROM requests WHERE ${where}`,
    `ORDER BY ${clampedStamp} DESC, created_at DESC, id DESC LIMIT {rows:UInt32}`,
  ].join(' ');
  return select<ReadRow>(sql, { ...bound, rows: query.limit + 1 });
}

function storedAt({ read_stamp, read_now }: ReadRow): number {
  return Math.min(read_stamp, read_now);
}

/** Numbers of rows by the stamp of their insert, and when they were accepted. */
interface Insert extends TimeWindow {
  readonly stamp: number;
  readonly rows: number;
}

function inserts(select: Select, query: NewLogsQuery, unknown: Unknown): Promise<Insert[]> {
  const { where, bound } = whereUnknown(query, unknown);
  const sql = [
    'SELECT toUnixTimestamp64Milli(stored_at) AS stamp, uniqExact(id) AS rows,',
    'toUnixTimestamp64Milli(min(created_at)) AS `from`, toUnixTimestamp64Milli(max(created_at)) AS `to`',
    `FROM requests WHERE ${where} GROUP BY stamp ORDER BY stamp DESC LIMIT {most:UInt32}`,
  ].join(' ');
  return select<Insert>(sql, { ...bound, most: maxRead });
}

function sumOf(lefts: readonly LeftOut[]): LeftOut | undefined {
  if (lefts.length === 0) return undefined;
  return {
    count: lefts.reduce((sum, { count }) => sum + count, 0),
    window: {
      from: Math.min(...lefts.map(({ window }) => window.from)),
      to: Math.max(...lefts.map(({ window }) => window.to)),
    },
  };
}

/** The records of these rows, without those that wait for their body. */
async function recordsOf(
  select: Select,
  query: Pick<NewLogsQuery, 'visibility' | 'preview' | 'isLast'>,
  rows: readonly ReadRow[],
): Promise<{ readonly records: readonly LogRecord[]; readonly waiting: ReadonlySet<string> }> {
  const { preview, isLast = false } = query;
  const previews = preview === undefined ? undefined : await logRows.previews(select, query, rows, preview);
  const records: LogRecord[] = [];
  const waiting = new Set<string>();
  for (const { read_stamp: stamp, read_now: now, ...request } of rows) {
    const { id } = request;
    const isYoung = now - Math.min(stamp, now) < bodyWaitMs;
    if (isYoung && !isLast && previews?.has(id) === false) waiting.add(id);
    else records.push({ request, body: undefined, ...(previews && { preview: previews.get(id) ?? '' }) });
  }
  return { records, waiting };
}

function idsOf(rows: readonly { readonly id: string }[]): ReadonlySet<string> {
  return new Set(rows.map(({ id }) => id));
}

interface Candidate {
  readonly id: string;
  readonly createdAt: number;
  readonly storedAt: number;
}

/** Rows that a search finds since the mark. A body may arrive after its request, which is looked for again for seconds. */
async function found(select: Select, query: NewLogsQuery, mark: Mark): Promise<NewLogs> {
  const { seen, newest } = await candidates(select, query, mark);
  const isTold = await mapInTurns(seen, ({ id }) => mark.told.has(id));
  const fresh = seen.filter((_, index) => isTold[index] === false);
  const kept = fresh.slice(-query.limit);
  const left = fresh.slice(0, fresh.length - kept.length);
  const { records, waiting } = await recordsOf(select, query, await rowsOf(select, query, kept));
  const isKept = ({ id, storedAt: at }: Candidate): boolean => at >= newest - overlapMs && !waiting.has(id);
  const next = new Mark(newest, { told: idsOf(seen.filter(isKept)) });
  return {
    records,
    since: next,
    resume: String(newest),
    left: left.length === 0 ? undefined : { count: left.length, window: logRows.pairs(left).window },
  };
}

/** The newest rows that a search finds among those stored since shortly before the mark, oldest first; the new mark's time. */
async function candidates(
  select: Select,
  query: Pick<NewLogsQuery, 'visibility' | 'filter'>,
  { newest }: Mark,
): Promise<{ readonly seen: readonly Candidate[]; readonly newest: number }> {
  const { visibility, filter = {} } = query;
  // The text is searched only in the bodies of rows that were stored since then.
  const plain = Object.fromEntries(Object.entries(filter).filter(([name]) => !searched.has(name)));
  const { now, window } = await acceptedSince(select, { visibility, filter: plain }, newest - overlapMs);
  // Rows that come later have a stamp behind it, less the overlap: those of a quiet log are searched no further.
  const next = Math.max(newest, now);
  if (window === undefined) return { seen: [], newest: next };
  const { where, parameters } = logSql.visible(window, visibility);
  const { conditions, parameters: values } = logSql.filter(filter);
  const sql = [
    `SELECT id, toUnixTimestamp64Milli(created_at) AS createdAt, toUnixTimestamp64Milli(${clampedStamp}) AS storedAt`,
    `FROM requests WHERE ${[where, stored, ...conditions].join(' AND ')}`,
    'ORDER BY storedAt DESC, created_at DESC, id DESC LIMIT {rows:UInt32}',
  ].join(' ');
  const bounds = { stored_from: Math.max(newest - overlapMs, 0), rows: maxRead };
  const seen = (await select<Candidate>(sql, { ...parameters, ...values, ...bounds })).reverse();
  return { seen, newest: next };
}

/** The time of the store, and the shortest window of the rows that were stored since `storedFrom`, if there are any. */
async function acceptedSince(
  select: Select,
  { visibility, filter }: { readonly visibility: NewLogsQuery['visibility']; readonly filter: RequestFilter },
  storedFrom: number,
): Promise<{ readonly now: number; readonly window: TimeWindow | undefined }> {
  const { where, bound } = whereUnknown({ since: undefined, limit: 1, visibility, filter }, { storedFrom });
  const sql = [
    'SELECT toUnixTimestamp64Milli(now64(3)) AS now, count() AS rows,',
    'toUnixTimestamp64Milli(min(created_at)) AS `from`, toUnixTimestamp64Milli(max(created_at)) AS `to`',
    `FROM requests WHERE ${where}`,
  ].join(' ');
  const [row] = await select<TimeWindow & { readonly now: number; readonly rows: number }>(sql, bound);
  if (row === undefined || row.rows === 0) return { now: row?.now ?? 0, window: undefined };
  return { now: row.now, window: { from: row.from, to: row.to + 1 } };
}

/** These rows whole, in their order. */
async function rowsOf(
  select: Select,
  { visibility }: NewLogsQuery,
  wanted: readonly Candidate[],
): Promise<readonly ReadRow[]> {
  if (wanted.length === 0) return [];
  const pairs = logRows.pairs(wanted);
  const { where, parameters } = logSql.visible(pairs.window, visibility);
  const sql = [
    `SELECT ${rowColumns.request.join(', ')}, toUnixTimestamp64Milli(stored_at) AS read_stamp,`,
    `toUnixTimestamp64Milli(now64(3)) AS read_now FROM requests WHERE ${where} AND ${logRows.inPairs} LIMIT 1 BY id`,
  ].join(' ');
  const rows = await select<ReadRow>(sql, { ...parameters, ...pairs.parameters });
  const byId = new Map(rows.map((row) => [row.id, row]));
  return wanted.flatMap(({ id }) => byId.get(id) ?? []);
}
