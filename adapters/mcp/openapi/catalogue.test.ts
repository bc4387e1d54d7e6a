import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { compileSchema } from '../../../core/config/ajv.ts';
import { type Catalogue, type CatalogueSettings, type ListedTool, readCatalogue } from './catalogue.ts';
import { libraryDocument } from './openapi.test-support.ts';
import { isJsonObject } from '../../../core/base/json.ts';

const settings: CatalogueSettings = {
  documentUrl: undefined,
  baseUrl: undefined,
  include: undefined,
  exclude: undefined,
  maxTools: 1000,
  headerNames: [],
};

const library = (changes: Partial<CatalogueSettings> = {}): Catalogue =>
  readCatalogue(libraryDocument('https://api.example.com'), { ...settings, ...changes });

/** A document of 3.1 with these paths. */
const read = (paths: unknown, more: object = {}, changes: Partial<CatalogueSettings> = {}): Catalogue =>
  readCatalogue(
    JSON.stringify({ openapi: '3.1.0', servers: [{ url: 'https://a.example.com' }], paths, ...more }),
    {
      ...settings,
      ...changes,
    },
  );

const listed = ({ tools }: Catalogue, name: string): ListedTool => {
  const found = tools.find((tool) => tool.listed.name === name);
  assert.ok(found, `${name} among ${tools.map((tool) => tool.listed.name).join()}`);
  return found.listed;
};

/** A schema within the arguments of a tool. */
function within(tool: ListedTool, ...path: readonly string[]): unknown {
  let value: unknown = tool.inputSchema;
  for (const name of path) value = isJsonObject(value) ? value[name] : undefined;
  return value;
}

/** An operation with a JSON body of this schema. */
const taking = (schema: unknown): unknown => ({
  operationId: 'op',
  requestBody: { content: { 'application/json': { schema } } },
});

