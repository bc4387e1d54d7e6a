import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { JsonPath, JsonValue } from './context.ts';
import { removeAt, setAt } from './json-splice.ts';
import { writeJson } from '../base/json.ts';

describe('setAt', () => {
  const cases: readonly [string, string, JsonPath, JsonValue, string][] = [
    ['replaces a value', '{"a":1,"b":2}', ['a'], 9, '{"a":9,"b":2}'],
    ['adds a key at the end', '{"a":1}', ['b'], 'x', '{"a":1,"b":"x"}'],
    ['adds to an empty object', '{ }', ['b'], true, '{"b":true }'],
    ['keeps spacing and order', '{ "b" : [1, 2] ,\n "a": {} }', ['b', 1], 5, '{ "b" : [1, 5] ,\n "a": {} }'],
    ['reaches deep', '{"m":[{"c":"x"},{"c":"y"}]}', ['m', 1, 'c'], 'z', '{"m":[{"c":"x"},{"c":"z"}]}'],
    ['appends to an array', '[1,2]', [2], 3, '[1,2,3]'],
    [
      'keeps digits beyond 2^53',
      '{"seed":9223372036854775807,"a":1}',
      ['a'],
      2,
      '{"seed":9223372036854775807,"a":2}',
    ],
    ['writes digits beyond 2^53', '{}', ['seed'], 9223372036854775807n, '{"seed":9223372036854775807}'],
    ['is not fooled by strings', '{"x":"\\"a\\":{[,","a":1}', ['a'], 2, '{"x":"\\"a\\":{[,","a":2}'],
    ['knows escaped keys', '{"\\u0061":1}', ['a'], 2, '{"\\u0061":2}'],
    ['changes the last of repeated keys', '{"a":1,"a":2}', ['a'], 3, '{"a":1,"a":3}'],
    ['replaces the whole', '{"a":1}', [], [1], '[1]'],
  ];
  for (const [name, text, path, value, expected] of cases) {
    it(name, () => assert.equal(setAt(text, path, value), expected));
  }

  it('refuses a place whose parent is missing', () => {
    assert.throws(() => setAt('{"a":1}', ['b', 'c'], 1), /\/b\/c/);
    assert.throws(() => setAt('{"a":1}', ['a', 'c'], 1), RangeError);
    assert.throws(() => setAt('[1]', [3], 1), /has 1 items/);
  });

  it('does not overflow the stack on deep nesting', () => {
    const deep = '['.repeat(100_000) + ']'.repeat(100_000);
    assert.equal(setAt(`{"d":${deep},"a":1}`, ['a'], 2).endsWith('"a":2}'), true);
  });
});

describe('removeAt', () => {
  const cases: readonly [string, string, JsonPath, string][] = [
    ['first', '{"a":1, "b":2}', ['a'], '{"b":2}'],
    ['last', '{"a":1, "b":2}', ['b'], '{"a":1}'],
    ['only', '{ "a" : 1 }', ['a'], '{ }'],
    ['every copy', '{"a":1,"b":2,"a":3}', ['a'], '{"b":2}'],
    ['array item', '[1,2,3]', [1], '[1,3]'],
    ['missing', '{"a":1}', ['x', 'y'], '{"a":1}'],
  ];
  for (const [name, text, path, expected] of cases) {
    it(name, () => assert.equal(removeAt(text, path), expected));
  }
});

const json = fc.letrec<{ value: JsonValue }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 3 },
    fc.string(),
    fc.integer(),
    fc.boolean(),
    fc.constant(null),
    fc.array(tie('value'), { maxLength: 4 }),
    fc.dictionary(fc.string({ maxLength: 4 }), tie('value'), { maxKeys: 4, noNullPrototype: true }),
  ),
})).value;

describe('splicing', () => {
  it('means the same as changing the parsed object, whatever the spacing', () => {
    const objects = fc.dictionary(fc.string({ maxLength: 4 }), json, { maxKeys: 5, noNullPrototype: true });
    fc.assert(
      fc.property(
        objects,
        fc.string({ maxLength: 4 }),
        json,
        fc.constantFrom(undefined, 1, '\t'),
        (object, key, value, indent) => {
          fc.pre(key !== '__proto__' && !Object.hasOwn(object, '__proto__'));
          const text = JSON.stringify(object, null, indent);
          const expected = { ...object, [key]: value };
          assert.deepEqual(JSON.parse(setAt(text, [key], value)), JSON.parse(writeJson(expected)));
          delete expected[key];
          assert.deepEqual(JSON.parse(removeAt(text, [key])), JSON.parse(writeJson(expected)));
        },
      ),
    );
  });
});
