import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { ManualClock } from '../../tests/conformance/manual-clock.ts';
import { CircuitBreaker } from './timed-calls.ts';

function begin(misses = 1) {
  const clock = new ManualClock();
  const events: string[] = [];
  const waiting: { resolve: (inTime: boolean) => void; reject: (error: Error) => void }[] = [];
  const breaker = new CircuitBreaker({
    clock,
    misses,
    deadAfterMs: 5000,
    probe: () =>
      new Promise<boolean>((resolve, reject) => {
        events.push(`probe at ${clock.now() - start}`);
        waiting.push({ resolve, reject });
      }),
    onOpen: () => events.push('open'),
    onClose: () => events.push('close'),
    onDead: () => events.push(`dead at ${clock.now() - start}`),
  });
  const start = clock.now();
  return {
    clock,
    events,
    breaker,
    answer: (inTime = true) => waiting.shift()?.resolve(inTime),
    fail: () => waiting.shift()?.reject(new Error()),
  };
}

describe('the breaker', () => {
  test('opens with the third miss in a row; calls that waited together are one, and an answer in time begins anew', () => {
    const { clock, breaker } = begin(3);
    const missAfter = (ms: number, calls = 1): void => {
      const begunAt = clock.now();
      clock.advance(ms);
      for (let call = 0; call < calls; call += 1) breaker.miss(begunAt);
    };
    missAfter(50, 100);
    missAfter(50, 100);
    assert.equal(breaker.isOpen, false, 'one pause of the server, however many waited in it');
    breaker.hit();
    missAfter(50);
    missAfter(50);
    assert.equal(breaker.isOpen, false);
    missAfter(50);
    assert.equal(breaker.isOpen, true);
  });

  test('opens once, and closes when a probe is answered in time', async () => {
    const { clock, events, breaker, answer } = begin();
    breaker.miss(clock.now());
    breaker.miss(clock.now());
    assert.equal(breaker.isOpen, true);
    await clock.pass(99);
    assert.deepEqual(events, ['open']);
    await clock.pass(31);
    answer();
    await clock.pass(0);
    assert.deepEqual(events, ['open', 'probe at 100', 'close']);
    assert.equal(breaker.isOpen, false);
    assert.equal(clock.waiting, 0);
  });

  test('stays open when the probe is answered late or fails, and asks again', async () => {
    const { clock, events, breaker, answer, fail } = begin();
    breaker.miss(clock.now());
    await clock.pass(100);
    await clock.pass(51);
    answer(false);
    await clock.pass(100);
    fail();
    await clock.pass(100);
    assert.deepEqual(events, ['open', 'probe at 100', 'probe at 251', 'probe at 351']);
    assert.equal(breaker.isOpen, true);
  });

  test('pauses twice as long after each trip, five seconds at most, and trusts again after half a minute', async () => {
    const { clock, events, breaker, answer } = begin();
    const pauses: number[] = [];
    for (let trip = 0; trip < 9; trip += 1) {
      if (trip === 8) await clock.pass(31_000);
      const before = clock.now();
      breaker.miss(clock.now());
      while (events.at(-1)?.startsWith('probe') !== true) await clock.pass(100);
      pauses.push(clock.now() - before);
      answer();
      await clock.pass(0);
    }
    assert.deepEqual(pauses, [100, 200, 400, 800, 1600, 3200, 5000, 5000, 100]);
  });

  test('reports a connection as dead that answers no probe at all, and one probe is under way at most', async () => {
    const { clock, events, breaker } = begin();
    breaker.miss(clock.now());
    await clock.pass(100);
    breaker.probeNow();
    await clock.pass(10_000);
    assert.deepEqual(events, ['open', 'probe at 100', 'dead at 5100']);
  });

  test('asks a new connection at once; while closed it asks nothing', async () => {
    const { clock, events, breaker, answer } = begin();
    breaker.probeNow();
    breaker.miss(clock.now());
    breaker.probeNow();
    answer();
    await clock.pass(1000);
    assert.deepEqual(events, ['open', 'probe at 0', 'close']);
  });

  test('leaves nothing behind when it ends', async () => {
    const { clock, events, breaker, fail } = begin();
    breaker.miss(clock.now());
    await clock.pass(100);
    breaker.end();
    fail();
    breaker.miss(clock.now());
    await clock.pass(1000);
    assert.deepEqual(events, ['open', 'probe at 100']);
    assert.equal(clock.waiting, 0);
  });
});
