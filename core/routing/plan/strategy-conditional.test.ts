import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Strategy } from './plan-node.ts';
import { branch, environment, leaves, picked } from './plan-nodes.test-support.ts';

const userIs = (...names: readonly string[]) => ({
  test: (field: (path: readonly string[]) => unknown) => names.includes(String(field(['metadata', 'user']))),
});
const strategy: Strategy = {
  mode: 'conditional',
  conditions: [
    { ...userIs('ada'), then: 2 },
    { ...userIs('ada', 'bob'), then: 1 },
  ],
  otherwise: 0,
};

describe('conditional', () => {
  const cases: readonly [user: string | undefined, picked: string][] = [
    ['ada', 'c'],
    ['bob', 'b'],
    ['eve', 'a'],
    [undefined, 'a'],
  ];
  for (const [user, expected] of cases)
    it(`sends ${user ?? 'nobody'} to ${expected}`, () => {
      const fields = user === undefined ? {} : { 'metadata.user': user };
      assert.equal(picked(branch(strategy, leaves(1, 1, 1)), environment({ fields })), expected);
    });

  it('looks neither at breakers nor at weights', () => {
    const world = environment({ fields: { 'metadata.user': 'ada' }, open: ['c'] });
    assert.equal(picked(branch(strategy, leaves(1, 1, 0)), world), 'c');
  });
});
