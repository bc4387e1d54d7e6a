import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { before, test } from 'node:test';
import fc from 'fast-check';
import {
  type Analytics,
  type Buckets,
  groupColumns,
  measures,
  type RequestSeriesQuery,
  type Visibility,
} from '../../core/ports/analytics.ts';
import type { RequestRow } from '../../core/ports/request-row.ts';
import { days, manyRows } from './analytics-many-rows.ts';
import { naiveFilter } from './analytics-naive-filter.ts';
import { naiveGroups } from './analytics-naive.ts';
import { naiveSeries, sameSeries, timeOf } from './analytics-naive-series.ts';
import { newToken } from './analytics-probe.ts';
import { chanceOf } from '../../scripts/seed-demo/chance.ts';
import { dayStart, ndjson, requestRow, storedTime } from './analytics-rows.ts';

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;

/** For every question and every source: counts, sums and cost are exact, quantiles and users nearly so. */
export function agreesWithRows(analytics: () => Analytics): void {
  const organisationId = randomUUID();
  /** Both changes of the clocks in Berlin and St. John's, and a spring in between. */
  const around = [
    Date.UTC(2026, 2, 8, 6),
    Date.UTC(2026, 2, 29, 1),
    Date.UTC(2026, 9, 25, 1),
    Date.UTC(2026, 10, 1, 5),
  ];
  const rows = [
    ...around.flatMap((at, index) =>
      manyRows(150, { organisationId, window: { from: at - dayMs, to: at + dayMs }, seed: 20 + index }),
    ),
    ...manyRows(600, { organisationId, window: days(-2, 3), seed: 30 }),
  ];
  before(async () => {
    for (let i = 0; i < rows.length; i += 300)
      await analytics().insert('requests', ndjson(rows.slice(i, i + 300)), newToken());
  });

  async function compare(query: RequestSeriesQuery): Promise<void> {
    const meant = rows.filter(meaning(query));
    const place = JSON.stringify({ ...query, measures: 0 });
    sameSeries(await analytics().series(query), naiveSeries(meant, query), place);
  }

  for (const timeZone of ['Europe/Berlin', 'America/St_Johns', 'Asia/Kolkata']) {
    test(`series in ${timeZone}, where the clocks change as well`, async () => {
      for (const at of around) {
        const window = { from: at - 20 * hourMs - 5, to: at + 22 * hourMs + 600_007 };
        const base = { measures, window, visibility: { organisationId } };
        const buckets = (unit: Buckets['unit']): Buckets => ({ unit, size: 1, timeZone });
        await compare({ ...base, buckets: buckets('day') });
        await compare({ ...base, buckets: buckets('day'), split: 'provider' });
        await compare({ ...base, buckets: buckets('hour') });
      }
    });
  }

  const moment = fc
    .integer({ min: -3 * 24 * 12, max: 4 * 24 * 12 })
    .chain((at) =>
      fc.constantFrom(
        at * 300_000,
        at * 300_000 + 7,
        Math.floor(at / 12) * hourMs,
        Math.floor(at / 288) * dayMs,
      ),
    )
    .map((at) => dayStart + at);
  const some = <T>(...values: readonly T[]): fc.Arbitrary<T[]> => fc.subarray([...values], { minLength: 0 });
  const question = fc.record({
    ends: fc.tuple(moment, moment),
    unit: fc.constantFrom('hour', 'day', 'week', 'month'),
    timeZone: fc.constantFrom('UTC', 'Europe/Berlin', 'Asia/Kolkata', 'America/New_York'),
    split: fc.constantFrom('model', 'workspace', 'status_code', 'provider', 'retries', undefined),
    by: fc.constantFrom('model', 'workspace', 'api_key', 'user', 'prompt'),
    visibility: fc.constantFrom<Partial<Visibility>[]>(
      ...[{}, {}, { workspaceId: 'alpha' }, { workspaceId: '' }, { workspaceId: 'gamma' }],
      ...[{ userId: 'ann' }, { workspaceId: 'beta', apiKeyId: 'k1' }],
    ),
    filter: fc.oneof(
      fc.constant({}),
      // What roll-ups know, and more than they know.
      fc.record({ models: some('gpt', 'claude', '') }),
      fc.record({ statusCodes: some(200, 404, 500), workspaces: some('alpha', 'beta', 'gamma') }),
      fc.record({ users: some('ann', "end'user"), isSuccess: fc.boolean() }, { requiredKeys: [] }),
    ),
  });
  test('any question is answered as the rows say', async () => {
    await fc.assert(
      fc.asyncProperty(question, async ({ ends, unit, timeZone, split, by, visibility, filter }) => {
        const window = { from: Math.min(...ends), to: Math.max(...ends) };
        const seen = { organisationId, ...visibility };
        const buckets = { unit, size: 1, timeZone } as const;
        if (window.from < window.to)
          await compare({ measures, window, buckets, filter, visibility: seen, ...(split && { split }) });
        const meant = rows.filter(meaning({ window, filter, visibility: seen }));
        const expected = naiveGroups(meant, by);
        const { total, rows: groups } = await analytics().groups({
          by,
          columns: groupColumns,
          window,
          visibility: seen,
          filter,
          limit: 100,
          offset: 0,
        });
        assert.equal(total, expected.length);
        for (const [index, { value, requests, columns }] of groups.entries()) {
          assert.deepEqual([value, requests], [expected[index]?.value, expected[index]?.requests]);
          for (const column of groupColumns)
            expected[index]?.check[column](columns[column], `${by} ${value} ${column}`);
        }
      }),
      { numRuns: 40 },
    );
  });

  test('twenty thousand users and their latencies, by the day, the week and all at once', async () => {
    const crowd = crowdOf(20_000);
    const organisation_id = crowd[0]?.organisation_id ?? '';
    for (let i = 0; i < crowd.length; i += 10_000)
      await analytics().insert('requests', ndjson(crowd.slice(i, i + 10_000).map(essential)), newToken());
    const wanted = [
      'requests',
      'users',
      'p50_latency',
      'p90_latency',
      'p95_latency',
      'p99_latency',
      'avg_latency',
    ] as const;
    const base = { measures: wanted, window: days(-7, 7), visibility: { organisationId: organisation_id } };
    for (const unit of ['day', 'week', 'month'] as const) {
      const query = { ...base, buckets: { unit, size: 1, timeZone: 'UTC' } } as const;
      sameSeries(await analytics().series(query), naiveSeries(crowd, query), unit);
    }
    const split: RequestSeriesQuery = {
      ...base,
      split: 'model',
      buckets: { unit: 'month', size: 1, timeZone: 'UTC' },
    };
    sameSeries(await analytics().series(split), naiveSeries(crowd, split), 'split');
  });
}

