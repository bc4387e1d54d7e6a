import type {
  FeedbackSeries,
  FeedbackSeriesQuery,
  GroupColumn,
  GroupQuery,
  GroupRow,
  Measure,
  Measures,
  RequestSeries,
  RequestSeriesQuery,
} from '../../core/ports/analytics.ts';
import { timeBuckets } from './bucket-starts.ts';
import type { Select } from './select.ts';
import { type Computed, type UsageColumn, usageQuery, type UsageReach } from './usage-sql.ts';
import { logSql } from './filter-sql.ts';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import { mapInTurns } from '../../core/base/turns.ts';

/** Usage over time and by group. */
export const usageSeries = { feedback: feedbackSeries, usage: series, groups };

/** Time before the window in which the requests of its feedback are searched. */
const reachMs = 30 * 86_400_000;

interface FeedbackResult extends SeriesResult {
  readonly point_total: number;
  readonly point_average: number | null;
}

/**
 * See `Analytics.feedbackSeries`. Filters and models use requests of the window and of the 30 days before it; feedback
 * counts for one model, that of the latest successful request of its trace (else of the latest request), and for an
 * empty one without such a request.
 */
async function feedbackSeries(
  select: Select,
  { buckets, window, visibility, filter, split }: FeedbackSeriesQuery,
): Promise<FeedbackSeries> {
  const { from, to } = logSql.moments(window);
  const starts = timeBuckets.starts({ from, to }, buckets);
  const { whose, where, parameters } = logSql.visible({ from: from - reachMs, to }, visibility);
  const filtered = logSql.filter(filter);
  const bucket = timeBuckets.sql(starts);
  const given = `FROM feedback WHERE ${whose} AND created_at >= fromUnixTimestamp64Milli({given_from:Int64}, 'UTC')`;
  // Only requests with feedback: sets of all would exceed the memory of a query.
  const about = `trace_number IN (SELECT trace_number ${given} AND trace_id != '')`;
  const requests = [where, about, ...filtered.conditions].join(' AND ');
  // Of feedback given before the window, only later revisions are within it.
  const feedback = `SELECT * FROM (${logSql.latestFeedback(given)}) WHERE given_at < fromUnixTimestamp64Milli({to:Int64}, 'UTC')`;
  const models = `LEFT JOIN (SELECT trace_number, argMax(model, (is_success, created_at, id)) AS answered_by FROM requests WHERE ${requests} GROUP BY trace_number) AS answers ON latest_trace = answers.trace_number`;
  const isFiltered = filter !== undefined && filtered.conditions.length > 0;
  const told = { none: "''", score: 'toString(latest_value)', model: 'toString(answered_by)' }[
    split ?? 'none'
  ];
  const at = bucket.of('intDiv(toUnixTimestamp64Milli(given_at), 1000)');
  const sql = seriesStatement(
    [
      `FROM (SELECT ${at} AS at, ${told} AS split, latest_value, latest_weight FROM (${feedback}) AS given`,
      split === 'model' ? models : '',
      isFiltered ? `WHERE latest_trace IN (SELECT trace_number FROM requests WHERE ${requests})` : '',
      ')',
    ].join(' '),
    ['count() AS point_total', `${logSql.weightedAverage} AS point_average`],
    { isSplit: split !== undefined, weight: 'count()' },
  );
  const bound = { ...parameters, ...filtered.parameters, ...bucket.parameters, given_from: from };
  const results = starts.length === 0 ? [] : await select<FeedbackResult>(sql, bound);
  return arrangeSeries(results, starts, split !== undefined, {
    of: (result) => ({ total: result.point_total, averageWeighted: result.point_average }),
    nothing: { total: 0, averageWeighted: null },
  });
}

/** Upper bound of points in a split series. */
const maxPoints = 100_000;

/** One row of a statement that ends with `seriesEnd`: a point, or the total of a split value. */
interface SeriesResult {
  /** Seconds since the epoch. */
  readonly point_at: number;
  readonly point_split?: string;
  readonly is_total: number;
}

