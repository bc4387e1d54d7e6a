import type { ClickHouseSettings, ClickHouseClient } from '@clickhouse/client';
import { timeBuckets } from './bucket-starts.ts';
import { logSql } from './filter-sql.ts';
import type {
  GroupBy,
  RequestFilter,
  SeriesSplit,
  TimeWindow,
  Visibility,
} from '../../core/ports/analytics.ts';

/** Levels of the quantiles in roll-ups, in the order of their answer. */
const quantileLevels = [0.5, 0.9, 0.95, 0.99] as const;
type QuantileLevel = (typeof quantileLevels)[number];

const levels = quantileLevels.join(', ');
const isHit = "upper(cache_status) IN ('HIT', 'SEMANTIC HIT')";
const isMiss = "is_success AND upper(cache_status) NOT IN ('HIT', 'SEMANTIC HIT')";

/** Columns of the roll-ups, with their expression over rows. The schema's views match them. */
const usageColumns = {
  requests: 'count()',
  successes: 'countIf(is_success)',
  errors: "countIf(status >= 400 OR outcome = 'failed')",
  cost_sum: 'sum(cost)',
  prompt_tokens_sum: 'sum(prompt_tokens)',
  completion_tokens_sum: 'sum(completion_tokens)',
  total_tokens_sum: 'sum(total_tokens)',
  latency_sum: 'sum(latency_ms)',
  simple_hits: "countIf(upper(cache_status) = 'HIT')",
  semantic_hits: "countIf(upper(cache_status) = 'SEMANTIC HIT')",
  hit_latency_sum: `sumIf(latency_ms, ${isHit})`,
  misses: `countIf(${isMiss})`,
  miss_latency_sum: `sumIf(latency_ms, ${isMiss})`,
  rescued_by_retry: 'countIf(is_success AND retries > 0)',
  rescued_by_fallback: 'countIf(is_success AND fell_back)',
  first_at: 'min(created_at)',
  last_at: 'max(created_at)',
  latency: `quantilesTDigestState(${levels})(toFloat32(latency_ms))`,
  users: "uniqCombinedStateIf(16)(end_user, end_user != '')",
} as const;
export type UsageColumn = keyof typeof usageColumns;

/** Computation over merged columns. */
export interface Computed {
  readonly sql: string;
  readonly needs: readonly UsageColumn[];
}

/** A quantile of the latency in milliseconds, null without requests; within 1 % of the rank. */
function latencyQuantile(level: QuantileLevel): Computed {
  const place = quantileLevels.indexOf(level) + 1;
  return { sql: `quantilesTDigestMerge(${levels})(latency)[${place}]`, needs: ['latency'] };
}

const minuteMs = 60_000;
const hourMs = 3_600_000;
const dayMs = 86_400_000;

/** The tables of request counts, the coarsest first, and the rows themselves. */
const usageTables = ['usage_days', 'usage_hours', 'usage_minutes', 'requests'] as const;
type UsageTable = (typeof usageTables)[number];

/** Assignment of window parts to tables. Milliseconds; every request is in exactly one part. */
interface UsagePlan {
  readonly spans: Readonly<Record<UsageTable, readonly TimeWindow[]>>;
  /** Starts of hours within the spans of hours that are read from the next finer table. */
  readonly torn: readonly number[];
  /** The finest table besides the rows, from which torn hours are read. */
  readonly finer: 'usage_minutes' | 'requests';
}

/** Coverage of the store. */
export interface UsageReach {
  /** Roll-ups hold every request from this moment on; infinite when they never do. */
  readonly completeFrom: number;
  /** Rows before this moment may be deleted; earlier times have the resolution of hours or minutes. */
  readonly keptFrom: number;
}

/** Requirements of a query. */
export interface UsageNeed {
  readonly window: TimeWindow;
  /** Undefined: one answer for the whole window. */
  readonly starts?: readonly number[] | undefined;
  /** True when roll-ups can answer; `byTheMinute`: those by the minute too. */
  readonly rolledUp: boolean;
  readonly byTheMinute: boolean;
}

