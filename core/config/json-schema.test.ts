import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { Type } from 'typebox';
import { parse } from 'yaml';
import { configJsonSchema } from './json-schema.ts';

const plugins = [
  { name: 'auth', description: 'Who calls.' },
  {
    name: 'cache',
    description: 'Answers again.',
    schema: Type.Object({
      mode: Type.Union([Type.Literal('simple'), Type.Literal('semantic')]),
      max_age: Type.Integer({ default: 60 }),
    }),
  },
  {
    name: 'provider',
    schema: Type.Object({
      tree: Type.Optional(
        Type.Cyclic(
          {
            Node: Type.Object(
              { targets: Type.Optional(Type.Array(Type.Ref('Node'))) },
              { additionalProperties: false },
            ),
          },
          'Node',
        ),
      ),
    }),
  },
  {
    name: 'recursive',
    schema: Type.Cyclic({ Node: Type.Object({ next: Type.Optional(Type.Ref('Node')) }) }, 'Node'),
  },
];

describe('configJsonSchema', () => {
  const schema = configJsonSchema(plugins);
  const ajv = new Ajv2020({
    strictSchema: true,
    allErrors: true,
    formats: { date: true, 'date-time': true, uri: true },
  });
  const validate = ajv.compile(schema);
  const file = (entry: string, more = ''): unknown =>
    parse(`version: 1\n${more}\npipelines: [{ name: a, match: { path: / }, plugins: [${entry}] }]`);

  it('is plain JSON of draft 2020-12', () => {
    assert.equal(schema.$schema, 'https://json-schema.org/draft/2020-12/schema');
    assert.deepEqual(JSON.parse(JSON.stringify(schema)), schema);
    assert.equal(ajv.validateSchema(schema), true);
  });

  for (const [entry, more] of [
    ['auth'],
    ['{ auth: {} }'],
    ['{ auth: }'],
    ['{ auth: { on_error: skip, timeout_ms: 5 } }'],
    ['{ cache: { mode: simple } }'],
    ['{ cache: { mode: "${MODE}", max_age: "${AGE:-5}" } }'],
    ['./guards/mine.ts'],
    ['{ ./guards/mine.ts: { anything: [1] } }'],
    ['some-package'],
    ['{ provider: { tree: { targets: [{ targets: [] }] } } }'],
    ['{ recursive: { next: { next: {} } } }'],
    ['auth', 'server: { port: "${PORT}", header_prefix: "x-${TEAM}", operations: "${WHO}" }'],
    ['auth', 'providers: { openai: { api_key: "${KEY}", base_url: "${URL}" } }'],
    ['auth', 'include: [conf.d/*.yaml]'],
  ] as const)
    it(`accepts ${entry} ${more ?? ''}`, () => {
      assert.equal(validate(file(entry, more)), true, JSON.stringify(validate.errors));
    });

  for (const [entry, more] of [
    ['{ auth: { key: 1 } }'],
    ['{ cache: { mode: smple } }'],
    ['{ cache: {} }'],
    ['{ cache: { mode: simple, maxx: 1 } }'],
    ['{ cache: { mode: simple }, auth: {} }'],
    ['{ cache: simple }'],
    ['{ provider: { tree: { targets: [{ targts: [] }] } } }'],
    ['5'],
    ['auth', 'server: { port: many }'],
    ['auth', 'server: { prot: 1 }'],
    ['auth', 'log: { level: loud }'],
  ] as const)
    it(`refuses ${entry} ${more ?? ''}`, () => assert.equal(validate(file(entry, more)), false));

  it('keeps descriptions and defaults where editors look for them', () => {
    const text = JSON.stringify(schema);
    assert.match(text, /"description":"Port; 0 picks a free one[^"]*"/);
    const port = Object(schema).properties.server.properties.port;
    assert.equal(port.default, 8787);
    assert.match(port.description, /^Port/);
  });

  it('does not share anything with the schemas it was made from', () => {
    const first = configJsonSchema(plugins);
    Object(first).properties.server.properties.port.default = 1;
    assert.equal(Object(configJsonSchema(plugins)).properties.server.properties.port.default, 8787);
  });
});
