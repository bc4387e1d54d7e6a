import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { Condition, PlanBranch, PlanNode, Strategy } from './plan-node.ts';
import {
  branch,
  environment,
  leaf,
  leaves,
  picked,
  seeded,
  steps,
  tried,
  unguardedLeaf,
} from './plan-nodes.test-support.ts';
import { PlanWalk } from './plan-walk.ts';

const fallback: Strategy = { mode: 'fallback', onStatusCodes: undefined };
const single: Strategy = { mode: 'single' };
const loadbalance: Strategy = { mode: 'loadbalance', sticky: undefined };

describe('a plan', () => {
  it('of one target is that target', () => {
    assert.deepEqual(steps(leaf('config'), environment()), [{ leaf: leaf('config'), hedge: undefined }]);
  });

  it('of a single strategy is its first target, open or not', () => {
    assert.deepEqual(tried(branch(single, leaves(1, 1))), ['a']);
    assert.deepEqual(tried(branch(single, leaves(0, 1)), environment({ open: ['a'] })), ['a']);
  });
});

describe('fallback', () => {
  const cases: readonly [name: string, codes: number[] | undefined, statuses: number[], tried: string][] = [
    ['stops at the first good answer', undefined, [200, 200, 200], 'a'],
    ['goes on after any error', undefined, [500, 404, 200], 'abc'],
    ['goes on after a refusal of the first hour', undefined, [400, 200, 200], 'ab'],
    ['goes on after a redirect', undefined, [302, 200, 200], 'ab'],
    ['ends with the last target', undefined, [500, 500, 500], 'abc'],
    ['takes 246 for success unless it is listed', undefined, [246, 200, 200], 'a'],
    ['goes on after a listed 246', [246], [246, 200, 200], 'ab'],
    ['goes on after listed codes', [429, 503], [429, 503, 200], 'abc'],
    ['stops at an error that is not listed', [429], [500, 200, 200], 'a'],
    ['stops at a later error that is not listed', [429], [429, 500, 200], 'ab'],
    ['goes on after our own timeouts and refusals', [408, 446], [408, 446, 200], 'abc'],
    ['never goes on with an empty list', [], [500, 500, 500], 'a'],
  ];
  for (const [name, codes, [a = 0, b = 0, c = 0], expected] of cases)
    it(name, () => {
      const onStatusCodes = codes === undefined ? undefined : new Set(codes);
      const plan = branch({ mode: 'fallback', onStatusCodes }, leaves(1, 1, 1));
      const taken = steps(plan, environment(), { a, b, c });
      assert.equal(taken.map((step) => step.leaf.id).join(''), expected);
    });

  it('stops at a final result, whatever its status', () => {
    const taken = steps(branch(fallback, leaves(1, 1)), environment(), { a: 500 }, ['a']);
    assert.equal(taken.length, 1);
  });

  it('stops everywhere at a final result deep within', () => {
    const plan = branch(fallback, [branch(fallback, leaves(1, 1)), leaf('z')]);
    assert.equal(steps(plan, environment(), {}, ['a']).length, 1);
  });

  it('tries targets of any weight', () => {
    assert.deepEqual(tried(branch(fallback, leaves(0, 0))), ['a', 'b']);
  });

  const breakers: readonly [name: string, open: string[], tried: string][] = [
    ['leaves out targets with an open breaker', ['a', 'c'], 'b'],
    ['ignores breakers when all are open', ['a', 'b', 'c'], 'abc'],
    ['tries all when none is open', [], 'abc'],
  ];
  for (const [name, open, expected] of breakers)
    it(name, () => {
      assert.equal(tried(branch(fallback, leaves(1, 1, 1)), environment({ open })).join(''), expected);
    });

  it('knows no open breaker where there is none', () => {
    const plan = branch(fallback, [unguardedLeaf('a'), leaf('b')]);
    assert.deepEqual(tried(plan, environment({ open: ['a'] })), ['a', 'b']);
  });

  it('leaves out a target whose breaker opens while it tries others', () => {
    const open: string[] = [];
    const walk = tryingWith(branch(fallback, leaves(1, 1, 1)), open);
    assert.equal(walk(), 'a');
    open.push('b');
    assert.equal(walk(), 'c');
    assert.equal(walk(), undefined);
  });

  it('runs a branch within it wholly and goes by its last result', () => {
    const inner = branch({ mode: 'fallback', onStatusCodes: new Set([500]) }, leaves(1, 1), {
      path: 'config.targets[0]',
    });
    const plan = branch({ mode: 'fallback', onStatusCodes: new Set([429]) }, [inner, leaf('z')]);
    const ids = (answers: Record<string, number>) =>
      steps(plan, environment(), answers).map((step) => step.leaf.id);
    assert.deepEqual(ids({ a: 500, b: 429 }), ['a', 'b', 'z']);
    assert.deepEqual(ids({ a: 500, b: 500 }), ['a', 'b']);
    assert.deepEqual(ids({ a: 429 }), ['a', 'z']);
    assert.deepEqual(ids({ a: 500, b: 200 }), ['a', 'b']);
  });

  it('leaves out a branch all of whose targets are open, and no other', () => {
    const plan = branch(fallback, [branch(loadbalance, leaves(1, 1)), leaf('z')]);
    assert.deepEqual(tried(plan, environment({ open: ['a', 'b'] })), ['z']);
    assert.deepEqual(tried(plan, environment({ open: ['a'] })), ['b', 'z']);
  });

  it('yields no target twice, in file order, within any tree', () => {
    const tree = fc.letrec<{ node: Tree }>((tie) => ({
      node: fc.oneof(
        { depthSize: 'small' },
        fc.constant('leaf' as const),
        fc.array(tie('node'), { minLength: 1, maxLength: 4 }),
      ),
    })).node;
    fc.assert(
      fc.property(tree, fc.array(fc.boolean(), { maxLength: 20 }), fc.boolean(), (shape, failing, hedged) => {
        const ids: string[] = [];
        const plan = planted(shape, ids, hedged);
        const answers = Object.fromEntries(ids.map((id, index) => [id, failing[index] === true ? 200 : 500]));
        const order = steps(plan, environment(), answers).flatMap(({ leaf: { id }, hedge }) => [
          id,
          ...(hedge?.others ?? []).map((other) => other.id),
        ]);
        assert.equal(new Set(order).size, order.length, order.join(' '));
        if (hedged) return;
        const firstGood = ids.findIndex((id) => answers[id] === 200);
        assert.deepEqual(order, firstGood === -1 ? ids : ids.slice(0, firstGood + 1));
      }),
    );
  });
});

