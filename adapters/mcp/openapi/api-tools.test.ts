import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { gzipSync } from 'node:zlib';
import type { McpUpstream } from '../../../core/ports/mcp.ts';
import type { OpenapiTarget } from './catalogue-source.ts';
import {
  type Api,
  callTool,
  type Called,
  libraryDocument,
  sendTo,
  startApi,
  upstreamOf,
} from './openapi.test-support.ts';

type Script = NonNullable<NonNullable<Parameters<typeof startApi>[1]>['script']>;

/** The library with its upstream; `script` answers calls alone. */
async function library(
  t: TestContext,
  script: Script = () => false,
  target: Partial<OpenapiTarget> = {},
): Promise<{ readonly api: Api; readonly upstream: McpUpstream }> {
  const api = await startApi(t, {
    script: (arrived, response) => !arrived.url.startsWith('/openapi.') && script(arrived, response),
  });
  const { upstream } = upstreamOf(t, { document: `${api.origin}/openapi.yaml`, ...target });
  return { api, upstream };
}

const textOf = ({ content }: Called): string => content[0]?.text ?? '';

describe('answers of the API as results of tools', () => {
  test('each kind of answer has its kind of content, and digits of long numbers stay', async (t) => {
    const { api, upstream } = await library(t);
    const bookId = 'b1';
    const read = await callTool(upstream, 'readBook', { bookId });
    assert.equal(textOf(read), '{"id":"b1","title":"Dune","copies":9007199254740993}');
    assert.equal(read.isError, undefined);
    const list = await callTool(upstream, 'listBooks', {});
    assert.deepEqual([textOf(list), list.structuredContent], ['[{"id":"b1","title":"Dune"}]', undefined]);
    assert.deepEqual((await callTool(upstream, 'readCover', { bookId })).content, [
      { type: 'image', mimeType: 'image/png', data: 'iVBORw==' },
    ]);
    assert.deepEqual((await callTool(upstream, 'readPages', { bookId })).content, [
      {
        type: 'resource',
        resource: { uri: 'api://library/readPages', mimeType: 'application/pdf', blob: 'JVBERi0xLjc=' },
      },
    ]);
    assert.equal(textOf(await callTool(upstream, 'readBlurb', { bookId })), 'café');
    assert.equal(
      textOf(await callTool(upstream, 'delete_book', { bookId })),
      'The API answered 204 without a body.',
    );
    assert.equal(
      textOf(await callTool(upstream, 'addBook', { body: { title: 'Dune' } })),
      'The API answered 201 without a body (location: /v1/books/b2).',
    );
    assert.match(
      textOf(await callTool(upstream, 'probeBook', { bookId })),
      /answered 200\.\n.*\netag: "b7"$/s,
    );
    const call = (name: string, args: string): string =>
      `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"${name}","arguments":${args}}}`;
    const { text } = await sendTo(upstream, call('readBook', '{"bookId":"b1"}'));
    assert.match(text, /"structuredContent":\{"id":"b1","title":"Dune","copies":9007199254740993\}/);
    await sendTo(upstream, call('addBook', '{"body":{"title":"x","shelf":{"number":12345678901234567890}}}'));
    assert.equal(api.calls().at(-1)?.body, '{"title":"x","shelf":{"number":12345678901234567890}}');
  });

  test('errors of the API are results with their status and a piece of their body', async (t) => {
    const { upstream } = await library(t, ({ url }, response) => {
      const status = Number(/limit=(\d+)/.exec(url)?.[1] ?? 0) + 400;
      if (status === 400) return false;
      response.writeHead(status, { 'content-type': status === 403 ? 'image/png' : 'text/html' });
      response.end(status === 502 ? '' : 'x'.repeat(10_000));
      return true;
    });
    const missing = await callTool(upstream, 'readBook', { bookId: 'b404' });
    assert.deepEqual(
      [missing.isError, textOf(missing)],
      [true, 'The API answered 404:\n{"error":"There is no such book."}'],
    );
    const long = await callTool(upstream, 'listBooks', { limit: 100 });
    assert.equal(textOf(long), `The API answered 500:\n${'x'.repeat(4096)}… (cut)`);
    const picture = await callTool(upstream, 'listBooks', { limit: 3 });
    assert.equal(textOf(picture), 'The API answered 403 with 10000 bytes of image/png.');
  });

  test('a redirect is told and not followed', async (t) => {
    const { api, upstream } = await library(t, (_, response) =>
      Boolean(response.writeHead(302, { location: 'http://127.0.0.1:1/next' }).end()),
    );
    const { isError, content } = await callTool(upstream, 'listBooks', {});
    assert.deepEqual(
      [isError, content[0]?.text],
      [true, 'The API answered 302: it redirects to http://127.0.0.1:1/next, which is not followed.'],
    );
    assert.equal(api.calls().length, 1);
  });

  test('an answer that says JSON and is none is repeated as text', async (t) => {
    const { upstream } = await library(t, (_, response) =>
      Boolean(response.writeHead(200, { 'content-type': 'application/json' }).end('{"a":')),
    );
    assert.deepEqual(await callTool(upstream, 'listBooks', {}), {
      content: [{ type: 'text', text: '{"a":' }],
    });
  });

  const failures: readonly [name: string, script: Script, told: RegExp][] = [
    [
      'too long, as announced',
      (_, response) => Boolean(response.end('x'.repeat(2000))),
      /larger than 1000 bytes/,
    ],
    [
      'too long, in pieces',
      (_, response) => {
        response.write('x'.repeat(900));
        return Boolean(response.end('x'.repeat(900)));
      },
      /larger than 1000 bytes/,
    ],
    [
      'compressed',
      (_, response) => Boolean(response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync('{}'))),
      /a compressed answer/,
    ],
    [
      'cut',
      (_, response) =>
        Boolean(response.writeHead(200, { 'content-length': 9 }).write('x', () => response.destroy())),
      /closed the connection/,
    ],
    ['no answer in time', () => true, /sent no (whole )?answer within 200 ms/],
    [
      'no end in time',
      (_, response) => Boolean(response.write('x') || true),
      /sent no whole answer within 200 ms/,
    ],
  ];
  test('a failed call is a result that says why', async (t) => {
    let current: Script = () => false;
    const { upstream } = await library(t, (arrived, response) => current(arrived, response), {
      maxAnswerBytes: 1000,
      timeoutMs: 200,
    });
    for (const [name, script, told] of failures) {
      await t.test(name, async () => {
        current = script;
        const result = await callTool(upstream, 'listBooks', {});
        assert.equal(result.isError, true);
        assert.match(textOf(result), told);
      });
    }
  });

  test('an API that is not there is a result that says so', async (t) => {
    const { upstream } = await library(t, undefined, { baseUrl: 'http://127.0.0.1:1/v1' });
    const result = await callTool(upstream, 'listBooks', {});
    assert.match(
      textOf(result),
      /^The API brought no answer: cannot connect to 127\.0\.0\.1:1: ECONNREFUSED/,
    );
  });
});

