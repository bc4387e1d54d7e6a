import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { PlanBranch, PlanLeaf, Strategy } from './plan-node.ts';
import { branch, environment, leaf, leaves, picked, seeded, tally } from './plan-nodes.test-support.ts';

const sticky: Strategy = {
  mode: 'loadbalance',
  sticky: { hashFields: [['metadata', 'user']], ttlMs: 1000 },
};
const users = Array.from({ length: 3000 }, (_, index) => `user-${index}`);
const of = (user: string) => environment({ fields: { 'metadata.user': user }, random: () => 0 });
const named = (...weights: readonly [name: string, weight: number][]) =>
  weights.map(([name, weight]) => leaf(name, { name, weight }));

/** The users that two versions of a branch give to different targets. */
function moved(before: PlanBranch, after: PlanBranch): string[] {
  return users.filter((user) => picked(before, of(user)) !== picked(after, of(user)));
}

describe('sticky loadbalance', () => {
  it('gives a user the same target in every process', () => {
    const children = leaves(1, 1, 1);
    const places = users.slice(0, 12).map((user) => picked(branch(sticky, children), of(user)));
    assert.equal(places.join(''), 'aaabbababbba');
  });

  it('shares users by weight', () => {
    const counts = tally(branch(sticky, leaves(5, 3, 0, 2)), users.length, (user) => of(users[user] ?? ''));
    assert.deepEqual(Object.keys(counts).toSorted(), ['a', 'b', 'd']);
    for (const [id, share] of [
      ['a', 0.5],
      ['b', 0.3],
      ['d', 0.2],
    ] as const)
      assert.ok(Math.abs((counts[id] ?? 0) / users.length - share) < 0.04, JSON.stringify(counts));
  });

  it('moves only the users of a target that is gone', () => {
    const [a, b, c] = named(['a', 1], ['b', 1], ['c', 1]) as [PlanLeaf, PlanLeaf, PlanLeaf];
    const before = branch(sticky, [a, b, c]);
    const after = branch(sticky, [a, c]);
    const expected = users.filter((user) => picked(before, of(user)) === 'b');
    assert.deepEqual(moved(before, after), expected);
    assert.ok(expected.length > 800);
  });

  it('moves users only to a target that is new or gained weight', () => {
    const before = branch(sticky, named(['a', 1], ['b', 1], ['c', 1]));
    for (const after of [
      branch(sticky, named(['a', 1], ['b', 1], ['c', 1], ['d', 1])),
      branch(sticky, named(['d', 1], ['a', 1], ['b', 1], ['c', 1])),
    ]) {
      const movers = moved(before, after);
      assert.ok(movers.length > 600 && movers.length < 900, String(movers.length));
      for (const user of movers) assert.equal(picked(after, of(user)), 'd');
    }
    const heavier = branch(sticky, named(['a', 1], ['b', 2], ['c', 1]));
    const movers = moved(before, heavier);
    assert.ok(movers.length > 350 && movers.length < 650, String(movers.length));
    for (const user of movers) assert.equal(picked(heavier, of(user)), 'b');
  });

  it('tells targets of one name apart', () => {
    const twins = branch(sticky, [leaf('a', { name: 'same' }), leaf('b', { name: 'same' })]);
    const counts = tally(twins, users.length, (user) => of(users[user] ?? ''));
    assert.ok((counts['a'] ?? 0) > 1300 && (counts['b'] ?? 0) > 1300, JSON.stringify(counts));
  });

  it('within another sticky branch shares anew', () => {
    const inner = (name: string, path: string) =>
      branch(sticky, [leaf(`${name}1`), leaf(`${name}2`)], { path });
    const plan = branch(sticky, [inner('a', 'config.targets[0]'), inner('b', 'config.targets[1]')]);
    const counts = tally(plan, users.length, (user) => of(users[user] ?? ''));
    for (const id of ['a1', 'a2', 'b1', 'b2']) assert.ok((counts[id] ?? 0) > 600, JSON.stringify(counts));
  });

  it('keeps an assignment while it holds, whatever the weights say, and renews it', () => {
    const assigned = new Map<string, number>();
    const fields = { 'metadata.user': 'ada' };
    const plan = branch(sticky, leaves(1, 1, 1));
    const first = picked(plan, environment({ fields, assigned }));
    const [key = ''] = assigned.keys();
    for (const [index, id] of ['a', 'b', 'c'].entries()) {
      assigned.set(key, index);
      assert.equal(picked(plan, environment({ fields, assigned })), id);
    }
    assigned.clear();
    assert.equal(picked(plan, environment({ fields, assigned })), first);
    assert.deepEqual([...assigned.keys()], [key]);
  });

  it('assigns again when the target is open, without weight or gone', () => {
    const fields = { 'metadata.user': 'ada' };
    const assigned = new Map<string, number>();
    picked(branch(sticky, leaves(1, 1)), environment({ fields, assigned }));
    const [key = ''] = assigned.keys();
    const cases: readonly [child: number, plan: PlanBranch, open: string[], id: string][] = [
      [0, branch(sticky, leaves(1, 1)), ['a'], 'b'],
      [0, branch(sticky, leaves(0, 1)), [], 'b'],
      [5, branch(sticky, leaves(0, 1)), [], 'b'],
    ];
    for (const [child, plan, open, id] of cases) {
      assigned.set(key, child);
      assert.equal(picked(plan, environment({ fields, assigned, open })), id);
      assert.equal(assigned.get(key), 1);
    }
  });

  it('is random, and assigns nothing, for a request without the fields', () => {
    const assigned = new Map<string, number>();
    const random = seeded(3);
    const counts = tally(branch(sticky, leaves(1, 1)), 1000, () => environment({ assigned, random }));
    assert.ok((counts['a'] ?? 0) > 400 && (counts['b'] ?? 0) > 400, JSON.stringify(counts));
    assert.equal(assigned.size, 0);
  });
});
