import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Type, type TSchema } from 'typebox';
import { compileSchema } from './ajv.ts';

const messages = (schema: TSchema, value: unknown): string[] =>
  compileSchema(schema, { all: true })(value).map(({ path, message }) => `${path || '/'} ${message}`);

const Tree = Type.Cyclic(
  {
    Node: Type.Union([
      Type.Object(
        { targets: Type.Array(Type.Ref('Node'), { minItems: 1 }) },
        { additionalProperties: false },
      ),
      Type.Object({ provider: Type.String() }, { additionalProperties: false }),
    ]),
  },
  'Node',
);

describe('compileSchema: messages', () => {
  const cases: readonly [string, TSchema, unknown, string[]][] = [
    ['type', Type.Integer(), 1.5, ['/ expected a whole number, found 1.5']],
    ['range', Type.Number({ minimum: 0, maximum: 2 }), 3, ['/ expected a number from 0 to 2, found 3']],
    ['exclusive range', Type.Number({ exclusiveMinimum: 0 }), 0, ['/ expected a number above 0, found 0']],
    [
      'step',
      Type.Integer({ multipleOf: 5 }),
      3,
      ['/ expected a whole number that is a multiple of 5, found 3'],
    ],
    ['boolean', Type.Boolean(), 'yes', ['/ expected true or false, found "yes"']],
    ['null', Type.String(), null, ['/ expected text, found nothing; give it a value or remove the key']],
    [
      'long text',
      Type.Integer(),
      'x'.repeat(41),
      ['/ expected a whole number, found a text of 41 characters'],
    ],
    [
      'length',
      Type.String({ maxLength: 3 }),
      'abcd',
      ['/ expected text of at most 3 characters, found "abcd"'],
    ],
    [
      'format',
      Type.String({ format: 'date-time' }),
      'x',
      ['/ expected a date and time such as 2026-01-31T12:00:00Z, found "x"'],
    ],
    ['format (uri)', Type.String({ format: 'uri' }), 'x', ['/ expected a complete URL, found "x"']],
    [
      'several of one value, once',
      Type.String({ minLength: 3, pattern: '^a' }),
      'b',
      ['/ expected text of at least 3 characters that matches ^a, found "b"'],
    ],
    ['annotation', Type.String({ pattern: '^a', 'x-expected': 'an A' }), 'b', ['/ expected an A, found "b"']],
    [
      'items',
      Type.Array(Type.Integer(), { maxItems: 1 }),
      [1, 2],
      ['/ expected a list of at most 1 item, found a list of 2 items'],
    ],
    [
      'duplicates',
      Type.Array(Type.Integer(), { uniqueItems: true }),
      [7, 8, 7],
      ['/ items 1 and 3 are the same; keep one'],
    ],
    ['missing', Type.Object({ a: Type.Boolean() }), {}, ['/a missing key "a": true or false']],
    [
      'unknown',
      Type.Object({ alpha: Type.Optional(Type.Integer()) }, { additionalProperties: false }),
      { alhpa: 1 },
      ['/alhpa unknown key "alhpa"; did you mean "alpha"?'],
    ],
    [
      'constants',
      Type.Union([Type.Literal('red'), Type.Literal('green')]),
      'gren',
      ['/ expected "red" or "green", found "gren"; did you mean "green"?'],
    ],
    ['enum', Type.Enum(['red', 'green']), 'blue', ['/ expected "red" or "green", found "blue"']],
    [
      'union of types',
      Type.Union([Type.String(), Type.Array(Type.String())]),
      5,
      ['/ expected text or a list, found 5'],
    ],
    [
      'union, the branch meant',
      Type.Union([Type.String(), Type.Array(Type.String())]),
      ['a', 5],
      ['/1 expected text, found 5; put it in quotes'],
    ],
    [
      'union told apart by a constant',
      Type.Union([
        Type.Object({ type: Type.Literal('a'), x: Type.Integer() }),
        Type.Object({ type: Type.Literal('b'), y: Type.Integer() }),
      ]),
      { type: 'b', x: 1 },
      ['/y missing key "y": a whole number'],
    ],
    [
      'recursion',
      Tree,
      { targets: [{ provider: 'a' }, { targets: [{ provider: 5 }] }] },
      ['/targets/1/targets/0/provider expected text, found 5; put it in quotes'],
    ],
    [
      'recursion within a key',
      Type.Object({ config: Tree }),
      { config: { targets: [{ targets: [{ provider: 5 }] }] } },
      ['/config/targets/0/targets/0/provider expected text, found 5; put it in quotes'],
    ],
    [
      'keys of which one is needed',
      Type.Object(
        { a: Type.Optional(Type.String()), b: Type.Optional(Type.String()) },
        { anyOf: [{ required: ['a'], properties: { a: {} } }, { required: ['b'] }] },
      ),
      {},
      ['/ one of the keys "a" or "b" is missing'],
    ],
    [
      'keys of which only one may be',
      Type.Object(
        { a: Type.String(), b: Type.String() },
        { oneOf: [{ required: ['a'] }, { required: ['b'] }] },
      ),
      { a: 'x', b: 'y' },
      ['/ only one of the keys "a" and "b" may be given; remove the others'],
    ],
    [
      'dependent',
      Type.Object({ a: Type.Optional(Type.Integer()) }, { dependentRequired: { a: ['b'] } }),
      { a: 1 },
      ['/b missing key "b" (because of "a")'],
    ],
    [
      'names',
      Type.Object({}, { propertyNames: { pattern: '^[a-z]+$' } }),
      { A1: 1 },
      ['/A1 "A1" is no allowed name here'],
    ],
    [
      'condition',
      Type.Object({}, { if: { required: ['a'] }, then: { required: ['b'], properties: { b: {} } } }),
      { a: 1 },
      ['/b missing key "b": another value'],
    ],
    ['not', Type.Unsafe({ not: { type: 'string' } }), 'x', ['/ this value must NOT be valid']],
    [
      'not, in words',
      Type.Unsafe({ not: { type: 'string', 'x-expected': 'a number' } }),
      'x',
      ['/ expected a number'],
    ],
    [
      'pointer',
      Type.Object({ 'a/b': Type.Array(Type.Integer()) }),
      { 'a/b': ['x'] },
      ['/a~1b/0 expected a whole number, found "x"'],
    ],
    [
      'everything at once',
      Type.Object({ a: Type.Integer(), b: Type.Integer(), c: Type.Integer() }),
      { a: 'x', b: 1, c: 'y' },
      ['/a expected a whole number, found "x"', '/c expected a whole number, found "y"'],
    ],
  ];
  for (const [name, schema, value, expected] of cases)
    it(name, () => assert.deepEqual(messages(schema, value), expected));

  it('has nothing to say about what is right', () => {
    assert.deepEqual(messages(Tree, { targets: [{ provider: 'a' }] }), []);
  });
});