/** Divides a window so that as little as possible is read, and every request counts once. */
function planUsage({ window, starts = [], rolledUp, byTheMinute }: UsageNeed, reach: UsageReach): UsagePlan {
  const spans: Record<UsageTable, TimeWindow[]> = {
    usage_days: [],
    usage_hours: [],
    usage_minutes: [],
    requests: [],
  };
  const finer = byTheMinute ? 'usage_minutes' : 'requests';
  const { from, to } = window;
  if (!rolledUp) {
    if (from < to) spans.requests.push(window);
    return { spans, torn: [], finer };
  }
  const inner = starts.slice(1);
  const fits = (grain: number): boolean => inner.every((start) => start % grain === 0);
  const torn = new Set(inner.filter((start) => start % hourMs !== 0).map((start) => floor(start, hourMs)));
  const days = fits(dayMs) ? [dayMs] : [];
  // When most hours are torn, reading them gives nothing.
  const hours = torn.size * 2 < (to - from) / hourMs ? [hourMs] : [];
  const minutes = byTheMinute && fits(minuteMs) ? [minuteMs] : [];

  const complete = clamp(ceil(reach.completeFrom, hourMs), from, to);
  const kept = clamp(ceil(reach.keptFrom, hourMs), complete, to);
  const finest = byTheMinute ? minuteMs : hourMs;
  const old = {
    from: from === complete ? floor(from, finest) : complete,
    to: to === kept ? ceil(to, finest) : kept,
  };
  cover({ from, to: complete }, []);
  if (complete < kept) cover(old, minutes.length > 0 ? [...days, ...hours, ...minutes] : [...days, hourMs]);
  cover({ from: kept, to }, [...days, ...hours, ...minutes]);
  const whole = (hour: number): boolean =>
    (hour >= kept || minutes.length > 0) &&
    spans.usage_hours.some((span) => span.from <= hour && hour < span.to);
  return { spans, torn: [...torn].filter(whole), finer };

  function cover(part: TimeWindow, grains: readonly number[]): void {
    if (part.from >= part.to) return;
    const [grain, ...rest] = grains;
    if (grain === undefined) return void spans.requests.push(part);
    const first = ceil(part.from, grain);
    const last = floor(part.to, grain);
    if (first >= last) return cover(part, rest);
    cover({ from: part.from, to: first }, rest);
    spans[tableOf(grain)].push({ from: first, to: last });
    cover({ from: last, to: part.to }, rest);
  }
}

function tableOf(grain: number): UsageTable {
  if (grain === dayMs) return 'usage_days';
  return grain === hourMs ? 'usage_hours' : 'usage_minutes';
}

function floor(at: number, grain: number): number {
  return Math.floor(at / grain) * grain;
}

function ceil(at: number, grain: number): number {
  return Math.ceil(at / grain) * grain;
}

function clamp(at: number, low: number, high: number): number {
  return Math.min(Math.max(at, low), high);
}

/**
 * Start of complete roll-ups of a store, milliseconds since the epoch; 0: always. Of several shards, the start of the
 * last one.
 */
async function usageStart(client: ClickHouseClient, shards?: number): Promise<number> {
  const ofAll = 'SELECT min(complete_from) AS first, count() AS stored FROM usage_starts';
  const result = await client.query({
    query:
      shards === undefined
        ? ofAll
        : `SELECT max(first) AS first, count() AS stored FROM (SELECT _shard_num AS shard, min(complete_from) AS first FROM usage_starts GROUP BY shard)`,
    format: 'JSONEachRow',
    clickhouse_settings: { output_format_json_quote_64bit_integers: 0 },
  });
  const [row] = await result.json<{ first: number; stored: number }>();
  return row === undefined || row.stored < (shards ?? 1) ? Infinity : row.first;
}

/** The column of `requests` for each grouping, or an expression. */
const splitColumns: Readonly<Record<Extract<GroupBy | SeriesSplit, string>, string>> = {
  ai_service: 'ai_service',
  model: 'model',
  status_code: 'status',
  api_key: 'api_key_id',
  config: 'config',
  workspace: 'workspace_id',
  provider: 'provider',
  prompt: 'prompt',
  mcp_server: 'mcp_server',
  mcp_tool: 'mcp_tool',
  virtual_key: 'virtual_key',
  // The names alone, without the values; a row with several of them is in as many groups.
  metadata_key: 'arrayJoin(metadata.keys)',
  user: 'end_user',
  retries: 'retries',
};

const ofToolCalls = ["endpoint = 'mcp.tools.call'"];
/** Rows that a grouping is about, where these are not all of them. */
const splitConditions: Readonly<Partial<Record<string, readonly string[]>>> = {
  retries: ['is_success', 'retries > 0'],
  mcp_server: ofToolCalls,
  mcp_tool: ofToolCalls,
};

