import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { GatewayError } from '../errors/gateway-error.ts';
import { createBudgets } from '../../storage/memory/budgets.ts';
import { createMemoryCounters } from '../../storage/memory/counters.ts';
import { createMemoryLimiter } from '../../storage/memory/limiter.ts';
import { recordingLog } from '../lifecycle/recording-services.test-support.ts';
import { ManualClock } from '../../tests/conformance/manual-clock.ts';
import type { Charges, Limiter } from '../ports/counters.ts';
import type { RateLimit } from '../ports/budgets.ts';
import { LargerCharges, LimitCharges, limitWords, takeCharges, windowMsOf } from './limit-charges.ts';

const owner = { prefix: 'key:k', organisationId: 'org-1', name: 'key "ours"' };

function limited(...limits: readonly RateLimit[]): LimitCharges {
  const charges = new LimitCharges();
  charges.addLimits(limits, owner);
  return charges;
}

/** The limiter of a test, and how to be counted by it. */
function counted(wrap: (limiter: Limiter) => Limiter = (limiter) => limiter) {
  const clock = new ManualClock();
  const counters = createMemoryCounters({ clock, log: recordingLog([]) });
  const budgets = createBudgets({ clock, log: recordingLog([]) });
  const limiter = wrap(createMemoryLimiter({ counters, budgets }));
  const take = async (charges: LimitCharges, tokens = 10) =>
    takeCharges(charges, { limiter, expected: { tokens, cost: undefined }, code: 'rate_limited' });
  const refused = async (charges: LimitCharges, tokens?: number): Promise<GatewayError> => {
    try {
      await take(charges, tokens);
    } catch (error) {
      return error as GatewayError;
    }
    return assert.fail('nothing was refused');
  };
  return { clock, counters, take, refused };
}

const used = (tokens: number) => ({ cost: 0, tokens, requests: 1 });

const later = (limiter: Limiter): Limiter => ({
  admit: async (charges, tokens) => limiter.admit(charges, tokens),
});

describe('a limit', () => {
  const units: [RateLimit['unit'], string, number][] = [
    ['rps', 'second', 1],
    ['rpm', 'minute', 60],
    ['rph', 'hour', 3600],
    ['rpd', '24 hours', 86_400],
    ['rpw', '7 days', 604_800],
  ];
  for (const [unit, period, seconds] of units) {
    test(`per ${period} lets so much through in any of them`, async () => {
      const { take, refused, clock } = counted();
      const charges = limited({ type: 'requests', unit, value: 2 });
      assert.equal(windowMsOf(unit), seconds * 1000);
      await take(charges);
      await take(charges);
      const { code, status, message, headers } = await refused(charges);
      assert.deepEqual([code, status], ['rate_limited', 429]);
      const wait = Number(headers[1]);
      assert.equal(
        message,
        `The rate limit of the key "ours" (2 requests per ${period}) is used up. Try again in ${wait} s.`,
      );
      assert.deepEqual(headers, [
        ...['retry-after', String(seconds)],
        ...['x-ratelimit-limit-requests', '2'],
        ...['x-ratelimit-remaining-requests', '0'],
        ...['x-ratelimit-reset-requests', `${seconds}s`],
      ]);
      clock.advance(wait * 1000);
      await take(charges);
    });
  }

  test('is said in words', () => {
    assert.equal(limitWords({ type: 'requests', unit: 'rpm', value: 1 }), '1 request per minute');
    assert.equal(limitWords({ type: 'tokens', unit: 'rpd', value: 5 }), '5 tokens per 24 hours');
  });

  test('of nothing never says that waiting helps', async () => {
    const { refused } = counted();
    const { message } = await refused(limited({ type: 'tokens', unit: 'rpm', value: 0 }));
    assert.match(message, /\(0 tokens per minute\) lets nothing through\. Ask for a higher one\.$/);
  });

  test('goes on counting when its value changes, and apart from the others of the same record', async () => {
    const { take, refused } = counted();
    await take(limited({ type: 'requests', unit: 'rpm', value: 1 }));
    await refused(limited({ type: 'requests', unit: 'rpm', value: 1 }));
    await take(limited({ type: 'requests', unit: 'rpm', value: 2 }));
    await take(limited({ type: 'requests', unit: 'rph', value: 1 }));
  });
});

