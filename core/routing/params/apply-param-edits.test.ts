import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { ChangedBody } from '../../pipeline/request-body.ts';
import type { JsonObject, JsonValue } from '../../pipeline/context.ts';
import { parseJson, writeJson } from '../../base/json.ts';
import { applyParamEdits, type ParamEdits } from './apply-param-edits.ts';
import { compileParamEdits } from './compile-param-edits.ts';

function bodyOf(text: string): ChangedBody {
  const bytes = Buffer.from(text);
  return new ChangedBody({
    loaded: true,
    text,
    bytes,
    json: parseJson(text),
    outgoing: bytes,
    hold: () => undefined,
  });
}

interface Sources {
  readonly defaults?: JsonObject;
  readonly overrides?: JsonObject;
  readonly drops?: readonly string[];
  readonly modelPrefix?: { readonly remove?: string; readonly add?: string };
}

function compiled(sources: Sources): ParamEdits {
  const { edits, issues } = compileParamEdits(sources);
  assert.deepEqual(issues, []);
  return edits ?? { defaults: [], overrides: [], drops: [] };
}

function applied(text: string, edits: ParamEdits): ChangedBody {
  const body = bodyOf(text);
  applyParamEdits(edits, body);
  assert.deepEqual(body.json, parseJson(body.text), 'what it says is what stands there');
  return body;
}

