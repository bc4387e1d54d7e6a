import assert from 'node:assert/strict';
import { test } from 'node:test';
import { childArguments } from './supervised-child.ts';

const loader = 'file:///tsx.mjs';
const table: [name: string, given: string[], loader: string | undefined, expected: string[]][] = [
  ['nothing gets the loader', [], loader, ['--import', loader]],
  ['a loader that is there stays alone', ['--import', 'tsx'], loader, ['--import', 'tsx']],
  [
    'flags for memory are handed on',
    ['--max-old-space-size=99', '--import', 'tsx'],
    loader,
    ['--max-old-space-size=99', '--import', 'tsx'],
  ],
  [
    'how the heap of the gateway is tuned is not',
    [
      ...['--max-semi-space-size=64', '--initial-old-space-size=256', '--no-allocation-site-pretenuring'],
      ...['--no-parallel-scavenge', '--gc-memory-reducer-start-delay-ms=300000'],
      ...['--max-inlined-bytecode-size=1500', '--import', 'tsx'],
    ],
    loader,
    ['--max-inlined-bytecode-size=1500', '--import', 'tsx'],
  ],
  [
    'debugger ports are not',
    ['--inspect=9229', '--inspect-brk', '--import', 'tsx'],
    loader,
    ['--import', 'tsx'],
  ],
  ['nor is the test runner', ['--test', '--test-reporter=tap', '--watch'], loader, ['--import', loader]],
  [
    'nor is code on the command line',
    ['-e', 'main()', '--eval', 'x', '--import', 'tsx'],
    loader,
    ['--import', 'tsx'],
  ],
  [
    'nor are values that stand behind such flags',
    ['--test-name-pattern', 'one', '--cpu-prof-interval', '200', '--conditions', 'x', '--import', 'tsx'],
    loader,
    ['--conditions', 'x', '--import', 'tsx'],
  ],
  ['a runtime that reads TypeScript needs none', [], undefined, []],
];
for (const [name, given, from, expected] of table) {
  test(`arguments of a child: ${name}`, () => assert.deepEqual(childArguments(given, from), expected));
}
