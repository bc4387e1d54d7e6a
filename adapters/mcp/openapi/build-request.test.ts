import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { callTool, startApi, upstreamOf } from './openapi.test-support.ts';
import { type ApiRequest, ArgumentRefused, buildRequest } from './build-request.ts';
import { type CallPlan, readCatalogue } from './catalogue.ts';
import type { JsonRecord } from './document.ts';

const base = new URL('https://api.example.com/v1/?key=planted');

const object = (...names: readonly string[]): unknown => ({
  type: 'object',
  properties: Object.fromEntries(names.map((name) => [name, {}])),
});

type Refusal = readonly [name: string, args: JsonRecord, told: RegExp];

/** One operation with parameters of every kind. */
const plan = planOf('/shelves/{shelf}/books/{book}.{format}', {
  parameters: [
    ...['shelf', 'book', 'format'].map((name) => ({ name, in: 'path', required: true })),
    { name: 'q', in: 'query' },
    { name: 'list', in: 'query', schema: { type: 'array' } },
    { name: 'csv', in: 'query', explode: false },
    { name: 'ssv', in: 'query', style: 'spaceDelimited', explode: false },
    { name: 'psv', in: 'query', style: 'pipeDelimited', explode: false },
    { name: 'deep[er]', in: 'query', style: 'deepObject' },
    { name: 'range', in: 'query', schema: object('from', 'to', 'key') },
    { name: 'json', in: 'query', content: { 'application/json': {} } },
    { name: 'X-Note', in: 'header' },
    { name: 'X-Map', in: 'header', explode: true },
  ],
  requestBody: { content: { 'application/json': { schema: {} } } },
});

function planOf(path: string, operation: object): CallPlan {
  const text = JSON.stringify({ openapi: '3.1.0', paths: { [path]: { post: operation } } });
  const settings = { documentUrl: undefined, include: undefined, exclude: undefined, headerNames: [] };
  const [tool] = readCatalogue(text, { ...settings, baseUrl: base.href, maxTools: 1 }).tools;
  assert.ok(tool);
  return tool.plan;
}

const whole = { shelf: 's', book: 'b', format: 'f' };
const build = (args: JsonRecord): ApiRequest => buildRequest(plan, base, { ...whole, ...args });
const queryOf = (args: JsonRecord): string => build(args).path.split('?key=planted')[1] ?? '';