describe('applyParamEdits', () => {
  const cases: readonly [name: string, before: string, sources: Sources, after: string][] = [
    ['a default is added', '{"a":1}', { defaults: { b: 2 } }, '{"a":1,"b":2}'],
    ['a default leaves what is there', '{ "a" : 1.0 }', { defaults: { a: 2 } }, '{ "a" : 1.0 }'],
    ['null is there', '{"a":null}', { defaults: { a: 2 } }, '{"a":null}'],
    ['an override is set', '{ "a" : 1, "b":2 }', { overrides: { a: 3 } }, '{ "a" : 3, "b":2 }'],
    ['an override is added', '{ "a":1 }', { overrides: { b: [true] } }, '{ "a":1,"b":[true] }'],
    [
      'the beginning of the model is replaced',
      '{ "model" : "openai/gpt-4o", "n":1 }',
      { modelPrefix: { remove: 'openai/', add: 'ft:' } },
      '{ "model" : "ft:gpt-4o", "n":1 }',
    ],
    [
      'another model keeps its beginning',
      '{"model":"gpt-4o"}',
      { modelPrefix: { remove: 'openai/' } },
      '{"model":"gpt-4o"}',
    ],
    [
      'a model that is set wins over its beginning',
      '{"model":"openai/gpt-4o"}',
      { modelPrefix: { remove: 'openai/' }, overrides: { model: 'openai/x' } },
      '{"model":"openai/x"}',
    ],
    [
      'a model that is dropped has no beginning',
      '{"model":"openai/gpt-4o","n":1}',
      { modelPrefix: { remove: 'openai/' }, drops: ['model'] },
      '{"n":1}',
    ],
    [
      'an override replaces the whole value',
      '{"a":{"x":1}}',
      { overrides: { a: { y: 2 } } },
      '{"a":{"y":2}}',
    ],
    [
      'an override wins over a default',
      '{}',
      { defaults: { a: 1, b: 1 }, overrides: { a: 2 } },
      '{"b":1,"a":2}',
    ],
    ['into an empty object', '{ }', { overrides: { a: 1, b: 2 } }, '{"a":1,"b":2 }'],
    [
      'several at once',
      '{"a":1, "b":2,"c":3}',
      { defaults: { e: 5, a: 9 }, overrides: { b: 'x', d: 4 }, drops: ['c'] },
      '{"a":1, "b":"x","e":5,"d":4}',
    ],
    [
      'big integers keep their digits',
      '{"seed":9223372036854775807}',
      { overrides: { a: 1 } },
      '{"seed":9223372036854775807,"a":1}',
    ],
    [
      'big integers are written',
      '{}',
      { overrides: { seed: 9223372036854775807n } },
      '{"seed":9223372036854775807}',
    ],
    ['every copy of a name is set', '{"a":1,"a":2}', { overrides: { a: 3 } }, '{"a":3,"a":3}'],
    ['escaped names are known', '{"\\u0061":1}', { overrides: { a: 3 } }, '{"\\u0061":3}'],
    ['names that need quoting', '{"x":1}', { overrides: { 'q"\n': 1 } }, '{"x":1,"q\\"\\n":1}'],
    [
      'strings fool nobody',
      '{"x":"\\"a\\":{[,","a":1}',
      { overrides: { a: 2 } },
      '{"x":"\\"a\\":{[,","a":2}',
    ],
    ['drop the first', '{"a":1, "b":2}', { drops: ['a'] }, '{"b":2}'],
    ['drop the last', '{ "a":1 , "b":2 }', { drops: ['b'] }, '{ "a":1 }'],
    ['drop the only one', '{ "a" : 1 }', { drops: ['a'] }, '{ }'],
    ['drop all', '{ "a":1, "b":2 }', { drops: ['b', 'a'] }, '{ }'],
    [
      'drop in the middle and at the end',
      '{"a":1,"b":2,"c":3,"d":4,"e":5}',
      { drops: ['b', 'd', 'e'] },
      '{"a":1,"c":3}',
    ],
    ['drop every copy', '{"a":1,"b":2,"a":3}', { drops: ['a'] }, '{"b":2}'],
    ['drop within every copy', '{"a":{"x":1},"a":{"x":2,"y":3}}', { drops: ['a.x'] }, '{"a":{},"a":{"y":3}}'],
    ['drop what is missing', '{"a": {}}', { drops: ['b', 'a.b.c', 'a[0]', 'a[*].x'] }, '{"a": {}}'],
    [
      'drop within what is no object',
      '{"a": [1, "x"], "b":null}',
      { drops: ['a.b', 'a[0].x', 'b.c'] },
      '{"a": [1, "x"], "b":null}',
    ],
    ['drop deep', '{"t":[{"x":1,"y":2},{"x":3}]}', { drops: ['t[0].x'] }, '{"t":[{"y":2},{"x":3}]}'],
    [
      'drop in every item',
      '{"t":[{"x":1, "y":2}, {"x":3},4]}',
      { drops: ['t[*].x'] },
      '{"t":[{"y":2}, {},4]}',
    ],
    ['drop every item', '{"t":[ 1, 2 ],"u":[]}', { drops: ['t[*]', 'u[*]'] }, '{"t":[ ],"u":[]}'],
    ['indices are those of before', '{"t":[0,1,2,3]}', { drops: ['t[0]', 't[2]', 't[9]'] }, '{"t":[1,3]}'],
    [
      'an index and every item',
      '{"t":[{"x":1},{"x":2,"z":1},{"x":3,"z":2}]}',
      { drops: ['t[0]', 't[1].z', 't[*].x'] },
      '{"t":[{"z":2}]}'.replace('[', '[{},'),
    ],
    ['a quoted name', '{"a":{"b.c":1,"b":{"c":2}}}', { drops: ['a["b.c"]'] }, '{"a":{"b":{"c":2}}}'],
    [
      'what is added and dropped is not there',
      '{"x":1}',
      { overrides: { a: 1 }, defaults: { b: 1 }, drops: ['a', 'b'] },
      '{"x":1}',
    ],
    ['what is dropped is not set first', '{"a":5,"x":1}', { overrides: { a: 1 }, drops: ['a'] }, '{"x":1}'],
    [
      'drops reach into what is set',
      '{}',
      { overrides: { a: { b: 1, c: 2 } }, drops: ['a.b'] },
      '{"a":{"c":2}}',
    ],
    ['drops reach into defaults', '{}', { defaults: { a: [1, 2] }, drops: ['a[0]'] }, '{"a":[2]}'],
    [
      'drops do not reach behind an override',
      '{"a":[2]}',
      { overrides: { a: [1, 2] }, drops: ['a[0]'] },
      '{"a":[2]}',
    ],
    ['a list is no body to edit', '[1]', { overrides: { a: 1 } }, '[1]'],
    ['text is no body to edit', 'hello', { overrides: { a: 1 } }, 'hello'],
  ];
  for (const [name, before, sources, after] of cases)
    test(name, () => {
      const body = bodyOf(before);
      applyParamEdits(compiled(sources), body);
      assert.equal(body.text, after);
      assert.equal(body.changed, before !== after);
      assert.deepEqual(body.json, parseJson(after));
    });

  test('what says already what is set stays as it is', () => {
    const text = '{ "b" : {"y":[1.0, 2],"x":1e0}, "a":0.50, "n":12345678901234567890 }';
    const overrides = { a: 0.5, b: { x: 1, y: [1, 2] }, n: 12345678901234567890n };
    const body = applied(text, compiled({ overrides, defaults: { a: 9 }, drops: ['c'] }));
    assert.equal(body.changed, false);
    assert.equal(body.text, text);
  });

  const different: readonly [JsonValue, JsonValue][] = [
    [1, '1'],
    [null, false],
    [{}, []],
    [[1], [1, 2]],
    [{ a: 1 }, { b: 1 }],
    [{ a: 1 }, { a: 1, b: 1 }],
    [{ a: [1] }, { a: [2] }],
    [1, 1n],
  ];
  for (const [one, other] of different)
    test(`${writeJson(one)} is not ${writeJson(other)}`, () => {
      const body = applied(`{"a":${writeJson(other)},"z":1}`, compiled({ overrides: { a: one } }));
      assert.equal(body.text, `{"a":${writeJson(one)},"z":1}`);
    });

  test('the request’s own document is not changed', () => {
    const text = '{"t":[{"x":1},{"x":2}],"m":{"a":1,"b":{"c":1}}}';
    const json = parseJson(text);
    const bytes = Buffer.from(text);
    const base = { loaded: true, text, bytes, json, outgoing: bytes, hold: () => undefined };
    const body = new ChangedBody(base);
    applyParamEdits(compiled({ overrides: { z: 1 }, drops: ['t[*].x', 't[0]', 'm.b.c'] }), body);
    assert.deepEqual(body.json, { t: [{}], m: { a: 1, b: {} }, z: 1 });
    assert.deepEqual(json, parseJson(text));
    assert.equal(bytes.toString(), text);
  });

  test('indices beside wildcards at every level do not multiply', () => {
    const drops: string[] = [];
    for (let level = 0; level < 15; level++)
      for (let index = 0; index < 4; index++)
        drops.push(
          `a${Array.from({ length: 15 }, (_, at) => (at === level ? `[${index}]` : '[*]')).join('')}`,
        );
    const nested = `${'['.repeat(14)}[0,1,2,3,4,5]${']'.repeat(14)}`;
    assert.equal(
      applied(`{"a":${nested}}`, compiled({ drops })).text,
      `{"a":${nested.replace('0,1,2,3,4,5', '')}}`,
    );
  });

  test('nesting overflows no stack', () => {
    const deep = '['.repeat(20_000) + ']'.repeat(20_000);
    const text = `{"a":1,"d":${deep}}`;
    const bytes = Buffer.from(text);
    const json = { a: 1, d: [] };
    const body = new ChangedBody({ loaded: true, text, bytes, json, outgoing: bytes, hold: () => undefined });
    applyParamEdits(compiled({ overrides: { a: 2 }, drops: ['d[*][*][*]', 'b'] }), body);
    assert.equal(body.text, `{"a":2,"d":${deep}}`);
  });
});

