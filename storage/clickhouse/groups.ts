import type { GroupColumn, GroupQuery, GroupRow } from '../../core/ports/analytics.ts';
import { checkRange, feedbackOfTraces, filterSql, moments, visible } from './filter-sql.ts';
import type { Select } from './select.ts';
import type { UsageColumn, UsageReach } from './usage-plan.ts';
import { splitColumn, usageSettings, usageSql } from './usage-sql.ts';
import { columnSql } from './measure-sql.ts';

const feedbackColumns = {
  avg_weighted_feedback: 'feedback_average',
  requests_with_feedback: 'feedback_requests',
} as const satisfies Partial<Record<GroupColumn, string>>;

/** Name of a computed column in the result. Prefixed, so that it cannot shadow a column of the table. */
function alias(column: GroupColumn): string {
  return `computed_${column}`;
}

/** One statement for one page of groups, with the values of its placeholders; `total` counts all groups. */
function groupSql(
  query: GroupQuery,
  reach: UsageReach,
): { readonly sql: string; readonly parameters: Readonly<Record<string, unknown>> } {
  const computed = [...new Set(query.columns)].map((column) =>
    column in feedbackColumns ? undefined : { column, ...columnSql[column as keyof typeof columnSql] },
  );
  const ofUsage = computed.filter((one) => one !== undefined);
  const needs = new Set<UsageColumn>(['requests', ...ofUsage.flatMap((one) => one.needs)]);
  const usage = usageSql({ ...query, split: query.by, columns: [...needs] }, reach);
  const page = [
    `SELECT ${['split AS group_value', 'sum(requests) AS group_requests', 'count() OVER () AS group_total', ...ofUsage.map(({ column, sql }) => `${sql} AS ${alias(column)}`)].join(', ')}`,
    `FROM (${usage.sql})`,
    'GROUP BY split HAVING sum(requests) > 0',
    'ORDER BY group_requests DESC, group_value ASC',
    'LIMIT {limit:UInt32} OFFSET {offset:UInt32}',
  ].join('\n');
  const { limit, offset } = query;
  const parameters = { ...usage.parameters, limit: Math.max(limit, 1), offset };
  if (ofUsage.length === computed.length) return { sql: page, parameters };
  const columns = Object.entries(feedbackColumns).map(
    ([column, name]) => `${name} AS ${alias(column as GroupColumn)}`,
  );
  const feedback = feedbackOfGroups(query);
  return {
    sql: [
      `SELECT page.*, ${columns.join(', ')} FROM (${page}) AS page`,
      `LEFT JOIN (${feedback.sql}) AS rated ON page.group_value = rated.feedback_value`,
      'ORDER BY group_requests DESC, group_value ASC',
    ].join('\n'),
    parameters: { ...parameters, ...feedback.parameters },
  };
}

/** Feedback of each group: all feedback on its traces, each trace once, and the number of requests with feedback. */
function feedbackOfGroups({ by, window, visibility, filter }: GroupQuery): ReturnType<typeof groupSql> {
  const { where, parameters } = visible(moments(window), visibility);
  const told = splitColumn(by);
  const filtered = filterSql(filter);
  const conditions = [where, ...told.conditions, ...filtered.conditions];
  return {
    sql: [
      'SELECT feedback_value, sum(rated_requests) AS feedback_requests,',
      'if(sum(trace_weights) = 0, NULL, sum(trace_weighted) / sum(trace_weights)) AS feedback_average',
      `FROM (SELECT ${told.sql} AS feedback_value, trace, count() AS rated_requests,`,
      `any(weighted) AS trace_weighted, any(weights) AS trace_weights`,
      `FROM requests INNER JOIN (${feedbackOfTraces}) AS traces ON trace_number = trace`,
      `WHERE ${conditions.join(' AND ')} GROUP BY feedback_value, trace)`,
      'GROUP BY feedback_value',
    ].join(' '),
    parameters: { ...parameters, ...told.parameters, ...filtered.parameters },
  };
}

const maxPage = 10_000;
const maxOffset = 1_000_000;

type GroupResult = Readonly<Record<string, number | string | null>> & {
  readonly group_value: string;
  readonly group_requests: number;
  readonly group_total: number;
};

/** See `Analytics.groups`. */
export async function groups(
  select: Select,
  query: GroupQuery,
  reach: UsageReach,
): Promise<{ total: number; rows: readonly GroupRow[] }> {
  const { limit, offset } = query;
  checkRange('limit', limit, maxPage);
  checkRange('offset', offset, maxOffset);
  const { from, to } = moments(query.window);
  if (from >= to) return { total: 0, rows: [] };
  const { sql, parameters } = groupSql(query, reach);
  const results = await select<GroupResult>(sql, parameters, { settings: usageSettings });
  const first = results[0];
  if (first === undefined && offset > 0) {
    return {
      total: (await groups(select, { ...query, columns: [], limit: 1, offset: 0 }, reach)).total,
      rows: [],
    };
  }
  return {
    total: first?.group_total ?? 0,
    rows: results.slice(0, limit).map((result) => groupRow(result, query.columns)),
  };
}

function groupRow(result: GroupResult, wanted: readonly GroupColumn[]): GroupRow {
  const columns: Partial<Record<GroupColumn, number | string | null>> = {};
  for (const column of wanted) {
    const value = result[alias(column)] ?? null;
    const isTime = column === 'last_seen' || column === 'first_seen';
    columns[column] = isTime && typeof value === 'number' ? new Date(value).toISOString() : value;
  }
  return { value: result.group_value, requests: result.group_requests, columns };
}