describe('strategies within strategies', () => {
  const conditional = (then: number, otherwise: number): Strategy => ({
    mode: 'conditional',
    conditions: [{ test: (field) => field(['metadata', 'plan']) === 'gold', then }],
    otherwise,
  });
  const plan = branch(conditional(1, 0), [
    branch(fallback, [branch(loadbalance, leaves(0, 1)), leaf('y')]),
    branch({ mode: 'round-robin' }, [leaf('g'), leaf('h')], { path: 'config.targets[1]' }),
  ]);

  it('each decide their part', () => {
    const turns = new Map<string, number>();
    const gold = environment({ fields: { 'metadata.plan': 'gold' }, turns });
    assert.deepEqual([picked(plan, gold), picked(plan, gold), picked(plan, gold)], ['g', 'h', 'g']);
    assert.deepEqual(tried(plan, environment()), ['b', 'y']);
  });

  it('give one attempt where nothing falls back', () => {
    assert.deepEqual(tried(plan, environment({ fields: { 'metadata.plan': 'gold' } })), ['g']);
  });
});

describe('hedging', () => {
  const hedge = { afterMs: 200, max: 2 };
  const race = (root: PlanNode, world = environment()) =>
    steps(root, world).map(({ leaf: { id }, hedge: found }) => [
      id,
      ...(found === undefined ? [] : found.others.map((other) => other.id)),
    ]);

  it('of a target races it with itself', () => {
    const alone = leaf('config', { hedge });
    assert.deepEqual(steps(alone, environment()), [
      { leaf: alone, hedge: { afterMs: 200, others: [alone, alone] } },
    ]);
  });

  const cases: readonly [name: string, strategy: Strategy, expected: string[][]][] = [
    ['fallback: the following ones, which are not tried again', fallback, [['a', 'b', 'c'], ['d']]],
    ['loadbalance: further picks', loadbalance, [['a', 'b', 'c']]],
    ['round-robin: the following ones', { mode: 'round-robin' }, [['a', 'b', 'c']]],
    ['least-cost: the next cheapest', { mode: 'least-cost' }, [['d', 'c', 'b']]],
    ['single: the target itself', single, [['a', 'a', 'a']]],
    [
      'conditional: the target itself',
      { mode: 'conditional', conditions: [], otherwise: 2 },
      [['c', 'c', 'c']],
    ],
  ];
  for (const [name, strategy, expected] of cases)
    it(name, () => {
      const world = environment({ cost: { a: 4, b: 3, c: 2, d: 1 } });
      assert.deepEqual(race(branch(strategy, leaves(1, 1, 1, 1), { hedge }), world), expected);
    });

  it('of a canary races the other one', () => {
    const canary: Strategy = { mode: 'canary', percentage: 10, hashFields: [] };
    assert.deepEqual(race(branch(canary, leaves(1, 1), { hedge })), [['b', 'a']]);
    const world = environment({ open: ['a'] });
    assert.deepEqual(race(branch(canary, leaves(1, 1), { hedge }), world), [['b']]);
  });

  it('of a sticky branch keeps the assignment of the first', () => {
    const assigned = new Map<string, number>();
    const sticky: Strategy = {
      mode: 'loadbalance',
      sticky: { hashFields: [['metadata', 'user']], ttlMs: 1000 },
    };
    const plan = branch(sticky, leaves(1, 1, 1), { hedge });
    const world = environment({ assigned, fields: { 'metadata.user': 'ada' } });
    const [first = []] = race(plan, world);
    assert.deepEqual(first.toSorted(), ['a', 'b', 'c']);
    assert.deepEqual([...assigned.values()], ['abc'.indexOf(first[0] ?? '')]);
    assert.deepEqual(race(plan, world), [first]);
  });

  it('takes no target with an open breaker, and none of weight 0', () => {
    const world = environment({ open: ['b'] });
    assert.deepEqual(race(branch(fallback, leaves(1, 1, 1), { hedge }), world), [['a', 'c']]);
    assert.deepEqual(race(branch(loadbalance, leaves(1, 1, 0, 1), { hedge }), world), [['a', 'd']]);
  });

  it('does without, where there is no other one', () => {
    assert.deepEqual(race(branch(loadbalance, leaves(1, 0), { hedge })), [['a']]);
    assert.deepEqual(race(branch(fallback, leaves(1), { hedge })), [['a']]);
  });

  it('races the first attempt of each branch', () => {
    const plan = branch(
      fallback,
      [
        leaf('a'),
        branch({ mode: 'least-cost' }, [leaf('b'), leaf('c')]),
        branch(fallback, [leaf('d'), leaf('e')]),
        leaf('f'),
      ],
      { hedge },
    );
    const world = environment({ cost: { b: 2, c: 1 } });
    assert.deepEqual(race(plan, world), [['a', 'c', 'd'], ['f']]);
  });

  it('of the branch comes before that of its first target; later ones have their own', () => {
    const one = { afterMs: 50, max: 1 };
    const plan = branch(fallback, [leaf('a', { hedge }), leaf('b'), leaf('c', { hedge: one })], {
      hedge: one,
    });
    assert.deepEqual(race(plan), [
      ['a', 'b'],
      ['c', 'c'],
    ]);
    assert.deepEqual(race(branch(fallback, [leaf('a', { hedge }), leaf('b')])), [['a', 'a', 'a'], ['b']]);
  });

  it('is handed down by those that leave no choice', () => {
    const inner = branch(loadbalance, leaves(1, 1), { path: 'config.targets[0]' });
    assert.deepEqual(race(branch(single, [inner], { hedge: { afterMs: 1, max: 1 } })), [['a', 'b']]);
  });

  it('leaves out a branch that has nothing for this request', () => {
    const strict = branch({ mode: 'conditional', conditions: [], otherwise: undefined }, leaves(1));
    const plan = branch(fallback, [leaf('x'), strict, leaf('z')], { hedge });
    assert.deepEqual(race(plan), [['x', 'z']]);
  });

  it('counts one turn, however many race', () => {
    const turns = new Map<string, number>();
    const plan = branch({ mode: 'round-robin' }, leaves(1, 1, 1), { hedge });
    const world = environment({ turns });
    assert.deepEqual(race(plan, world), [['a', 'b', 'c']]);
    assert.deepEqual(race(plan, world), [['b', 'c', 'a']]);
  });
});