/** Time and split value of a point. */
interface Placed {
  readonly at: number;
  readonly split: string | undefined;
}

/**
 * First and last part of a statement over rows with `at` and `split`, which returns points and totals. `weight`: within
 * a bucket, points are sorted by it in descending order.
 */
function seriesStatement(
  from: string,
  computed: readonly string[],
  { isSplit, weight }: { readonly isSplit: boolean; readonly weight: string },
): string {
  const keys = isSplit ? 'split, at' : 'at';
  const columns = [
    'at AS point_at',
    'grouping(at) AS is_total',
    ...(isSplit ? ['split AS point_split'] : []),
  ];
  return [
    `SELECT ${[...columns, ...computed].join(', ')}`,
    from,
    `GROUP BY ${keys} WITH ROLLUP`,
    // The last step of the roll-up, over all split values, is not needed.
    `HAVING ${weight} > 0${isSplit ? ' AND grouping(split) = 0' : ''}`,
    `ORDER BY is_total, at, ${weight} DESC${isSplit ? ', split' : ''}`,
    `LIMIT ${maxPoints + 1}`,
  ].join('\n');
}

/**
 * Sorts the rows of such a statement into a series and fills its gaps. Throws `invalid_request` for too many points.
 */
async function arrangeSeries<Result extends SeriesResult, Values extends object>(
  results: readonly Result[],
  starts: readonly number[],
  isSplit: boolean,
  { of, nothing }: { readonly of: (result: Result) => Values; readonly nothing: Values },
): Promise<{ totals: (Omit<Placed, 'at'> & Values)[]; points: (Placed & Values)[] }> {
  if (results.length > maxPoints) throw tooManyPoints();
  const splitOf = (result: Result): string | undefined => (isSplit ? result.point_split : undefined);
  const totals = results
    .filter((result) => result.is_total === 1)
    .map((result) => ({ split: splitOf(result), ...of(result) }));
  const points = await mapInTurns(
    results.filter((result) => result.is_total === 0),
    (result) => ({ at: result.point_at * 1000, split: splitOf(result), ...of(result) }),
  );
  if (isSplit) return { totals, points };
  const found = new Map(points.map((point) => [point.at, point]));
  const none = { split: undefined, ...nothing };
  return {
    totals: totals.length > 0 ? totals : [none],
    points: await mapInTurns(starts, (at) => found.get(at) ?? { at, ...none }),
  };
}

function tooManyPoints(): GatewayError {
  const message = `The series has more than ${maxPoints} points. Choose a coarser granularity, a shorter window or a filter.`;
  return new GatewayError('invalid_request', message, { param: 'granularity' });
}

type Result = SeriesResult & Readonly<Record<string, number | string | null>>;

/** See `Analytics.series`. */
async function series(select: Select, query: RequestSeriesQuery, reach: UsageReach): Promise<RequestSeries> {
  const { split } = query;
  const measures = [...new Set(query.measures)];
  const starts = timeBuckets.starts(logSql.moments(query.window), query.buckets);
  const columns = new Set<UsageColumn>(['requests', ...measures.flatMap((one) => measureSql[one].needs)]);
  const usage = usageQuery.sql({ ...query, columns: [...columns], starts }, reach);
  const sql = seriesStatement(
    `FROM (${usage.sql})`,
    measures.map((measure) => `${measureSql[measure].sql} AS ${alias(measure)}`),
    { isSplit: split !== undefined, weight: 'sum(requests)' },
  );
  const named = measures.map((measure) => ({ measure, name: alias(measure) }));
  const settings = usageQuery.settings;
  const results = starts.length === 0 ? [] : await select<Result>(sql, usage.parameters, { settings });
  return arrangeSeries(results, starts, split !== undefined, {
    of: (result) => {
      const values: Partial<Record<Measure, number | string | null>> = {};
      for (const { measure, name } of named) values[measure] = result[name] ?? null;
      return { values };
    },
    nothing: { values: valuesOfNothing(measures) },
  });
}

