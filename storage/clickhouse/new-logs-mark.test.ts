import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Mark, markOf } from './new-logs.ts';

test('a place is the time of the newest entry as text, or all that is known of it', () => {
  assert.deepEqual(markOf('1700000000000'), new Mark(1_700_000_000_000));
  const known = new Mark(1, { told: new Set(['an id']) });
  assert.equal(markOf(known), known);
});

test('anything else is refused', () => {
  for (const text of ['', '~', 'a', '1~', '1~AAAA', '1 ', '-1', '1.5', '1'.repeat(17)])
    assert.throws(() => markOf(text), { code: 'invalid_request' }, text);
  assert.throws(() => markOf({ newest: 1 }), { code: 'invalid_request' });
});
