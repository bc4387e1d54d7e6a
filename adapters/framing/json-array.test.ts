import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { JsonArrayReader } from './json-array.ts';
import { chunksAt, everySplit, readAll } from './split-bytes.test-support.ts';

const cases: readonly [string, string, readonly string[]][] = [
  [
    'as Gemini streams',
    '[{"a": 1}\n,\r\n{"b": [2, {"c": "]}"}]}\n]\n',
    ['{"a": 1}', '{"b": [2, {"c": "]}"}]}'],
  ],
  ['nothing', '', []],
  ['white space', ' \n\t\r', []],
  ['an empty array', '[ ]', []],
  ['without white space', '[{},{},[]]', ['{}', '{}', '[]']],
  [
    'quotes and backslashes',
    String.raw`[{"a":"\"}\\"},{"\\\"{":"\\\\"}]`,
    [String.raw`{"a":"\"}\\"}`, String.raw`{"\\\"{":"\\\\"}`],
  ],
  ['characters of two, three and four bytes', '[{"a":"ü€🌊"}]', ['{"a":"ü€🌊"}']],
  ['elements that are no objects', '[1,"]" , null,-2.5e3\n,true]', ['1', '"]"', 'null', '-2.5e3', 'true']],
  ['a byte order mark', '\ufeff[{"a":1}]', ['{"a":1}']],
  ['a lone object', '\n{"error":{"code":429}}\n', ['{"error":{"code":429}}']],
  ['objects that follow one another', '{"a":1}\n{"b":2}', ['{"a":1}', '{"b":2}']],
  ['a surplus comma', '[{},]', ['{}']],
  ['text that is no JSON', 'oops', ['oops']],
  ['a nested array first', '[[1],[2]]', ['[1]', '[2]']],
];

for (const [name, text, expected] of cases) {
  test(`${name}, wherever the bytes are cut`, () => {
    for (const chunks of everySplit(Buffer.from(text))) {
      const payloads = readAll(new JsonArrayReader(), chunks);
      assert.deepEqual(
        payloads,
        expected.map((data) => ({ event: '', data })),
      );
    }
  });
}

test('any array of values comes out as it went in', () => {
  fc.assert(
    fc.property(
      fc.array(fc.jsonValue(), { maxLength: 6 }),
      fc.array(fc.nat(300)),
      fc.constantFrom(undefined, 1),
      (values, cuts, indent) => {
        const bytes = Buffer.from(JSON.stringify(values, undefined, indent));
        const payloads = readAll(new JsonArrayReader(), chunksAt(bytes, cuts));
        assert.deepEqual(
          payloads.map(({ data, error }) => [JSON.stringify(JSON.parse(data)), error]),
          values.map((value) => [JSON.stringify(value), undefined]),
        );
      },
    ),
  );
});

describe('what is broken is an error, behind what was whole, and nothing follows it', () => {
  const broken: readonly [string, string, RegExp][] = [
    ['an element that is cut off', '[{"a":1},{"b":', /truncated: .* within|truncated: .* an element/],
    ['a string that is cut off', '[{"a":1},"b', /truncated: .* an element/],
    ['a scalar in an array that is cut off', '[{"a":1},12', /truncated: .* an element/],
    ['an array that is not closed', '[{"a":1}\n,', /truncated: .* before the array was closed/],
    ['something behind the array', '[{"a":1}] {"b":2} {', /follows the end/],
    ['a bracket too many', '{"a":1}}{"b":2}', /never opened/],
    ['an element beyond the bound', '[{"a":1},{"b":"0123456789"},{"c":3}]', /longer than 12 bytes/],
  ];
  for (const [name, text, reason] of broken) {
    test(name, () => {
      for (const chunks of everySplit(Buffer.from(text))) {
        const payloads = readAll(new JsonArrayReader(12), chunks);
        assert.equal(payloads.length, 2, JSON.stringify(payloads));
        assert.equal(payloads[0]?.data, '{"a":1}');
        assert.match(payloads[1]?.error ?? '', reason);
      }
    });
  }

  test('an element beyond the bound is not waited for', () => {
    const reader = new JsonArrayReader(100);
    assert.match(reader.push(Buffer.from(`[{"a":"${'x'.repeat(100)}`))[0]?.error ?? '', /longer than 100/);
  });
});
