/** Latencies that several processes measure, as all of them know them. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ManualClock } from '../../../tests/conformance/manual-clock.ts';
import { RoutingState, SharedLatencies } from './routing-state.ts';

function near(value: number | undefined, expected: number): void {
  assert.ok(value !== undefined && Math.abs(value - expected) < 1e-6, `${value} is not ${expected}`);
}

/** Measurements as one process tells them. */
const told = (id: string, times: readonly number[], failures = 0) => ({
  id,
  sumMs: times.reduce((sum, ms) => sum + ms, 0),
  count: times.length,
  failures,
});

describe('what several processes have measured of a target', () => {
  const opened = () => {
    const clock = new ManualClock();
    const shared = new SharedLatencies(clock);
    const of = (id: string) => shared.of([id])[0]?.ms;
    return { clock, shared, of };
  };

  it('counts by the number of requests, not by the number of processes, in whatever order they tell', () => {
    const busy = told('a', Array<number>(90).fill(100));
    const idle = told('a', Array<number>(10).fill(500));
    for (const order of [
      [busy, idle],
      [idle, busy],
    ]) {
      const { shared, of } = opened();
      shared.merge(order);
      near(of('a'), 140);
    }
  });

  it('is the moving average of one process that had measured all of it', () => {
    const { clock, shared, of } = opened();
    const one = new RoutingState(clock);
    for (let second = 0; second < 60; second++) {
      // The target becomes slower; one process sends three times as much as the other.
      const ms = second < 20 ? 100 : 400;
      shared.merge([told('a', [ms, ms, ms])]);
      shared.merge([told('a', [ms])]);
      one.recordLatency('a', ms);
      near(of('a'), one.latency('a') ?? 0);
      clock.advance(1000);
    }
  });

  it('does not depend on how often they tell', () => {
    const often = opened();
    const seldom = opened();
    for (let second = 0; second < 10; second++) {
      for (let part = 0; part < 4; part++) {
        often.shared.merge([told('a', [100 + part * 100])]);
        often.clock.advance(part < 3 ? 100 : 700);
      }
      seldom.clock.advance(300);
      seldom.shared.merge([told('a', [100, 200, 300, 400])]);
      seldom.clock.advance(700);
    }
    near(often.of('a'), 250);
    near(seldom.of('a'), 250);
  });

  it('is doubled by each failure, within bounds, and moves on from there', () => {
    const { clock, shared, of } = opened();
    shared.merge([told('new', [], 1), told('quick', [10])]);
    assert.equal(of('new'), 10_000);
    shared.merge([told('quick', [10], 1)]);
    assert.equal(of('quick'), 1000);
    shared.merge([told('quick', [], 3)]);
    assert.equal(of('quick'), 8000);
    shared.merge([told('quick', [], 1_000_000)]);
    assert.equal(of('quick'), 60_000);
    clock.advance(3_000_000);
    shared.merge([told('quick', [10])]);
    near(of('quick'), 10);
  });

  it('is told to a process that starts when it was measured within ten minutes, the last ones first', () => {
    const { clock, shared } = opened();
    shared.merge([told('old', [1])]);
    clock.advance(60_000);
    shared.merge([told('a', [1]), told('b', [2]), told('c', [3])]);
    clock.advance(560_000);
    assert.deepEqual(shared.recent(2), [
      { id: 'b', ms: 2, ageMs: 560_000 },
      { id: 'c', ms: 3, ageMs: 560_000 },
    ]);
    assert.equal(shared.recent(10).length, 3);
  });

  it('is forgotten of targets that were not measured for the longest time', () => {
    const { shared, of } = opened();
    for (let id = 0; id < 10_001; id++) shared.merge([told(`t${id}`, [id])]);
    assert.deepEqual([of('t0'), of('t1'), of('t10000')], [undefined, 1, 10_000]);
  });
});

describe('a process that shares its latencies', () => {
  const sharing = () => {
    const clock = new ManualClock();
    const state = new RoutingState(clock);
    let calls = 0;
    state.onMeasured(() => calls++);
    return { clock, state, calls: () => calls };
  };

  it('tells each measurement once, and says when there is something to tell', () => {
    const { state, calls } = sharing();
    for (const ms of [10, 20, 30]) state.recordLatency('a', ms);
    state.recordFailure('b');
    assert.equal(calls(), 1);
    assert.deepEqual(state.take(10), [
      { id: 'a', sumMs: 60, count: 3, failures: 0 },
      { id: 'b', sumMs: 0, count: 0, failures: 1 },
    ]);
    assert.deepEqual(state.take(10), []);
    state.recordLatency('a', 40);
    assert.equal(calls(), 2);
  });

  it('tells of no more targets at once than it may', () => {
    const { state } = sharing();
    for (const id of ['a', 'b', 'c']) state.recordLatency(id, 1);
    const ids = () => state.take(2).map(({ id }) => id);
    assert.deepEqual([ids(), ids(), ids()], [['a', 'b'], ['c'], []]);
  });

  it('takes over what all know, and keeps what they do not know yet', () => {
    const { clock, state } = sharing();
    state.recordLatency('a', 100);
    state.take(10);
    // Told, and not in this yet.
    state.learn([{ id: 'a', ms: 300, ageMs: 30_000 }], false);
    near(state.latency('a'), 300 / Math.E + 100 * (1 - 1 / Math.E));
    state.learn([{ id: 'a', ms: 200, ageMs: 0 }], true);
    assert.equal(state.latency('a'), 200);
    clock.advance(30_000);
    state.recordLatency('a', 100);
    state.learn([{ id: 'a', ms: 200, ageMs: 30_000 }], true);
    near(state.latency('a'), 200 / Math.E + 100 * (1 - 1 / Math.E));
    state.recordFailure('b');
    state.learn([{ id: 'b', ms: 700, ageMs: 5 }], false);
    assert.equal(state.latency('b'), 1400);
  });

  it('measures on from what it was told: the older that is, the more', () => {
    const { state } = sharing();
    state.learn([{ id: 'a', ms: 100, ageMs: 30_000 }], false);
    state.recordLatency('a', 200);
    near(state.latency('a'), 100 / Math.E + 200 * (1 - 1 / Math.E));
  });
});