const name = fc.constantFrom('a', 'b', 'c', 'd.e', 'é');
const json = fc.letrec<{ value: JsonValue }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 3, depthSize: 'medium', withCrossShrink: true },
    fc.constantFrom<JsonValue>(null, true, 0.5, 7, 'x', '"},[', 12345678901234567890n),
    fc.array(tie('value'), { maxLength: 4 }),
    fc.dictionary(name, tie('value'), { maxKeys: 4 }).map((object): JsonObject => ({ ...object })),
  ),
})).value;
const object = fc.dictionary(name, json, { maxKeys: 5 }).map((given): JsonObject => ({ ...given }));
const path = (wild: boolean) =>
  fc
    .tuple(
      name,
      fc.array(fc.oneof(name, wild ? fc.constantFrom(0, 1, '*') : fc.constant('*')), { maxLength: 3 }),
    )
    .map(([first, rest]): (string | number)[] => [first, ...rest]);
const edits = (indices: boolean) =>
  fc.record({
    defaults: object.map((given) => Object.entries(given)),
    overrides: object.map((given) => Object.entries(given)),
    drops: fc.array(path(indices), { maxLength: 4 }),
  });
/** A text of the object with spaces of its own. */
const spaced = (value: JsonObject, space: string): string =>
  writeJson(value).replace(/("(?:[^"\\]|\\.)*")|([,:[\]{}])/g, (_all, text?: string, mark?: string) =>
    text === undefined ? `${space}${mark ?? ''}${space}` : text,
  );

