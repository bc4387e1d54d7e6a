import assert from 'node:assert/strict';
import { test } from 'node:test';
import { memoryBudget } from './memory-budget.ts';

const mebibyte = 1024 * 1024;

for (const [memory, queries] of [
  [805_306_368, 1],
  [1_073_741_824, 2],
  [1_073_741_824, 8],
  [8_589_934_592, 64],
] as const) {
  test(`of ${memory / mebibyte} MiB, all ${queries} queries, the largest insert and the caches fit together`, () => {
    const budget = memoryBudget(memory, queries);
    const caches = Object.values(budget.caches).reduce((sum, bytes) => sum + bytes, 0);
    assert.ok(budget.query * queries + budget.insert + caches <= budget.engine);
    assert.ok(budget.engine <= memory - 300 * mebibyte, 'the runtime has no room');
    assert.ok(budget.insert >= 100 * mebibyte, 'a full segment of the journal finds no room');
    for (const [name, bytes] of Object.entries(budget.caches)) assert.ok(bytes > mebibyte, name);
  });
}
