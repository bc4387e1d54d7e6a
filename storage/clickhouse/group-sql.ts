import type { GroupColumn, Grouping } from '../../core/ports/analytics.ts';

/** The column of `requests` behind each grouping. */
const grouped: Readonly<Record<Grouping, string>> = {
  ai_service: 'ai_service',
  model: 'model',
  status_code: 'status',
  api_key: 'api_key_id',
  config: 'config',
  workspace: 'workspace_id',
  provider: 'provider',
  prompt: 'prompt',
};

/** Times leave the store as milliseconds since the epoch. */
const computed: Readonly<Record<GroupColumn, string>> = {
  cost: 'sum(cost)',
  total_tokens: 'sum(total_tokens)',
  avg_tokens: 'avg(total_tokens)',
  avg_input_tokens: 'avg(prompt_tokens)',
  avg_output_tokens: 'avg(completion_tokens)',
  avg_latency: 'avg(latency_ms)',
  p95_latency: 'quantileExact(0.95)(latency_ms)',
  p99_latency: 'quantileExact(0.99)(latency_ms)',
  success_rate: 'countIf(is_success) / count()',
  error_count: "countIf(status >= 400 OR outcome = 'failed')",
  cache_hit_rate: "countIf(upper(cache_status) IN ('HIT', 'SEMANTIC HIT')) / count()",
  last_seen: 'toUnixTimestamp64Milli(max(created_at))',
  first_seen: 'toUnixTimestamp64Milli(min(created_at))',
};

/** Name of a computed column in the result. Prefixed, so that it cannot shadow a column of the table. */
export function alias(column: GroupColumn): string {
  return `computed_${column}`;
}

/** One statement for one page of groups. `where` is a condition with placeholders; `total` counts all groups. */
export function groupSql(by: Grouping, columns: readonly GroupColumn[], where: string): string {
  const selected = [...new Set(columns)].map((column) => `${computed[column]} AS ${alias(column)}`);
  return [
    `SELECT ${[`toString(${grouped[by]}) AS group_value`, 'count() AS group_requests', 'count() OVER () AS group_total', ...selected].join(', ')}`,
    `FROM requests WHERE ${where}`,
    'GROUP BY group_value',
    'ORDER BY group_requests DESC, group_value ASC',
    'LIMIT {limit:UInt32} OFFSET {offset:UInt32}',
  ].join('\n');
}