for (const [how, wrap] of [
  ['at once', (limiter: Limiter) => limiter],
  ['later', later],
] as const) {
  describe(`several limits, decided ${how}`, () => {
    const both = limited(
      { type: 'requests', unit: 'rpm', value: 3 },
      { type: 'tokens', unit: 'rpm', value: 25 },
    );

    test('count nothing of what one of them refuses', async () => {
      const { take, refused, counters } = counted(wrap);
      await take(both, 20);
      for (let count = 0; count < 5; count++) assert.match((await refused(both, 20)).message, /25 tokens/);
      const { windows } = counters.take(both.requests?.windows ?? [], 0);
      assert.deepEqual(
        windows.map(({ remaining }) => remaining),
        [2],
      );
    });

    test('hold tokens until it is known what was used', async () => {
      const { take, refused, counters } = counted(wrap);
      const left = async () => counters.take(both.tokens?.windows ?? [], 0).windows[0]?.remaining;
      const reserved = await take(both, 20);
      assert.equal(reserved?.reserved.tokens, 20);
      assert.equal(await left(), 5);
      await reserved.settle(used(7));
      assert.equal(await left(), 18);
      const more = await take(both, 5);
      await more?.settle(used(Number.POSITIVE_INFINITY));
      assert.equal(await left(), 13);
      const last = await take(both, 13);
      await last?.settle(used(30));
      assert.equal(await left(), 0);
      assert.match((await refused(both)).message, /3 requests/);
    });
  });
}

test('more tokens than fit into an empty window are let through when nothing else was used', async () => {
  const { take, refused } = counted();
  const charges = limited({ type: 'tokens', unit: 'rpm', value: 5 });
  assert.equal((await take(charges, 900))?.reserved.tokens, 5);
  await refused(charges, 1);
});

test('what a store lets through uncounted reserves nothing', async () => {
  const { take } = counted(() => ({ admit: () => undefined }));
  assert.equal(await take(limited({ type: 'tokens', unit: 'rpm', value: 5 })), undefined);
});

test('the limits of several records are one decision', async () => {
  const asked: Charges[] = [];
  const { take } = counted((limiter) => ({
    admit(charges, tokens) {
      asked.push(charges);
      return limiter.admit(charges, tokens);
    },
  }));
  const charges = limited({ type: 'requests', unit: 'rpm', value: 5 });
  const others = new LimitCharges();
  others.addLimits(
    [
      { type: 'requests', unit: 'rpm', value: 5 },
      { type: 'tokens', unit: 'rpm', value: 50 },
    ],
    { ...owner, prefix: 'workspace:w' },
  );
  charges.addAll(others);
  await take(charges);
  assert.deepEqual(asked, [charges]);
  assert.deepEqual([charges.requests?.windows.length, charges.tokens?.windows.length], [2, 1]);
});

describe('larger charges', () => {
  const window = { key: 'policy:p', group: 'org-1', limit: 5, windowMs: 1000 };

  test('are made once, and leave those that they are made of as they are', () => {
    const own = limited({ type: 'requests', unit: 'rpm', value: 9 });
    const larger = new LargerCharges();
    const made = larger.withWindow(own, 'requests', window, 'The policy');
    assert.deepEqual(
      made.requests?.windows.map(({ limit }) => limit),
      [9, 5],
    );
    assert.deepEqual(made.requests?.words.at(-1), 'The policy');
    assert.equal(made.requests?.smallest, 5);
    assert.equal(own.requests?.windows.length, 1);
    assert.equal(larger.withWindow(own, 'requests', window, 'The policy'), made);
    assert.notEqual(larger.withWindow(own, 'requests', { ...window }, 'The policy'), made);
    assert.notEqual(larger.withWindow(new LimitCharges(), 'requests', window, 'The policy'), made);
  });

  test('are forgotten when there are many', () => {
    const own = new LimitCharges();
    const larger = new LargerCharges();
    const made = larger.withWindow(own, 'requests', window, 'The policy');
    for (let group = 0; group < 4000; group += 1)
      larger.withWindow(own, 'requests', { ...window }, 'The policy');
    assert.notEqual(larger.withWindow(own, 'requests', window, 'The policy'), made);
  });
});
