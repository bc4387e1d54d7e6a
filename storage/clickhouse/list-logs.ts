import type {
  Analytics,
  LogCursor,
  LogQuery,
  LogRecord,
  TimeWindow,
  TraceSummary,
  Visibility,
  FeedbackQuery,
} from '../../core/ports/analytics.ts';
import type { BodyRow, RequestRow, FeedbackRow } from '../../core/ports/request-row.ts';
import { logSql } from './filter-sql.ts';
import { rowColumns } from './row-columns.ts';
import type { Select } from './select.ts';
import { timeBuckets } from './bucket-starts.ts';

/** Lists of log rows. */
export const listings = { logs, count: countLogs, trace, traces, feedback: listFeedback };

/** Characters of a text that are looked at: more than are shown, because white space is drawn together. */
const readCharacters = 2000;

/** Words of a message of any wire: `content` or `parts`, a text or a list of texts and blocks. */
function wordsOf(message: string): string {
  const block =
    "if(JSONType(block) = 'String', JSONExtractString(block), if(JSONType(block, 'text') = 'String', JSONExtractString(block, 'text'), ''))";
  const blocks = `arrayConcat(JSONExtractArrayRaw(${message}, 'content'), JSONExtractArrayRaw(${message}, 'parts'))`;
  return [
    `multiIf(JSONType(${message}) = 'String', JSONExtractString(${message})`,
    `JSONType(${message}, 'content') = 'String', JSONExtractString(${message}, 'content')`,
    `arrayStringConcat(arrayFilter(words -> words != '', arrayMap(block -> ${block}, ${blocks})), ' '))`,
  ].join(', ');
}

// An item of responses that is no message has a type and no role.
const byUser =
  "JSONExtractString(message, 'role') = 'user' OR NOT (JSONHas(message, 'role') OR JSONHas(message, 'type'))";
const messages =
  "arrayConcat(JSONExtractArrayRaw(request, 'messages'), JSONExtractArrayRaw(request, 'contents'), JSONExtractArrayRaw(request, 'input'), JSONExtractArrayRaw(request, 'prompt'))";
// Messages that hold results of tools alone say nothing of the user's.
const lastWords = `arrayLast(words -> words != '', arrayMap(message -> ${wordsOf('message')}, arrayFilter(message -> ${byUser}, ${messages})))`;
const alone = "concat(JSONExtractString(request, 'input'), JSONExtractString(request, 'prompt'))";
const found = `if(${lastWords} != '', ${lastWords}, ${alone})`;
const drawnTogether = `trimBoth(replaceRegexpAll(substringUTF8(${found}, 1, ${readCharacters}), '\\\\s+', ' '))`;

/**
 * The first words of the last message of a user, of the request of a body's row: at most `{preview:UInt16}` characters.
 * Empty where there is none, and for a body that was cut off, because it is no JSON any more.
 */
const previewSql = `if(log_format = 'base64', '', substringUTF8(${drawnTogether}, 1, {preview:UInt16}))`;

/** They are sent in the query string, whose limit is about a megabyte. */
const pairsAtOnce = 1000;

/**
 * `(created_at, id)` of known rows: a sub-select, so that the primary key finds them. `pairsOf` fills its placeholders.
 */
const inPairs =
  "(created_at, id) IN (SELECT fromUnixTimestamp64Milli(pair.1, 'UTC'), pair.2 FROM (SELECT arrayJoin(arrayZip({times:Array(Int64)}, {ids:Array(UUID)})) AS pair))";

/** Lists return bodies and headers, without the call to the provider, which is as long again. */
const listedColumns = rowColumns.body.filter((name) => name !== 'provider_call');
const maxRows = 10_000;
const maxPreview = 1000;

/** Reads log rows by their pairs of time and id. */
export const logRows = {
  inPairs,
  maxPreview,
  previews: previewsOf,
  milliseconds: millisecondsOf,
  pairs: pairsOf,
};

/** See `Analytics.logs`. */
async function logs(select: Select, query: LogQuery): Promise<readonly LogRecord[]> {
  const { order, limit, bodies = false, preview } = query;
  logSql.checkRange('limit', limit, maxRows);
  if (preview !== undefined) logSql.checkRange('preview', preview, maxPreview);
  const rows: RequestRow[] = [];
  const window = windowBehind(query);
  // Rows are sorted by time only within a workspace, and a text is matched first: otherwise a query costs as much as
  // its window. In sorted rows, the end alone touches fewer parts of the table than the whole window.
  const isOrdered = query.visibility.workspaceId !== undefined && query.filter?.text === undefined;
  for (const slice of timeBuckets.slices(window, order, isOrdered ? Infinity : undefined)) {
    if (rows.length >= limit) break;
    rows.push(...(await page(select, query, slice, limit - rows.length)));
  }
  if (preview !== undefined) {
    const told = await previewsOf(select, query, rows, preview);
    return rows.map((request) => ({ request, body: undefined, preview: told.get(request.id) ?? '' }));
  }
  if (!bodies) return rows.map((request) => ({ request, body: undefined }));
  const found = await ofBodies<BodyRow>(select, query, rows, { columns: listedColumns.join(', ') });
  return rows.map((request) => ({ request, body: found.get(request.id) }));
}