/** Prefixed, so that it cannot shadow a column. */
function alias(measure: Measure): string {
  return `computed_${measure}`;
}

/** Values of an empty bucket: no requests have no average. */
function valuesOfNothing(measures: readonly Measure[]): Measures {
  const nothing = (measure: Measure): number | string | null => {
    if (measure === 'cost') return '0.000000000000';
    return /^(avg|p\d+)_/.test(measure) ? null : 0;
  };
  return Object.fromEntries(measures.map((measure) => [measure, nothing(measure)]));
}

const feedbackColumns = {
  avg_weighted_feedback: 'feedback_average',
  requests_with_feedback: 'feedback_requests',
} as const satisfies Partial<Record<GroupColumn, string>>;

/** Name of a computed column in the result. Prefixed, so that it cannot shadow a column of the table. */
function groupAlias(column: GroupColumn): string {
  return `computed_${column}`;
}

/** One statement for one page of groups, with the values of its placeholders; `total` counts all groups. */
function groupSql(
  query: GroupQuery,
  reach: UsageReach,
): { readonly sql: string; readonly parameters: Readonly<Record<string, unknown>> } {
  const { limit, offset, orderBy = 'requests', ascending = false } = query;
  const wanted = orderBy === 'requests' ? query.columns : [...query.columns, orderBy];
  const first = orderBy === 'requests' ? 'group_requests' : groupAlias(orderBy);
  const order = `ORDER BY ${first} ${ascending ? 'ASC' : 'DESC'} NULLS LAST, group_value ASC`;
  const computed = [...new Set(wanted)].map((column) =>
    column in feedbackColumns ? undefined : { column, ...columnSql[column as keyof typeof columnSql] },
  );
  const ofUsage = computed.filter((one) => one !== undefined);
  const needs = new Set<UsageColumn>(['requests', ...ofUsage.flatMap((one) => one.needs)]);
  const usage = usageQuery.sql({ ...query, split: query.by, columns: [...needs] }, reach);
  const page = [
    `SELECT ${['split AS group_value', 'sum(requests) AS group_requests', 'count() OVER () AS group_total', ...ofUsage.map(({ column, sql }) => `${sql} AS ${groupAlias(column)}`)].join(', ')}`,
    `FROM (${usage.sql})`,
    'GROUP BY split HAVING sum(requests) > 0',
    order,
    'LIMIT {limit:UInt32} OFFSET {offset:UInt32}',
  ].join('\n');
  const parameters = { ...usage.parameters, limit: Math.max(limit, 1), offset };
  if (ofUsage.length === computed.length) return { sql: page, parameters };
  const columns = Object.entries(feedbackColumns).map(
    ([column, name]) => `${name} AS ${groupAlias(column as GroupColumn)}`,
  );
  const feedback = feedbackOfGroups(query);
  return {
    sql: [
      `SELECT page.*, ${columns.join(', ')} FROM (${page}) AS page`,
      `LEFT JOIN (${feedback.sql}) AS rated ON page.group_value = rated.feedback_value`,
      order,
    ].join('\n'),
    parameters: { ...parameters, ...feedback.parameters },
  };
}

