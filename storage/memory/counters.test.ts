import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import fc from 'fast-check';
import type { Log } from '../../core/ports/log.ts';
import { countersConformance } from '../../tests/conformance/counters.ts';
import { ManualClock } from '../../tests/conformance/manual-clock.ts';
import { createMemoryCounters } from './counters.ts';

const minute = 60_000;

function open(maxKeys?: number) {
  const clock = new ManualClock();
  const logged: string[] = [];
  const record = (message: string): void => void logged.push(message);
  const log: Log = { debug: record, info: record, warn: record, error: record, child: () => log };
  const counters = createMemoryCounters({ clock, log, ...(maxKeys === undefined ? {} : { maxKeys }) });
  return { clock, logged, counters };
}

countersConformance('memory counters', () => {
  const { clock, counters } = open();
  return { counters, advance: (ms) => clock.advance(ms), close: () => counters.close() };
});

function begin(t: TestContext, maxKeys?: number) {
  const subject = open(maxKeys);
  t.after(() => subject.counters.close());
  return subject;
}

test('decides at once, without a promise', (t) => {
  const { counters } = begin(t);
  assert.equal(counters.take([{ key: 'a', limit: 1, windowMs: minute }], 1).allowed, true);
});

test('a clock that goes back neither opens a limit nor breaks anything', (t) => {
  const { clock, counters } = begin(t);
  const windows = [{ key: 'a', limit: 2, windowMs: minute }];
  counters.take(windows, 1);
  clock.advance(-10 * minute);
  assert.equal(counters.take(windows, 1).allowed, true);
  const refused = counters.take(windows, 1);
  assert.equal(refused.allowed, false);
  assert.ok((refused.windows[0]?.resetMs ?? 0) <= minute);
  clock.advance(11 * minute);
  assert.equal(counters.take(windows, 2).allowed, true);
});

test('never over the limit when unused amounts are given back in any order', () => {
  const step = fc.record({
    wait: fc.nat(40),
    amount: fc.integer({ min: 1, max: 6 }),
    refund: fc.option(fc.record({ back: fc.nat(5), amount: fc.integer({ min: 1, max: 6 }) })),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
      const { clock, counters } = open();
      const windows = [{ key: 'a', limit: 12, windowMs: 240 }];
      const used: { at: number; amount: number }[] = [];
      for (const { wait, amount, refund } of steps) {
        clock.advance(wait);
        const at = clock.now();
        if (counters.take(windows, amount).allowed) used.push({ at, amount });
        const total = used.reduce((sum, entry) => (entry.at >= at - 240 ? sum + entry.amount : sum), 0);
        assert.ok(total <= 12, `${total} used`);
        const entry = refund === null ? undefined : used.at(-1 - refund.back);
        if (refund === null || entry === undefined || entry.at < at - 240) continue;
        const unused = Math.min(refund.amount, entry.amount);
        entry.amount -= unused;
        counters.adjust(windows, -unused);
      }
      counters.close();
    }),
  );
});

test('a window that is used in every sub-bucket counts them all', (t) => {
  const { clock, counters } = begin(t);
  const windows = [{ key: 'a', limit: 1000, windowMs: minute }];
  for (let i = 0; i < 300; i += 1) {
    counters.take(windows, 1);
    clock.advance(1000);
  }
  // The last 60 seconds: what was taken a whole window ago counts no more.
  assert.equal(counters.take(windows, 0).windows[0]?.remaining, 1000 - 59);
});

test('one key may be counted over windows of several lengths', (t) => {
  const { clock, counters } = begin(t);
  const windows = [
    { key: 'a', limit: 1, windowMs: minute },
    { key: 'a', limit: 2, windowMs: 60 * minute },
  ];
  assert.equal(counters.take(windows, 1).allowed, true);
  clock.advance(2 * minute);
  assert.equal(counters.take(windows, 1).allowed, true);
  clock.advance(2 * minute);
  assert.equal(counters.take(windows, 1).refusedBy, 1);
});

