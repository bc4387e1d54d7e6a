import assert from 'node:assert/strict';
import { test } from 'node:test';
import { structuredSchema } from './encode-request.ts';

test('a schema within the subset stays as it is', () => {
  const schema = {
    type: 'object',
    additionalProperties: false,
    required: ['a'],
    properties: { a: { type: ['string', 'null'], enum: ['x', null] }, minimum: { type: 'number' } },
  };
  assert.deepEqual(structuredSchema(schema), { schema, changed: false });
});

test('objects are closed and rules told in words, wherever they stand', () => {
  const before = {
    type: 'object',
    properties: {
      list: { type: 'array', minItems: 2, maxItems: 3, items: { type: 'object', properties: {} } },
      text: { type: 'string', description: 'A name.', minLength: 1, maxLength: 9 },
    },
    $defs: { d: { anyOf: [{ type: 'integer', minimum: 0 }, true] } },
  };
  const copy = structuredClone(before);
  assert.deepEqual(structuredSchema(before), {
    changed: true,
    schema: {
      type: 'object',
      additionalProperties: false,
      properties: {
        list: {
          type: 'array',
          description: '(maxItems: 3, minItems: 2)',
          items: { type: 'object', properties: {}, additionalProperties: false },
        },
        text: { type: 'string', description: 'A name. (minLength: 1, maxLength: 9)' },
      },
      $defs: { d: { anyOf: [{ type: 'integer', description: '(minimum: 0)' }, true] } },
    },
  });
  assert.deepEqual(before, copy);
});
