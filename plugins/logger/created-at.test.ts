import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { createdAt } from './members.ts';

test('the time of a row is that of Date, whatever was asked before', () => {
  const time = fc.integer({ min: 0, max: 4_102_444_800_000 });
  fc.assert(
    fc.property(fc.array(fc.tuple(time, fc.integer({ min: 0, max: 999 }))), (times) => {
      for (const [at, later] of times) {
        for (const moment of [at, at + later]) {
          assert.equal(createdAt(moment), new Date(moment).toISOString().replace('T', ' ').replace('Z', ''));
        }
      }
    }),
  );
});

test('fractions of a millisecond are dropped', () => {
  assert.equal(createdAt(1_999.999), '1970-01-01 00:00:01.999');
});
