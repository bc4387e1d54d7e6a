import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import fc from 'fast-check';
import type { Counters, Decision } from '../../core/ports/counters.ts';

/** Counters with a hand on their clock. */
interface CountersUnderTest {
  readonly counters: Counters;
  /** Moves the time that the counters see, to the millisecond. */
  advance(ms: number): void | Promise<void>;
  close(): void | Promise<void>;
}

/** Opens counters for one test. Keys are unique per test, so that a shared store may be reused. */
type OpenCounters = () => CountersUnderTest | Promise<CountersUnderTest>;

const minute = 60_000;
let opened = 0;

/** What every implementation of `Counters` promises. `runs` is the number of random sequences, 100 by default. */
export function countersConformance(name: string, open: OpenCounters, runs = 100): void {
  async function begin(t: TestContext): Promise<CountersUnderTest & { key: string }> {
    const subject = await open();
    t.after(() => subject.close());
    opened += 1;
    return { ...subject, key: `conformance-${process.pid}-${opened}` };
  }

  describe(`${name}: deciding`, () => {
    decides(begin);
    decidesForSeveral(begin);
  });
  describe(`${name}: passing time`, () => slides(begin, runs));
  describe(`${name}: adjusting`, () => adjusts(begin));
}

type Begin = (t: TestContext) => Promise<CountersUnderTest & { key: string }>;

function decides(begin: Begin): void {
  test('lets the limit through and refuses the next', async (t) => {
    const { counters, key } = await begin(t);
    const windows = [{ key, limit: 3, windowMs: minute }];
    for (const remaining of [2, 1, 0]) {
      const decision = await counters.take(windows, 1);
      assert.equal(decision.allowed, true);
      assert.equal(decision.refusedBy, -1);
      assert.equal(decision.windows[0]?.remaining, remaining);
      assert.equal(decision.windows[0]?.resetMs === 0, remaining > 0);
    }
    const refused = await counters.take(windows, 1);
    assert.equal(refused.allowed, false);
    assert.equal(refused.refusedBy, 0);
    assert.deepEqual(
      { ...refused.windows[0], resetMs: 0 },
      { limit: 3, windowMs: minute, remaining: 0, resetMs: 0 },
    );
  });

  test('an amount above the limit is refused and takes nothing', async (t) => {
    const { counters, key } = await begin(t);
    const windows = [{ key, limit: 5, windowMs: minute }];
    const refused = await counters.take(windows, 6);
    assert.equal(refused.allowed, false);
    assert.deepEqual(refused.windows[0], { limit: 5, windowMs: minute, remaining: 5, resetMs: 0 });
    assert.equal((await counters.take(windows, 5)).allowed, true);
  });

  test('a limit of zero lets nothing through', async (t) => {
    const { counters, key } = await begin(t);
    const decision = await counters.take([{ key, limit: 0, windowMs: minute }], 1);
    assert.equal(decision.allowed, false);
    assert.equal(decision.windows[0]?.remaining, 0);
  });

  test('an amount of zero looks without taking', async (t) => {
    const { counters, key } = await begin(t);
    const windows = [{ key, limit: 1, windowMs: minute }];
    assert.equal((await counters.take(windows, 0)).windows[0]?.remaining, 1);
    assert.equal((await counters.take(windows, 1)).allowed, true);
    const look = await counters.take(windows, 0);
    assert.equal(look.allowed, true);
    assert.equal(look.windows[0]?.remaining, 0);
  });

  test('calls at the same time share one limit', async (t) => {
    const { counters, key } = await begin(t);
    const windows = [{ key, limit: 20, windowMs: minute }];
    const decisions = await Promise.all(Array.from({ length: 50 }, async () => counters.take(windows, 1)));
    assert.equal(decisions.filter(({ allowed }) => allowed).length, 20);
  });
}

function decidesForSeveral(begin: Begin): void {
  test('takes from every window or from none', async (t) => {
    const { counters, key } = await begin(t);
    const wide = { key: `${key}-hour`, limit: 10, windowMs: 60 * minute };
    const narrow = { key: `${key}-minute`, limit: 2, windowMs: minute };
    assert.equal((await counters.take([wide, narrow], 2)).allowed, true);
    const refused = await counters.take([wide, narrow], 1);
    assert.equal(refused.allowed, false);
    assert.equal(refused.refusedBy, 1);
    assert.deepEqual(
      refused.windows.map(({ remaining }) => remaining),
      [8, 0],
    );
    assert.equal((await counters.take([wide], 0)).windows[0]?.remaining, 8);
  });

  test('names the window that refuses for longest', async (t) => {
    const { counters, key } = await begin(t);
    const narrow = { key: `${key}-minute`, limit: 1, windowMs: minute };
    const wide = { key: `${key}-hour`, limit: 1, windowMs: 60 * minute };
    await counters.take([narrow, wide], 1);
    assert.equal((await counters.take([narrow, wide], 1)).refusedBy, 1);
    assert.equal((await counters.take([wide, narrow], 1)).refusedBy, 0);
  });

  test('keys do not share their counts', async (t) => {
    const { counters, key } = await begin(t);
    assert.equal((await counters.take([{ key: `${key}-a`, limit: 1, windowMs: minute }], 1)).allowed, true);
    assert.equal((await counters.take([{ key: `${key}-b`, limit: 1, windowMs: minute }], 1)).allowed, true);
  });
}

