import type { ClickHouseSettings } from '@clickhouse/client';
import { bucketSql } from './bucket-starts.ts';
import { filterSql, moments, visible } from './filter-sql.ts';
import {
  planUsage,
  type UsageColumn,
  usageColumns,
  type UsagePlan,
  type UsageReach,
  type UsageTable,
} from './usage-plan.ts';
import type {
  GroupBy,
  RequestFilter,
  SeriesSplit,
  TimeWindow,
  Visibility,
} from '../../core/ports/analytics.ts';

/** The column of `requests` for each grouping. */
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
export function splitColumn(split: GroupBy | SeriesSplit | undefined): {
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

/** Dimensions that exist for workspaces only. */
const perWorkspace = new Set<string>(['api_key', 'user']);

/**
 * The roll-ups that answer a query, or undefined when only rows do: roll-ups have one dimension at a time, and no user
 * or key of a request.
 */
function rolledUpAs({ visibility, filter = {}, split }: UsageQuestion): RollUp | undefined {
  if (visibility.userId !== undefined || visibility.apiKeyId !== undefined) return undefined;
  if (typeof split === 'object' || split === 'mcp_server' || split === 'mcp_tool') return undefined;
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
export const usageSettings: ClickHouseSettings = {
  preferred_block_size_bytes: '4194304',
  optimize_functions_to_subcolumns: 0,
};

/**
 * A sub-select of request counts, with its placeholder values: `at` (seconds since the epoch, 0 without buckets),
 * `split` (empty without one) and the columns, in parts that must still be summed or merged. Reads roll-ups where they
 * equal the rows.
 */
export function usageSql(
  question: UsageQuestion,
  reach: UsageReach,
): { readonly sql: string; readonly parameters: Readonly<Record<string, unknown>> } {
  const { visibility, filter, split, columns, starts } = question;
  const window = moments(question.window);
  const rollUp = rolledUpAs(question);
  const need = { window, starts, rolledUp: rollUp !== undefined, byTheMinute: rollUp?.dimension === '' };
  const plan = planUsage(need, reach);
  const { where, owned, parameters: seen } = visible(window, visibility);
  const filtered = filterSql(filter);
  const buckets = bucketSql(starts);
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
