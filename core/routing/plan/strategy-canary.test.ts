import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Strategy } from './plan-node.ts';
import { branch, environment, leaf, leaves, picked } from './plan-nodes.test-support.ts';

const users = Array.from({ length: 4000 }, (_, index) => `user-${index}`);
const canary = (percentage: number): Strategy => ({
  mode: 'canary',
  percentage,
  hashFields: [['metadata', 'user']],
});
const unhashed: Strategy = { mode: 'canary', percentage: 5, hashFields: [] };

function canaries(percentage: number): Set<string> {
  const plan = branch(canary(percentage), leaves(1, 1));
  const isCanary = (user: string) => picked(plan, environment({ fields: { 'metadata.user': user } })) === 'b';
  return new Set(users.filter(isCanary));
}

describe('canary', () => {
  it('is the share that was asked for', () => {
    assert.equal(canaries(0).size, 0);
    assert.equal(canaries(100).size, users.length);
    for (const percentage of [5, 50, 90]) {
      const share = (canaries(percentage).size / users.length) * 100;
      assert.ok(Math.abs(share - percentage) < 3, `${share} for ${percentage}`);
    }
  });

  it('keeps its users when the share grows', () => {
    const more = canaries(20);
    for (const user of canaries(5)) assert.ok(more.has(user), user);
  });

  it('picks its users anew within another canary', () => {
    const inner = branch(canary(50), [leaf('x'), leaf('y')], { path: 'config.targets[1]' });
    const plan = branch(canary(50), [leaf('a'), inner]);
    const places = users.map((user) => picked(plan, environment({ fields: { 'metadata.user': user } })));
    for (const id of ['x', 'y']) assert.ok(places.filter((place) => place === id).length > 800, id);
  });

  const cases: readonly [name: string, random: number, open: string[], picked: string][] = [
    ['goes by chance without hash fields: below', 0.049, [], 'b'],
    ['goes by chance without hash fields: not below', 0.05, [], 'a'],
    ['gives way to the stable one', 0.01, ['b'], 'a'],
    ['takes over from the stable one', 0.99, ['a'], 'b'],
    ['ignores breakers when both are open', 0.99, ['a', 'b'], 'a'],
  ];
  for (const [name, random, open, expected] of cases)
    it(name, () => {
      const world = environment({ random: () => random, open });
      assert.equal(picked(branch(unhashed, leaves(1, 1)), world), expected);
      // The percentage alone decides.
      assert.equal(picked(branch(unhashed, leaves(0, 0)), world), expected);
    });
});
