import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { keyOf, readMark, writeMark } from './list-logs.ts';

test('a mark is read as it was written', () => {
  for (const count of [0, 1, 1000]) {
    const told = new Set(Array.from({ length: count }, () => keyOf(randomUUID())));
    assert.deepEqual(readMark(writeMark({ newest: 1_700_000_000_000, told })), {
      newest: 1_700_000_000_000,
      told,
    });
  }
});

test('anything else is refused', () => {
  for (const text of ['', '~', 'a', '1~!', '1 ', '-1', '1.5', '1'.repeat(17)])
    assert.throws(() => readMark(text), { code: 'invalid_request' }, text);
});
