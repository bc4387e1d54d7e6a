import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import type { JsonValue } from '../../core/pipeline/context.ts';
import { parseJson } from '../../core/base/json.ts';
import { cacheKeys } from './cache-key.ts';

const nothing: ReadonlySet<string> = new Set();
const canonical = (text: string, without = nothing): string | undefined =>
  cacheKeys.canonicalJson(parseJson(text) as JsonValue, without);

/** The same document with its members in another order and blanks wherever JSON allows them. */
function respelled(value: unknown, turn: () => number): string {
  const blank = [' ', '\n', '\t', '', '\r\n  '][turn() % 5] as string;
  const join = (parts: string[]): string => parts.join(`${blank},${blank}`);
  if (Array.isArray(value)) return `[${blank}${join(value.map((item) => respelled(item, turn)))}${blank}]`;
  if (typeof value !== 'object' || value === null) return `${blank}${JSON.stringify(value)}${blank}`;
  const members = Object.entries(value).map(
    ([name, item]) => `${JSON.stringify(name)}${blank}:${blank}${respelled(item, turn)}`,
  );
  return `{${blank}${join(turn() % 2 === 0 ? members : members.reverse())}${blank}}`;
}

const json = fc.jsonValue({ maxDepth: 4 });

describe('the canonical text of a body', () => {
  test('is the same whatever the order of members and the whitespace', () => {
    fc.assert(
      fc.property(json, fc.infiniteStream(fc.nat(9)), (value, turns) => {
        const turn = (): number => turns.next().value ?? 0;
        assert.equal(canonical(respelled(value, turn)), canonical(JSON.stringify(value)));
      }),
    );
  });

  test('is another one for any other difference', () => {
    fc.assert(
      fc.property(json, json, (left, right) => {
        const [one, other] = [JSON.stringify(left), JSON.stringify(right)];
        const same = isDeepStrictEqual(JSON.parse(one), JSON.parse(other));
        assert.equal(canonical(one) === canonical(other), same, `${one} and ${other}`);
      }),
    );
  });

  test('changes with any one value that changes, wherever it stands', () => {
    const leaf = fc.oneof(fc.string(), fc.integer(), fc.boolean(), fc.constant(null));
    const message = fc.record({ role: leaf, content: leaf }, { noNullPrototype: true });
    const list = fc.array(message, { minLength: 1, maxLength: 5 });
    fc.assert(
      fc.property(list, fc.nat(), leaf, (messages, at, value) => {
        const changed = messages.map((one, i) =>
          i === at % messages.length ? { ...one, content: value } : one,
        );
        const same = isDeepStrictEqual(messages, changed);
        assert.equal(
          canonical(JSON.stringify({ messages })) === canonical(JSON.stringify({ messages: changed })),
          same,
        );
      }),
    );
  });

  const different: readonly (readonly [string, string])[] = [
    ['{"seed":9007199254740993}', '{"seed":9007199254740992}'],
    ['{"seed":9223372036854775807}', '{"seed":9223372036854775806}'],
    ['{"seed":9007199254740993}', '{"seed":"9007199254740993"}'],
    ['{"a":1}', '{"a":"1"}'],
    ['{"a":null}', '{"a":1e400}'],
    ['{"a":null}', '{}'],
    ['{"a":null}', '{"a":"null"}'],
    ['{"a":[]}', '{"a":{}}'],
    ['{"a":[1,2]}', '{"a":[2,1]}'],
    ['{"a":[[1],2]}', '{"a":[1,[2]]}'],
    ['{"a":{"b":1},"c":2}', '{"a":{"b":1,"c":2}}'],
    ['{"a":"x\\",\\"b\\":\\"y"}', '{"a":"x","b":"y"}'],
    ['["0"]', '{"0":"0"}'],
  ];
  for (const [left, right] of different) {
    test(`${left} is not ${right}`, () => assert.notEqual(canonical(left), canonical(right)));
  }

  const same: readonly (readonly [string, string])[] = [
    ['{"a":1.0,"b":10}', '{"b":1e1,"a":1}'],
    ['{"a":"\\u00e9"}', '{"a":"é"}'],
  ];
  for (const [left, right] of same) {
    test(`${left} is ${right}`, () => assert.equal(canonical(left), canonical(right)));
  }

  test('has members in one order, however many they are', () => {
    const names = fc.uniqueArray(fc.string({ unit: 'binary' }), { maxLength: 40, size: 'max' });
    fc.assert(
      fc.property(names, (given) => {
        const text = (order: readonly string[]): string =>
          `{${order.map((name) => `${JSON.stringify(name)}:1`).join(',')}}`;
        assert.equal(canonical(text(given)), text([...given].sort()));
      }),
    );
  });

  test('leaves members of the document out, and none of what it holds', () => {
    const without = new Set(['stream']);
    assert.equal(canonical('{"stream":true,"a":1}', without), canonical('{"a":1}', without));
    assert.notEqual(canonical('{"a":{"stream":true}}', without), canonical('{"a":{}}', without));
  });

  test('is not made of a document that is nested beyond any use', () => {
    const nested = (depth: number): string => '['.repeat(depth) + ']'.repeat(depth);
    assert.equal(canonical(nested(256)), nested(256));
    assert.equal(canonical(nested(257)), undefined);
    assert.equal(canonical(nested(4000)), undefined);
  });
});