/** Feedback of each group: all feedback on its traces, each trace once, and the number of requests with feedback. */
function feedbackOfGroups({ by, window, visibility, filter }: GroupQuery): ReturnType<typeof groupSql> {
  const { where, parameters } = logSql.visible(logSql.moments(window), visibility);
  const told = usageQuery.splitColumn(by);
  const filtered = logSql.filter(filter);
  const conditions = [where, ...told.conditions, ...filtered.conditions];
  return {
    sql: [
      'SELECT feedback_value, sum(rated_requests) AS feedback_requests,',
      'if(sum(trace_weights) = 0, NULL, sum(trace_weighted) / sum(trace_weights)) AS feedback_average',
      `FROM (SELECT ${told.sql} AS feedback_value, trace, count() AS rated_requests,`,
      `any(weighted) AS trace_weighted, any(weights) AS trace_weights`,
      `FROM requests INNER JOIN (${logSql.feedbackOfTraces}) AS traces ON trace_number = trace`,
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
async function groups(
  select: Select,
  query: GroupQuery,
  reach: UsageReach,
): Promise<{ total: number; rows: readonly GroupRow[] }> {
  const { limit, offset } = query;
  logSql.checkRange('limit', limit, maxPage);
  logSql.checkRange('offset', offset, maxOffset);
  const { from, to } = logSql.moments(query.window);
  if (from >= to) return { total: 0, rows: [] };
  const { sql, parameters } = groupSql(query, reach);
  const results = await select<GroupResult>(sql, parameters, { settings: usageQuery.settings });
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
    const value = result[groupAlias(column)] ?? null;
    const isTime = column === 'last_seen' || column === 'first_seen';
    columns[column] = isTime && typeof value === 'number' ? new Date(value).toISOString() : value;
  }
  return { value: result.group_value, requests: result.group_requests, columns };
}

/** Expression of each measure over roll-ups. */
const measureSql: Readonly<Record<Measure, Computed>> = {
  requests: total('requests'),
  successes: total('successes'),
  errors: total('errors'),
  cost: total('cost_sum'),
  prompt_tokens: total('prompt_tokens_sum'),
  completion_tokens: total('completion_tokens_sum'),
  total_tokens: total('total_tokens_sum'),
  avg_latency: ratio('latency_sum', 'requests'),
  p50_latency: usageQuery.latencyQuantile(0.5),
  p90_latency: usageQuery.latencyQuantile(0.9),
  p95_latency: usageQuery.latencyQuantile(0.95),
  p99_latency: usageQuery.latencyQuantile(0.99),
  users: total('users'),
  simple_hits: total('simple_hits'),
  semantic_hits: total('semantic_hits'),
  avg_hit_latency: ratio('hit_latency_sum', 'simple_hits', 'semantic_hits'),
  avg_miss_latency: ratio('miss_latency_sum', 'misses'),
  rescued_by_retry: total('rescued_by_retry'),
  rescued_by_fallback: total('rescued_by_fallback'),
};

/** Expression of each group column over roll-ups; times as milliseconds since the epoch. */
const columnSql: Readonly<
  Record<Exclude<GroupColumn, 'avg_weighted_feedback' | 'requests_with_feedback'>, Computed>
> = {
  cost: total('cost_sum'),
  total_tokens: total('total_tokens_sum'),
  avg_tokens: ratio('total_tokens_sum', 'requests'),
  avg_input_tokens: ratio('prompt_tokens_sum', 'requests'),
  avg_output_tokens: ratio('completion_tokens_sum', 'requests'),
  avg_latency: ratio('latency_sum', 'requests'),
  p95_latency: usageQuery.latencyQuantile(0.95),
  p99_latency: usageQuery.latencyQuantile(0.99),
  success_rate: ratio('successes', 'requests'),
  error_count: total('errors'),
  cache_hit_rate: {
    sql: '(sum(simple_hits) + sum(semantic_hits)) / sum(requests)',
    needs: ['simple_hits', 'semantic_hits', 'requests'],
  },
  last_seen: total('last_at'),
  first_seen: total('first_at'),
};

/** Quotient of two totals; null when the divisor is 0. */
function ratio(column: UsageColumn, ...of: readonly UsageColumn[]): Computed {
  const divisor = of.map((one) => `sum(${one})`).join(' + ');
  return { sql: `if(${divisor} = 0, NULL, sum(${column}) / (${divisor}))`, needs: [column, ...of] };
}

/** A column, summed or merged. */
function total(column: UsageColumn): Computed {
  if (column === 'first_at') return { sql: 'toUnixTimestamp64Milli(min(first_at))', needs: [column] };
  if (column === 'last_at') return { sql: 'toUnixTimestamp64Milli(max(last_at))', needs: [column] };
  if (column === 'users') return { sql: 'uniqCombinedMerge(16)(users)', needs: [column] };
  return { sql: `sum(${column})`, needs: [column] };
}
