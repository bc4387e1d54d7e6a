import type { GroupColumn, Measure } from '../../core/ports/analytics.ts';
import { latencyQuantile, ratio, total, type Computed } from './usage-plan.ts';

/** Expression of each measure over roll-ups. */
export const measureSql: Readonly<Record<Measure, Computed>> = {
  requests: total('requests'),
  successes: total('successes'),
  errors: total('errors'),
  cost: total('cost_sum'),
  prompt_tokens: total('prompt_tokens_sum'),
  completion_tokens: total('completion_tokens_sum'),
  total_tokens: total('total_tokens_sum'),
  avg_latency: ratio('latency_sum', 'requests'),
  p50_latency: latencyQuantile(0.5),
  p90_latency: latencyQuantile(0.9),
  p95_latency: latencyQuantile(0.95),
  p99_latency: latencyQuantile(0.99),
  users: total('users'),
  simple_hits: total('simple_hits'),
  semantic_hits: total('semantic_hits'),
  avg_hit_latency: ratio('hit_latency_sum', 'simple_hits', 'semantic_hits'),
  avg_miss_latency: ratio('miss_latency_sum', 'misses'),
  rescued_by_retry: total('rescued_by_retry'),
  rescued_by_fallback: total('rescued_by_fallback'),
};

/** Expression of each group column over roll-ups; times as milliseconds since the epoch. */
export const columnSql: Readonly<
  Record<Exclude<GroupColumn, 'avg_weighted_feedback' | 'requests_with_feedback'>, Computed>
> = {
  cost: total('cost_sum'),
  total_tokens: total('total_tokens_sum'),
  avg_tokens: ratio('total_tokens_sum', 'requests'),
  avg_input_tokens: ratio('prompt_tokens_sum', 'requests'),
  avg_output_tokens: ratio('completion_tokens_sum', 'requests'),
  avg_latency: ratio('latency_sum', 'requests'),
  p95_latency: latencyQuantile(0.95),
  p99_latency: latencyQuantile(0.99),
  success_rate: ratio('successes', 'requests'),
  error_count: total('errors'),
  cache_hit_rate: {
    sql: '(sum(simple_hits) + sum(semantic_hits)) / sum(requests)',
    needs: ['simple_hits', 'semantic_hits', 'requests'],
  },
  last_seen: total('last_at'),
  first_seen: total('first_at'),
};
