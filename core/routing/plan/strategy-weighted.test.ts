import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { PlanEnvironment, Strategy } from './plan-node.ts';
import { branch, environment, leaves, picked, seeded, tally } from './plan-nodes.test-support.ts';

const loadbalance: Strategy = { mode: 'loadbalance', sticky: undefined };

describe('loadbalance', () => {
  const cases: readonly [weights: number[], random: number, open: string[], picked: string][] = [
    [[1, 1], 0, [], 'a'],
    [[1, 1], 0.4999, [], 'a'],
    [[1, 1], 0.5, [], 'b'],
    [[1, 1], 0.9999, [], 'b'],
    [[1, 3], 0.25, [], 'b'],
    [[0.7, 0.3], 0.69, [], 'a'],
    [[0.7, 0.3], 0.71, [], 'b'],
    [[0, 1, 0], 0, [], 'b'],
    [[0, 1, 0], 0.9999, [], 'b'],
    [[1, 1, 1], 0, ['a'], 'b'],
    [[1, 1, 1], 0.9999, ['c'], 'b'],
    // All that could be picked are open: breakers say nothing then.
    [[1, 1], 0, ['a', 'b'], 'a'],
    [[1, 0], 0, ['a'], 'a'],
  ];
  for (const [weights, random, open, expected] of cases)
    it(`of ${weights.join(':')} at ${random}${open.length > 0 ? ` with ${open.join(', ')} open` : ''} is ${expected}`, () => {
      const world = environment({ random: () => random, open });
      assert.equal(picked(branch(loadbalance, leaves(...weights)), world), expected);
    });

  it('shares requests by weight', () => {
    const random = seeded(11);
    const counts = tally(branch(loadbalance, leaves(5, 3, 0, 2)), 10_000, () => environment({ random }));
    assert.deepEqual(Object.keys(counts).toSorted(), ['a', 'b', 'd']);
    for (const [id, share] of [
      ['a', 0.5],
      ['b', 0.3],
      ['d', 0.2],
    ] as const)
      assert.ok(Math.abs((counts[id] ?? 0) / 10_000 - share) < 0.03, JSON.stringify(counts));
  });

  it('always picks one that has weight, and a closed one while there is one', () => {
    const weight = fc.oneof(fc.constant(0), fc.double({ min: 0.001, max: 1000, noNaN: true }));
    const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
    fc.assert(
      fc.property(
        fc.array(weight, { minLength: 1, maxLength: 8 }),
        fc.nat(255),
        random,
        (weights, mask, at) => {
          fc.pre(weights.some((value) => value > 0));
          const children = leaves(...weights);
          const open = children.filter((_, index) => (mask >> index) % 2 === 1).map(({ id }) => id);
          const world: PlanEnvironment = environment({ random: () => at, open });
          const found = children.find(({ id }) => id === picked(branch(loadbalance, children), world));
          assert.ok(found && found.weight > 0);
          const closed = children.some(({ id, weight: own }) => own > 0 && !open.includes(id));
          assert.equal(open.includes(found.id), !closed);
        },
      ),
    );
  });
});
