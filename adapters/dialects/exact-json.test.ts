import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { parseExactObject, stringifyExact } from './json-reading.ts';

test('integers beyond 2^53 keep their digits', () => {
  const text = '{"seed":-9223372036854775807,"list":[9007199254740993],"logprob":-0.317253053188324,"n":1}';
  const json = parseExactObject(text);
  assert.equal(json?.seed, -9223372036854775807n);
  assert.equal(json?.n, 1);
  assert.equal(stringifyExact(json ?? {}), text);
});

test('any object is read as it was written', () => {
  fc.assert(
    fc.property(
      fc.dictionary(
        fc.string().filter((name) => name !== '__proto__'),
        fc.jsonValue(),
      ),
      (value) => {
        const text = JSON.stringify(value);
        assert.deepEqual(JSON.parse(stringifyExact(parseExactObject(text) ?? {})), JSON.parse(text));
      },
    ),
  );
});

test('anything but an object is undefined', () => {
  for (const text of ['', '[1]', 'null', '9007199254740993', '{"a":9007199254740993']) {
    assert.equal(parseExactObject(text), undefined);
  }
});
