import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { RetrySettings } from '../plan/plan-node.ts';
import { retryBudgetMs, retryDelay } from './attempt-times.ts';

type RetryState = Parameters<typeof retryDelay>[1];

const now = Date.UTC(2026, 10, 21, 12, 0, 0);
const codes = new Set([408, 429, 500, 503]);
const patient: RetrySettings = { attempts: 5, onStatusCodes: codes, useRetryAfter: true };

function delay(
  state: Partial<RetryState>,
  settings: Partial<RetrySettings> = {},
  random = 0,
): number | undefined {
  return retryDelay(
    { ...patient, ...settings },
    { retry: 0, status: 500, headers: [], waitedMs: 0, now, ...state },
    () => random,
  );
}

describe('retryDelay without a word from the provider', () => {
  for (const [retry, full] of [1000, 2000, 4000, 8000, 16_000].entries())
    test(`retry ${retry + 1} waits ${full / 2} to ${full} ms`, () => {
      assert.equal(delay({ retry }, {}, 0), full / 2);
      assert.equal(delay({ retry }, {}, 0.5), full * 0.75);
      assert.equal(delay({ retry }, {}, 0.9999999), full);
    });

  const cases: readonly [string, Partial<RetryState>, Partial<RetrySettings>, number | undefined][] = [
    ['no attempts', {}, { attempts: 0 }, undefined],
    ['attempts below zero', {}, { attempts: -1 }, undefined],
    ['attempts that are no number', {}, { attempts: Number.NaN }, undefined],
    ['the last attempt', { retry: 1 }, { attempts: 2 }, 1000],
    ['attempts used up', { retry: 2 }, { attempts: 2 }, undefined],
    ['never more than five', { retry: 5 }, { attempts: 100 }, undefined],
    ['a status that is not listed', { status: 501 }, {}, undefined],
    ['a good answer', { status: 200 }, {}, undefined],
    ['a good answer that is listed', { status: 246 }, { onStatusCodes: new Set([246]) }, 500],
    ['the gateway’s own timeout', { status: 408 }, {}, 500],
    ['a budget that is just enough', { waitedMs: 59_500 }, {}, 500],
    ['a budget that is too small', { waitedMs: 59_501 }, {}, undefined],
  ];
  for (const [name, state, settings, expected] of cases)
    test(name, () => assert.equal(delay(state, settings), expected));
});

describe('retryDelay when the provider says how long', () => {
  const seconds = (value: number): readonly string[] => ['retry-after', String(value)];
  const cases: readonly [string, Partial<RetryState>, number | undefined, number?][] = [
    ['429', { status: 429, headers: seconds(3) }, 3000],
    ['503', { status: 503, headers: seconds(3) }, 3000],
    ['no other status', { status: 500, headers: seconds(3) }, 500],
    ['in milliseconds', { status: 429, headers: ['retry-after-ms', '20'] }, 20],
    ['as Azure says it', { status: 429, headers: ['x-ms-retry-after-ms', '30'] }, 30],
    ['a date', { status: 429, headers: ['retry-after', 'Sat, 21 Nov 2026 12:00:09 GMT'] }, 9000],
    ['at once', { status: 429, headers: seconds(0) }, 0],
    ['a wrong value: backs off', { status: 429, headers: ['retry-after', 'later'] }, 500],
    ['a tenth is added', { status: 429, headers: seconds(20) }, 21_000, 0.5],
    ['at least 100 ms are added', { status: 429, headers: seconds(0) }, 50, 0.5],
    ['below the bound', { status: 429, headers: ['retry-after-ms', '59999'] }, 59_999],
    ['what is added never exceeds the budget', { status: 429, headers: seconds(59) }, 60_000, 0.99],
    ['at the bound', { status: 429, headers: seconds(60) }, undefined],
    ['far off', { status: 429, headers: seconds(86_400) }, undefined],
    ['just within the budget', { status: 429, headers: seconds(30), waitedMs: 30_000 }, 30_000, 0.5],
    ['beyond the budget', { status: 429, headers: seconds(30), waitedMs: 30_001 }, undefined],
  ];
  for (const [name, state, expected, random] of cases)
    test(name, () => assert.equal(delay(state, {}, random), expected));

  test('is not listened to unless the config says so', () => {
    assert.equal(delay({ status: 429, headers: seconds(59) }, { useRetryAfter: false }), 500);
  });
});

test('all waits of a request stay within the budget, and there are five at the most', () => {
  const answer = fc.record({
    status: fc.constantFrom(429, 500, 503),
    after: fc.option(fc.nat(90_000), { nil: undefined }),
    random: fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
  });
  fc.assert(
    fc.property(fc.array(answer, { minLength: 12, maxLength: 12 }), fc.nat(20), (answers, attempts) => {
      let waitedMs = 0;
      let retry = 0;
      for (const { status, after, random } of answers) {
        const headers = after === undefined ? [] : ['retry-after-ms', String(after)];
        const wait = delay({ status, headers, waitedMs, retry }, { attempts }, random);
        if (wait === undefined) break;
        assert.ok(Number.isInteger(wait) && wait >= 0);
        waitedMs += wait;
        retry++;
      }
      assert.ok(waitedMs <= retryBudgetMs && retry <= Math.min(5, attempts));
    }),
  );
});