describe('compileSchema', () => {
  it('stops at the first issue unless asked for all', () => {
    const schema = Type.Object({ a: Type.Integer(), b: Type.Integer() });
    assert.equal(compileSchema(schema)({ a: 'x', b: 'y' }).length, 1);
    assert.equal(compileSchema(schema, { all: true })({ a: 'x', b: 'y' }).length, 2);
  });

  it('leaves the value alone unless asked to coerce', () => {
    const schema = Type.Object({
      limit: Type.Optional(Type.Integer({ default: 20, maximum: 100 })),
      all: Type.Optional(Type.Boolean()),
      tags: Type.Optional(Type.Array(Type.String())),
    });
    const plain = { limit: '5' };
    assert.equal(compileSchema(schema)(plain).length, 1);
    assert.deepEqual(plain, { limit: '5' });
    const check = compileSchema(schema, { coerce: true });
    const query = { all: 'true', tags: 'one' };
    assert.deepEqual(check(query), []);
    assert.deepEqual(query, { limit: 20, all: true, tags: ['one'] });
    assert.deepEqual(
      check({ limit: '500' }).map(({ message }) => message),
      ['expected a whole number of at most 100, found 500'],
    );
  });

  it('compiles a schema once per behaviour', () => {
    const schema = Type.Object({});
    assert.equal(compileSchema(schema), compileSchema(schema));
    assert.notEqual(compileSchema(schema), compileSchema(schema, { all: true }));
  });

  it('takes two schemas with the same $id', () => {
    assert.deepEqual(compileSchema(Type.String({ $id: 'same' }))('x'), []);
    assert.equal(compileSchema(Type.Integer({ $id: 'same' }))('x').length, 1);
  });

  it('refuses a misspelled keyword', () => {
    assert.throws(() => compileSchema(Type.String({ minlength: 3 })), /unknown keyword: "minlength"/);
    assert.throws(() => compileSchema(Type.String({ format: 'colour' })), /unknown format "colour"/);
  });

  it('reads schemas that others wrote: what it does not know checks nothing, and patterns take linear time', () => {
    const schema = Type.Unsafe({
      properties: {
        colour: { type: 'string', format: 'colour', xml: {} },
        name: { type: 'string', pattern: '^(a+)+$' },
        other: { type: 'string', pattern: '^b' },
        ahead: { type: 'string', pattern: '^(?=x)' },
      },
    });
    const check = compileSchema(schema, { foreign: true, all: true });
    assert.deepEqual(check({ colour: 'x', name: 'aaa', other: 'b', ahead: 'y' }), []);
    const value = { name: `${'a'.repeat(10_000)}!`, other: 'a' };
    assert.deepEqual(
      check(value).map(({ path }) => path),
      ['/name', '/other'],
    );
  });

  it('does not show what stands under the name of a secret', () => {
    const schema = Type.Unsafe({
      additionalProperties: { type: ['boolean', 'object', 'array'], items: { type: 'boolean' } },
    });
    const value = {
      api_key: 's3',
      apiKey: 's3',
      'x-api-key': 's3',
      password: 's3',
      keys: ['s3'],
      authToken: 's3',
      aws_access_key_id: 's3',
      vertex_service_account_json: 's3',
      awsExternalId: 's3',
      max_tokens_x: 'shown',
    };
    const texts = messages(schema, value);
    assert.equal(texts.length, 10);
    assert.deepEqual(
      texts.filter((text) => text.includes('s3')),
      [],
    );
    assert.ok(texts.some((text) => text.includes('"shown"')));
  });

  it('shows what the caller says instead of a value', () => {
    const check = compileSchema(Type.Enum(['red']));
    const [issue] = check('rad', () => 'the value of ${COLOUR}');
    assert.equal(issue?.message, 'expected "red", found the value of ${COLOUR}');
  });
});
