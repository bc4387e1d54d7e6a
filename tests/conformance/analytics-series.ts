import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { before, test } from 'node:test';
import {
  type Analytics,
  type Buckets,
  measures,
  maxBuckets,
  type RequestSeriesQuery,
  type SeriesSplit,
  type TimeWindow,
} from '../../core/ports/analytics.ts';
import type { RequestRow } from '../../core/ports/request-row.ts';
import { days, manyRows } from './analytics-many-rows.ts';
import { naiveSeries, sameSeries, timeOf } from './analytics-naive-series.ts';
import { hasCode, newToken } from './analytics-probe.ts';
import { dayStart, ndjson } from './analytics-rows.ts';

const hourMs = 3_600_000;
const utc = (unit: Buckets['unit'], size: Buckets['size'] = 1): Buckets => ({ unit, size, timeZone: 'UTC' });

/** Series are what a recomputation row by row gives, whatever is read for them. */
export function tellsSeries(analytics: () => Analytics): void {
  const organisationId = randomUUID();
  const rows = manyRows(1500, { organisationId, window: days(-3, 4), seed: 1 });
  const base = { measures, visibility: { organisationId } };
  before(async () => {
    for (let i = 0; i < rows.length; i += 500)
      await analytics().insert('requests', ndjson(rows.slice(i, i + 500)), newToken());
  });

  async function compare(
    query: RequestSeriesQuery,
    test: (row: RequestRow) => boolean = () => true,
  ): Promise<void> {
    const { from, to } = query.window;
    const meant = rows.filter((row) => timeOf(row) >= from && timeOf(row) < to && test(row));
    const place = JSON.stringify({ ...query, measures: 0 });
    sameSeries(await analytics().series(query), naiveSeries(meant, query), place);
  }

  const aligned = days(-3, 4);
  const odd = { from: dayStart - 50 * hourMs - 1_234_567, to: dayStart + 71 * hourMs + 2_345_678 };
  const within = { from: dayStart + 5 * hourMs + 600_001, to: dayStart + 5 * hourMs + 2_400_000 };
  for (const [name, window, buckets] of [
    ['days', aligned, utc('day')],
    ['days of a window that begins and ends anywhere', odd, utc('day')],
    ['hours of such a window', odd, utc('hour')],
    ['half hours of such a window', odd, utc('minute', 30)],
    ['minutes', { from: dayStart + 1, to: dayStart + 3 * hourMs }, utc('minute')],
    ['five minutes of a part of an hour', within, utc('minute', 5)],
    ['weeks', odd, utc('week')],
    ['months', { from: dayStart - 40 * 24 * hourMs, to: dayStart + 40 * 24 * hourMs }, utc('month')],
    ['one day around everything', within, utc('day')],
  ] as [string, TimeWindow, Buckets][]) {
    test(`series by ${name}: every measure as recomputed row by row`, () =>
      compare({ ...base, window, buckets }));
  }

  for (const split of [
    ...[
      'ai_service',
      'model',
      'status_code',
      'api_key',
      'config',
      'workspace',
      'provider',
      'prompt',
      'virtual_key',
      'metadata_key',
      'retries',
    ],
  ] as SeriesSplit[]) {
    test(`series split by ${split}: every measure as recomputed row by row`, async () => {
      await compare({ ...base, window: odd, buckets: utc('day'), split });
      await compare({ ...base, window: within, buckets: utc('minute', 10), split });
    });
  }

  test('series of a workspace, a user and a key hold only what they may see', async () => {
    const window = odd;
    const see = (more: object): RequestSeriesQuery => ({
      ...base,
      window,
      buckets: utc('day'),
      visibility: { organisationId, ...more },
    });
    for (const workspaceId of ['alpha', '', 'none'])
      await compare(see({ workspaceId }), (row) => row.workspace_id === workspaceId);
    await compare({ ...see({ workspaceId: 'beta' }), split: 'model' }, (row) => row.workspace_id === 'beta');
    await compare(see({ userId: 'ann' }), (row) => row.user_id === 'ann');
    await compare(see({ apiKeyId: 'k2' }), (row) => row.api_key_id === 'k2');
    const both = see({ workspaceId: 'alpha', userId: 'ann', apiKeyId: 'k1' });
    const isBoth = (row: RequestRow): boolean => row.user_id === 'ann' && row.api_key_id === 'k1';
    await compare({ ...both, split: 'model' }, (row) => isBoth(row) && row.workspace_id === 'alpha');
    await compare(see({ organisationId: randomUUID() }), () => false);
  });

  test('a window without time has no points, one without requests has empty ones', async () => {
    const nothing = await analytics().series({ ...base, window: days(1, 1), buckets: utc('day') });
    assert.deepEqual(nothing.points, []);
    assert.equal(nothing.totals[0]?.values.requests, 0);
    await compare({ ...base, window: days(300, 302), buckets: utc('hour') });
    const split = await analytics().series({
      ...base,
      window: days(300, 302),
      buckets: utc('hour'),
      split: 'model',
    });
    assert.deepEqual(split, { totals: [], points: [] });
  });

  test('measures that are not asked for are not told', async () => {
    const { totals, points } = await analytics().series({
      ...base,
      window: aligned,
      buckets: utc('day'),
      measures: ['cost', 'cost'],
    });
    for (const { values } of [...totals, ...points]) assert.deepEqual(Object.keys(values), ['cost']);
  });

  test('more points than an answer holds are the caller’s fault', async () => {
    const window = { from: dayStart, to: dayStart + maxBuckets * 60_000 };
    const most = await analytics().series({
      ...base,
      measures: ['requests'],
      window,
      buckets: utc('minute'),
    });
    assert.equal(most.points.length, maxBuckets);
    for (const more of [
      { ...window, to: window.to + 1 },
      { from: 0, to: 8e15 },
    ]) {
      const query = { ...base, window: more, buckets: utc('minute') };
      await assert.rejects(analytics().series(query), hasCode('invalid_request'));
    }
  });

  test('a time zone that does not exist is the caller’s fault', async () => {
    const query = { ...base, window: aligned, buckets: { ...utc('day'), timeZone: 'Mars/Phobos' } };
    await assert.rejects(analytics().series(query), hasCode('invalid_request'));
  });
}
