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

describe('members of what a request is made of', () => {
  /** Objects with known members, by where they stand in bodies of every wire; `at` stands for one of them. */
  const places: Readonly<Record<string, { readonly body: (at: object) => object; readonly names: string }>> =
    {
      'a message': { body: (at) => ({ messages: [at] }), names: 'role content name tool_calls tool_call_id' },
      'a part of a message': {
        body: (at) => ({ messages: [{ role: 'user', content: [at] }] }),
        names: 'type text image_url input_audio file source cache_control',
      },
      'an address of an image': {
        body: (at) => ({ messages: [{ content: [{ type: 'image_url', image_url: at }] }] }),
        names: 'url detail',
      },
      'a tool call': {
        body: (at) => ({ messages: [{ tool_calls: [at] }] }),
        names: 'id type function custom',
      },
      'its function': {
        body: (at) => ({ messages: [{ tool_calls: [{ function: at }] }] }),
        names: 'name arguments',
      },
      'a result of a tool': {
        body: (at) => ({ messages: [{ content: [{ type: 'tool_result', content: [at] }] }] }),
        names: 'type text source',
      },
      'a source': {
        body: (at) => ({ messages: [{ content: [{ source: at }] }] }),
        names: 'type data url media_type',
      },
      'a part of a system': { body: (at) => ({ system: [at] }), names: 'type text cache_control' },
      'an item': { body: (at) => ({ input: [at] }), names: 'type role content call_id output arguments' },
      'a part of an item': {
        body: (at) => ({ input: [{ content: [at] }] }),
        names: 'type text image_url file_id',
      },
      'a content of Gemini': { body: (at) => ({ contents: [at] }), names: 'role parts' },
      'a part of Gemini': {
        body: (at) => ({ contents: [{ parts: [at] }] }),
        names: 'text inlineData functionCall functionResponse fileData thoughtSignature',
      },
      'its data': { body: (at) => ({ contents: [{ parts: [{ inlineData: at }] }] }), names: 'mimeType data' },
      'its system': { body: (at) => ({ systemInstruction: { parts: [at] } }), names: 'text inlineData' },
      'its settings': {
        body: (at) => ({ generationConfig: at }),
        names: 'temperature maxOutputTokens responseSchema thinkingConfig stopSequences',
      },
      'its thinking': {
        body: (at) => ({ generationConfig: { thinkingConfig: at } }),
        names: 'thinkingBudget',
      },
      'its tools': { body: (at) => ({ tools: [at] }), names: 'functionDeclarations googleSearch' },
      'its functions': {
        body: (at) => ({ tools: [{ functionDeclarations: [at] }] }),
        names: 'name parameters',
      },
      'its choice': {
        body: (at) => ({ toolConfig: { functionCallingConfig: at } }),
        names: 'mode allowedFunctionNames',
      },
      'a tool': { body: (at) => ({ tools: [at] }), names: 'type function name input_schema custom' },
      'a function': {
        body: (at) => ({ tools: [{ function: at }] }),
        names: 'name description parameters strict',
      },
      'an old function': { body: (at) => ({ functions: [at] }), names: 'name parameters' },
      'a choice': { body: (at) => ({ tool_choice: at }), names: 'type function name' },
      'the chosen function': { body: (at) => ({ tool_choice: { function: at } }), names: 'name' },
      'a format': { body: (at) => ({ response_format: at }), names: 'type json_schema' },
      'its schema': { body: (at) => ({ response_format: { json_schema: at } }), names: 'name schema strict' },
      'the request': { body: (at) => at, names: 'model messages tools system input contents tool_choice' },
    };
  /** Where names are their sender's. */
  const freePlaces: readonly ((at: object) => object)[] = [
    (at) => ({ metadata: at }),
    (at) => ({ input: at }),
    (at) => ({ logit_bias: at, variables: at, extra: [at] }),
    (at) => ({ messages: [{ content: [{ type: 'tool_use', input: at }] }] }),
    (at) => ({ messages: [{ role: 'user', metadata: at }] }),
    (at) => ({ contents: [{ parts: [{ functionCall: { name: 'f', args: at } }] }] }),
    (at) => ({ contents: [{ parts: [{ functionResponse: { response: at } }] }] }),
    (at) => ({ tools: [{ function: { name: 'f', parameters: at } }] }),
    (at) => ({ tools: [{ name: 'f', input_schema: at }] }),
    (at) => ({ tools: [{ type: 'mcp', headers: at }] }),
    (at) => ({ tools: [{ functionDeclarations: [{ parameters: { properties: at } }] }] }),
    (at) => ({ functions: [{ parameters: { type: 'object', properties: { nested: at } } }] }),
    (at) => ({ response_format: { json_schema: { schema: at } } }),
    (at) => ({ generationConfig: { responseSchema: at, responseJsonSchema: at } }),
    (at) => ({ prompt: { id: 'p', variables: at } }),
  ];
  const place = fc.constantFrom(...Object.entries(places));
  /** The same letters, at least one in the other case, perhaps written as escapes. */
  const respelled = (name: string) =>
    fc
      .tuple(
        fc.array(fc.boolean(), { minLength: name.length, maxLength: name.length }),
        fc.nat(name.length - 1),
      )
      .map(([flips, always]) =>
        [...name]
          .map((letter, at) => (flips[at] === true || at === always ? other(letter) : letter))
          .join(''),
      )
      .filter((one) => one !== name);
  const other = (letter: string): string =>
    letter === letter.toLowerCase() ? letter.toUpperCase() : letter.toLowerCase();
  const written = (body: object, name: string, escaped: boolean): string => {
    const text = JSON.stringify(body);
    if (!escaped) return text;
    const first = `\\u${name.charCodeAt(0).toString(16).padStart(4, '0')}`;
    return text.replaceAll(`"${name}":`, `"${first}${name.slice(1)}":`);
  };

  test('are refused in another case, alone and beside themselves, wherever they stand', () => {
    const drawn = place.chain(([where, { body, names }]) =>
      fc
        .constantFrom(...names.split(' '))
        .chain((name) =>
          fc.record({ where: fc.constant(where), name: fc.constant(name), wrong: respelled(name) }),
        )
        .map((one) => ({ ...one, body })),
    );
    fc.assert(
      fc.property(drawn, fc.boolean(), fc.boolean(), ({ where, name, wrong, body }, isFirst, escaped) => {
        const alone = refusal(written(body({ [wrong]: 'x' }), wrong, escaped));
        assert.deepEqual([alone?.code, alone?.param], ['invalid_request', wrong], `${where}: ${wrong}`);
        const pair = isFirst ? { [wrong]: 'x', [name]: 'y' } : { [name]: 'x', [wrong]: 'y' };
        assert.equal(
          refusal(written(body(pair), wrong, escaped))?.code,
          'invalid_request',
          `${where}: ${wrong}`,
        );
        assert.equal(refusal(JSON.stringify(body({ [name]: 'x' }))), undefined, `${where}: ${name}`);
      }),
      { numRuns: 1000 },
    );
  });

  test('of which nobody knows are refused in two spellings, and may have any one', () => {
    fc.assert(
      fc.property(place, ([where, { body }]) => {
        assert.equal(refusal(JSON.stringify(body({ xFoo: 1, XFoo: 2 })))?.param, 'XFoo', where);
        assert.equal(refusal(JSON.stringify(body({ xFoo: 1, X_foo: 2 }))), undefined, where);
      }),
    );
  });

  test('are free in schemas, arguments, metadata and other maps', () => {
    const name = fc.constantFrom(...Object.values(places).flatMap(({ names }) => names.split(' ')));
    const pair = name.chain((one) => fc.tuple(fc.constant(one), respelled(one)));
    fc.assert(
      fc.property(fc.constantFrom(...freePlaces), pair, fc.boolean(), (body, [one, wrong], deep) => {
        const at = { [one]: 'x', [wrong]: { [wrong]: 1, [one]: 2 } };
        const text = JSON.stringify(body(deep ? { properties: { list: [at] } } : at));
        assert.equal(refusal(text), undefined, text);
      }),
      { numRuns: 1000 },
    );
  });

  test('keep to their places where text, lists and free objects stand between them', () => {
    const text =
      '{"messages":[{"role":"user","metadata":{"Role":1,"role":2},"content":[["a"],{"type":"text","text":"\\"Role\\":"}]},7,null,"x",{"role":"tool","content":"Role"}],"input":{"Name":1,"name":2},"tools":[]}';
    assert.equal(refusal(text), undefined);
    assert.equal(refusal(text.replace('"role":"tool"', '"rolE":"tool"'))?.param, 'rolE');
    assert.equal(refusal(text.replace('"role":"tool"', '"ſtatus":"tool"'))?.param, 'ſtatus');
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