describe('arguments of tools', () => {
  test('mistakes are told with their places, and nothing is sent', async (t) => {
    const { api, upstream } = await library(t);
    const told = async (name: string, args: unknown): Promise<string> => {
      const result = await callTool(upstream, name, args);
      assert.equal(result.isError, true);
      return textOf(result);
    };
    assert.match(await told('readBook', {}), /\/bookId: missing key "bookId": text/);
    assert.match(await told('readBook', { bookId: 7 }), /\/bookId: expected text, found 7/);
    const several = await told('listBooks', { limit: 'many', tags: ['a'] });
    assert.match(several, /\/limit: expected a whole number/);
    assert.match(several, /\/tags: unknown key "tags"; did you mean "tag"\?/);
    assert.match(await told('addBook', { body: { pages: 1 } }), /\/body\/title: missing key "title"/);
    assert.match(
      await told('addBook', { body: { title: 'x', isbn: '12' } }),
      /\/body\/isbn: expected text that matches/,
    );
    assert.match(
      await told('PATCH_readers_reader_loans_loan', { reader: 1, loan: 'x' }),
      /\/loan: expected a UUID/,
    );
    assert.match(await told('readBook', { bookId: '../admin' }), /"bookId" holds "\." or "\.\."/);
    let deep: unknown = 1;
    for (let i = 0; i < 100; i += 1) deep = [deep];
    assert.match(await told('addBook', { body: { title: 'x', deep } }), /nested more than 64 deep/);
    assert.equal(api.calls().length, 0);
  });

  test('a pattern takes no time that grows with the power of the text', async (t) => {
    const document = (origin: string): string =>
      JSON.stringify({
        openapi: '3.1.0',
        paths: {
          '/a': {
            servers: [{ url: origin }],
            get: { parameters: [{ name: 'q', in: 'query', schema: { type: 'string', pattern: '^(a+)+$' } }] },
          },
        },
      });
    const api = await startApi(t, { document });
    const { upstream } = upstreamOf(t, { document: `${api.origin}/openapi.json` });
    const result = await callTool(upstream, 'GET_a', { q: `${'a'.repeat(5000)}!` });
    assert.match(textOf(result), /\/q: expected text that matches/);
  });

  test('null stands for a parameter that is left out, and a form is sent as a form', async (t) => {
    const { api, upstream } = await library(t);
    await callTool(upstream, 'listBooks', { limit: null, tag: null, 'page.cursor': null, 'X-Branch': null });
    assert.equal(api.calls()[0]?.url, '/v1/books');
    const loan = '0f9a4c1e-8a77-4b1b-9d39-9a7f5f0f6c11';
    const body = { until: '2026-01-31', notes: ['a', 'b'], fine: { cents: 5 } };
    await callTool(upstream, 'PATCH_readers_reader_loans_loan', { reader: 7, loan, body });
    const call = api.calls()[1];
    assert.deepEqual(
      [call?.url, call?.headers['content-type'], call?.body],
      [
        `/v1/readers/7/loans/${loan}`,
        'application/x-www-form-urlencoded',
        'until=2026-01-31&notes=a&notes=b&fine[cents]=5',
      ],
    );
  });
});