/** Grouping of `requests` rows: a text, and the rows that have it. */
function splitColumn(split: GroupBy | SeriesSplit | undefined): {
  readonly sql: string;
  readonly conditions: readonly string[];
  readonly parameters: Readonly<Record<string, unknown>>;
} {
  if (split === undefined) return { sql: "''", conditions: [], parameters: {} };
  if (typeof split === 'object') {
    return {
      sql: 'metadata[{split_key:String}]',
      conditions: ['mapContains(metadata, {split_key:String})'],
      parameters: { split_key: split.metadata },
    };
  }
  const conditions = splitConditions[split] ?? [];
  return { sql: `toString(${splitColumns[split]})`, conditions, parameters: {} };
}

/** Location of an answer in roll-ups by the hour and the day. */
interface RollUp {
  /** '' for all requests. */
  readonly dimension: string;
  /** Figures of a whole organisation are stored as another dimension. */
  readonly isWhole: boolean;
  /** Column of the grouping; empty without one. */
  readonly split: 'value' | 'workspace_id' | '';
  /** With their placeholder values. */
  readonly conditions: readonly string[];
  readonly parameters: Readonly<Record<string, unknown>>;
}

/** Filters on values of a dimension. */
const dimensions = {
  aiServices: 'ai_service',
  models: 'model',
  providers: 'provider',
  configs: 'config',
  prompts: 'prompt',
  apiKeys: 'api_key',
  users: 'user',
  statusCodes: 'status_code',
} as const satisfies Partial<Record<keyof RequestFilter, GroupBy | SeriesSplit>>;

/** Groupings that roll-ups do not have. */
const ofRowsAlone = new Set<string>([
  'virtual_key',
  'mcp_server',
  'mcp_tool',
  'metadata_key',
] satisfies GroupBy[]);

/** Dimensions that exist for workspaces only. */
const perWorkspace = new Set<string>(['api_key', 'user']);

/**
 * The roll-ups that answer a query, or undefined when only rows do: roll-ups have one dimension at a time, and no user
 * or key of a request.
 */
function rolledUpAs({ visibility, filter = {}, split }: UsageQuestion): RollUp | undefined {
  if (visibility.userId !== undefined || visibility.apiKeyId !== undefined) return undefined;
  if (typeof split === 'object' || (split !== undefined && ofRowsAlone.has(split))) return undefined;
  const { workspaces, ...others } = filter;
  const [only, ...more] = Object.entries(others).filter(([, value]) => value !== undefined);
  if (more.length > 0) return undefined;
  const filtered = only && dimensionOf(only[0]);
  if (only !== undefined && filtered === undefined) return undefined;
  const own = split === undefined || split === 'workspace' ? undefined : split;
  if (own !== undefined && filtered !== undefined && own !== filtered) return undefined;
  const dimension = own ?? filtered ?? '';

  const conditions: string[] = [];
  const parameters: Record<string, unknown> = {};
  const oneOf = (column: string, name: string, values: readonly (string | number)[]): void => {
    conditions.push(values.length === 0 ? 'false' : `${column} IN {${name}:Array(String)}`);
    parameters[name] = values.map(String);
  };
  if (only !== undefined) oneOf('value', 'rolled_up_values', only[1] as readonly (string | number)[]);
  if (workspaces !== undefined) oneOf('workspace_id', 'rolled_up_workspaces', workspaces);
  const isWhole =
    !perWorkspace.has(dimension) &&
    visibility.workspaceId === undefined &&
    workspaces === undefined &&
    split !== 'workspace';
  return {
    dimension,
    isWhole,
    split: split === 'workspace' ? 'workspace_id' : own === undefined ? '' : 'value',
    conditions,
    parameters,
  };
}

function dimensionOf(name: string): (GroupBy & string) | SeriesSplit | undefined {
  return Object.hasOwn(dimensions, name) ? dimensions[name as keyof typeof dimensions] : undefined;
}

/** Last second of the buckets' type. */
const lastSecond = 4_294_967_295;

/**
 * Read settings of such statements: larger blocks, and a map as one column. Reading one name's values as a separate
 * column reads no less and costs a tenth more.
 */
const usageSettings: ClickHouseSettings = {
  preferred_block_size_bytes: '4194304',
  optimize_functions_to_subcolumns: 0,
};

/** Statements that add usage up. */
export const usageQuery = {
  columns: usageColumns,
  tables: usageTables,
  plan: planUsage,
  start: usageStart,
  splitColumn,
  settings: usageSettings,
  sql: usageSql,
  latencyQuantile,
};

/**
 * A sub-select of request counts, with its placeholder values: `at` (seconds since the epoch, 0 without buckets),
 * `split` (empty without one) and the columns, in parts that must still be summed or merged. Reads roll-ups where they
 * equal the rows.
 */