describe('tools of an OpenAPI document', () => {
  test('name, texts and hints come from the operation', () => {
    const catalogue = library();
    assert.deepEqual(catalogue.leftOut, []);
    const books = listed(catalogue, 'listBooks');
    assert.deepEqual(
      [books.title, books.description, books.annotations],
      ['Lists books', 'Lists books, the newest first.', { readOnlyHint: true }],
    );
    const gone = listed(catalogue, 'delete_book');
    assert.equal(gone.description, 'Deprecated.\n\nRemoves a book');
    assert.deepEqual(gone.annotations, { readOnlyHint: false, destructiveHint: true, idempotentHint: true });
    assert.equal(listed(catalogue, 'probeBook').description, 'HEAD /books/{bookId}');
    assert.deepEqual(listed(catalogue, 'replaceBook').annotations, {
      readOnlyHint: false,
      idempotentHint: true,
    });
    assert.equal(catalogue.tools[0]?.plan.server, 'https://api.example.com/v1');
  });

  test('parameters become arguments of one schema, with those of the path item', () => {
    const { inputSchema } = listed(library(), 'listBooks');
    assert.deepEqual(inputSchema, {
      type: 'object',
      properties: {
        'X-Branch': { type: 'string', maxLength: 20 },
        limit: { type: 'integer', exclusiveMinimum: 0, maximum: 100 },
        tag: { type: 'array', items: { type: 'string' } },
        fields: { type: 'array', items: { type: 'string' } },
        filter: { type: 'object', properties: { author: { type: 'string' }, year: { type: 'integer' } } },
        range: { type: 'object', properties: { from: { type: 'integer' }, to: { type: 'integer' } } },
        'page.cursor': { type: ['string', 'null'] },
      },
      additionalProperties: false,
    });
    assert.deepEqual(listed(library(), 'readBook').inputSchema['required'], ['bookId']);
  });

  test('credentials, cookies and headers of the connection are no arguments', () => {
    const loan = listed(library(), 'PATCH_readers_reader_loans_loan');
    assert.deepEqual(Object.keys(within(loan, 'properties') as object), ['reader', 'loan', 'body']);
    const books = listed(library({ headerNames: ['x-branch'] }), 'listBooks');
    assert.equal(within(books, 'properties', 'X-Branch'), undefined);
    const based = listed(library({ baseUrl: 'https://b.example.com/?limit=5' }), 'listBooks');
    assert.equal(within(based, 'properties', 'limit'), undefined);
  });

  test('references are written out, and one that leads back to itself becomes a note', () => {
    const book = listed(library(), 'addBook');
    assert.deepEqual(book.inputSchema['required'], ['body']);
    assert.deepEqual(within(book, 'properties', 'body', 'properties'), {
      title: { type: 'string', examples: ['Dune'] },
      pages: { type: ['integer', 'null'], format: 'int32' },
      isbn: { type: 'string', pattern: '^(97(8|9))?\\d{9}(\\d|X)$' },
      shelf: {
        type: 'object',
        properties: {
          name: { type: 'string' },
          inside: { description: 'Recursive: as "Shelf" above, and not described again.' },
        },
      },
    });
    assert.deepEqual(within(book, 'properties', 'body', 'required'), ['title']);
  });

  test('what stands beside a reference applies in 3.1', () => {
    const components = { schemas: { Name: { type: 'string', description: 'A name.' } } };
    const $ref = '#/components/schemas/Name';
    const paths = {
      '/a': {
        post: taking({ properties: { one: { $ref, description: 'Of one.' }, two: { $ref, maxLength: 3 } } }),
      },
    };
    const tool = listed(read(paths, { components }), 'op');
    assert.deepEqual(within(tool, 'properties', 'body', 'properties'), {
      one: { type: 'string', description: 'Of one.' },
      two: { allOf: [{ type: 'string', description: 'A name.' }, { maxLength: 3 }] },
    });
  });

  test('names are unique and of allowed characters, whatever the document calls its operations', () => {
    const get = (operationId?: string): unknown => ({ get: { operationId } });
    const paths = {
      '/a': get('pets.list'),
      '/b': get('pets list'),
      '/c/{x}-d': get(),
      '/d': get('ß'),
      '/e': get('n'.repeat(90)),
    };
    const parameters = [{ name: 'x', in: 'path', required: true }];
    const { tools } = read({ ...paths, '/c/{x}-d': { get: { parameters } } });
    const names = tools.map((tool) => tool.listed.name);
    assert.deepEqual([names[0], names[2], names[3]], ['pets_list', 'GET_c_x_-d', 'GET_d']);
    assert.match(names[1] ?? '', /^pets_list_[0-9a-f]{8}$/);
    assert.match(names[4] ?? '', /^n{55}_[0-9a-f]{8}$/);
    assert.equal(new Set(names).size, 5);
    for (const name of names) assert.match(name, /^[a-zA-Z0-9_-]{1,64}$/);
  });

  test('arguments of one name in several places are told apart', () => {
    const parameters = ['path', 'query', 'header'].map((place) => ({
      name: 'id',
      in: place,
      required: true,
    }));
    const tool = listed(
      read({
        '/a/{id}': {
          post: {
            ...(taking({}) as object),
            parameters: [...parameters, { name: 'body', in: 'query' }, { name: 'filter[tag]', in: 'query' }],
          },
        },
      }),
      'op',
    );
    const names = ['id', 'id_query', 'id_header', 'body', 'filter_tag', 'body_request'];
    assert.deepEqual(Object.keys(within(tool, 'properties') as object), names);
  });

  test('include and exclude choose by operation id or method and path', () => {
    const names = (changes: Partial<CatalogueSettings>): readonly string[] =>
      library(changes).tools.map((tool) => tool.listed.name);
    assert.deepEqual(names({ include: ['listBooks', 'PUT /books/*'] }), ['listBooks', 'replaceBook']);
    assert.deepEqual(names({ include: ['*Book*'], exclude: ['HEAD *', 'POST *', 'PUT *'] }), [
      'listBooks',
      'readBook',
    ]);
    assert.deepEqual(names({ include: ['read*', 'GET /books'], exclude: ['*/cover', '*/pages'] }), [
      'listBooks',
      'readBook',
      'readBlurb',
    ]);
    const { leftOut } = library({ include: ['listBooks', 'listbooks'] });
    assert.match(leftOut.join(), /"include" names "listbooks", which no operation matches/);
  });

  test('operations beyond the bound are left out, and the list says so', () => {
    const { tools, leftOut } = library({ maxTools: 4 });
    assert.equal(tools.length, 4);
    assert.deepEqual(leftOut, ['6 operations over "max_tools" (4); choose with "include"']);
  });

  const mistakes: readonly [name: string, paths: unknown, told: RegExp][] = [
    [
      'another document',
      { '/a': { post: taking({ $ref: 'b.yaml#/Pet' }) } },
      /^\/paths\/~1a\/post\/requestBody\/content\/application~1json\/schema\/\$ref: it refers to another document/,
    ],
    [
      'another document by URL',
      { '/a': { $ref: 'https://b.example.com/x' } },
      /^\/paths\/~1a\/\$ref: it refers to another document/,
    ],
    [
      'nothing there',
      { '/a': { post: taking({ $ref: '#/components/schemas/Pet' }) } },
      /schema\/\$ref: nothing is at "\/components\/schemas\/Pet"/,
    ],
    [
      'a reference to itself',
      { '/a': { $ref: '#/paths/~1a' } },
      /\/paths\/~1a\/\$ref: the reference leads back to itself/,
    ],
    ['no pointer', { '/a': { post: taking({ $ref: '#Pet' }) } }, /the reference is no JSON pointer/],
    ['a schema that is a list', { '/a': { post: taking([]) } }, /schema: a schema is an object/],
    [
      'a name without a parameter',
      { '/a/{id}': { get: {} } },
      /^\/paths\/~1a~1\{id\}: no parameter in "path" describes "id"; add it/,
    ],
    ['a path with a query', { '/a?x=1': { get: {} } }, /a path holds no "\?"/],
    ['a path that climbs', { '/a/../b': { get: {} } }, /a path holds no/],
    ['a path without its slash', { a: { get: {} } }, /^\/paths\/a: a path begins with "\/"/],
    [
      'a parameter without a place',
      { '/a': { get: { parameters: [{ name: 'x' }] } } },
      /\/paths\/~1a\/get\/parameters\/0: a parameter has a "name" and "in"/,
    ],
    [
      'a parameter of the body',
      { '/a': { get: { parameters: [{ name: 'x', in: 'body' }] } } },
      /parameters\/0\/in: it is "path", "query"/,
    ],
    [
      'a style that is not written',
      { '/a/{x}': { get: { parameters: [{ name: 'x', in: 'path', style: 'matrix' }] } } },
      /parameters\/0\/style: this style is not written/,
    ],
    [
      'an upload',
      { '/a': { post: { requestBody: { required: true, content: { 'multipart/form-data': {} } } } } },
      /requestBody: the body is "multipart\/form-data", and tools send JSON or a form; leave the operation out with "exclude"/,
    ],
    [
      'a server without a default',
      { '/a': { servers: [{ url: 'https://{x}.example.com' }], get: {} } },
      /\/paths\/~1a\/servers\/0\/url: a variable of the URL has no default; set "base_url"/,
    ],
    [
      'a relative server of a file',
      { '/a': { servers: [{ url: '/v1' }], get: {} } },
      /\/paths\/~1a\/servers\/0\/url: no complete URL of the API comes of it; set "base_url"/,
    ],
    [
      'arguments beyond every bound',
      {
        '/a': {
          get: {
            parameters: Array.from({ length: 4000 }, (_, index) => ({ name: `p${index}`, in: 'query' })),
          },
        },
      },
      /\/paths\/~1a\/get: its arguments take more than 32768 characters/,
    ],
  ];
  for (const [name, paths, told] of mistakes) {
    test(`an operation with a mistake is left out with its place and a remedy: ${name}`, () => {
      const { tools, leftOut } = read({ '/good': { get: {} }, ...(paths as object) });
      assert.deepEqual(
        tools.map((tool) => tool.listed.name),
        ['GET_good'],
      );
      assert.match(leftOut.join('\n'), told);
    });
  }

  const unusable: readonly [name: string, text: string, told: RegExp][] = [
    ['cut JSON', '{"openapi":', /^it is no JSON: it ends too early$/],
    [
      'wrong JSON',
      '{\n  "openapi": "3.0.0",\n  secret }',
      /^it is no JSON from line 3, column 3 on; correct it there$/,
    ],
    [
      'wrong YAML',
      'openapi: 3.0.0\npaths:\n  - a\n b: secret',
      /^it is no YAML \([a-z ]+\) at line \d, column \d+; correct it there$/,
    ],
    ['a text', 'hello', /^it is no object with "openapi"/],
    ['Swagger 2.0', '{"swagger":"2.0"}', /^\/swagger: it is of Swagger 2\.0; convert it/],
    ['a later version', '{"openapi":"4.0.0"}', /^\/openapi: the version must be/],
    ['a version that is a number', 'openapi: 3.1\npaths: {}', /^\/openapi: the version must be a text/],
    ['no paths', '{"openapi":"3.0.0"}', /^\/paths: it must be an object/],
    [
      'no operations',
      '{"openapi":"3.0.0","paths":{}}',
      /^\/paths: no operation becomes a tool: it has none$/,
    ],
    [
      'no server',
      '{"openapi":"3.0.0","paths":{"/a":{"get":{}}}}',
      /\/servers: no complete URL .* set "base_url"/,
    ],
    ['brackets without end', `openapi: ${'['.repeat(5000)}`, /^it is nested more than 100 deep/],
    ['dashes without end', `openapi: ${'- '.repeat(100_000)}`, /^it is nested more than 100 deep/],
    ['nested JSON', `{"openapi":${'['.repeat(200)}${']'.repeat(200)}}`, /^it is nested more than 100 deep/],
    ['an alias within itself', 'openapi: 3.0.0\npaths: &a { /a: *a }', /nested more than 100 deep|aliases/],
    ['aliases that multiply', aliases(), /aliases repeat too much|more than 1000000 values/],
  ];
  for (const [name, text, told] of unusable) {
    test(`a document that cannot be used is refused with the reason: ${name}`, () => {
      assert.throws(() => readCatalogue(text, settings), { name: 'DocumentMistake', message: told });
    });
  }

  test('schemas that grow with each reference are cut where they become too large', () => {
    const schemas = Object.fromEntries(
      Array.from({ length: 40 }, (_, index) => {
        const next = index === 39 ? { type: 'string' } : { $ref: `#/components/schemas/S${index + 1}` };
        return [`S${index}`, { type: 'object', properties: { a: next, b: next, c: next } }];
      }),
    );
    const tool = listed(
      read({ '/a': { post: taking({ $ref: '#/components/schemas/S0' }) } }, { components: { schemas } }),
      'op',
    );
    const json = JSON.stringify(tool.inputSchema);
    assert.ok(json.length <= 32_768 && json.includes('Not described further.'), String(json.length));
    assert.deepEqual(compileSchema(tool.inputSchema, { foreign: true })({ body: { a: { b: {} } } }), []);
  });

  test('keywords that are no JSON Schema say nothing, and the rest still checks', () => {
    const schema = {
      type: 'object',
      required: 'a',
      properties: {
        a: {
          type: 'file',
          minLength: -1,
          pattern: 3,
          enum: [],
          $id: 'x',
          format: 'colour',
          xml: {},
          required: true,
        },
        b: { type: 'string', pattern: '^(?=.*x)', maxLength: 2, minimum: '3' },
        c: { type: 'array', items: { type: 'object' }, uniqueItems: true },
      },
    };
    const tool = listed(read({ '/a': { post: taking(schema) } }), 'op');
    const check = compileSchema(tool.inputSchema, { foreign: true });
    assert.deepEqual(check({ body: { a: 5, b: 'zz', c: [{}, {}] } }), []);
    assert.match(check({ body: { b: 'zzz' } })[0]?.message ?? '', /at most 2 characters/);
  });
});

/** Nine levels of ten references each. */
function aliases(): string {
  const levels = Array.from({ length: 9 }, (_, index) => {
    const inner = index === 0 ? 'x' : `*a${index - 1}`;
    return `k${index}: &a${index} [${Array(10).fill(inner).join(', ')}]`;
  });
  return `openapi: 3.0.0\n${levels.join('\n')}\n`;
}
