import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Type } from '../../pipeline/plugin.ts';
import { embedSchema } from './operation.ts';
import { exampleOfSchema } from './document.ts';

const tree = {
  $defs: { Node: { type: 'object', properties: { next: { $ref: '#/$defs/Node' } } } },
  anyOf: [{ $ref: '#/$defs/Node' }, { type: 'string', 'x-expected': 'a word', enum: ['$ref'] }],
};

test('definitions become components of their owner, and words of our own stay behind', () => {
  const components = new Map<string, unknown>();
  const reference = { $ref: '#/components/schemas/trees.get.Node' };
  assert.deepEqual(embedSchema(tree, 'trees.get', components), {
    anyOf: [reference, { type: 'string', enum: ['$ref'] }],
  });
  assert.deepEqual(
    [...components],
    [['trees.get.Node', { type: 'object', properties: { next: reference } }]],
  );
});

test('a member may be called like a keyword', () => {
  const schema = {
    type: 'object',
    properties: { $defs: { type: 'string' }, 'x-expected': { type: 'null' } },
  };
  assert.deepEqual(embedSchema(schema, 'a', new Map()), schema);
});

test('examples: what the schema says itself, else what its types allow', () => {
  const schema = Type.Object({
    said: Type.String({ examples: ['so'] }),
    usual: Type.Integer({ default: 20 }),
    one: Type.Union([Type.Null(), Type.Literal('b')]),
    many: Type.Array(Type.String({ format: 'uuid' })),
    count: Type.Integer({ minimum: 3 }),
    name: Type.String({ maxLength: 2 }),
    made_at: Type.String(),
    old: Type.Optional(Type.String({ deprecated: true })),
    coded: Type.Optional(Type.String({ pattern: '^[a-f]{7}$' })),
    slug: Type.String({ pattern: '^ws-[a-z-]+$' }),
    word: Type.String({ minLength: 12, maxLength: 22 }),
    least: Type.Number({ minimum: -5, maximum: 0.5 }),
  });
  assert.deepEqual(exampleOfSchema(schema), {
    said: 'so',
    usual: 20,
    one: 'b',
    count: 3,
    name: 'na',
    made_at: '2026-11-21T09:00:00.000Z',
    many: ['0198a1c2-7b3e-7c4d-8e5f-6a7b8c9d0e1f'],
    slug: 'ws-laboratory-abcdef',
    word: 'ann@example.com',
    least: 0.5,
  });
});

test('examples of a schema that holds itself come to an end', () => {
  assert.ok(JSON.stringify(exampleOfSchema(tree)).length < 200);
});
