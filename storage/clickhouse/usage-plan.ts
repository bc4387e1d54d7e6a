import type { TimeWindow } from '../../core/ports/analytics.ts';
import type { ClickHouseClient } from '@clickhouse/client';

/** Levels of the quantiles in roll-ups, in the order of their answer. */
const quantileLevels = [0.5, 0.9, 0.95, 0.99] as const;
type QuantileLevel = (typeof quantileLevels)[number];

const levels = quantileLevels.join(', ');
const isHit = "upper(cache_status) IN ('HIT', 'SEMANTIC HIT')";
const isMiss = "is_success AND upper(cache_status) NOT IN ('HIT', 'SEMANTIC HIT')";

/** Columns of the roll-ups, with their expression over rows. The schema's views match them. */
export const usageColumns = {
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
export function latencyQuantile(level: QuantileLevel): Computed {
  const place = quantileLevels.indexOf(level) + 1;
  return { sql: `quantilesTDigestMerge(${levels})(latency)[${place}]`, needs: ['latency'] };
}

const minuteMs = 60_000;
const hourMs = 3_600_000;
const dayMs = 86_400_000;

/** The tables of request counts, the coarsest first, and the rows themselves. */
export const usageTables = ['usage_days', 'usage_hours', 'usage_minutes', 'requests'] as const;
export type UsageTable = (typeof usageTables)[number];

/** Assignment of window parts to tables. Milliseconds; every request is in exactly one part. */
export interface UsagePlan {
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
export function planUsage(
  { window, starts = [], rolledUp, byTheMinute }: UsageNeed,
  reach: UsageReach,
): UsagePlan {
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
export async function usageStart(client: ClickHouseClient, shards?: number): Promise<number> {
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
