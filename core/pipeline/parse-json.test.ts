import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { parseJson } from './parse-json.ts';

describe('parseJson', () => {
  const cases: readonly [string, unknown][] = [
    ['{"seed":9007199254740993}', { seed: 9007199254740993n }],
    ['[-12345678901234567890]', [-12345678901234567890n]],
    ['{"n":1234567890123456}', { n: 1234567890123456 }],
    ['{"f":1234567890123456.5}', { f: 1234567890123456.5 }],
    ['{"text":": 12345678901234567890"}', { text: ': 12345678901234567890' }],
    ['{"a":1,"a":2,"b":9007199254740993}', { a: 2, b: 9007199254740993n }],
    ['12345678901234567', 12345678901234568],
    ['null', null],
    ['', undefined],
    ['{', undefined],
    ['{"big":12345678901234567890', undefined],
  ];
  for (const [text, value] of cases) {
    it(JSON.stringify(text), () => assert.deepEqual(parseJson(text), value));
  }

  it('reads what JSON.parse reads, and nothing else', () => {
    fc.assert(
      fc.property(fc.json({ noUnicodeString: false }), (text) => {
        assert.deepEqual(parseJson(text), JSON.parse(text));
      }),
    );
    fc.assert(
      fc.property(fc.string(), (text) => {
        let expected: unknown;
        try {
          expected = JSON.parse(text);
        } catch {
          expected = undefined;
        }
        assert.deepEqual(parseJson(text), expected);
      }),
    );
  });
});
