import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { parseJson } from './json.ts';

describe('parseJson', () => {
  const cases: readonly [string, unknown][] = [
    ['{"seed":9007199254740993}', { seed: 9007199254740993n }],
    ['[-12345678901234567890]', [-12345678901234567890n]],
    ['{"n":1234567890123456}', { n: 1234567890123456 }],
    ['{"f":1234567890123456.5}', { f: 1234567890123456.5 }],
    ['{"text":": 12345678901234567890"}', { text: ': 12345678901234567890' }],
    ['{"a":1,"a":2,"b":9007199254740993}', { a: 2, b: 9007199254740993n }],
    ['12345678901234567', 12345678901234567n],
    ['null', null],
    ['', undefined],
    ['{', undefined],
    ['{"big":12345678901234567890', undefined],
  ];
  for (const [text, value] of cases) {
    it(JSON.stringify(text), () => assert.deepEqual(parseJson(text), value));
  }

  it('reads what JSON.parse reads, and nothing else', () => {
    const plain = (text: string): unknown => {
      try {
        return JSON.parse(text);
      } catch {
        return undefined;
      }
    };
    const rounded = (value: unknown): unknown => {
      if (typeof value === 'bigint') return Number(value);
      if (Array.isArray(value)) return value.map(rounded);
      if (typeof value !== 'object' || value === null) return value;
      return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, rounded(one)]));
    };
    const long = fc.bigInt({ min: 10n ** 15n, max: 10n ** 25n }).map((number) => `{"a":[${number}],`);
    const texts = fc.oneof(
      fc.json(),
      fc.string(),
      fc.tuple(long, fc.json()).map(([head, json]) => `${head}"b":${json}}`),
    );
    fc.assert(
      fc.property(texts, (text) => {
        fc.pre(!text.includes('__proto__'));
        assert.deepEqual(rounded(parseJson(text)), rounded(plain(text)));
      }),
    );
  });

  it('sees through nesting that is too deep for the exact reading', () => {
    const deep = `${'['.repeat(100_000)}${']'.repeat(100_000)}`;
    const json = parseJson(`{"seed":12345678901234567890,"deep":${deep}}`);
    assert.ok(typeof json === 'object' && json !== null && 'deep' in json);
  });
});
