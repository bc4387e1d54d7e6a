import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Ajv2020 } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import fc from 'fast-check';
import { sampleOf, samplePattern } from './schema-sample.ts';

const ajv = new Ajv2020({ strict: false, validateSchema: false });
addFormats.default(ajv);

function assertSatisfies(schema: object): void {
  const value = sampleOf(schema);
  const valid = ajv.compile(schema);
  const text = `${JSON.stringify(value)} for ${JSON.stringify(schema)}`;
  assert.ok(valid(value), `${text}: ${ajv.errorsText(valid.errors)}`);
}

/** Schemas as people write them for tools and structured answers. */
const schemas = fc.letrec<{ schema: object }>((tie) => ({
  schema: fc.oneof(
    { maxDepth: 3, depthSize: 'small' },
    fc
      .record({ minLength: fc.nat(50), more: fc.nat(20) })
      .map(({ minLength, more }) => ({ type: 'string', minLength, maxLength: minLength + more })),
    fc.constantFrom('date-time', 'date', 'email', 'uuid', 'ipv4', 'uri').map((format) => ({
      type: 'string',
      format,
    })),
    fc
      .record({ minimum: fc.integer({ min: -1000, max: 1000 }), more: fc.nat(50) })
      .map(({ minimum, more }) => ({ type: 'integer', minimum, maximum: minimum + more })),
    fc
      .record({ exclusiveMinimum: fc.integer({ min: -9, max: 9 }), more: fc.constantFrom(0.0001, 0.5, 7) })
      .map(({ exclusiveMinimum, more }) => ({
        type: 'number',
        exclusiveMinimum,
        exclusiveMaximum: exclusiveMinimum + more,
      })),
    fc
      .record({ multipleOf: fc.constantFrom(3, 7, 0.5), minimum: fc.integer({ min: -100, max: 100 }) })
      .map((rule) => ({ type: 'number', ...rule })),
    fc.constantFrom(
      { type: 'boolean' },
      { type: ['string', 'null'] },
      { type: 'null' },
      { enum: ['a', 2, null] },
      { const: { deep: [1] } },
    ),
    fc
      .record({ items: tie('schema'), minItems: fc.nat(3) })
      .map((rule) => ({ type: 'array', ...rule, maxItems: 4 })),
    fc.dictionary(fc.stringMatching(/^[a-z]{1,8}$/), tie('schema'), { maxKeys: 4 }).map((properties) => ({
      type: 'object',
      properties,
      required: Object.keys(properties),
      additionalProperties: false,
    })),
    fc.array(tie('schema'), { minLength: 1, maxLength: 3 }).map((anyOf) => ({ anyOf })),
  ),
}));

describe('a sample of a schema', () => {
  it('satisfies it', () => {
    fc.assert(fc.property(schemas.schema, assertSatisfies), { numRuns: 300 });
  });

  const cases: readonly object[] = [
    {
      $ref: '#/$defs/a',
      $defs: {
        a: { type: 'object', required: ['b'], properties: { b: { $ref: '#/$defs/b~1c' } } },
        'b/c': { type: 'integer', minimum: 4 },
      },
    },
    { allOf: [{ required: ['a'] }, { properties: { a: { type: 'boolean' } } }, { required: ['b'] }] },
    {
      oneOf: [{ type: 'object', required: ['kind'], properties: { kind: { const: 'x' } } }, { type: 'null' }],
    },
    { type: 'array', prefixItems: [{ const: 1 }, { type: 'string' }], minItems: 3, items: { type: 'null' } },
    { type: 'array', uniqueItems: true, minItems: 3, items: { type: 'string' } },
    { type: 'array', uniqueItems: true, minItems: 3, items: { type: 'integer', minimum: -5 } },
    { type: 'array', uniqueItems: true, minItems: 2, items: { enum: ['a', 'b'] } },
    { type: 'object', minProperties: 2, properties: { a: { type: 'integer' } } },
    { type: 'object', minProperties: 1, additionalProperties: { type: 'integer' } },
    { type: 'string', pattern: '^[a-z]+$', minLength: 9 },
    { properties: { a: { type: 'string' } }, required: ['a'] },
    {},
    // A tree that ends because a node may have no children, and one that ends with null.
    {
      $ref: '#/$defs/node',
      $defs: {
        node: {
          type: 'object',
          required: ['next'],
          properties: { next: { anyOf: [{ $ref: '#/$defs/node' }, { type: 'null' }] } },
        },
      },
    },
  ];
  for (const schema of cases) {
    it(`satisfies ${JSON.stringify(schema).slice(0, 90)}`, () => assertSatisfies(schema));
  }

  it('is the smallest: what is optional is left out', () => {
    assert.deepEqual(sampleOf({ type: 'object', properties: { a: { type: 'string' } } }), {});
  });

  it('is bounded, whatever the schema asks for', () => {
    const endless = {
      type: 'object',
      required: ['a', 'b'],
      properties: { a: { $ref: '#' }, b: { $ref: '#' } },
    };
    const huge = { type: 'array', minItems: 1e9, items: { type: 'string', minLength: 1e9 } };
    const circle = { $ref: '#/$defs/a', $defs: { a: { $ref: '#/$defs/a' } } };
    for (const schema of [endless, huge, circle]) {
      assert.ok(JSON.stringify(sampleOf(schema)).length < 1_000_000);
    }
  });
});

describe('a sample of a pattern', () => {
  const patterns = [
    '^[A-Z]{2}-\\d{4}$',
    '^(foo|bar)(baz)?$',
    '^\\w+@\\w+\\.com$',
    '^[^a-zA-Z]$',
    '^(?:a|b)+\\s\\S?x*$',
    '^[\\d_.-]{3,}$',
    '\\u0041\\x42\\n',
    'plain',
    '^a.c$',
    '^#[0-9a-fA-F]{6}$',
    '',
  ];
  for (const pattern of patterns) {
    it(`matches ${pattern}`, () => {
      const text = samplePattern(pattern, 1);
      assert.ok(text !== undefined && new RegExp(pattern, 'u').test(text), String(text));
    });
  }

  it('matches any pattern of classes, groups and counts', () => {
    const atom = fc.constantFrom('a', '[0-9]', '\\w', '.', '(?:x|yz)', '(k)', '[^a]', '\\.');
    const part = fc
      .tuple(atom, fc.constantFrom('', '?', '*', '+', '{2}', '{1,3}', '{2,}'))
      .map((p) => p.join(''));
    fc.assert(
      fc.property(fc.array(part, { maxLength: 6 }), fc.nat(5), (parts, repeats) => {
        const pattern = `^${parts.join('')}$`;
        assert.match(samplePattern(pattern, repeats) ?? 'undefined!', new RegExp(pattern, 'u'));
      }),
      { numRuns: 300 },
    );
  });

  const refused = ['(?=a)b', '(a)\\1', '\\p{L}', '(', '[a', 'a{1', '*', 'a{999999}', '('.repeat(5000), '\\'];
  for (const pattern of refused) {
    it(`gives up on ${pattern.slice(0, 20)}`, () => {
      assert.equal(samplePattern(pattern, 1), undefined);
    });
  }
});