/** Whether a row is in the window, may be seen and is meant by the filter. */
function meaning({
  window,
  visibility,
  filter = {},
}: Pick<RequestSeriesQuery, 'window' | 'visibility' | 'filter'>): (row: RequestRow) => boolean {
  const isMeant = naiveFilter(filter);
  const { workspaceId, userId, apiKeyId }: Visibility = visibility;
  return (row) =>
    timeOf(row) >= window.from &&
    timeOf(row) < window.to &&
    (workspaceId ?? row.workspace_id) === row.workspace_id &&
    (userId ?? row.user_id) === row.user_id &&
    (apiKeyId ?? row.api_key_id) === row.api_key_id &&
    isMeant(row);
}

/** Requests of as many users, with latencies that have a long tail. */
function crowdOf(count: number): RequestRow[] {
  const random = chanceOf(99);
  const organisation_id = randomUUID();
  return Array.from({ length: count }, (_, index) => {
    const normal = Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
    return requestRow({
      organisation_id,
      created_at: storedTime(dayStart + Math.floor((random() - 0.5) * 14 * dayMs)),
      user_id: `user-${index}`,
      model: index % 3 === 0 ? 'rare' : 'usual',
      latency_ms: Math.round(Math.exp(6.8 + 0.9 * normal) * 1000) / 1000,
      metadata: {},
    });
  });
}

/** What a row needs to be measured by these, so that twenty thousand are soon sent. */
function essential({ id, created_at, organisation_id, user_id, model, latency_ms }: RequestRow): object {
  return { id, created_at, organisation_id, workspace_id: 'one', user_id, model, latency_ms };
}
