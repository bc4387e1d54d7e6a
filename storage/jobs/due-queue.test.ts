import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { DueQueue } from './local-jobs.ts';

test('entries come by their time, and those of the same time as they were added, whatever is taken between', () => {
  fc.assert(
    fc.property(fc.array(fc.option(fc.integer({ min: 0, max: 5 }))), (steps) => {
      const queue = new DueQueue<{ readonly due: number; readonly number: number }>();
      const expected: { readonly due: number; readonly number: number }[] = [];
      for (const [number, due] of steps.entries()) {
        if (due === null) {
          expected.sort((a, b) => a.due - b.due || a.number - b.number);
          assert.equal(queue.firstDue, expected[0]?.due);
          assert.deepEqual(queue.take(), expected.shift());
        } else {
          queue.add({ due, number });
          expected.push({ due, number });
        }
        assert.equal(queue.size, expected.length);
      }
    }),
  );
});
