import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { EncodeReport } from '../../../core/dialects/canonical/chat-codec.ts';
import { schemas } from './schema.ts';
import type { JsonObject } from '../json-reading.ts';

const rows: readonly {
  readonly name: string;
  readonly given: JsonObject;
  readonly expected: JsonObject;
  readonly dropped?: readonly string[];
  readonly emulated?: readonly string[];
}[] = [
  {
    name: 'a closed object says nothing that the model would not do',
    given: {
      $schema: 'x',
      type: 'object',
      properties: { a: { type: 'string' } },
      additionalProperties: false,
    },
    expected: { type: 'object', properties: { a: { type: 'string' } } },
    emulated: ['s.additionalProperties'],
  },
  {
    name: 'unknown keywords are dropped where they stand',
    given: { type: 'object', properties: { a: { type: 'string', format: 'email', not: {} } } },
    expected: { type: 'object', properties: { a: { type: 'string' } } },
    dropped: ['s.properties.a.format', 's.properties.a.not'],
  },
  {
    name: 'a property may bear the name of a keyword',
    given: {
      type: 'object',
      properties: { const: { type: 'string' }, $ref: { type: 'integer' } },
      required: ['const'],
    },
    expected: {
      type: 'object',
      properties: { const: { type: 'string' }, $ref: { type: 'integer' } },
      required: ['const'],
    },
  },
  { name: 'const is an enum of one', given: { const: 'x' }, expected: { type: 'string', enum: ['x'] } },
  {
    name: 'an enum of numbers is told in words, behind the description',
    given: { type: 'integer', enum: [1, 2], description: 'How many.' },
    expected: { type: 'integer', description: 'How many. One of 1, 2.' },
    emulated: ['s.enum'],
  },
  {
    name: 'null beside one type, in a list or as an alternative',
    given: { anyOf: [{ type: ['integer', 'null'] }, { type: 'null' }], description: 'Or none.' },
    expected: { type: 'integer', nullable: true, description: 'Or none.' },
  },
  {
    name: 'alternatives stand alone: what stood beside them goes into each',
    given: { oneOf: [{ type: 'string' }, { type: 'number' }, { type: 'null' }], description: 'Any.' },
    expected: {
      anyOf: [
        { description: 'Any.', type: 'string', nullable: true },
        { description: 'Any.', type: 'number', nullable: true },
      ],
    },
    emulated: ['s.oneOf'],
  },
  {
    name: 'references are put in, allOf is joined',
    given: {
      $defs: { 'a/b': { type: 'object', properties: { x: { type: 'string' } }, required: ['x'] } },
      allOf: [{ $ref: '#/$defs/a~1b' }, { properties: { y: { type: 'number' } }, required: ['y'] }],
    },
    expected: {
      type: 'object',
      properties: { x: { type: 'string' }, y: { type: 'number' } },
      required: ['x', 'y'],
    },
    emulated: ['s.allOf'],
  },
  {
    name: 'a tuple is an array of any of its members; an array needs items',
    given: {
      type: 'object',
      properties: { t: { type: 'array', prefixItems: [{ type: 'string' }] }, u: { type: 'array' } },
    },
    expected: {
      type: 'object',
      properties: {
        t: { type: 'array', items: { type: 'string' } },
        u: { type: 'array', items: { type: 'string' } },
      },
    },
    emulated: ['s.properties.t.prefixItems', 's.properties.u.items'],
  },
  {
    name: 'bounds and required names',
    given: {
      type: 'object',
      properties: { n: { type: 'integer', exclusiveMinimum: 0 } },
      required: ['n', 'gone'],
    },
    expected: { type: 'object', properties: { n: { type: 'integer', minimum: 1 } }, required: ['n'] },
    dropped: ['s.required'],
    emulated: ['s.properties.n.exclusiveMinimum'],
  },
];

describe("Gemini's schema", () => {
  for (const { name, given, expected, dropped = [], emulated = [] } of rows)
    test(name, () => {
      const report = new EncodeReport();
      const before = structuredClone(given);
      assert.deepEqual(schemas.toGemini(given, 's', report), expected);
      assert.deepEqual([report.dropped, report.emulated], [dropped, emulated]);
      assert.deepEqual(given, before);
    });

  test('recursion is unrolled and ends', () => {
    const node = { type: 'object', properties: { next: { $ref: '#/$defs/Node' }, all: { $ref: '#' } } };
    const report = new EncodeReport();
    const adapted = JSON.stringify(schemas.toGemini({ ...node, $defs: { Node: node } }, 's', report));
    assert.ok(!adapted.includes('$ref') && adapted.length < 20_000);
    assert.ok(report.emulated.length > 0);
    const doubling: JsonObject = { $ref: '#/$defs/d0' };
    doubling.$defs = Object.fromEntries(
      Array.from({ length: 40 }, (_none, i) => {
        const next = { $ref: `#/$defs/d${i + 1}` };
        return [`d${i}`, { type: 'object', properties: { a: next, b: next } }];
      }),
    );
    assert.ok(JSON.stringify(schemas.toGemini(doubling, 's', new EncodeReport())).length < 3_000_000);
  });

  test('the other way: types in lower case, null as a type', () => {
    const given = {
      type: 'OBJECT',
      properties: {
        a: { type: 'STRING', format: 'enum', enum: ['x'], nullable: true },
        b: { type: 'ARRAY', items: { type: 'INTEGER' }, minItems: '2' },
        c: { anyOf: [{ type: 'STRING' }], nullable: true },
      },
      propertyOrdering: ['b', 'a'],
    };
    assert.deepEqual(schemas.toJson(given), {
      type: 'object',
      properties: {
        a: { type: ['string', 'null'], enum: ['x', null] },
        b: { type: 'array', items: { type: 'integer' }, minItems: 2 },
        c: { anyOf: [{ type: 'string' }, { type: 'null' }] },
      },
    });
  });
});
