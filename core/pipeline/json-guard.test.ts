import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { jsonRefusal } from './json-guard.ts';

const bounds = { maxMembers: 1000, maxDepth: 20 };
const refusal = (text: string | Buffer, given = bounds) => jsonRefusal(Buffer.from(text), given);

describe('a JSON body that two readers take for different things', () => {
  const long = 'x'.repeat(40);
  const many = Array.from({ length: 30 }, (_, at) => `"m${at}":${at}`).join(',');
  const refused: readonly [name: string, text: string, param: string][] = [
    ['a member twice', '{"model":"a","model":"b"}', 'model'],
    [
      'far apart',
      `{"model":"a","messages":[{"role":"user","content":"${long}\\"${long}"}],"model":"b"}`,
      'model',
    ],
    ['within a message', '{"messages":[{"role":"user","role":"system","content":"x"}]}', 'role'],
    ['within lists of lists', '[[{"a":1},{"b":{"c":1,"c":2}}]]', 'c'],
    ['one written with escapes', '{"model":"a","\\u006dodel":"b"}', 'model'],
    ['both written with escapes', '{"a":{"\\u0078":1,"\\u0078":2}}', 'x'],
    ['with names of any length', `{"${long}":1,"${long}":2}`, long],
    ['of many members', `{${many},"m29":1}`, 'm29'],
    ['an early one of many members', `{${many},"m3":1}`, 'm3'],
    ['of which two others have one hash', `{"below":{${many},"Aa":1,"BB":2,"C#":3,"Aa":1}}`, 'Aa'],
    ['in two spellings', '{"model":"a","Model":"b"}', 'Model'],
    ['in two spellings that no rule reads', '{"other":1,"OTHER":2}', 'OTHER'],
    ['another spelling alone', '{"Model":"b"}', 'Model'],
    ['another spelling of a member with capitals', '{"GenerationConfig":{}}', 'GenerationConfig'],
    ['letters that Go takes for others', '{"me\u017f\u017fages":[]}', 'me\u017f\u017fages'],
    ['behind a byte order mark', '\ufeff {"n":1,"n":2}', 'n'],
  ];
  for (const [name, text, param] of refused) {
    test(`${name}: 400 that names it`, () => {
      const error = refusal(text);
      assert.deepEqual([error?.code, error?.param], ['invalid_request', param], text);
      assert.match(error?.message ?? '', /twice in one object|Write "/);
    });
  }

  const fine = [
    '{"model":"a","messages":[{"role":"user","content":"model"},{"role":"user","content":"{\\"a\\":1,\\"a\\":2}"}]}',
    '{"tools":[{"parameters":{"properties":{"id":{},"ID":{},"Model":{}}}}]}',
    `{"a":"${long}\\\\","b":"\\\\\\"${long}","c":["c","c",{"c":1}]}`,
    '{"generationConfig":{"maxOutputTokens":1},"systemInstruction":{},"toolConfig":{}}',
    '[]',
    '{"a":[1,"a","a",{}],"b":{}}',
    'no JSON, a model, a model',
    '',
    '"a"',
    '{"unfinished":"',
    '}{',
  ];
  for (const text of fine)
    test(`${text.slice(0, 60)} is left alone`, () => assert.equal(refusal(text), undefined));

  test('what has a member twice is refused, and nothing that JSON.stringify writes is', () => {
    const name = fc.string({ minLength: 1, maxLength: 40, unit: 'binary' });
    fc.assert(
      fc.property(
        fc.json({ maxDepth: 5 }),
        fc.uniqueArray(name, { minLength: 1, maxLength: 40 }),
        (inner, names) => {
          const members = names.map((one, at) => `${JSON.stringify(one)}:${at === 0 ? inner : at}`);
          const below = `{"below":[{${members.join(',')}}]}`;
          assert.equal(refusal(below, { maxMembers: 1e6, maxDepth: 100 }), undefined, below);
          const repeated = members[members.length >> 1] as string;
          const again = `{"below":[{${members.join(',')},${repeated}}]}`;
          assert.equal(refusal(again, { maxMembers: 1e6, maxDepth: 100 })?.code, 'invalid_request', again);
        },
      ),
    );
  });
});

describe('a JSON body that takes long to read', () => {
  test('has as many members as are allowed, objects and lists included', () => {
    const withMembers = (count: number) =>
      `{"a":{${Array.from({ length: count }, (_, at) => `"k${at}":1`).join(',')}}}`;
    assert.equal(refusal(withMembers(997)), undefined);
    const error = refusal(withMembers(998));
    assert.deepEqual([error?.status, error?.code], [413, 'body_too_large']);
    assert.match(error?.message ?? '', /1000 members.*server\.max_body_members/);
    assert.equal(refusal(`[${'[],'.repeat(1000)}1]`)?.code, 'body_too_large');
    assert.equal(refusal(`[${'1,'.repeat(5000)}1]`), undefined, 'numbers cost little: vectors are many');
  });

  test('is nested as deep as is allowed', () => {
    assert.equal(refusal(`${'['.repeat(20)}${']'.repeat(20)}`), undefined);
    const error = refusal(`${'{"a":['.repeat(10)}{}`);
    assert.match(error?.message ?? '', /more than 20 deep.*server\.max_body_depth/);
  });
});