function slides(begin: Begin, runs: number): void {
  test('what was taken counts for the whole window, and no wait is longer than it', async (t) => {
    const { counters, advance, key } = await begin(t);
    const windows = [{ key, limit: 1, windowMs: minute }];
    await counters.take(windows, 1);
    assert.equal((await counters.take(windows, 1)).windows[0]?.resetMs, minute);
    await advance(minute - 1);
    assert.equal((await counters.take(windows, 1)).allowed, false);
    await advance(1);
    assert.equal((await counters.take(windows, 1)).allowed, true);
  });

  test('resetMs is the time until one more may be taken, to the millisecond', async (t) => {
    const { counters, advance, key } = await begin(t);
    const windows = [{ key, limit: 4, windowMs: minute }];
    await counters.take(windows, 3);
    await advance(12_345);
    await counters.take(windows, 1);
    await advance(777);
    const { resetMs } = (await counters.take(windows, 1)).windows[0] as Decision['windows'][number];
    assert.ok(resetMs > 0 && resetMs <= minute);
    await advance(resetMs - 1);
    assert.equal((await counters.take(windows, 1)).allowed, false);
    await advance(1);
    assert.equal((await counters.take(windows, 3)).allowed, true);
    assert.equal((await counters.take(windows, 1)).allowed, false);
  });

  test('never over the limit, at most a sixtieth of the window early', async (t) => {
    const { counters, advance, key } = await begin(t);
    let sequence = 0;
    const step = fc.record({ wait: fc.nat(30), amount: fc.integer({ min: 1, max: 4 }) });
    await fc.assert(
      fc.asyncProperty(
        fc.array(step, { minLength: 1, maxLength: 120 }),
        fc.integer({ min: 1, max: 12 }),
        fc.integer({ min: 1, max: 900 }),
        async (steps, limit, windowMs) => {
          sequence += 1;
          const windows = [{ key: `${key}-${sequence}`, limit, windowMs }];
          const taken: { at: number; amount: number }[] = [];
          let at = 0;
          for (const { wait, amount } of steps) {
            at += wait;
            await advance(wait);
            const { allowed } = await counters.take(windows, amount);
            const since = (time: number) =>
              taken.reduce((sum, entry) => (entry.at > time ? sum + entry.amount : sum), amount);
            if (allowed) {
              assert.ok(
                since(at - windowMs) <= limit,
                `${since(at - windowMs)} of ${limit} let through at ${at}`,
              );
              taken.push({ at, amount });
            } else {
              const early = since(at - windowMs - windowMs / 60);
              assert.ok(early > limit, `refused at ${at} with ${early} of ${limit}`);
            }
          }
        },
      ),
      { numRuns: runs },
    );
  });
}

function adjusts(begin: Begin): void {
  test('adds without a check', async (t) => {
    const { counters, advance, key } = await begin(t);
    const windows = [{ key, limit: 10, windowMs: minute }];
    await counters.adjust(windows, 25);
    const refused = await counters.take(windows, 1);
    assert.equal(refused.allowed, false);
    assert.equal(refused.windows[0]?.remaining, 0);
    await advance(minute + minute / 60);
    assert.equal((await counters.take(windows, 10)).allowed, true);
  });

  test('gives back', async (t) => {
    const { counters, key } = await begin(t);
    const windows = [{ key, limit: 10, windowMs: minute }];
    await counters.take(windows, 10);
    await counters.adjust(windows, -4);
    assert.equal((await counters.take(windows, 5)).allowed, false);
    assert.equal((await counters.take(windows, 4)).allowed, true);
  });

  test('never gives back more than was taken', async (t) => {
    const { counters, key } = await begin(t);
    const windows = [{ key, limit: 2, windowMs: minute }];
    await counters.adjust(windows, -5);
    await counters.take(windows, 1);
    await counters.adjust(windows, -5);
    assert.equal((await counters.take(windows, 3)).allowed, false);
    assert.equal((await counters.take(windows, 2)).allowed, true);
  });

  test('giving back lets nothing through that was really used', async (t) => {
    const { counters, advance, key } = await begin(t);
    const windows = [{ key, limit: 15, windowMs: minute }];
    await counters.take(windows, 10);
    await advance(minute / 2);
    await counters.take(windows, 5);
    await counters.adjust(windows, -5); // half of the first
    await advance(minute / 2 + minute / 60);
    // The first is too old now; the second was used in full.
    assert.equal((await counters.take(windows, 11)).allowed, false);
    assert.equal((await counters.take(windows, 10)).allowed, true);
  });
}