describe('requests of tool calls', () => {
  const queries: readonly [name: string, args: JsonRecord, query: string][] = [
    ['a text', { q: 'a&b=c #?/ü' }, '&q=a%26b%3Dc%20%23%3F%2F%C3%BC'],
    ['a number and a truth', { q: 1.5, csv: true }, '&q=1.5&csv=true'],
    ['a long number', { q: 9007199254740993n }, '&q=9007199254740993'],
    ['null', { q: null }, ''],
    ['a list', { list: ['a', 'b,c'] }, '&list=a&list=b%2Cc'],
    ['an empty list', { list: [], csv: [] }, ''],
    ['a list in one parameter', { csv: ['a', 'b,c'] }, '&csv=a,b%2Cc'],
    ['a list with spaces', { ssv: ['a', 'b'] }, '&ssv=a%20b'],
    ['a list with pipes', { psv: ['a', 'b'] }, '&psv=a%7Cb'],
    ['an object in one parameter', { csv: { a: 1, b: 'x' } }, '&csv=a,1,b,x'],
    ['an object by its members', { range: { from: 1, to: 2 } }, '&from=1&to=2'],
    [
      'a deep object',
      { deep_er: { a: 1, b: { c: 'x' }, d: [1, 2] } },
      '&deep%5Ber%5D[a]=1&deep%5Ber%5D[b][c]=x&deep%5Ber%5D[d][]=1&deep%5Ber%5D[d][]=2',
    ],
    ['JSON', { json: { a: [1] } }, '&json=%7B%22a%22%3A%5B1%5D%7D'],
    ['an object in a list', { list: [{ a: 1 }] }, '&list=%7B%22a%22%3A1%7D'],
  ];
  for (const [name, args, query] of queries) {
    test(`${name} in the query`, () => assert.equal(queryOf(args), query));
  }

  test('the path keeps its segments, and what the base URL says', () => {
    assert.equal(
      build({ shelf: 'a/b?c#d;e', book: 'ü.x' }).path,
      '/v1/shelves/a%2Fb%3Fc%23d%3Be/books/%C3%BC.x.f?key=planted',
    );
    assert.equal(build({ shelf: ['a', 'b'] }).path, '/v1/shelves/a,b/books/b.f?key=planted');
    assert.equal(build({ shelf: { a: 1 } }).path, '/v1/shelves/a,1/books/b.f?key=planted');
  });

  const refusals: readonly Refusal[] = [
    ...['.', '..', '../x', 'x/..', 'a/./b', '..\\x', '%2e%2e', '..%2fx', '%252e%252e/x', '.%2E'].map(
      (shelf): Refusal => [`the path segment ${shelf}`, { shelf }, /"shelf" holds "\." or "\.\."/],
    ),
    ['an empty path segment', { shelf: '' }, /"shelf" is no segment of a path/],
    ['an empty list as a segment', { shelf: [] }, /"shelf" is no segment of a path/],
    ['an absent segment', { shelf: undefined }, /"shelf" is missing/],
    ['a line break in a header', { 'X-Note': 'a\r\nX-Other: b' }, /"X-Note" goes into a header/],
    ['a line break in a part of a header', { 'X-Map': { 'a\n': 1 } }, /"X-Map" goes into a header/],
    ['a character no header holds', { 'X-Note': '☃' }, /"X-Note" goes into a header/],
    ['half a character', { q: '\ud800' }, /"q" holds half a character/],
    [
      'a member that the document does not name',
      { range: { from: 1, other: 2 } },
      /"range" has no member "other"/,
    ],
    ['a member that the base URL has', { range: { key: 'mine' } }, /"range" has no member "key"/],
    [
      'a bracket in a name',
      { deep_er: { 'a][b': 1 } },
      /"deep_er" has a member "a\]\[b", which holds a bracket/,
    ],
    ['a URL without end', { q: 'x'.repeat(40_000) }, /a URL of more than 32768 characters/],
  ];
  for (const [name, args, told] of refusals) {
    test(`refused: ${name}`, () => {
      assert.throws(
        () => build(args),
        (error: unknown) => error instanceof ArgumentRefused && told.test(error.message),
      );
    });
  }

  test('a form has its members as parameters', () => {
    const form = planOf('/a', {
      requestBody: {
        content: {
          'application/x-www-form-urlencoded': {
            schema: {},
            encoding: { csv: { style: 'form', explode: false } },
          },
        },
      },
    });
    const body = { name: 'a&b', tags: [1, 2], card: { cvc: '1', at: { y: 2 } }, csv: [1, 2], none: null };
    const { body: sent, headers } = buildRequest(form, base, { body });
    assert.equal(sent?.toString(), 'name=a%26b&tags=1&tags=2&card[cvc]=1&card[at][y]=2&csv=1,2');
    assert.deepEqual(headers, ['content-type', 'application/x-www-form-urlencoded']);
    assert.throws(() => buildRequest(form, base, { body: 'x' }), /sent as a form and must be an object/);
  });

  const value = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.stringMatching(/^[./\\%?#&=;,\r\n 2eEfF[\]]{0,12}$/),
    fc.jsonValue({ maxDepth: 3 }),
    fc.constantFrom(
      '..',
      '../..',
      '%2e%2e/',
      'x/../../y',
      '?a=b',
      '#',
      '\r\nx-other: 1',
      '\u2028',
      '%0d%0a',
      '//h',
      '@h',
    ),
  );
  const allArguments = fc.record(
    Object.fromEntries(plan.parameters.map(({ argument }) => [argument, value])),
    { requiredKeys: ['shelf', 'book', 'format'] },
  );
  const queryNames = /^(q|list|csv|ssv|psv|range|from|to|json|deep\[er\](\[[^[\]]*\])*)$/;

  test('no argument leaves its segment, adds a parameter or adds a header', () => {
    let sent = 0;
    fc.assert(
      fc.property(allArguments, (args) => {
        const request = requestOrRefusal({ ...args, body: args });
        if (request === undefined) return;
        sent += 1;
        assert.match(request.path, /^[\x21-\x7e]*$/);
        const url = new URL(`https://api.example.com${request.path}`);
        assert.equal(url.href, `https://api.example.com${request.path}`);
        assert.equal(url.hash, '');
        assert.match(url.pathname, /^\/v1\/shelves\/[^/]+\/books\/[^/]*\.[^/]*$/);
        const [, ...others] = [...url.searchParams.keys()];
        assert.equal(url.searchParams.getAll('key').join(), 'planted');
        for (const name of others) assert.match(name, queryNames);
        const names = request.headers.filter((_, index) => index % 2 === 0);
        for (const name of names) assert.match(name, /^(x-note|x-map|content-type)$/);
        assert.equal(new Set(names).size, names.length);
        for (const header of request.headers) assert.doesNotMatch(header, /[\r\n\0]/);
        for (const decoded of [
          decodeURIComponent(url.pathname),
          decodeURIComponent(decodeURIComponent(safe(url.pathname))),
        ])
          assert.ok(!decoded.split(/[/\\]/).some((part) => part === '..'), decoded);
      }),
      { numRuns: 3000 },
    );
    assert.ok(sent > 100, `only ${sent} were sent`);
  });

  test('what arrives at the API is what the request says', async (t) => {
    const { parameters } = {
      parameters: plan.parameters.map(({ name, in: place, style, explode }) => ({
        name,
        in: place,
        style,
        explode,
        required: place === 'path',
      })),
    };
    const document = (origin: string): string =>
      JSON.stringify({
        openapi: '3.1.0',
        servers: [{ url: `${origin}/v1` }],
        paths: { '/shelves/{shelf}/books/{book}.{format}': { get: { operationId: 'op', parameters } } },
      });
    const api = await startApi(t, {
      document,
      script: ({ url }, response) => url.startsWith('/v1') && Boolean(response.end('{}')),
    });
    const { upstream } = upstreamOf(t, { document: `${api.origin}/openapi.json` });
    const usual = ['accept', 'accept-encoding', 'connection', 'host', 'user-agent', 'x-map', 'x-note'];
    await fc.assert(
      fc.asyncProperty(allArguments, async (args) => {
        const before = api.calls().length;
        const { isError } = await callTool(upstream, 'op', args);
        const calls = api.calls().slice(before);
        assert.equal(calls.length, isError === true ? 0 : 1);
        for (const { url, headers, body } of calls) {
          assert.match(url.split('?')[0] ?? '', /^\/v1\/shelves\/[^/]+\/books\/[^/]*\.[^/]*$/);
          for (const name of new URL(url, 'http://x').searchParams.keys()) assert.match(name, queryNames);
          for (const name of Object.keys(headers)) assert.ok(usual.includes(name), name);
          assert.equal(body, '');
        }
      }),
      { numRuns: 200 },
    );
  });
});

function requestOrRefusal(args: JsonRecord): ApiRequest | undefined {
  try {
    return buildRequest(plan, base, args);
  } catch (error) {
    assert.ok(error instanceof ArgumentRefused, String(error));
    return undefined;
  }
}

/** The path with `_` for what a second decoding would not read. */
function safe(path: string): string {
  return path.replace(/%25(?![0-9a-fA-F]{2})/g, '_').replace(/%25[89a-fA-F][0-9a-fA-F]/g, '_');
}
