import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compileSchema } from '../../config/ajv.ts';
import { wholeDocument } from '../../../tests/kit/openapi-kit.ts';

/** The members that OpenAPI 3.1 gives each of its objects, of those that the document uses: nothing else is allowed. */
const text = { type: 'string' };
const filled = { type: 'string', minLength: 1 };
const flag = { type: 'boolean' };
const reference = {
  type: 'object',
  properties: {
    $ref: { type: 'string', pattern: '^#/components/(schemas|responses|parameters|headers)/[\\w.-]+$' },
  },
  required: ['$ref'],
  additionalProperties: false,
};
const orReference = (name: string) => ({
  if: { type: 'object', required: ['$ref'] },
  then: reference,
  else: { $ref: `#/$defs/${name}` },
});
const mapOf = (schema: object, names = '^.+$') => ({
  type: 'object',
  patternProperties: { [names]: schema },
  additionalProperties: false,
});
const closed = (properties: object, required: string[] = [], more: object = {}) => ({
  type: 'object',
  properties,
  required,
  additionalProperties: false,
  ...more,
});

const contentMap = mapOf({ $ref: '#/$defs/media' }, '^[\\w*.+-]+/[\\w*.+-]+$');
const schema = { type: 'object' };
const parameter = {
  description: text,
  required: flag,
  deprecated: flag,
  schema,
  example: {},
  name: filled,
  in: { enum: ['path', 'query', 'header', 'cookie'] },
};

const openApi31 = {
  ...closed(
    {
      openapi: { type: 'string', pattern: '^3\\.1\\.\\d+(-.+)?$' },
      info: closed({ title: text, version: text, description: text, summary: text }, ['title', 'version']),
      servers: { type: 'array', items: { $ref: '#/$defs/server' } },
      tags: { type: 'array', items: closed({ name: text, description: text }, ['name']), uniqueItems: true },
      paths: mapOf({ $ref: '#/$defs/pathItem' }, '^/'),
      components: closed({
        schemas: mapOf(schema, '^[a-zA-Z0-9._-]+$'),
        responses: mapOf({ $ref: '#/$defs/response' }, '^[a-zA-Z0-9._-]+$'),
        parameters: mapOf({ $ref: '#/$defs/parameter' }, '^[a-zA-Z0-9._-]+$'),
        headers: mapOf({ $ref: '#/$defs/header' }, '^[a-zA-Z0-9._-]+$'),
        securitySchemes: mapOf({ $ref: '#/$defs/securityScheme' }, '^[a-zA-Z0-9._-]+$'),
      }),
    },
    ['openapi', 'info', 'paths'],
  ),
  $defs: {
    server: closed({ url: filled, description: text }, ['url']),
    pathItem: {
      type: 'object',
      properties: { servers: { type: 'array', items: { $ref: '#/$defs/server' } } },
      patternProperties: { '^(get|put|post|delete|patch)$': { $ref: '#/$defs/operation' } },
      additionalProperties: false,
    },
    operation: closed(
      {
        operationId: filled,
        summary: filled,
        description: text,
        deprecated: flag,
        tags: { type: 'array', items: text, minItems: 1 },
        parameters: { type: 'array', items: orReference('parameter'), uniqueItems: true },
        requestBody: closed({ description: text, content: contentMap, required: flag }, ['content']),
        responses: {
          type: 'object',
          patternProperties: { '^[1-5](\\d\\d|XX)$|^default$': orReference('response') },
          minProperties: 1,
          additionalProperties: false,
        },
        security: { type: 'array', items: mapOf({ type: 'array', items: text }) },
      },
      ['responses'],
      { patternProperties: { '^x-': {} } },
    ),
    parameter: {
      ...closed(parameter, ['name', 'in', 'schema']),
      if: { properties: { in: { const: 'path' } } },
      then: { properties: { required: { const: true } }, required: ['required'] },
    },
    header: closed({ description: text, required: flag, deprecated: flag, schema, example: {} }, ['schema']),
    response: closed({ description: text, headers: mapOf(orReference('header')), content: contentMap }, [
      'description',
    ]),
    // `example` and `examples` exclude each other.
    media: closed({ schema, example: {}, examples: mapOf(closed({ summary: text, value: {} })) }, [], {
      not: { required: ['example', 'examples'] },
    }),
    securityScheme: {
      type: 'object',
      required: ['type'],
      oneOf: [
        closed({ type: { const: 'apiKey' }, in: { enum: ['header'] }, name: filled, description: text }, [
          ...['type', 'in', 'name'],
        ]),
        closed({ type: { const: 'http' }, scheme: filled, description: text }, ['type', 'scheme']),
      ],
    },
  },
};

test('the document has the shape of OpenAPI 3.1, and no member that is not of it', async () => {
  const { document } = await wholeDocument();
  assert.deepEqual(
    compileSchema(openApi31, { all: true })(document, () => undefined),
    [],
  );
});

test('a document of another shape is told', async () => {
  const { document } = await wholeDocument();
  const check = compileSchema(openApi31);
  const { post } = document.paths['/chat/completions'] as any;
  for (const broken of [
    { ...document, openapi: '3.0.3' },
    { ...document, paths: { 'no-slash': {} } },
    { ...document, paths: { '/a': { fetch: post } } },
    { ...document, paths: { '/a': { post: { ...post, responses: { ok: { description: '' } } } } } },
    {
      ...document,
      paths: { '/a': { post: { ...post, parameters: [{ name: 'a', in: 'path', schema: {} }] } } },
    },
    { ...document, components: { schemas: { 'a b': {} } } },
  ])
    assert.notDeepEqual(check(broken), []);
});
