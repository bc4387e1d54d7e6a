import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { bucketsOf, type GranularityQuery } from './graph.ts';

const minute = 60_000;
const hour = 60 * minute;
const day = 24 * hour;

describe('points when the query does not say how long they are', () => {
  const cases: [window: number, unit: string, size: number][] = [
    [1, 'minute', 1],
    [199 * minute, 'minute', 1],
    [199 * minute + 1, 'minute', 5],
    [16 * hour, 'minute', 5],
    [day, 'hour', 1],
    [8 * day, 'hour', 1],
    [30 * day, 'day', 1],
    [199 * day, 'day', 1],
    [200 * day, 'week', 1],
    [366 * day, 'week', 1],
  ];
  for (const [length, unit, size] of cases)
    test(`${length / hour} hours in ${size} ${unit}`, () =>
      assert.deepEqual(bucketsOf({}, { from: 0, to: length }), { unit, size, timeZone: 'UTC' }));
});

describe('points that the query names', () => {
  const window = { from: 0, to: 7 * day };
  const cases: [GranularityQuery['granularity'] & string, unit: string, size: number][] = [
    ['5m', 'minute', 5],
    ['hour', 'hour', 1],
    ['day', 'day', 1],
    ['week', 'week', 1],
    ['month', 'month', 1],
  ];
  for (const [granularity, unit, size] of cases)
    test(granularity, () =>
      assert.deepEqual(bucketsOf({ granularity }, window), { unit, size, timeZone: 'UTC' }),
    );

  test('too many of them are refused, with the shortest that is possible', () => {
    assert.throws(() => bucketsOf({ granularity: 'minute' }, window), {
      code: 'invalid_request',
      param: 'granularity',
      message: /"minute" makes more than 10000 points of this window\. Ask for "5m"/,
    });
    const most = { from: 0, to: 9999 * minute };
    assert.equal(bucketsOf({ granularity: 'minute' }, most).size, 1);
  });
});

describe('time zones', () => {
  const zoneOf = (time_zone: string) => bucketsOf({ time_zone }, { from: 0, to: hour }).timeZone;

  for (const [name, zone] of [
    ['UTC', 'UTC'],
    ['europe/berlin', 'Europe/Berlin'],
    ['America/New_York', 'America/New_York'],
  ] as const)
    test(name, () => assert.equal(zoneOf(name), zone));

  for (const name of ['Mars/Phobos', '+05:30', 'UTC; DROP', '05:30', 'Europe/'])
    test(`${name} is refused`, () =>
      assert.throws(() => zoneOf(name), {
        code: 'invalid_request',
        param: 'time_zone',
        message: /names no time zone: ".*"\. Write an IANA name like Europe\/Berlin, or UTC\./,
      }));
});
