import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { BoundedJson } from './decision-trace.ts';

test('members and lists in their order', () => {
  const json = new BoundedJson(1000);
  json.member('a "b"', { c: null });
  json.list('d', [1, 'é', {}]);
  json.list('e', []);
  assert.deepEqual(JSON.parse(json.end(false)), { 'a "b"': { c: null }, d: [1, 'é', {}], e: [] });
});

test('what was left out before is said as well', () => {
  assert.equal(new BoundedJson(100).end(true), '{"truncated":true}');
});

test('is valid and within its bound whatever it is given, and says when something is missing', () => {
  const item = fc.string({ unit: 'grapheme', maxLength: 40 });
  fc.assert(
    fc.property(fc.integer({ min: 40, max: 400 }), fc.array(item), fc.array(item), (bound, first, second) => {
      const json = new BoundedJson(bound);
      json.list('first', first);
      json.member('between', second.length);
      json.list('second', second);
      const text = json.end(false);
      assert.ok(Buffer.byteLength(text) <= bound, text);
      const value = JSON.parse(text) as Record<string, unknown>;
      const whole = { first, between: second.length, second };
      if (value['truncated'] === true) assert.notDeepEqual({ ...value, truncated: undefined }, whole);
      else assert.deepEqual(value, whole);
    }),
  );
});