function usageSql(
  question: UsageQuestion,
  reach: UsageReach,
): { readonly sql: string; readonly parameters: Readonly<Record<string, unknown>> } {
  const { visibility, filter, split, columns, starts } = question;
  const window = logSql.moments(question.window);
  const rollUp = rolledUpAs(question);
  const need = { window, starts, rolledUp: rollUp !== undefined, byTheMinute: rollUp?.dimension === '' };
  const plan = planUsage(need, reach);
  const { where, owned, parameters: seen } = logSql.visible(window, visibility);
  const filtered = logSql.filter(filter);
  const buckets = timeBuckets.sql(starts);
  const told = splitColumn(split);
  const parameters: Record<string, unknown> = {
    ...seen,
    ...filtered.parameters,
    ...buckets.parameters,
    ...told.parameters,
    ...rollUp?.parameters,
  };
  const selects: string[] = [];

  for (const table of ['usage_days', 'usage_hours', 'usage_minutes'] as const) {
    const times = timesOf(plan, table, parameters);
    if (rollUp === undefined || times === undefined) continue;
    const conditions = [owned, times, ...ofRollUp(rollUp, table)];
    const value = rollUp.split === '' ? "''" : `toString(${rollUp.split})`;
    selects.push(
      `SELECT ${[`${buckets.of('toUnixTimestamp(bucket)')} AS at`, `${value} AS split`, ...columns].join(', ')} FROM ${table} WHERE ${conditions.join(' AND ')}`,
    );
  }
  const times = timesOf(plan, 'requests', parameters);
  if (times !== undefined) {
    const [span, ...more] = plan.spans.requests;
    // Only here, when everything is read from the rows: each comparison costs a pass over them.
    const isWhole =
      more.length === 0 && plan.torn.length === 0 && span?.from === window.from && span.to === window.to;
    const conditions = [where, ...(isWhole ? [] : [times]), ...told.conditions, ...filtered.conditions];
    const computed = columns.map((column) => `${usageColumns[column]} AS ${column}`);
    const at = buckets.of('intDiv(toUnixTimestamp64Milli(created_at), 1000)');
    selects.push(
      `SELECT ${[`${at} AS at`, `${told.sql} AS split`, ...computed].join(', ')} FROM requests WHERE ${conditions.join(' AND ')} GROUP BY at, split`,
    );
  }
  return { sql: selects.join('\nUNION ALL\n'), parameters };
}

function ofRollUp({ dimension, isWhole, conditions }: RollUp, table: UsageTable): string[] {
  if (table === 'usage_minutes') return [...conditions];
  return [`dimension = '${isWhole ? '*' : ''}${dimension}'`, ...conditions];
}

/** Condition for the part of a plan from one table, or undefined for nothing; adds its parameters. */
function timesOf(
  { spans, torn, finer }: UsagePlan,
  table: UsageTable,
  parameters: Record<string, unknown>,
): string | undefined {
  const isRows = table === 'requests';
  const placeOf = (at: number): number => (isRows ? at : Math.min(at / 1000, lastSecond));
  const ranges = spans[table].map((span, index) => {
    const bound = (end: 'from' | 'to', comparison: string): string => {
      const name = `${table}_${end}_${index}`;
      parameters[name] = placeOf(span[end]);
      return isRows
        ? `created_at ${comparison} fromUnixTimestamp64Milli({${name}:Int64}, 'UTC')`
        : `bucket ${comparison} toDateTime({${name}:UInt32}, 'UTC')`;
    };
    return `${bound('from', '>=')} AND ${bound('to', '<')}`;
  });
  if (torn.length > 0 && (table === 'usage_hours' || table === finer)) {
    parameters['torn_hours'] = torn.map((hour) => hour / 1000);
    const hour = isRows ? "toStartOfHour(toDateTime(created_at, 'UTC'))" : 'toStartOfHour(bucket)';
    const isTorn = `toUnixTimestamp(${hour}) IN {torn_hours:Array(UInt32)}`;
    if (table === 'usage_hours') return `(${ranges.join(' OR ')}) AND NOT ${isTorn}`;
    ranges.push(isTorn);
  }
  if (ranges.length === 0) return undefined;
  return ranges.length === 1 ? ranges.join('') : `(${ranges.map((range) => `(${range})`).join(' OR ')})`;
}

/** Selection and grouping of requests. */
interface UsageQuestion {
  readonly window: TimeWindow;
  readonly visibility: Visibility;
  readonly filter?: RequestFilter | undefined;
  readonly split?: GroupBy | SeriesSplit | undefined;
  readonly columns: readonly UsageColumn[];
  /** Starts of buckets; undefined: no grouping by time. */
  readonly starts?: readonly number[] | undefined;
}