describe('a plan that cannot be made', () => {
  const asking = (...paths: readonly string[][]): PlanBranch => {
    const test: Condition = (field) => paths.some((path) => field(path) === 'b');
    return branch({ mode: 'conditional', conditions: [{ test, then: 0 }], otherwise: undefined }, leaves(1));
  };

  it('names the model that no condition takes, where conditions ask for nothing else', () => {
    const world = environment({ fields: { 'params.model': 'a', 'metadata.user': 'c' } });
    const refusal = (param: string, message: RegExp) => ({ code: 'invalid_request', param, message });
    assert.throws(
      () => tried(asking(['params', 'model']), world),
      refusal('model', /no condition matched the model "a" and no default is set/),
    );
    assert.throws(
      () => tried(asking(['params', 'model'], ['metadata', 'user']), world),
      refusal('config', /no condition matched this request/),
    );
  });

  const cases: readonly [name: string, plan: PlanBranch, message: RegExp][] = [
    [
      'no condition and no default',
      branch(
        { mode: 'conditional', conditions: [{ test: () => false, then: 0 }], otherwise: undefined },
        leaves(1),
      ),
      /^config: no condition matched .* set strategy\.default/,
    ],
    ['loadbalance without weight', branch(loadbalance, leaves(0, 0)), /^config: every target has weight 0/],
    ['round-robin without weight', branch({ mode: 'round-robin' }, leaves(0)), /every target has weight 0/],
    ['least-cost without weight', branch({ mode: 'least-cost' }, leaves(0)), /every target has weight 0/],
    [
      'least-latency without weight',
      branch({ mode: 'least-latency' }, leaves(0)),
      /every target has weight 0/,
    ],
  ];
  for (const [name, plan, message] of cases)
    it(name, () => {
      assert.throws(() => tried(plan, environment({ random: seeded(1) })), {
        code: 'invalid_request',
        status: 400,
        param: 'config',
        message,
      });
    });
});

type Tree = 'leaf' | Tree[];

/** A tree of fallbacks; `ids` becomes the ids of its targets in file order. */
function planted(shape: Tree, ids: string[], hedged: boolean): PlanNode {
  if (shape === 'leaf') {
    ids.push(`t${ids.length}`);
    return leaf(`t${ids.length - 1}`);
  }
  const children = shape.map((child) => planted(child, ids, hedged));
  return hedged && shape.length > 2
    ? branch(fallback, children, { hedge: { afterMs: 1, max: 2 } })
    : branch(fallback, children);
}

/** Tries one target per call, all of which fail, while `open` may change. */
function tryingWith(plan: PlanNode, open: readonly string[]): () => string | undefined {
  const world = environment({ open });
  const walk = new PlanWalk(plan, world);
  let begun = false;
  return () => {
    const step = begun ? walk.next({ status: 500, final: false }) : walk.first();
    begun = true;
    return step?.leaf.id;
  };
}
