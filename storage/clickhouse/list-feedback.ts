import type { Analytics, FeedbackQuery } from '../../core/ports/analytics.ts';
import type { FeedbackRow } from '../../core/ports/request-row.ts';
import { checkRange, filterSql, moments, visible } from './filter-sql.ts';
import { feedbackColumns } from './row-columns.ts';
import type { Select } from './select.ts';

/** Time before the window in which the requests of its feedback are searched. */
const reachMs = 30 * 86_400_000;
const maxRows = 1000;
const maxOffset = 1_000_000;

interface Place {
  /** Of the row with the latest revision. */
  readonly row_id: string;
  readonly given_ms: number;
  readonly total: number;
}

/** See `Analytics.feedback`. The page is found without metadata, which may be long, and then read by its ids. */
export async function listFeedback(
  select: Select,
  { window, visibility, filter, value = {}, limit, offset }: FeedbackQuery,
): ReturnType<Analytics['feedback']> {
  checkRange('limit', limit, maxRows);
  checkRange('offset', offset, maxOffset);
  const { from, to } = moments(window);
  const { whose, where, parameters } = visible({ from: from - reachMs, to }, visibility);
  const filtered = filterSql(filter);
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
  const places = await select<Place>(page, bound);
  const [first] = places;
  if (first === undefined) {
    if (offset === 0) return { total: 0, rows: [] };
    const query = { window, visibility, ...(filter !== undefined && { filter }), value };
    return { total: (await listFeedback(select, { ...query, limit: 0, offset: 0 })).total, rows: [] };
  }
  const sql = `SELECT ${feedbackColumns.join(', ')} ${given} AND id IN {ids:Array(UUID)} LIMIT 1 BY id`;
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
