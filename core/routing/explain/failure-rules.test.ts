import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PlanNode } from '../plan/plan-node.ts';
import { branch, leaf } from '../plan/plan-nodes.test-support.ts';
import { failureRules } from './plan-preview.ts';

const fallback = (path: string, children: readonly PlanNode[], ...codes: number[]) =>
  branch({ mode: 'fallback', onStatusCodes: codes.length === 0 ? undefined : new Set(codes) }, children, {
    path,
  });

const [a, b, c, d] = ['a', 'b', 'c', 'd'].map((path) => leaf(path)) as [
  ReturnType<typeof leaf>,
  ReturnType<typeof leaf>,
  ReturnType<typeof leaf>,
  ReturnType<typeof leaf>,
];

const cases: readonly [
  what: string,
  root: PlanNode,
  at: typeof a,
  expected: ReturnType<typeof failureRules>,
][] = [
  ['a target alone', a, a, []],
  ['the next one, for everything', fallback('f', [a, b]), a, [{ statuses: undefined, by: 'f', then: 'b' }]],
  ['nothing after the last', fallback('f', [a, b]), b, []],
  ['nothing in a branch that comes back to nobody', branch({ mode: 'single' }, [a, b]), a, []],
  [
    'the outer one for what the inner one does not name',
    fallback('out', [fallback('in', [a, b], 429), c], 500, 429),
    a,
    [
      { statuses: [429], by: 'in', then: 'b' },
      { statuses: [500], by: 'out', then: 'c' },
    ],
  ],
  [
    'the outer one alone at the end of the inner one',
    fallback('out', [fallback('in', [a, b], 429), c, d], 500, 429),
    b,
    [{ statuses: [500, 429], by: 'out', then: 'c' }],
  ],
  [
    'nothing beyond one that takes everything',
    fallback('out', [fallback('in', [a, b]), c], 500),
    a,
    [{ statuses: undefined, by: 'in', then: 'b' }],
  ],
  [
    'past branches that pick one',
    fallback('out', [branch({ mode: 'round-robin' }, [a, b]), c], 500),
    b,
    [{ statuses: [500], by: 'out', then: 'c' }],
  ],
];
for (const [what, root, at, expected] of cases) {
  test(`where a failure leads: ${what}`, () => assert.deepEqual(failureRules(root, at), expected));
}