describe('headers and hosts of calls', () => {
  test('the headers of the configuration win, those of the connection are added, and none of the protocol pass', async (t) => {
    const { api, upstream } = await library(t, undefined, {
      headers: ['Authorization', 'Bearer of-the-api', 'Accept', 'application/vnd.library+json'],
    });
    const headers = [
      ...['authorization', 'Bearer of-another', 'x-user-token', 'of-the-user', 'traceparent', '00-1-2-01'],
      ...[
        'mcp-session-id',
        's',
        'host',
        'evil.example.com',
        'content-length',
        '999',
        'connection',
        'x-user-token',
      ],
      ...['transfer-encoding', 'chunked', 'content-type', 'text/plain', 'x-branch', 'of-the-connection'],
    ];
    await callTool(upstream, 'listBooks', { 'X-Branch': 'of-the-argument' }, { headers });
    const [call] = api.calls();
    const { host, ...sent } = call?.headers ?? {};
    assert.equal(host, new URL(api.origin).host);
    delete sent.connection;
    assert.deepEqual(sent, {
      authorization: 'Bearer of-the-api',
      accept: 'application/vnd.library+json',
      'x-user-token': 'of-the-user',
      traceparent: '00-1-2-01',
      'x-branch': 'of-the-connection',
      'user-agent': 'weir',
      'accept-encoding': 'identity',
    });
  });

  const secrets = { headers: ['x-library-key', 'planted'] };
  const request = { headers: ['authorization', 'Bearer planted', 'traceparent', '00-1-2-01'] };

  test('a host that only a fetched document names is not called when it is private', async (t) => {
    const api = await startApi(t);
    const elsewhere = await startApi(t, { document: () => libraryDocument(api.origin) });
    const { upstream, log } = upstreamOf(t, { document: `${elsewhere.origin}/openapi.yaml`, ...secrets });
    const result = await callTool(upstream, 'listBooks', {}, request);
    assert.equal(result.isError, true);
    assert.match(textOf(result), /private, reserved or otherwise special address/);
    assert.equal(api.arrived.length, 0);
    assert.ok(log.lines.some(({ message }) => message.includes('private, reserved')));
  });

  test('such a host that is trusted is called without credentials, and the log says why', async (t) => {
    const api = await startApi(t);
    const elsewhere = await startApi(t, { document: () => libraryDocument(api.origin) });
    const document = `${elsewhere.origin}/openapi.yaml`;
    const { upstream, log } = upstreamOf(t, { document, ...secrets }, { trusted: ['127.0.0.1'] });
    await callTool(upstream, 'listBooks', {}, request);
    const { headers } = api.calls()[0] ?? {};
    assert.deepEqual(
      [headers?.['x-library-key'], headers?.authorization, headers?.['traceparent']],
      [undefined, undefined, '00-1-2-01'],
    );
    assert.ok(log.lines.some(({ message }) => message.includes('set base_url')));
    assert.doesNotMatch(JSON.stringify([...elsewhere.arrived, log.lines]), /planted/);
  });

  test('base_url names the host: it gets the credentials, and the place of the document does not', async (t) => {
    const api = await startApi(t);
    const elsewhere = await startApi(t, { document: () => libraryDocument('https://unknown.example.com') });
    const document = `${elsewhere.origin}/openapi.yaml`;
    const { upstream } = upstreamOf(t, { document, baseUrl: `${api.origin}/v1`, ...secrets });
    await callTool(upstream, 'listBooks', {}, request);
    assert.equal(api.calls()[0]?.headers['x-library-key'], 'planted');
    assert.doesNotMatch(JSON.stringify(elsewhere.arrived), /planted/);
  });

  const servers: readonly [url: string, told: RegExp][] = [
    ['ftp://files.example.com/', /must be http or https/],
    ['https://user:pass@api.example.com/', /carries credentials/],
    ['http://169.254.169.254/latest', /private, reserved/],
    ['http://localhost:9/', /private network/],
  ];
  test('a place that is no public HTTP host is not called', async (t) => {
    const paths = Object.fromEntries(
      servers.map(([url], index) => [`/s${index}`, { servers: [{ url }], get: {} }]),
    );
    const api = await startApi(t, { document: () => JSON.stringify({ openapi: '3.0.0', paths }) });
    const { upstream } = upstreamOf(t, { document: `${api.origin}/openapi.json` });
    for (const [index, [url, told]] of servers.entries())
      await t.test(url, async () =>
        assert.match(textOf(await callTool(upstream, `GET_s${index}`, {})), told),
      );
  });
});
