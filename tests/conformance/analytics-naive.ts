import assert from 'node:assert/strict';
import type { GroupColumn, Grouping } from '../../core/ports/analytics.ts';
import type { RequestRow } from '../../core/ports/request-row.ts';

/** Compares what a store said with what the rows say; throws when they differ. */
type Check = (actual: number | string | null | undefined, place: string) => void;

/** A group as recomputed from the rows, in the order in which a store must give it. */
export interface NaiveGroup {
  readonly value: string;
  readonly requests: number;
  readonly check: Readonly<Record<GroupColumn, Check>>;
}

const valueOf: Readonly<Record<Grouping, (row: RequestRow) => string>> = {
  ai_service: (row) => row.ai_service,
  model: (row) => row.model,
  status_code: (row) => String(row.status),
  api_key: (row) => row.api_key_id,
  config: (row) => row.config,
  workspace: (row) => row.workspace_id,
  provider: (row) => row.provider,
  prompt: (row) => row.prompt,
};

/** Groups rows one by one, with arithmetic that a reader can check. */
export function naiveGroups(rows: readonly RequestRow[], by: Grouping): NaiveGroup[] {
  const byValue = new Map<string, RequestRow[]>();
  for (const row of rows) {
    const value = valueOf[by](row);
    byValue.set(value, [...(byValue.get(value) ?? []), row]);
  }
  return [...byValue]
    .map(([value, members]) => ({ value, requests: members.length, check: checks(members) }))
    .sort((a, b) => b.requests - a.requests || Buffer.compare(Buffer.from(a.value), Buffer.from(b.value)));
}

function checks(rows: readonly RequestRow[]): Record<GroupColumn, Check> {
  const average = (of: (row: RequestRow) => number): Check => near(sum(rows, of) / rows.length);
  const share = (test: (row: RequestRow) => boolean): Check => average((row) => (test(row) ? 1 : 0));
  const times = rows.map((row) => row.created_at).sort();
  const iso = (time: string | undefined): string => `${time?.replace(' ', 'T')}Z`;
  return {
    cost: same(dollars(rows)),
    total_tokens: same(sum(rows, (row) => row.total_tokens)),
    avg_tokens: average((row) => row.total_tokens),
    avg_input_tokens: average((row) => row.prompt_tokens),
    avg_output_tokens: average((row) => row.completion_tokens),
    avg_latency: average((row) => row.latency_ms),
    p95_latency: quantile(rows, 0.95),
    p99_latency: quantile(rows, 0.99),
    success_rate: share((row) => row.is_success),
    error_count: same(rows.filter((row) => row.status >= 400 || row.outcome === 'failed').length),
    cache_hit_rate: share((row) => row.cache_status === 'HIT' || row.cache_status === 'SEMANTIC HIT'),
    last_seen: same(iso(times.at(-1))),
    first_seen: same(iso(times[0])),
  };
}

function sum(rows: readonly RequestRow[], of: (row: RequestRow) => number): number {
  return rows.reduce((total, row) => total + of(row), 0);
}

/** Exact decimals: 12 digits after the point, added as whole numbers. */
function dollars(rows: readonly RequestRow[]): string {
  const digits = String(rows.reduce((total, row) => total + BigInt(row.cost.replace('.', '')), 0n)).padStart(
    13,
    '0',
  );
  return `${digits.slice(0, -12)}.${digits.slice(-12)}`;
}

const same =
  (expected: number | string): Check =>
  (actual, place) =>
    assert.equal(actual, expected, place);

const near =
  (expected: number): Check =>
  (actual, place) => {
    assert.equal(typeof actual, 'number', place);
    assert.ok(
      Math.abs((actual as number) - expected) <= 1e-9 * Math.max(1, Math.abs(expected)),
      `${place}: ${actual}`,
    );
  };

/** Definitions of a quantile differ by one neighbour; anything between the two neighbours is right. */
function quantile(rows: readonly RequestRow[], level: number): Check {
  const sorted = rows.map((row) => row.latency_ms).sort((a, b) => a - b);
  const low = sorted[Math.floor(level * (sorted.length - 1))] as number;
  const high = sorted[Math.min(Math.ceil(level * sorted.length), sorted.length - 1)] as number;
  return (actual, place) => {
    assert.equal(typeof actual, 'number', place);
    assert.ok(
      low <= (actual as number) && (actual as number) <= high,
      `${place}: ${actual} not in ${low}…${high}`,
    );
  };
}