/** The plain way: on objects, one edit after the other, all places to drop found before any is dropped. */
function naive(before: JsonObject, { defaults, overrides, drops }: ParamEdits): JsonObject {
  const result: JsonObject = structuredClone(before);
  for (const [key, value] of defaults) if (!(key in result)) result[key] = structuredClone(value);
  for (const [key, value] of overrides) result[key] = structuredClone(value);
  const gone = drops.flatMap((drop) => placesOf(result, drop));
  return without(result, gone) as JsonObject;
}

interface Place {
  readonly holder: JsonObject | JsonValue[];
  readonly step: string | number;
}

function placesOf(value: JsonValue | undefined, [step, ...rest]: readonly (string | number)[]): Place[] {
  if (typeof value !== 'object' || value === null || step === undefined) return [];
  const isList = Array.isArray(value);
  if (step === '*') return isList ? value.flatMap((_item, index) => placesOf(value, [index, ...rest])) : [];
  if (isList !== (typeof step === 'number') || !Object.hasOwn(value, step)) return [];
  if (rest.length === 0) return [{ holder: value, step }];
  return placesOf((value as JsonObject)[step], rest);
}

function without(value: JsonValue, gone: readonly Place[]): JsonValue {
  if (typeof value !== 'object' || value === null) return value;
  const stays = (key: string | number): boolean =>
    !gone.some(({ holder, step }) => holder === value && step === key);
  if (Array.isArray(value))
    return value.filter((_item, index) => stays(index)).map((item) => without(item, gone));
  const members = Object.entries(value).filter(([key]) => stays(key));
  return Object.fromEntries(members.map(([key, inner]) => [key, without(inner, gone)]));
}

describe('applyParamEdits, whatever the body and the edits', () => {
  const space = fc.constantFrom('', ' ', '\n  ');

  test('says what the plain way on objects says, and its text says it as well', () => {
    fc.assert(
      fc.property(object, edits(true), space, (before, change, gap) => {
        assert.deepEqual(applied(spaced(before, gap), change).json, naive(before, change));
      }),
      { numRuns: 300 },
    );
  });

  test('applied twice is applied once, where no index moves', () => {
    fc.assert(
      fc.property(object, edits(false), space, (before, change, gap) => {
        const once = applied(spaced(before, gap), change).text;
        assert.equal(applied(once, change).text, once);
      }),
      { numRuns: 200 },
    );
  });

  test('members that no edit names keep every byte, their spaces and their order', () => {
    fc.assert(
      fc.property(object, edits(true), space, (before, change, gap) => {
        const kept: JsonObject = { 'kept 1': before, 'kept 2': 0.1, 'kept 3': Object.values(before) };
        const texts = Object.entries(kept).map(([key, value]) => {
          const whole = spaced({ [key]: value }, gap);
          return whole.slice(whole.indexOf('"'), whole.lastIndexOf('}')).trim();
        });
        const after = applied(spaced({ ...before, ...kept }, gap), change).text;
        let at = -1;
        for (const text of texts) {
          const next = after.indexOf(text, at + 1);
          assert.ok(next > at, `${text}\nis not in\n${after}`);
          at = next;
        }
      }),
    );
  });
});
