/** Levels of the quantiles that roll-ups keep, in the order of their answer. */
export const quantileLevels = [0.5, 0.9, 0.95, 0.99] as const;
export type QuantileLevel = (typeof quantileLevels)[number];

const levels = quantileLevels.join(', ');
const isHit = "upper(cache_status) IN ('HIT', 'SEMANTIC HIT')";
const isMiss = "is_success AND upper(cache_status) NOT IN ('HIT', 'SEMANTIC HIT')";

/** Columns of the roll-ups, and what each is of rows. The views of the schema say the same. */
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

/** What is computed of columns when everything has been brought together. */
export interface Computed {
  readonly sql: string;
  readonly needs: readonly UsageColumn[];
}

/** A column, added up or merged. */
export function total(column: UsageColumn): Computed {
  if (column === 'first_at') return { sql: 'toUnixTimestamp64Milli(min(first_at))', needs: [column] };
  if (column === 'last_at') return { sql: 'toUnixTimestamp64Milli(max(last_at))', needs: [column] };
  if (column === 'users') return { sql: 'uniqCombinedMerge(16)(users)', needs: [column] };
  return { sql: `sum(${column})`, needs: [column] };
}

/** One total by another; null where that is 0. */
export function ratio(column: UsageColumn, ...of: readonly UsageColumn[]): Computed {
  const divisor = of.map((one) => `sum(${one})`).join(' + ');
  return { sql: `if(${divisor} = 0, NULL, sum(${column}) / (${divisor}))`, needs: [column, ...of] };
}

/** A quantile of the latency in milliseconds, null without requests; within 1 % of the rank. */
export function latencyQuantile(level: QuantileLevel): Computed {
  const place = quantileLevels.indexOf(level) + 1;
  return { sql: `quantilesTDigestMerge(${levels})(latency)[${place}]`, needs: ['latency'] };
}
