import assert from 'node:assert/strict';
import type { GroupBy, GroupColumn, Measure, SeriesSplit } from '../../core/ports/analytics.ts';
import type { FeedbackRow, RequestRow } from '../../core/ports/request-row.ts';
import { feedbackOf, latestFeedback, weightedAverage } from './analytics-naive-feedback.ts';

/** Compares what a store said with what the rows say; throws when they differ. */
export type Check = (actual: number | string | null | undefined, place: string) => void;

/** A group as recomputed from the rows, in the order in which a store must give it. */
interface NaiveGroup {
  readonly value: string;
  readonly requests: number;
  readonly check: Readonly<Record<GroupColumn, Check>>;
}

const columnOf = {
  ai_service: 'ai_service',
  model: 'model',
  status_code: 'status',
  api_key: 'api_key_id',
  config: 'config',
  workspace: 'workspace_id',
  provider: 'provider',
  prompt: 'prompt',
  virtual_key: 'virtual_key',
  mcp_server: 'mcp_server',
  mcp_tool: 'mcp_tool',
} as const satisfies Partial<Record<GroupBy & string, keyof RequestRow>>;

/** The sender: the user of the application, else the user whose key it was. */
export function userOf({ metadata, user_id: userId }: RequestRow): string {
  const own = Object.hasOwn(metadata, '_user') ? metadata['_user'] : '';
  return own === undefined || own === '' ? userId : own;
}

/** The groups that a row is in: none for a row that is left out. */
function valuesOf(row: RequestRow, by: GroupBy | SeriesSplit): readonly string[] {
  if (typeof by === 'object')
    return Object.entries(row.metadata).flatMap(([name, value]) => (name === by.metadata ? [value] : []));
  if (by === 'metadata_key') return Object.keys(row.metadata);
  if (by === 'user') return [userOf(row)];
  if (by.startsWith('mcp_') && row.endpoint !== 'mcp.tools.call') return [];
  if (by === 'retries') return row.is_success && row.retries > 0 ? [String(row.retries)] : [];
  return [String(row[columnOf[by]])];
}

/** Rows by what tells them apart; those of most rows first, then in the order of bytes. */
export function split(rows: readonly RequestRow[], by: GroupBy | SeriesSplit): [string, RequestRow[]][] {
  const byValue = new Map<string, RequestRow[]>();
  for (const row of rows) {
    for (const value of valuesOf(row, by)) {
      const members = byValue.get(value);
      if (members === undefined) byValue.set(value, [row]);
      else members.push(row);
    }
  }
  return [...byValue].sort(
    ([a, { length: few }], [b, { length: many }]) =>
      many - few || Buffer.compare(Buffer.from(a), Buffer.from(b)),
  );
}

/** Groups rows one by one, with arithmetic that a reader can check. */
export function naiveGroups(
  rows: readonly RequestRow[],
  by: GroupBy,
  feedback: readonly FeedbackRow[] = [],
): NaiveGroup[] {
  return split(rows, by).map(([value, members]) => ({
    value,
    requests: members.length,
    check: columnChecks(members, feedback),
  }));
}

const isHit = (row: RequestRow): boolean => /^(SEMANTIC )?HIT$/.test(row.cache_status);
const isError = (row: RequestRow): boolean => row.status >= 400 || row.outcome === 'failed';

function columnChecks(
  rows: readonly RequestRow[],
  feedback: readonly FeedbackRow[],
): Record<GroupColumn, Check> {
  const average = (of: (row: RequestRow) => number): Check => near(averageOf(rows, of));
  const share = (test: (row: RequestRow) => boolean): Check => average((row) => (test(row) ? 1 : 0));
  const times = rows.map((row) => row.created_at).sort();
  const iso = (time: string | undefined): string => `${time?.replace(' ', 'T')}Z`;
  const { cost, total_tokens, avg_latency, p95_latency, p99_latency, errors } = measureChecks(rows);
  return {
    cost,
    total_tokens,
    avg_latency,
    p95_latency,
    p99_latency,
    error_count: errors,
    avg_tokens: average((row) => row.total_tokens),
    avg_input_tokens: average((row) => row.prompt_tokens),
    avg_output_tokens: average((row) => row.completion_tokens),
    success_rate: share((row) => row.is_success),
    cache_hit_rate: share(isHit),
    last_seen: same(iso(times.at(-1))),
    first_seen: same(iso(times[0])),
    ...feedbackChecks(rows, latestFeedback(feedback)),
  };
}

