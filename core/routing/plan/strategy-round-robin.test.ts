import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { branch, environment, leaves, picked } from './plan-nodes.test-support.ts';
import { smoothSchedule } from './strategies.ts';

const roundRobin = { mode: 'round-robin' } as const;

/** What so many requests of one branch pick, one letter each. */
function rounds(requests: number, weights: readonly number[], open: readonly string[] = []): string {
  const plan = branch(roundRobin, leaves(...weights));
  const world = environment({ turns: new Map(), open });
  return Array.from({ length: requests }, () => picked(plan, world)).join('');
}

describe('round-robin', () => {
  const cases: readonly [weights: number[], requests: number, picked: string][] = [
    [[1, 1, 1], 7, 'abcabca'],
    [[5, 1, 1], 14, 'aabacaaaabacaa'],
    [[2, 1], 6, 'abaaba'],
    [[1, 0, 1], 4, 'acac'],
    [[3], 3, 'aaa'],
  ];
  for (const [weights, requests, expected] of cases)
    it(`of ${weights.join(':')} goes ${expected}`, () => {
      assert.equal(rounds(requests, weights), expected);
    });

  it('passes over open ones for the next', () => {
    assert.equal(rounds(6, [1, 1, 1], ['b']), 'accacc');
    assert.equal(rounds(4, [1, 1, 1], ['a', 'c']), 'bbbb');
    assert.equal(rounds(3, [1, 1, 1], ['a', 'b', 'c']), 'abc');
  });

  it('counts each branch for itself', () => {
    const turns = new Map<string, number>();
    const world = environment({ turns });
    const one = branch(roundRobin, leaves(1, 1), { path: 'config.targets[0]' });
    const two = branch(roundRobin, leaves(1, 1), { path: 'config.targets[1]' });
    assert.deepEqual([picked(one, world), picked(two, world), picked(one, world)], ['a', 'a', 'b']);
  });
});

describe('the schedule', () => {
  const count = (weights: readonly number[]) => {
    const schedule = smoothSchedule(weights);
    return weights.map((_, index) => schedule.filter((entry) => entry === index).length);
  };
  const cases: readonly [weights: number[], counts: number[]][] = [
    [
      [1, 1],
      [1, 1],
    ],
    [
      [0.7, 0.3],
      [7, 3],
    ],
    [
      [0.1, 0.2],
      [1, 2],
    ],
    [
      [50, 50],
      [1, 1],
    ],
    [
      [100, 50, 0],
      [2, 1, 0],
    ],
    [
      [0.125, 0.875],
      [1, 7],
    ],
    [
      [1e9, 1e9, 2e9],
      [1, 1, 2],
    ],
    [
      [1e-9, 1],
      [1, 999],
    ],
    [
      [0, 0],
      [0, 0],
    ],
    [[], []],
  ];
  for (const [weights, counts] of cases)
    it(`of ${weights.join(':') || 'nobody'} has ${counts.join(':') || 'no'} turns`, () => {
      assert.deepEqual(count(weights), counts);
    });

  it('is short, fair and leaves nobody out', () => {
    const weight = fc.oneof(fc.constant(0), fc.nat(5000), fc.double({ min: 0.0001, max: 5000, noNaN: true }));
    fc.assert(
      fc.property(fc.array(weight, { minLength: 1, maxLength: 20 }), (weights) => {
        const turns = count(weights);
        const total = weights.reduce((sum, value) => sum + value, 0);
        const period = turns.reduce((sum, value) => sum + value, 0);
        assert.ok(period <= 1000 + weights.length);
        for (const [index, value] of weights.entries()) {
          const got = turns[index] ?? 0;
          assert.equal(got > 0, value > 0);
          if (value > 0) assert.ok(Math.abs(got / period - value / total) < 0.03, `${got} of ${period}`);
        }
      }),
      { numRuns: 60 },
    );
  });

  it('spreads the turns of each evenly', () => {
    const schedule = [...smoothSchedule([5, 3, 2])];
    for (let from = 0; from < 10; from++) {
      const window = Array.from({ length: 5 }, (_, step) => schedule[(from + step) % 10]);
      for (const [index, share] of [2.5, 1.5, 1].entries()) {
        const got = window.filter((entry) => entry === index).length;
        assert.ok(Math.abs(got - share) <= 1, `${schedule.join('')} from ${from}`);
      }
    }
  });
});