/** See `Analytics.countLogs`. */
async function countLogs(
  select: Select,
  { window, visibility, filter }: Pick<LogQuery, 'window' | 'visibility' | 'filter'>,
): Promise<number> {
  const { where, parameters } = logSql.visible(window, visibility);
  const { conditions, parameters: values } = logSql.filter(filter);
  const sql = `SELECT count() AS entries FROM requests WHERE ${[where, ...conditions].join(' AND ')}`;
  const [row] = await select<{ entries: number }>(sql, { ...parameters, ...values });
  return row?.entries ?? 0;
}

/**
 * The window without the part before the cursor: the primary key can use a time bound, but not a comparison of pairs.
 */
function windowBehind({ window, after, order }: LogQuery): TimeWindow {
  const { from, to } = logSql.moments(window);
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
  const { where, parameters } = logSql.visible(window, visibility);
  const { conditions, parameters: values } = logSql.filter(filter);
  const [direction, beyond] = order === 'newest' ? ['DESC', '<'] : ['ASC', '>'];
  const behind =
    after === undefined
      ? []
      : [`(created_at, id) ${beyond} (fromUnixTimestamp64Milli({after_at:Int64}, 'UTC'), {after_id:UUID})`];
  const sql = [
    `SELECT ${rowColumns.request.join(', ')} FROM requests`,
    `WHERE ${[where, ...behind, ...conditions].join(' AND ')}`,
    `ORDER BY created_at ${direction}, id ${direction} LIMIT {rows:UInt32}`,
  ].join(' ');
  return select<RequestRow>(sql, {
    ...parameters,
    ...values,
    rows: limit,
    ...(after !== undefined && { after_at: after.createdAt, after_id: after.id }),
  });
}

/** Previews of at most so many characters, by id; of rows that have a body. */
async function previewsOf(
  select: Select,
  query: Pick<LogQuery, 'visibility'>,
  rows: readonly Pick<RequestRow, 'id' | 'created_at'>[],
  preview: number,
): Promise<ReadonlyMap<string, string>> {
  const told = await ofBodies<{ id: string; preview: string }>(select, query, rows, {
    columns: `id, ${previewSql} AS preview`,
    parameters: { preview },
  });
  return new Map([...told].map(([id, body]) => [id, body.preview]));
}

/** Columns of bodies, by id. Bodies have no user or key: they are read by the requests that were found. */
async function ofBodies<Body extends { readonly id: string }>(
  select: Select,
  { visibility }: Pick<LogQuery, 'visibility'>,
  rows: readonly Pick<RequestRow, 'id' | 'created_at'>[],
  { columns, parameters: values = {} }: { readonly columns: string; readonly parameters?: object },
): Promise<ReadonlyMap<string, Body>> {
  const found = new Map<string, Body>();
  for (let start = 0; start < rows.length; start += pairsAtOnce) {
    const some = rows.slice(start, start + pairsAtOnce);
    const wanted = pairsOf(some.map((row) => ({ id: row.id, createdAt: millisecondsOf(row.created_at) })));
    const { place, parameters } = logSql.visible(wanted.window, visibility);
    const sql = `SELECT ${columns} FROM bodies WHERE ${place} AND ${inPairs} LIMIT 1 BY id`;
    const bodies = await select<Body>(sql, { ...parameters, ...wanted.parameters, ...values });
    for (const body of bodies) found.set(body.id, body);
  }
  return found;
}

/** Milliseconds of a stored time, `YYYY-MM-DD HH:MM:SS.mmm` in UTC. */
function millisecondsOf(stored: string): number {
  return Date.parse(`${stored.replace(' ', 'T')}Z`);
}

const maxRequests = 1000;
const maxTraces = 500;
const maxOffset = 1_000_000;

