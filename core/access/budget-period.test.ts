import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { UsageLimit } from '../ports/budgets.ts';
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

/** When the present period of a usage limit began; never before it was made. */
function periodStart(limit: Parameters<typeof budgetPeriod>[0], createdAt: number, now: number): number {
  return Math.max(createdAt, budgetPeriod(limit, createdAt)(now).start);
}

const atUtc = (text: string): number => Date.parse(`${text}Z`);
const made = atUtc('2024-01-10T12:00:00');
const dayMs = 86_400_000;

describe('the present period of a usage limit', () => {
  const cases: [name: string, limit: Partial<UsageLimit>, now: string, start: string][] = [
    ['without a reset it began with the record', {}, '2026-05-20T10:00:00', '2024-01-10T12:00:00'],
    [
      'a month begins on its first day',
      { periodicReset: 'monthly' },
      '2026-05-20T10:00:00',
      '2026-05-01T00:00:00',
    ],
    ['at midnight, which counts', { periodicReset: 'monthly' }, '2026-05-01T00:00:00', '2026-05-01T00:00:00'],
    ['a week begins on Monday', { periodicReset: 'weekly' }, '2026-05-20T10:00:00', '2026-05-18T00:00:00'],
    ['Sunday belongs to it', { periodicReset: 'weekly' }, '2026-05-24T23:59:59', '2026-05-18T00:00:00'],
    ['days count from the record', { periodicResetDays: 10 }, '2024-02-05T00:00:00', '2024-01-30T12:00:00'],
    [
      'nothing begins before the record',
      { periodicReset: 'monthly' },
      '2024-01-20T00:00:00',
      '2024-01-10T12:00:00',
    ],
    [
      'until its first moment it is as without',
      { periodicReset: 'weekly', nextResetAt: atUtc('2024-03-06T08:00:00') },
      '2024-03-06T07:59:59',
      '2024-01-10T12:00:00',
    ],
    [
      'which begins the next one',
      { periodicReset: 'weekly', nextResetAt: atUtc('2024-03-06T08:00:00') },
      '2024-03-06T08:00:00',
      '2024-03-06T08:00:00',
    ],
    [
      'and every week after it',
      { periodicReset: 'weekly', nextResetAt: atUtc('2024-03-06T08:00:00') },
      '2024-03-20T07:59:59',
      '2024-03-13T08:00:00',
    ],
    [
      'and every so many days',
      { periodicResetDays: 3, nextResetAt: atUtc('2024-03-06T08:00:00') },
      '2024-03-12T08:00:00',
      '2024-03-12T08:00:00',
    ],
    [
      'and every month, in shorter ones on the last day',
      { periodicReset: 'monthly', nextResetAt: atUtc('2024-01-31T08:00:00') },
      '2024-02-29T08:00:00',
      '2024-02-29T08:00:00',
    ],
    [
      'and in longer ones on its own',
      { periodicReset: 'monthly', nextResetAt: atUtc('2024-01-31T08:00:00') },
      '2024-03-31T07:59:59',
      '2024-02-29T08:00:00',
    ],
    [
      'once, without repetition',
      { nextResetAt: atUtc('2024-03-06T08:00:00') },
      '2026-01-01T00:00:00',
      '2024-03-06T08:00:00',
    ],
  ];
  for (const [name, limit, now, start] of cases) {
    test(name, () => {
      const begun = periodStart(limit, made, atUtc(now));
      assert.equal(new Date(begun).toISOString(), `${start}.000Z`);
    });
  }

  test('holds now, is no longer than a period, and moves only forward', () => {
    const anyTime = fc.integer({ min: made, max: made + 4000 * dayMs });
    const repeated: fc.Arbitrary<Partial<UsageLimit>> = fc.oneof(
      fc.constant({}),
      fc.record({ periodicReset: fc.constantFrom('monthly' as const, 'weekly' as const) }),
      fc.record({ periodicResetDays: fc.integer({ min: 1, max: 365 }) }),
    );
    const first: fc.Arbitrary<Partial<UsageLimit>> = fc.record(
      { nextResetAt: anyTime },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(repeated, first, anyTime, anyTime, (repetition, beginning, one, other) => {
        const limit = { ...repetition, ...beginning };
        const [earlier, later] = [Math.min(one, other), Math.max(one, other)];
        const [begun, next] = [periodStart(limit, made, earlier), periodStart(limit, made, later)];
        assert.ok(made <= begun && begun <= earlier && begun <= next && next <= later);
        assert.equal(periodStart(limit, made, begun), begun, 'a period begins with itself');
      }),
    );
  });
});
