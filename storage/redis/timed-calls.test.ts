import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { ManualClock, settle } from '../../tests/conformance/manual-clock.ts';
import type { Clock } from '../../core/ports/clock.ts';
import { TimedCalls } from './timed-calls.ts';

/** Time that passes while the process is busy: timers that fall due run late, when it is done. */
class LateClock implements Clock {
  #now = 0;
  readonly #timers = new Set<{ readonly at: number; readonly run: () => void }>();

  now = (): number => this.#now;
  monotonic = (): number => this.#now;

  after(ms: number, run: () => void): () => void {
    const timer = { at: this.#now + ms, run };
    this.#timers.add(timer);
    return () => void this.#timers.delete(timer);
  }

  busy(ms: number): void {
    this.#now += ms;
    for (const timer of [...this.#timers].filter(({ at }) => at <= this.#now)) {
      this.#timers.delete(timer);
      timer.run();
    }
  }
}

function begin<C extends Clock = ManualClock>(maxPending = 10, given?: C) {
  const clock = given ?? new ManualClock();
  const counted = { timeouts: 0, failures: [] as string[] };
  const calls = new TimedCalls({
    clock,
    maxPending,
    onTimeout: () => counted.timeouts++,
    onAnswer: () => undefined,
    onFailure: (error) => counted.failures.push(error.message),
  });
  return { clock, calls, counted };
}

/** A call whose answer the test gives. */
function call(calls: TimedCalls, budgetMs: number) {
  const state = { outcome: 'waiting', late: [] as string[] };
  const made = calls.begin<string>(budgetMs, {
    answered: (reply) => (state.outcome = reply),
    failed: (error) => (state.outcome = error.message),
    late: (reply) => state.late.push(reply),
  });
  return {
    state,
    answer: (reply: string) => made?.answer(reply),
    fail: (error: Error) => made?.fail(error),
  };
}

describe('calls with a bound in time', () => {
  test('are given up when it is over and not before, each at its own time', async () => {
    const { clock, calls, counted } = begin();
    const first = call(calls, 50);
    await clock.pass(30);
    const long = call(calls, 500);
    const second = call(calls, 50);
    await clock.pass(19);
    assert.equal(first.state.outcome, 'waiting');
    await clock.pass(1);
    assert.equal(first.state.outcome, 'no answer within 50 ms');
    assert.equal(second.state.outcome, 'waiting');
    await clock.pass(30);
    assert.equal(second.state.outcome, 'no answer within 50 ms');
    assert.equal(long.state.outcome, 'waiting');
    assert.equal(counted.timeouts, 2);
    await clock.pass(450);
    assert.equal(long.state.outcome, 'no answer within 500 ms');
  });

  test('a short one does not wait for a long one that came before', async () => {
    const { clock, calls } = begin();
    call(calls, 10_000);
    const short = call(calls, 50);
    await clock.pass(50);
    assert.equal(short.state.outcome, 'no answer within 50 ms');
  });

  test('answers and errors in time pass through', async () => {
    const { clock, calls, counted } = begin();
    const [good, bad] = [call(calls, 50), call(calls, 50)];
    good.answer('fine');
    bad.fail(new Error('refused'));
    await clock.pass(1000);
    assert.deepEqual([good.state.outcome, bad.state.outcome], ['fine', 'refused']);
    assert.deepEqual([good.state.late, counted.timeouts], [[], 0]);
    assert.deepEqual(counted.failures, ['refused']);
  });

  test('a late answer is told, a late error is not', async () => {
    const { clock, calls, counted } = begin();
    const [good, bad] = [call(calls, 50), call(calls, 50)];
    await clock.pass(50);
    good.answer('fine');
    bad.fail(new Error('connection closed'));
    await clock.pass(0);
    assert.deepEqual([good.state.outcome, good.state.late], ['no answer within 50 ms', ['fine']]);
    assert.deepEqual(bad.state.late, []);
    assert.deepEqual(counted.failures, ['no answer within 50 ms', 'no answer within 50 ms']);
  });

  test('an answer that is there when the timer is late still counts', async () => {
    const { clock, calls } = begin();
    const late = call(calls, 50);
    // What happens when this process was busy: first the timer runs, then the loop reads what has come.
    const advancing = clock.pass(80);
    late.answer('fine');
    await advancing;
    assert.equal(late.state.outcome, 'fine');
  });

  test('are bounded in number, and one that ends makes room', async () => {
    const { clock, calls, counted } = begin(2);
    const first = call(calls, 50);
    call(calls, 50);
    const third = call(calls, 50);
    await clock.pass(0);
    assert.match(third.state.outcome, /2 calls are waiting/);
    assert.deepEqual(counted.failures, [third.state.outcome]);
    first.answer('fine');
    await clock.pass(0);
    const fourth = call(calls, 50);
    fourth.answer('fine');
    await clock.pass(0);
    assert.equal(fourth.state.outcome, 'fine');
  });

  test('may end in any order: each once, and those that are left in their time', async () => {
    const ends = fc.array(fc.tuple(fc.nat(11), fc.boolean()), { maxLength: 12 });
    await fc.assert(
      fc.asyncProperty(ends, async (ended) => {
        const { clock, calls, counted } = begin(12);
        const all = Array.from({ length: 12 }, () => call(calls, 50));
        const outcomes = all.map(() => 'no answer within 50 ms');
        for (const [index, good] of ended) {
          if (outcomes[index] === 'no answer within 50 ms') outcomes[index] = good ? 'fine' : 'bad';
          if (good) all[index]!.answer('fine');
          else all[index]!.fail(new Error('bad'));
        }
        await clock.pass(50);
        assert.deepEqual(
          all.map(({ state }) => state.outcome),
          outcomes,
        );
        const left = outcomes.filter((one) => one.startsWith('no')).length;
        assert.equal(counted.timeouts, left);
        // All have made room.
        const more = Array.from({ length: 12 }, () => call(calls, 50));
        more.forEach((one) => one.answer('again'));
        assert.ok(more.every(({ state }) => state.outcome === 'again'));
      }),
      { numRuns: 50 },
    );
  });

  test('a busy process misses no answer of a healthy server, and waits for a hung one no longer than the budget', async () => {
    const turns = fc.array(fc.integer({ min: 0, max: 400 }), { minLength: 1, maxLength: 30 });
    await fc.assert(
      fc.asyncProperty(turns, fc.boolean(), async (busyMs, isHealthy) => {
        const clock = new LateClock();
        const { calls, counted } = begin(100, clock);
        let freeMs = 0;
        const sent = call(calls, 50);
        // Each turn: the process is busy, late timers run, then what has come is read.
        for (const ms of [...busyMs, ...Array.from({ length: 60 }, () => 1)]) {
          clock.busy(ms);
          if (sent.state.outcome !== 'waiting') continue;
          freeMs += Math.min(ms, 30);
          if (isHealthy) sent.answer('fine');
          await settle();
        }
        assert.equal(sent.state.outcome, isHealthy ? 'fine' : 'no answer within 50 ms');
        assert.equal(counted.timeouts, isHealthy ? 0 : 1);
        assert.ok(freeMs <= 50 + 40, `it was waited for in ${freeMs} ms in which an answer could be read`);
      }),
      { numRuns: 60 },
    );
  });

  test('leave one timer behind at the most, and none when closed', () => {
    const { clock, calls } = begin();
    for (let i = 0; i < 5; i += 1) call(calls, 50);
    assert.equal(clock.waiting, 1);
    calls.close();
    assert.equal(clock.waiting, 0);
  });
});
