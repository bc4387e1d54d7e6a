import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { budgetPeriod } from './budget-period.ts';

const at = (text: string): number => Date.parse(text);
const words = (limit: Parameters<typeof budgetPeriod>[0], now: string, createdAt = 0): unknown => {
  const { start, end } = budgetPeriod(limit, createdAt)(at(now));
  return [new Date(start).toISOString(), end === undefined ? undefined : new Date(end).toISOString()];
};

test('a limit without periods never begins anew', () => {
  assert.deepEqual(words({}, '2026-11-25T10:00:00Z'), ['1970-01-01T00:00:00.000Z', undefined]);
});

test('weeks begin on Mondays, months on the first, days count from when the limit was made', () => {
  assert.deepEqual(words({ periodicReset: 'weekly' }, '2026-11-25T10:00:00Z'), [
    '2026-11-23T00:00:00.000Z',
    '2026-11-30T00:00:00.000Z',
  ]);
  assert.deepEqual(words({ periodicReset: 'monthly' }, '2026-12-31T23:59:59Z'), [
    '2026-12-01T00:00:00.000Z',
    '2027-01-01T00:00:00.000Z',
  ]);
  assert.deepEqual(words({ periodicResetDays: 10 }, '2026-11-25T10:00:00Z', at('2026-11-01T08:30:00Z')), [
    '2026-11-21T08:30:00.000Z',
    '2026-12-01T08:30:00.000Z',
  ]);
});

test('a first reset that is named comes first, and the others keep its day and hour', () => {
  const limit = { periodicReset: 'monthly' as const, nextResetAt: at('2026-01-31T06:00:00Z') };
  assert.deepEqual(words(limit, '2026-01-30T00:00:00Z'), [
    '1970-01-01T00:00:00.000Z',
    '2026-01-31T06:00:00.000Z',
  ]);
  assert.deepEqual(words(limit, '2026-02-28T05:59:59Z'), [
    '2026-01-31T06:00:00.000Z',
    '2026-02-28T06:00:00.000Z',
  ]);
  assert.deepEqual(words(limit, '2026-03-01T00:00:00Z'), [
    '2026-02-28T06:00:00.000Z',
    '2026-03-31T06:00:00.000Z',
  ]);
  assert.deepEqual(words({ nextResetAt: at('2026-01-31T06:00:00Z') }, '2027-01-01T00:00:00Z'), [
    '2026-01-31T06:00:00.000Z',
    undefined,
  ]);
});

test('property: periods follow each other without a gap, and hold the moment that they were asked for', () => {
  const limits = fc.record(
    {
      periodicReset: fc.constantFrom('weekly' as const, 'monthly' as const),
      nextResetAt: fc.integer({ min: at('2020-01-01'), max: at('2030-01-01') }),
    },
    { requiredKeys: ['periodicReset'] },
  );
  const days = fc.record({ periodicResetDays: fc.integer({ min: 1, max: 365 }) });
  const moment = fc.integer({ min: at('2024-01-01'), max: at('2040-01-01') });
  fc.assert(
    fc.property(fc.oneof(limits, days), moment, moment, (limit, createdAt, now) => {
      const period = budgetPeriod(limit, createdAt);
      const { start, end } = period(now);
      assert.ok(start <= now && end !== undefined && now < end);
      assert.equal(period(end).start, end);
      assert.deepEqual(period(end - 1), { start, end });
    }),
  );
});
