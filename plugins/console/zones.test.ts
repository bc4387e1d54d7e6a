import assert from 'node:assert/strict';
import { test } from 'node:test';
import { moment } from './app/src/lib/format.ts';
import { dayBefore, fromInput, isZone, midnight, offsetName, toInput } from './app/src/lib/zones.ts';

const hourMs = 3_600_000;
const at = (iso: string): number => Date.parse(iso);
const iso = (ms: number): string => new Date(ms).toISOString().slice(0, 16);

test('a moment is shown and entered in any zone, also in those of half hours', () => {
  const zones = ['local', 'utc', 'Europe/Berlin', 'America/New_York', 'Asia/Kolkata', 'Asia/Kathmandu'];
  for (const zone of [...zones, 'Australia/Lord_Howe', 'Pacific/Kiritimati', 'Pacific/Pago_Pago'])
    for (let ms = at('2026-01-05T00:00Z'); ms < at('2027-01-05T00:00Z'); ms += 26.25 * hourMs)
      assert.equal(iso(fromInput(toInput(ms, zone), zone)), iso(ms), zone);
  assert.equal(toInput(at('2026-07-01T12:00Z'), 'Asia/Kolkata'), '2026-07-01T17:30');
  assert.equal(iso(fromInput('2026-07-01T17:30', 'Asia/Kolkata')), '2026-07-01T12:00');
  assert.equal(moment('2026-07-01T20:00:01.089Z', 'Asia/Kolkata', true), '2026-07-02 01:30:01.089');
  assert.ok(Number.isNaN(fromInput('', 'Asia/Kolkata')));
});

test('an hour that comes twice is its first one, and one that is left out follows the hour before', () => {
  for (const [zone, shown, instant] of [
    ['Europe/Berlin', '2026-10-25T01:59', '2026-10-24T23:59'],
    ['Europe/Berlin', '2026-10-25T02:30', '2026-10-25T00:30'],
    ['Europe/Berlin', '2026-10-25T03:00', '2026-10-25T02:00'],
    ['Europe/Berlin', '2026-03-29T02:30', '2026-03-29T01:30'],
    ['Europe/Berlin', '2026-03-29T03:30', '2026-03-29T01:30'],
    ['America/New_York', '2026-11-01T00:59', '2026-11-01T04:59'],
    ['America/New_York', '2026-11-01T01:30', '2026-11-01T05:30'],
    ['America/New_York', '2026-11-01T02:00', '2026-11-01T07:00'],
  ] as const)
    assert.equal(iso(fromInput(shown, zone)), instant, `${zone} ${shown}`);
  assert.equal(toInput(at('2026-10-25T00:30Z'), 'Europe/Berlin'), '2026-10-25T02:30');
  assert.equal(toInput(at('2026-10-25T01:30Z'), 'Europe/Berlin'), '2026-10-25T02:30');
});

test('a day begins at midnight of the zone, and has the hours that it has', () => {
  /** The beginnings of the day of a moment and of the one before, and the same time of that one. */
  const days = (now: string, zone: string): readonly string[] => {
    const today = midnight(at(now), zone);
    return [today, midnight(today - 1, zone), dayBefore(at(now), zone)].map(iso);
  };
  assert.deepEqual(days('2026-10-25T10:00Z', 'Europe/Berlin'), [
    ...['2026-10-24T22:00', '2026-10-23T22:00', '2026-10-24T09:00'],
  ]);
  assert.deepEqual(days('2026-11-02T12:00Z', 'America/New_York'), [
    ...['2026-11-02T05:00', '2026-11-01T04:00', '2026-11-01T12:00'],
  ]);
  assert.deepEqual(days('2026-11-29T20:00Z', 'Asia/Kolkata'), [
    ...['2026-11-29T18:30', '2026-11-28T18:30', '2026-11-28T20:00'],
  ]);
  // Clocks of Cairo go from 23:59 to 01:00.
  assert.equal(iso(midnight(at('2026-04-24T09:00Z'), 'Africa/Cairo')), '2026-04-23T22:00');
});

test('a zone says its distance from UTC, and what is none is known', () => {
  const summer = at('2026-07-01T00:00Z');
  assert.deepEqual(
    ['utc', 'Europe/Berlin', 'America/New_York', 'Asia/Kolkata', 'Europe/London'].map((zone) =>
      offsetName(zone, zone === 'Europe/London' ? at('2026-12-01T00:00Z') : summer),
    ),
    ['UTC', 'UTC+2', 'UTC-4', 'UTC+5:30', 'UTC'],
  );
  assert.deepEqual(['local', 'utc', 'Asia/Tokyo', 'Mars/Olympus', ''].map(isZone), [
    true,
    true,
    true,
    false,
    false,
  ]);
});
