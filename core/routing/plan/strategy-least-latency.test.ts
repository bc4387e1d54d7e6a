import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { branch, environment, leaf, leaves, picked, seeded, tally } from './plan-nodes.test-support.ts';

const leastLatency = { mode: 'least-latency' } as const;
/** Draws these numbers in turn: first pick, second pick, exploration. */
const drawing = (...numbers: readonly number[]) => {
  let turn = 0;
  return () => numbers[turn++] ?? 0.5;
};

describe('least-latency', () => {
  const cases: readonly [
    name: string,
    latency: Record<string, number>,
    random: number[],
    open: string[],
    picked: string,
  ][] = [
    ['the first drawn is quicker', { a: 10, b: 20 }, [0, 0, 0.5], [], 'a'],
    ['the second drawn is quicker', { a: 20, b: 10 }, [0, 0, 0.5], [], 'b'],
    ['equals: the first drawn', { a: 10, b: 10 }, [0.9, 0, 0.5], [], 'b'],
    ['the first is not measured', { b: 1 }, [0, 0, 0.5], [], 'a'],
    ['the second is not measured', { a: 1 }, [0, 0, 0.5], [], 'b'],
    ['one request in fifty goes anywhere', { a: 20, b: 10 }, [0, 0, 0.019], [], 'a'],
    ['and no more than that', { a: 20, b: 10 }, [0, 0, 0.021], [], 'b'],
    ['an open one is not drawn', { a: 1, b: 20 }, [0, 0, 0.5], ['a'], 'b'],
    ['all open: breakers say nothing', { a: 1, b: 20 }, [0, 0, 0.5], ['a', 'b'], 'a'],
  ];
  for (const [name, latency, random, open, expected] of cases)
    it(name, () => {
      const world = environment({ latency, open, random: drawing(...random) });
      assert.equal(picked(branch(leastLatency, leaves(1, 1)), world), expected);
    });

  it('compares two different ones', () => {
    const latency = { a: 30, b: 20, c: 10 };
    const random = seeded(5);
    const counts = tally(branch(leastLatency, leaves(1, 1, 1)), 6000, () => environment({ latency, random }));
    // The slowest of three loses every comparison, and is picked for exploration alone: a third of 2 %.
    const { a = 0, b = 0, c = 0 } = counts;
    assert.ok(a > 10 && a < 90, JSON.stringify(counts));
    assert.ok(b / 6000 > 0.28 && b / 6000 < 0.38, JSON.stringify(counts));
    assert.ok(c / 6000 > 0.6 && c / 6000 < 0.72, JSON.stringify(counts));
  });

  it('draws by weight and leaves out those without', () => {
    const latency = { a: 1, b: 1, c: 0 };
    const random = seeded(6);
    const counts = tally(branch(leastLatency, leaves(9, 1, 0)), 3000, () => environment({ latency, random }));
    assert.equal(counts['c'], undefined);
    assert.ok((counts['a'] ?? 0) > 2500, JSON.stringify(counts));
  });

  it('measures a branch by its first closed target', () => {
    const inner = branch({ mode: 'fallback', onStatusCodes: undefined }, [leaf('x'), leaf('y')]);
    const plan = branch(leastLatency, [leaf('a'), inner]);
    const latency = { a: 20, x: 30, y: 10 };
    assert.equal(picked(plan, environment({ latency, random: drawing(0, 0, 0.5) })), 'a');
    const open = ['x'];
    assert.equal(picked(plan, environment({ latency, open, random: drawing(0, 0, 0.5) })), 'y');
  });
});
