import assert from 'node:assert/strict';
import type { Buckets, Measure, RequestSeries, RequestSeriesQuery } from '../../core/ports/analytics.ts';
import type { RequestRow } from '../../core/ports/request-row.ts';
import { measureChecks, split as splitRows, type Check } from './analytics-naive.ts';

interface NaivePoint {
  readonly split: string | undefined;
  readonly check: Readonly<Record<Measure, Check>>;
}

interface NaiveSeries {
  readonly totals: readonly NaivePoint[];
  readonly points: readonly (NaivePoint & { readonly at: number })[];
}

/** When a request was accepted, milliseconds since the epoch. */
export function timeOf({ created_at }: { readonly created_at: string }): number {
  return Date.parse(`${created_at.replace(' ', 'T')}Z`);
}

/**
 * Every bucket that a window touches, found by looking at each minute of it: a bucket begins where what a clock of the
 * time zone shows says another one. Slow, and without arithmetic about time zones.
 */
export function naiveBuckets(
  { from, to }: RequestSeriesQuery['window'],
  { unit, size, timeZone }: Buckets,
): number[] {
  const format = new Intl.DateTimeFormat('en-US', {
    timeZone,
    hourCycle: 'h23',
    timeZoneName: 'longOffset',
    year: 'numeric',
    month: '2-digit',
    day: '2-digit',
    hour: '2-digit',
    minute: '2-digit',
  });
  const keyAt = (at: number): string => {
    const shown: Record<string, string> = {};
    for (const { type, value } of format.formatToParts(at)) shown[type] = value;
    const { year, month, day, hour, minute, timeZoneName } = shown;
    if (unit === 'month') return `${year} ${month}`;
    const date = Date.UTC(Number(year), Number(month) - 1, Number(day));
    // The epoch began on a Thursday.
    if (unit === 'week') return `week ${Math.floor((date / 86_400_000 + 3) / 7)}`;
    if (unit === 'day') return `${date}`;
    const clock = `${date} ${hour} ${timeZoneName}`;
    return unit === 'hour' ? clock : `${clock} ${Math.floor(Number(minute) / size)}`;
  };
  const minute = 60_000;
  // Clocks that are put back within a bucket do not cut it, unless they leave it.
  let at = Math.floor(from / minute) * minute;
  let key = keyAt(at);
  while (keyAt(at - minute) === key) at -= minute;
  const starts = [at];
  for (at = Math.floor(from / minute) * minute; at < to; at += minute) {
    const next = keyAt(at);
    if (next !== key) starts.push(at);
    key = next;
  }
  return starts;
}

/** What a series of these rows has to be; they all lie in the window. */
export function naiveSeries(rows: readonly RequestRow[], query: RequestSeriesQuery): NaiveSeries {
  const { split, window, buckets } = query;
  const told = (members: readonly RequestRow[]): NaivePoint[] =>
    split === undefined
      ? [{ split: undefined, check: measureChecks(members) }]
      : splitRows(members, split).map(([value, some]) => ({ split: value, check: measureChecks(some) }));
  const starts = naiveBuckets(window, buckets);
  const byStart = new Map<number, RequestRow[]>(starts.map((start) => [start, []]));
  for (const row of rows) byStart.get(starts.findLast((start) => start <= timeOf(row)) as number)?.push(row);
  return {
    totals: told(rows),
    points: [...byStart].flatMap(([at, members]) => told(members).map((point) => ({ at, ...point }))),
  };
}

/** Throws where a store's series differs. */
export function sameSeries(actual: RequestSeries, expected: NaiveSeries, place: string): void {
  const heads = (points: readonly { at?: number; split: string | undefined }[]): unknown[] =>
    points.map(({ at, split }) => [at === undefined ? '' : new Date(at).toISOString(), split]);
  assert.deepEqual(heads(actual.totals), heads(expected.totals), `${place}: totals`);
  assert.deepEqual(heads(actual.points), heads(expected.points), `${place}: points`);
  const pairs = [
    ...actual.totals.map((point, index) => [point, expected.totals[index], 'total'] as const),
    ...actual.points.map((point, index) => [point, expected.points[index], String(point.at)] as const),
  ];
  for (const [point, naive, name] of pairs)
    for (const [measure, value] of Object.entries(point.values))
      naive?.check[measure as Measure](value, `${place} ${name} ${point.split ?? ''} ${measure}`);
}
