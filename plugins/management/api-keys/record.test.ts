import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { UsageLimit } from '../../../core/ports/limits.ts';
import { periodStart } from './record.ts';

const at = (text: string): number => Date.parse(`${text}Z`);
const made = at('2024-01-10T12:00:00');
const dayMs = 86_400_000;

describe('the present period of a usage limit', () => {
  const cases: [name: string, limit: Partial<UsageLimit>, now: string, start: string][] = [
    ['without a reset it began with the key', {}, '2026-05-20T10:00:00', '2024-01-10T12:00:00'],
    [
      'a month begins on its first day',
      { periodicReset: 'monthly' },
      '2026-05-20T10:00:00',
      '2026-05-01T00:00:00',
    ],
    ['at midnight, which counts', { periodicReset: 'monthly' }, '2026-05-01T00:00:00', '2026-05-01T00:00:00'],
    ['a week begins on Monday', { periodicReset: 'weekly' }, '2026-05-20T10:00:00', '2026-05-18T00:00:00'],
    ['Sunday belongs to it', { periodicReset: 'weekly' }, '2026-05-24T23:59:59', '2026-05-18T00:00:00'],
    ['days count from the key', { periodicResetDays: 10 }, '2024-02-05T00:00:00', '2024-01-30T12:00:00'],
    [
      'nothing begins before the key',
      { periodicReset: 'monthly' },
      '2024-01-20T00:00:00',
      '2024-01-10T12:00:00',
    ],
    [
      'until its first moment it is as without',
      { periodicReset: 'weekly', nextResetAt: at('2024-03-06T08:00:00') },
      '2024-03-06T07:59:59',
      '2024-01-10T12:00:00',
    ],
    [
      'which begins the next one',
      { periodicReset: 'weekly', nextResetAt: at('2024-03-06T08:00:00') },
      '2024-03-06T08:00:00',
      '2024-03-06T08:00:00',
    ],
    [
      'and every week after it',
      { periodicReset: 'weekly', nextResetAt: at('2024-03-06T08:00:00') },
      '2024-03-20T07:59:59',
      '2024-03-13T08:00:00',
    ],
    [
      'and every so many days',
      { periodicResetDays: 3, nextResetAt: at('2024-03-06T08:00:00') },
      '2024-03-12T08:00:00',
      '2024-03-12T08:00:00',
    ],
    [
      'and every month, in shorter ones on the last day',
      { periodicReset: 'monthly', nextResetAt: at('2024-01-31T08:00:00') },
      '2024-02-29T08:00:00',
      '2024-02-29T08:00:00',
    ],
    [
      'and in longer ones on its own',
      { periodicReset: 'monthly', nextResetAt: at('2024-01-31T08:00:00') },
      '2024-03-31T07:59:59',
      '2024-02-29T08:00:00',
    ],
    [
      'once, without repetition',
      { nextResetAt: at('2024-03-06T08:00:00') },
      '2026-01-01T00:00:00',
      '2024-03-06T08:00:00',
    ],
  ];
  for (const [name, limit, now, start] of cases) {
    test(name, () => {
      const begun = periodStart({ type: 'cost', creditLimit: 1, ...limit }, made, at(now));
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
        const limit = { type: 'cost' as const, creditLimit: 1, ...repetition, ...beginning };
        const [earlier, later] = [Math.min(one, other), Math.max(one, other)];
        const [begun, next] = [periodStart(limit, made, earlier), periodStart(limit, made, later)];
        assert.ok(made <= begun && begun <= earlier && begun <= next && next <= later);
        assert.equal(periodStart(limit, made, begun), begun, 'a period begins with itself');
      }),
    );
  });
});