/** All feedback on the traces of these rows, each once, and how many of the rows have any. */
function feedbackChecks(
  rows: readonly RequestRow[],
  latest: readonly FeedbackRow[],
): Pick<Record<GroupColumn, Check>, 'avg_weighted_feedback' | 'requests_with_feedback'> {
  const traces = new Set(rows.map((row) => row.trace_id).filter((trace) => trace !== ''));
  return {
    avg_weighted_feedback: near(weightedAverage(latest.filter((one) => traces.has(one.trace_id)))),
    requests_with_feedback: same(rows.filter((row) => feedbackOf(row, latest).length > 0).length),
  };
}

/** Every measure of some rows. */
export function measureChecks(rows: readonly RequestRow[]): Record<Measure, Check> {
  const count = (test: (row: RequestRow) => boolean): Check => same(rows.filter(test).length);
  const latency = (test: (row: RequestRow) => boolean): Check =>
    near(averageOf(rows.filter(test), (row) => row.latency_ms));
  const users = new Set(rows.map(userOf).filter((user) => user !== ''));
  return {
    requests: same(rows.length),
    successes: count((row) => row.is_success),
    errors: count(isError),
    cost: same(dollars(rows)),
    prompt_tokens: same(sum(rows, (row) => row.prompt_tokens)),
    completion_tokens: same(sum(rows, (row) => row.completion_tokens)),
    total_tokens: same(sum(rows, (row) => row.total_tokens)),
    avg_latency: latency(() => true),
    p50_latency: quantile(rows, 0.5),
    p90_latency: quantile(rows, 0.9),
    p95_latency: quantile(rows, 0.95),
    p99_latency: quantile(rows, 0.99),
    users: within(users.size, 0.02),
    simple_hits: count((row) => row.cache_status === 'HIT'),
    semantic_hits: count((row) => row.cache_status === 'SEMANTIC HIT'),
    avg_hit_latency: latency(isHit),
    avg_miss_latency: latency((row) => row.is_success && !isHit(row)),
    rescued_by_retry: count((row) => row.is_success && row.retries > 0),
    rescued_by_fallback: count((row) => row.is_success && hasFallenBack(row)),
  };
}

/** Another target answered than the one that was asked first. */
function hasFallenBack({ tries, option }: RequestRow): boolean {
  if (tries === '') return false;
  const made = JSON.parse(tries) as { option: string; start_ms: number }[];
  const first = made.reduce((one, other) => (other.start_ms < one.start_ms ? other : one));
  return first.option !== option;
}

function sum(rows: readonly RequestRow[], of: (row: RequestRow) => number): number {
  return rows.reduce((total, row) => total + of(row), 0);
}

function averageOf(rows: readonly RequestRow[], of: (row: RequestRow) => number): number | null {
  return rows.length === 0 ? null : sum(rows, of) / rows.length;
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

/** Equal but for what floating point loses; null where there is nothing to average. */
const near =
  (expected: number | null): Check =>
  (actual, place) => {
    if (expected === null) return assert.equal(actual, null, place);
    assert.equal(typeof actual, 'number', place);
    assert.ok(
      Math.abs((actual as number) - expected) <= 1e-9 * Math.max(1, Math.abs(expected)),
      `${place}: ${actual} instead of ${expected}`,
    );
  };

const within =
  (expected: number, share: number): Check =>
  (actual, place) => {
    assert.equal(typeof actual, 'number', place);
    assert.ok(
      Math.abs((actual as number) - expected) <= share * expected,
      `${place}: ${actual} not ${expected}`,
    );
  };

/**
 * Within one percent of the rank. Definitions of a quantile differ by one neighbour and stores keep seven digits, so
 * anything between those neighbours is right.
 */
function quantile(rows: readonly RequestRow[], level: number): Check {
  if (rows.length === 0) return near(null);
  const sorted = rows.map((row) => row.latency_ms).sort((a, b) => a - b);
  const last = sorted.length - 1;
  const rank = (share: number): number => Math.min(Math.max(share * last, 0), last);
  const low = sorted[Math.max(Math.floor(rank(level - 0.01)) - 1, 0)] as number;
  const high = sorted[Math.min(Math.ceil(rank(level + 0.01)) + 1, last)] as number;
  return (actual, place) => {
    assert.equal(typeof actual, 'number', place);
    assert.ok(
      low * 0.999999 <= (actual as number) && (actual as number) <= high * 1.000001,
      `${place}: ${actual} not in ${low}…${high}`,
    );
  };
}