test('when all keys are in use a new one is refused, live ones go on, and the log says so once', (t) => {
  const { clock, counters, logged } = begin(t, 3);
  const window = (key: string) => [{ key, limit: 2, windowMs: minute }];
  for (const key of ['a', 'b', 'c']) counters.take(window(key), 1);
  for (const key of ['d', 'e']) {
    const refused = counters.take(window(key), 1);
    assert.equal(refused.allowed, false);
    assert.equal(refused.refusedBy, 0);
    assert.deepEqual(refused.windows[0], { limit: 2, windowMs: minute, remaining: 0, resetMs: minute });
  }
  counters.adjust(window('f'), 1);
  assert.equal(counters.size, 3);
  assert.equal(logged.length, 1);
  assert.match(logged[0] ?? '', /all 3 keys are in use/);
  assert.equal(counters.take(window('a'), 1).allowed, true);
  assert.equal(counters.take(window('a'), 1).allowed, false);
  clock.advance(2 * minute);
  assert.equal(counters.take(window('d'), 1).allowed, true);
});

test('a refused call creates no key', (t) => {
  const { counters } = begin(t);
  const spent = { key: 'spent', limit: 0, windowMs: minute };
  for (let i = 0; i < 10; i += 1) counters.take([spent, { key: `new-${i}`, limit: 1, windowMs: minute }], 1);
  counters.take([{ key: 'looked at', limit: 1, windowMs: minute }], 0);
  assert.equal(counters.size, 0);
});

test('idle keys are forgotten in the background, live ones kept', (t) => {
  const { clock, counters } = begin(t);
  for (let i = 0; i < 5000; i += 1) counters.take([{ key: `k${i}`, limit: 1, windowMs: minute }], 1);
  counters.take([{ key: 'long', limit: 1, windowMs: 60 * minute }], 1);
  counters.take([{ key: 'long', limit: 1, windowMs: minute }], 1);
  assert.equal(counters.size, 5002);
  clock.advance(2 * minute);
  assert.equal(counters.size, 1);
  assert.equal(counters.take([{ key: 'long', limit: 1, windowMs: 60 * minute }], 1).allowed, false);
});

test('a flood of new keys sweeps as it goes', (t) => {
  const { clock, counters } = begin(t, 100);
  for (let round = 0; round < 50; round += 1) {
    for (let i = 0; i < 20; i += 1) {
      assert.equal(counters.take([{ key: `${round}-${i}`, limit: 1, windowMs: 100 }], 1).allowed, true);
    }
    clock.advance(102);
  }
  assert.ok(counters.size <= 100);
});

test('a key that was idle when its call swept for room is not lost', (t) => {
  const { clock, counters } = begin(t, 2);
  const window = (key: string) => ({ key, limit: 1, windowMs: 100 });
  counters.take([window('a')], 1);
  counters.take([window('b')], 1);
  clock.advance(102);
  assert.equal(counters.take([window('a'), window('c')], 1).allowed, true);
  assert.equal(counters.take([window('a')], 1).allowed, false);
  assert.equal(counters.take([window('c')], 1).allowed, false);
});

test('what cannot be counted is refused before anything changes', (t) => {
  const { counters } = begin(t);
  const fine = { key: 'a', limit: 5, windowMs: minute };
  for (const amount of [-1, Number.NaN, Infinity])
    assert.throws(() => counters.take([fine], amount), RangeError);
  assert.throws(() => counters.adjust([fine], Number.NaN), RangeError);
  for (const windowMs of [0, -1, 1.5, Number.NaN]) {
    assert.throws(
      () => counters.take([fine, { key: 'b', limit: 5, windowMs }], 1),
      /whole number above zero/,
    );
  }
  assert.equal(counters.take([{ ...fine, limit: Number.NaN }], 1).allowed, false);
  assert.equal(counters.size, 0);
});

test('close stops the sweep', () => {
  const { clock, counters } = open();
  assert.equal(clock.waiting, 1);
  counters.close();
  assert.equal(clock.waiting, 0);
  assert.equal(counters.size, 0);
});