/** See `Analytics.trace`. */
function trace(
  select: Select,
  traceId: string,
  window: TimeWindow,
  visibility: Visibility,
): Promise<readonly RequestRow[]> {
  const { where, parameters } = logSql.visible(window, visibility);
  const sql = `SELECT ${rowColumns.request.join(', ')} FROM requests WHERE ${where} AND trace_id = {trace:String} ORDER BY created_at, id LIMIT ${maxRequests}`;
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
async function traces(
  select: Select,
  query: Parameters<Analytics['traces']>[0],
  atOnce = 200_000,
): ReturnType<Analytics['traces']> {
  const { limit, offset, window } = query;
  logSql.checkRange('limit', limit, maxTraces);
  logSql.checkRange('offset', offset, maxOffset);
  const { where, whose, parameters } = logSql.visible(window, query.visibility);
  const { conditions, parameters: values } = logSql.filter(query.filter);
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
  for (const slice of timeBuckets.slices(logSql.moments(window), 'newest')) {
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
const inSlice = logSql.between('slice_from', 'slice_to');

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

/** The shortest window of these rows, at least one, and the parameters of `inPairs`. */
function pairsOf(rows: readonly LogCursor[]) {
  const times = rows.map((row) => row.createdAt);
  return {
    window: { from: Math.min(...times), to: Math.max(...times) + 1 },
    parameters: { times, ids: rows.map((row) => row.id) },
  };
}

/** Time before the window in which the requests of its feedback are searched. */
const reachMs = 30 * 86_400_000;
const maxFeedbackRows = 1000;
const maxFeedbackOffset = 1_000_000;

interface FeedbackPlace {
  /** Of the row with the latest revision. */
  readonly row_id: string;
  readonly given_ms: number;
  readonly total: number;
}

/** See `Analytics.feedback`. The page is found without metadata, which may be long, and then read by its ids. */
async function listFeedback(
  select: Select,
  { window, visibility, filter, value = {}, limit, offset }: FeedbackQuery,
): ReturnType<Analytics['feedback']> {
  logSql.checkRange('limit', limit, maxFeedbackRows);
  logSql.checkRange('offset', offset, maxFeedbackOffset);
  const { from, to } = logSql.moments(window);
  const { whose, where, parameters } = logSql.visible({ from: from - reachMs, to }, visibility);
  const filtered = logSql.filter(filter);
  const given = `FROM feedback WHERE ${whose} AND created_at >= fromUnixTimestamp64Milli({given_from:Int64}, 'UTC')`;
  const about = `trace_number IN (SELECT trace_number ${given} AND trace_id != '')`;
  const requests = [where, about, ...filtered.conditions].join(' AND ');
  const conditions = [
    // Of feedback given before the window, only later revisions are within it.
    "place = 1 AND oldest = 1 AND given_at < fromUnixTimestamp64Milli({to:Int64}, 'UTC')",
    'latest_value >= {value_min:Float64} AND latest_value <= {value_max:Float64}',
    ...(filtered.conditions.length > 0
      ? [`latest_trace IN (SELECT trace_number FROM requests WHERE ${requests})`]
      : []),
  ];
  const ordered = 'revision DESC, created_at DESC, id DESC';
  const page = [
    'SELECT row_id, toUnixTimestamp64Milli(given_at) AS given_ms, count() OVER () AS total',
    'FROM (SELECT id AS row_id, feedback_id, value AS latest_value, trace_number AS latest_trace,',
    'row_number() OVER revisions AS place, last_value(revision) OVER revisions AS oldest,',
    `last_value(created_at) OVER revisions AS given_at ${given}`,
    `WINDOW revisions AS (PARTITION BY feedback_id ORDER BY ${ordered} ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING))`,
    `WHERE ${conditions.join(' AND ')}`,
    'ORDER BY given_at DESC, feedback_id DESC LIMIT {limit:UInt32} OFFSET {offset:UInt32}',
  ].join(' ');
  const bound = {
    ...{ ...parameters, ...filtered.parameters, given_from: from, offset },
    // A page without rows has no total either.
    limit: Math.max(limit, 1),
    ...{ value_min: value.min ?? -Infinity, value_max: value.max ?? Infinity },
  };
  const places = await select<FeedbackPlace>(page, bound);
  const [first] = places;
  if (first === undefined) {
    if (offset === 0) return { total: 0, rows: [] };
    const query = { window, visibility, ...(filter !== undefined && { filter }), value };
    return { total: (await listFeedback(select, { ...query, limit: 0, offset: 0 })).total, rows: [] };
  }
  const sql = `SELECT ${rowColumns.feedback.join(', ')} ${given} AND id IN {ids:Array(UUID)} LIMIT 1 BY id`;
  const ids = places.slice(0, limit).map(({ row_id: id }) => id);
  const found =
    ids.length === 0 ? [] : await select<FeedbackRow>(sql, { ...parameters, given_from: from, ids });
  const byId = new Map(found.map((row) => [row.id, row]));
  const rows = places.flatMap(({ row_id: id, given_ms: givenAt }) => {
    const row = byId.get(id);
    return row === undefined ? [] : [{ row, givenAt }];
  });
  return { total: first.total, rows };
}
