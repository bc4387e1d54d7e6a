import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { branch, environment, leaf, leaves, picked } from './plan-nodes.test-support.ts';

const leastCost = { mode: 'least-cost' } as const;

describe('least-cost', () => {
  const cases: readonly [
    name: string,
    cost: Record<string, number>,
    weights: number[],
    open: string[],
    picked: string,
  ][] = [
    ['the cheapest', { a: 3, b: 1, c: 2 }, [1, 1, 1], [], 'b'],
    ['of equals the first', { a: 2, b: 1, c: 1 }, [1, 1, 1], [], 'b'],
    ['free is a price', { a: 0.1, b: 0, c: 2 }, [1, 1, 1], [], 'b'],
    ['an unknown price comes last', { c: 100 }, [1, 1, 1], [], 'c'],
    ['all unknown: the first', {}, [1, 1, 1], [], 'a'],
    ['an open one is left out', { a: 1, b: 2, c: 3 }, [1, 1, 1], ['a'], 'b'],
    ['an unknown closed one comes before a known open one', { a: 1 }, [1, 1], ['a'], 'b'],
    ['all open: breakers say nothing', { a: 2, b: 1, c: 3 }, [1, 1, 1], ['a', 'b', 'c'], 'b'],
    ['one without weight is left out', { a: 1, b: 2, c: 3 }, [0, 1, 1], [], 'b'],
  ];
  for (const [name, cost, weights, open, expected] of cases)
    it(name, () => {
      assert.equal(picked(branch(leastCost, leaves(...weights)), environment({ cost, open })), expected);
    });

  it('prices a branch by its first closed target', () => {
    const inner = branch({ mode: 'fallback', onStatusCodes: undefined }, [leaf('x'), leaf('y')]);
    const plan = branch(leastCost, [leaf('a'), inner]);
    const cost = { a: 2, x: 3, y: 1 };
    assert.equal(picked(plan, environment({ cost })), 'a');
    assert.equal(picked(plan, environment({ cost, open: ['x'] })), 'y');
  });
});
