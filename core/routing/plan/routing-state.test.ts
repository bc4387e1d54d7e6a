import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { RecentMap } from '../../base/recent-map.ts';
import { RoutingState } from './routing-state.ts';

/** A state whose clock stands until it is told to go on. */
function stateAt(start = 1000) {
  const time = { ms: start };
  const clock = { now: () => 0, monotonic: () => time.ms, after: () => () => undefined };
  return { state: new RoutingState(clock), pass: (ms: number) => void (time.ms += ms) };
}

function near(value: number | undefined, expected: number): void {
  assert.ok(value !== undefined && Math.abs(value - expected) < 1e-6, `${value} is not ${expected}`);
}

describe('the latency of a target', () => {
  it('is unknown before the first measurement, then that', () => {
    const { state } = stateAt();
    assert.equal(state.latency('a'), undefined);
    state.recordLatency('a', 120);
    assert.equal(state.latency('a'), 120);
    assert.equal(state.latency('b'), undefined);
  });

  const cases: readonly [afterMs: number, expected: number][] = [
    [0, 100],
    [30_000, 100 / Math.E + 200 * (1 - 1 / Math.E)],
    [3_000_000, 200],
  ];
  for (const [afterMs, expected] of cases)
    it(`after ${afterMs} ms has moved from 100 to ${expected.toFixed(0)} of 200`, () => {
      const { state, pass } = stateAt();
      state.recordLatency('a', 100);
      pass(afterMs);
      state.recordLatency('a', 200);
      near(state.latency('a'), expected);
    });

  it('hangs on time, not on how many requests measured it', () => {
    const often = stateAt();
    const once = stateAt();
    for (const { state } of [often, once]) state.recordLatency('a', 100);
    for (let step = 0; step < 100; step++) {
      often.pass(100);
      often.state.recordLatency('a', 200);
    }
    once.pass(10_000);
    once.state.recordLatency('a', 200);
    near(often.state.latency('a'), once.state.latency('a') ?? 0);
  });

  it('takes no nonsense', () => {
    const { state } = stateAt();
    for (const ms of [Number.NaN, Number.POSITIVE_INFINITY, -1]) state.recordLatency('a', ms);
    assert.equal(state.latency('a'), undefined);
  });

  it('is twice as long after a failure, within bounds', () => {
    const { state, pass } = stateAt();
    state.recordFailure('new');
    assert.equal(state.latency('new'), 10_000);
    state.recordLatency('quick', 10);
    state.recordFailure('quick');
    assert.equal(state.latency('quick'), 1000);
    state.recordFailure('quick');
    assert.equal(state.latency('quick'), 2000);
    for (let again = 0; again < 20; again++) state.recordFailure('quick');
    assert.equal(state.latency('quick'), 60_000);
    pass(3_000_000);
    state.recordLatency('quick', 10);
    near(state.latency('quick'), 10);
  });

  it('is forgotten of targets that were not measured for the longest time', () => {
    const { state } = stateAt();
    for (let id = 0; id < 10_000; id++) state.recordLatency(`t${id}`, id);
    state.recordLatency('t0', 0);
    state.recordFailure('t1');
    state.recordLatency('one more', 1);
    assert.equal(state.latency('t0'), 0);
    assert.equal(state.latency('t1'), 1000);
    assert.equal(state.latency('t2'), undefined);
    assert.equal(state.latency('t3'), 3);
  });
});

describe('the turn of a branch', () => {
  it('counts from 0 on, for each branch', () => {
    const { state } = stateAt();
    assert.deepEqual([state.turn('a'), state.turn('a'), state.turn('b'), state.turn('a')], [0, 1, 0, 2]);
  });

  it('begins anew for branches that took none for the longest time', () => {
    const { state } = stateAt();
    for (let id = 0; id < 10_000; id++) state.turn(`b${id}`);
    state.turn('b0');
    state.turn('one more');
    assert.equal(state.turn('b0'), 2);
    assert.equal(state.turn('b1'), 0);
  });
});

describe('an assignment', () => {
  it('holds for its time after the last use', () => {
    const { state, pass } = stateAt();
    assert.equal(state.assigned('branch', 'ada'), undefined);
    state.assign('branch', 'ada', 2, 1000);
    pass(999);
    assert.equal(state.assigned('branch', 'ada'), 2);
    state.assign('branch', 'ada', 2, 1000);
    pass(999);
    assert.equal(state.assigned('branch', 'ada'), 2);
    pass(1);
    assert.equal(state.assigned('branch', 'ada'), undefined);
  });

  it('is of one branch and one hash, and can be replaced', () => {
    const { state } = stateAt();
    state.assign('branch', 'ada', 1, 1000);
    state.assign('branch', 'bob', 0, 1000);
    state.assign('other', 'ada', 2, 1000);
    state.assign('branch', 'ada', 3, 1000);
    assert.deepEqual(
      [state.assigned('branch', 'ada'), state.assigned('branch', 'bob'), state.assigned('other', 'ada')],
      [3, 0, 2],
    );
  });

  it('makes room when it was not used for the longest time', () => {
    const { state } = stateAt();
    for (let user = 0; user < 100_000; user++) state.assign('branch', `u${user}`, 1, 1e9);
    state.assign('branch', 'u0', 1, 1e9);
    state.assign('branch', 'one more', 1, 1e9);
    assert.equal(state.assigned('branch', 'u0'), 1);
    assert.equal(state.assigned('branch', 'u1'), undefined);
  });
});

describe('a map of recent values', () => {
  it('never holds more than it may', () => {
    const map = new RecentMap<number>(2);
    map.set('a', 1);
    map.set('b', 2);
    assert.equal(map.touch('a'), 1);
    map.set('c', 3);
    assert.deepEqual([map.get('a'), map.get('b'), map.get('c'), map.size], [1, undefined, 3, 2]);
    map.set('c', 4);
    assert.deepEqual([map.get('a'), map.get('c'), map.touch('none')], [1, 4, undefined]);
  });
});
