import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { ManualClock } from '../../tests/conformance/manual-clock.ts';
import { CircuitBreaker } from './circuit-breaker.ts';

function begin() {
  const clock = new ManualClock();
  const events: string[] = [];
  const waiting: { resolve: () => void; reject: (error: Error) => void }[] = [];
  const breaker = new CircuitBreaker({
    ...{ clock, budgetMs: 50, deadAfterMs: 5000 },
    probe: () =>
      new Promise<void>((resolve, reject) => {
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
    answer: () => waiting.shift()?.resolve(),
    fail: () => waiting.shift()?.reject(new Error()),
  };
}

describe('the breaker', () => {
  test('opens once, and closes when a probe is answered in time', async () => {
    const { clock, events, breaker, answer } = begin();
    breaker.trip();
    breaker.trip();
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
    breaker.trip();
    await clock.pass(100);
    await clock.pass(51);
    answer();
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
      breaker.trip();
      while (events.at(-1)?.startsWith('probe') !== true) await clock.pass(100);
      pauses.push(clock.now() - before);
      answer();
      await clock.pass(0);
    }
    assert.deepEqual(pauses, [100, 200, 400, 800, 1600, 3200, 5000, 5000, 100]);
  });

  test('reports a connection as dead that answers no probe at all, and one probe is under way at most', async () => {
    const { clock, events, breaker } = begin();
    breaker.trip();
    await clock.pass(100);
    breaker.probeNow();
    await clock.pass(10_000);
    assert.deepEqual(events, ['open', 'probe at 100', 'dead at 5100']);
  });

  test('asks a new connection at once; while closed it asks nothing', async () => {
    const { clock, events, breaker, answer } = begin();
    breaker.probeNow();
    breaker.trip();
    breaker.probeNow();
    answer();
    await clock.pass(1000);
    assert.deepEqual(events, ['open', 'probe at 0', 'close']);
  });

  test('leaves nothing behind when it ends', async () => {
    const { clock, events, breaker, fail } = begin();
    breaker.trip();
    await clock.pass(100);
    breaker.end();
    fail();
    breaker.trip();
    await clock.pass(1000);
    assert.deepEqual(events, ['open', 'probe at 100']);
    assert.equal(clock.waiting, 0);
  });
});
