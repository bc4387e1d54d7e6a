import assert from 'node:assert/strict';
import { test } from 'node:test';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import { maxBuckets, type Buckets } from '../../core/ports/analytics.ts';
import { naiveBuckets } from '../../tests/conformance/analytics-naive-series.ts';
import { timeBuckets } from './bucket-starts.ts';

const hourMs = 3_600_000;
const iso = (times: readonly number[]): string[] =>
  times.map((at) => new Date(at).toISOString().slice(0, 16));
const between = (from: string, to: string) => ({ from: Date.parse(`${from}Z`), to: Date.parse(`${to}Z`) });
const of = (unit: Buckets['unit'], timeZone: string, size: Buckets['size'] = 1): Buckets => ({
  unit,
  size,
  timeZone,
});

const cases: [what: string, buckets: Buckets, window: { from: number; to: number }, starts: string[]][] = [
  ['nothing', of('day', 'UTC'), between('2026-01-01T00:00', '2026-01-01T00:00'), []],
  [
    'days of a window in the middle of them',
    of('day', 'UTC'),
    between('2026-01-01T23:59', '2026-01-03T00:01'),
    ['2026-01-01T00:00', '2026-01-02T00:00', '2026-01-03T00:00'],
  ],
  [
    'a day that a window ends with is not touched',
    of('day', 'UTC'),
    between('2026-01-01T00:00', '2026-01-02T00:00'),
    ['2026-01-01T00:00'],
  ],
  [
    'days of half an hour’s offset',
    of('day', 'Asia/Kolkata'),
    between('2026-01-01T18:29', '2026-01-02T18:31'),
    ['2025-12-31T18:30', '2026-01-01T18:30', '2026-01-02T18:30'],
  ],
  [
    'a day of 23 hours',
    of('day', 'Europe/Berlin'),
    between('2026-03-28T12:00', '2026-03-30T12:00'),
    ['2026-03-27T23:00', '2026-03-28T23:00', '2026-03-29T22:00'],
  ],
  [
    'a day of 25 hours',
    of('day', 'Europe/Berlin'),
    between('2026-10-24T12:00', '2026-10-26T12:00'),
    ['2026-10-23T22:00', '2026-10-24T22:00', '2026-10-25T23:00'],
  ],
  [
    'a day that begins at one in the morning',
    of('day', 'Africa/Cairo'),
    between('2026-04-23T12:00', '2026-04-24T12:00'),
    ['2026-04-22T22:00', '2026-04-23T22:00'],
  ],
  [
    'hours around clocks that go by half an hour',
    of('hour', 'Australia/Lord_Howe'),
    between('2026-04-04T14:00', '2026-04-04T16:30'),
    ['2026-04-04T14:00', '2026-04-04T15:00', '2026-04-04T15:30'],
  ],
  [
    'weeks from Monday on',
    of('week', 'America/St_Johns'),
    between('2026-03-04T00:00', '2026-03-17T00:00'),
    ['2026-03-02T03:30', '2026-03-09T02:30', '2026-03-16T02:30'],
  ],
  [
    'months',
    of('month', 'Europe/Berlin'),
    between('2026-02-11T00:00', '2026-04-01T00:00'),
    ['2026-01-31T23:00', '2026-02-28T23:00', '2026-03-31T22:00'],
  ],
  [
    'minutes of a quarter hour’s offset',
    of('minute', 'Asia/Kathmandu', 30),
    between('2026-01-01T00:00', '2026-01-01T01:00'),
    ['2025-12-31T23:45', '2026-01-01T00:15', '2026-01-01T00:45'],
  ],
];
for (const [what, buckets, window, starts] of cases) {
  test(`buckets: ${what}`, () => assert.deepEqual(iso(timeBuckets.starts(window, buckets)), starts));
}

test('buckets are those that somebody sees who looks at a clock each minute', () => {
  for (const timeZone of [
    'UTC',
    'Europe/Berlin',
    'America/St_Johns',
    'Asia/Kolkata',
    'Australia/Lord_Howe',
    'America/Asuncion',
  ]) {
    for (const change of ['2026-03-08T07:00', '2026-03-29T00:30', '2024-10-06T03:00']) {
      const middle = Date.parse(`${change}Z`);
      const window = { from: middle - 30 * hourMs, to: middle + 30 * hourMs + 1 };
      for (const buckets of [
        of('hour', timeZone),
        of('day', timeZone),
        of('minute', timeZone, 15),
        of('week', timeZone),
      ]) {
        const place = `${JSON.stringify(buckets)} around ${change}`;
        assert.deepEqual(iso(timeBuckets.starts(window, buckets)), iso(naiveBuckets(window, buckets)), place);
      }
    }
  }
});

test('there are no more buckets than an answer holds', () => {
  const window = { from: 0, to: maxBuckets * hourMs };
  assert.equal(timeBuckets.starts(window, of('hour', 'UTC')).length, maxBuckets);
  const isRefused = (error: unknown): boolean => GatewayError.is(error) && error.code === 'invalid_request';
  assert.throws(() => timeBuckets.starts({ ...window, to: window.to + 1 }, of('hour', 'UTC')), isRefused);
  assert.throws(() => timeBuckets.starts({ from: 0, to: 1e13 }, of('minute', 'UTC', 30)), isRefused);
  assert.throws(() => timeBuckets.starts(window, of('month', 'Nowhere')), isRefused);
  assert.ok(timeBuckets.starts({ from: 0, to: 1e13 }, of('month', 'Europe/Berlin')).length > 3000);
});
