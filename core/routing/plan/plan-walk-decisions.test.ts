import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { BranchDecision } from '../../pipeline/decision-trace.ts';
import type { PlanBranch, Strategy } from './plan-node.ts';
import { branch, environment, leaf, leaves, tried } from './plan-nodes.test-support.ts';

type Scene = NonNullable<Parameters<typeof environment>[0]>;

/** What every branch of a plan decided, each as one line. */
function decisions(plan: PlanBranch, scene: Scene = {}): string[] {
  const heard: BranchDecision[] = [];
  tried(plan, environment({ ...scene, decisions: heard }));
  return heard.map(({ path, mode, candidates, reason }) => {
    const children = candidates.map(({ path: place, name, order, score, skipped }) =>
      [
        place,
        name === undefined ? '' : `(${name})`,
        order === undefined ? '' : `#${order}`,
        score === undefined ? '' : `=${score}`,
        skipped === undefined ? '' : `[${skipped}]`,
      ].join(''),
    );
    return `${path} ${mode}: ${children.join(' ')}${reason === undefined ? '' : `: ${reason}`}`;
  });
}

const sticky: Strategy = { mode: 'loadbalance', sticky: { hashFields: [['metadata', 'user']], ttlMs: 1 } };
const canary: Strategy = { mode: 'canary', percentage: 5, hashFields: [['metadata', 'user']] };
const conditional = (otherwise: number | undefined): Strategy => ({
  mode: 'conditional',
  conditions: [1, 2].map((n) => ({ test: (field) => field(['params', 'n']) === n, then: n })),
  otherwise,
});
const all = 'every breaker is open and therefore ignored';

describe('what a branch tells of its decision', () => {
  const cases: readonly [strategy: Strategy, weights: number[], scene: Scene, line: string][] = [
    [{ mode: 'single' }, [1, 1], {}, 'single: a#1 b'],
    [{ mode: 'single' }, [1, 1], { open: ['a', 'b'] }, 'single: a#1 b'],
    [{ mode: 'fallback', onStatusCodes: undefined }, [1, 1], {}, 'fallback: a#1 b#2'],
    [
      { mode: 'fallback', onStatusCodes: undefined },
      [1, 0, 1],
      { open: ['a'] },
      'fallback: a[breaker open] b#1 c#2',
    ],
    [
      { mode: 'fallback', onStatusCodes: undefined },
      [1, 1],
      { open: ['a', 'b'] },
      `fallback: a#1 b#2: ${all}`,
    ],
    [
      { mode: 'loadbalance', sticky: undefined },
      [2, 0, 1, 3],
      { open: ['a'] },
      'loadbalance: a=2[breaker open] b=0[weight 0] c#1=1 d=3',
    ],
    [
      { mode: 'loadbalance', sticky: undefined },
      [1, 0],
      { open: ['a'] },
      `loadbalance: a#1=1 b=0[weight 0]: ${all}`,
    ],
    [sticky, [1], { fields: { 'metadata.user': 'ada' } }, 'loadbalance: a#1=1: assigned by hash'],
    [
      sticky,
      [1, 1],
      { fields: { 'metadata.user': 'ada' }, assigned: new Map([['config 3:ada', 1]]) },
      'loadbalance: a=1 b#1=1: sticky assignment',
    ],
    [sticky, [1, 1], {}, 'loadbalance: a#1=1 b=1: no hash field is present, random'],
    [conditional(0), [1, 1, 1], { fields: { 'params.n': 2 } }, 'conditional: a b c#1: condition 2 matched'],
    [conditional(0), [1, 1, 1], { open: ['a', 'b', 'c'] }, 'conditional: a#1 b c: default'],
    [
      { mode: 'least-latency' },
      [1, 1],
      { latency: { a: 30, b: 20.4 }, random: () => 0.4 },
      'least-latency: a=30 b#1=20.4: 20 ms against 30 ms',
    ],
    [
      { mode: 'least-latency' },
      [1, 1],
      { latency: { a: 30 }, random: () => 0.4 },
      'least-latency: a=30 b#1: not measured yet',
    ],
    [
      { mode: 'least-latency' },
      [1, 1],
      { latency: { a: 30, b: 20 } },
      'least-latency: a#1=30 b=20: random, to measure again',
    ],
    [{ mode: 'least-cost' }, [1, 1, 1], { cost: { b: 0.5 } }, 'least-cost: a b#1=0.5 c: lowest estimate'],
    [{ mode: 'least-cost' }, [1, 1], {}, 'least-cost: a#1 b: no price is known'],
    [
      { mode: 'round-robin' },
      [2, 1],
      { turns: new Map([['config', 4]]) },
      'round-robin: a=2 b#1=1: turn 2 of 3',
    ],
    [canary, [1, 1], { random: () => 0.031 }, 'canary: a=95 b#1=5: random 0.031 is below 5 %'],
    [
      canary,
      [1, 1],
      { random: () => 0.2, open: ['a'] },
      'canary: a=95[breaker open] b#1=5: random 0.200 is not below 5 %, but its breaker is open',
    ],
    [
      canary,
      [1, 1],
      { fields: { 'metadata.user': 'ada' } },
      'canary: a#1=95 b=5: hash 0.817 is not below 5 %',
    ],
  ];
  for (const [strategy, weights, scene, line] of cases)
    it(line, () => {
      assert.deepEqual(decisions(branch(strategy, leaves(...weights)), scene), [`config ${line}`]);
    });

  it('names its targets, and says who races whom', () => {
    const plan = branch({ mode: 'loadbalance', sticky: undefined }, [leaf('a', { name: 'one' }), leaf('b')], {
      hedge: { afterMs: 1, max: 1 },
    });
    assert.deepEqual(decisions(plan), ['config loadbalance: a(one)#1=1 b#2=1']);
  });

  it('is told once by each branch that took part, from the outside in', () => {
    const inner = branch({ mode: 'round-robin' }, leaves(1, 1), { path: 'config.targets[0]' });
    const never = branch({ mode: 'single' }, leaves(1), { path: 'config.targets[1]' });
    assert.deepEqual(decisions(branch(conditional(0), [inner, never])), [
      'config conditional: config.targets[0]#1 config.targets[1]: default',
      'config.targets[0] round-robin: a#1=1 b=1: turn 1 of 2',
    ]);
  });

  it('is told also by a branch that refuses', () => {
    const heard: BranchDecision[] = [];
    const world = environment({ decisions: heard });
    assert.throws(() => tried(branch(conditional(undefined), leaves(1, 1, 1)), world));
    assert.equal(heard[0]?.reason, 'no condition matched');
  });
});
