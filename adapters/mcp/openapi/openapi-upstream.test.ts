import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, test } from 'node:test';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import {
  callTool,
  clientTransport,
  libraryDocument,
  sendTo,
  startApi,
  upstreamOf,
} from './openapi.test-support.ts';

const initialize = (protocolVersion: string): string =>
  JSON.stringify({
    jsonrpc: '2.0',
    id: 'a',
    method: 'initialize',
    params: { protocolVersion, capabilities: {} },
  });

interface Message {
  readonly id?: unknown;
  readonly result?: Readonly<Record<string, unknown>>;
  readonly error?: { readonly code: number; readonly message: string };
}

describe('an HTTP API as an MCP server', () => {
  test("the protocol's own client lists its operations and calls them", async (t) => {
    const api = await startApi(t);
    const { upstream } = upstreamOf(t, {
      document: `${api.origin}/openapi.yaml`,
      headers: ['x-library-key', 'k1'],
    });
    const client = new Client({ name: 'test', version: '1' });
    await client.connect(clientTransport(upstream));
    assert.deepEqual(client.getServerVersion(), { name: 'Library', version: '2.1.0' });
    assert.deepEqual(client.getServerCapabilities(), { tools: {} });
    await client.ping();
    const { tools } = await client.listTools();
    assert.deepEqual(
      tools.map(({ name }) => name),
      [
        ...[
          'listBooks',
          'addBook',
          'readBook',
          'probeBook',
          'replaceBook',
          'delete_book',
          'readCover',
          'readPages',
        ],
        ...['readBlurb', 'PATCH_readers_reader_loans_loan'],
      ],
    );
    const book = await client.callTool({ name: 'readBook', arguments: { bookId: 'b 1/é' } });
    assert.equal((book.structuredContent as { title?: unknown }).title, 'Dune');
    const [call] = api.calls();
    assert.deepEqual([call?.method, call?.url], ['GET', '/v1/books/b%201%2F%C3%A9']);
    assert.equal(call?.headers['x-library-key'], 'k1');
    await client.close();
  });

  test('the document is read once, with the first request, from a file or a URL, as YAML or JSON', async (t) => {
    const folder = await mkdtemp(path.join(tmpdir(), 'openapi-'));
    t.after(() => rm(folder, { recursive: true }));
    const api = await startApi(t);
    const document = path.join(folder, 'api.json');
    const json = {
      openapi: '3.1.0',
      info: { title: 'Small', version: '1' },
      servers: [{ url: `${api.origin}/v1` }],
      paths: { '/books': { get: {} } },
    };
    await writeFile(document, JSON.stringify(json));
    const ofFile = upstreamOf(t, { document });
    assert.match((await callTool(ofFile.upstream, 'GET_books', {})).content[0]?.text ?? '', /Dune/);
    const ofUrl = upstreamOf(t, { document: `${api.origin}/openapi.yaml` });
    assert.equal(api.arrived.filter(({ url }) => url.startsWith('/openapi')).length, 0);
    await Promise.all(['a', 'b', 'c'].map((bookId) => callTool(ofUrl.upstream, 'readBook', { bookId })));
    assert.equal(api.arrived.filter(({ url }) => url.startsWith('/openapi')).length, 1);
  });

  const refusals: readonly [name: string, body: string, status: number, code: number][] = [
    ['no JSON', '{"jsonrpc"', 400, -32_700],
    ['no message', '{"id":1,"method":"ping"}', 400, -32_600],
    ['an id of null', '{"jsonrpc":"2.0","id":null,"method":"ping"}', 400, -32_600],
    ['a text', '"ping"', 400, -32_600],
    ['an empty list', '[]', 400, -32_600],
    ['an unknown method', '{"jsonrpc":"2.0","id":1,"method":"prompts/list"}', 200, -32_601],
    ['params that are a list', '{"jsonrpc":"2.0","id":1,"method":"tools/list","params":[]}', 200, -32_602],
    [
      'an unknown cursor',
      '{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"9"}}',
      200,
      -32_602,
    ],
    ['an unknown tool', '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}', 200, -32_602],
    ['a tool without a name', '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}', 200, -32_602],
    [
      'arguments that are a text',
      '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"readBook","arguments":"b1"}}',
      200,
      -32_602,
    ],
  ];
  test('the protocol version of the client is kept when it is known, and what is no request is refused', async (t) => {
    const api = await startApi(t);
    const { upstream } = upstreamOf(t, { document: `${api.origin}/openapi.yaml` });
    const agreed = async (version: string): Promise<unknown> => {
      const { head, text } = await sendTo(upstream, initialize(version));
      assert.deepEqual(
        [head?.status, head?.contentType, head?.sessionId],
        [200, 'application/json', undefined],
      );
      return (JSON.parse(text) as Message).result?.['protocolVersion'];
    };
    for (const version of ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05'])
      await t.test(version, async () => assert.equal(await agreed(version), version));
    await t.test('an unknown version', async () => assert.equal(await agreed('1999-01-01'), '2025-11-25'));
    for (const [name, body, status, code] of refusals) {
      await t.test(`refused: ${name}`, async () => {
        const { head, text } = await sendTo(upstream, body);
        assert.deepEqual([head?.status, (JSON.parse(text) as Message).error?.code], [status, code]);
      });
    }
    assert.equal(api.calls().length, 0);
  });

  test('notifications and responses are taken without an answer, and there is no stream to open', async (t) => {
    const { upstream } = upstreamOf(t, { document: '/nowhere/api.yaml' });
    for (const body of [
      '{"jsonrpc":"2.0","method":"notifications/initialized"}',
      '{"jsonrpc":"2.0","id":1,"result":{}}',
    ]) {
      const { head, text } = await sendTo(upstream, body);
      assert.deepEqual([head?.status, text], [202, '']);
    }
    for (const method of ['GET', 'DELETE'] as const)
      assert.equal((await sendTo(upstream, null, { method })).head?.status, 405);
  });

  test('a list of messages is answered with a list, in the versions that have it', async (t) => {
    const { upstream } = upstreamOf(t, { document: '/nowhere/api.yaml' });
    const list = JSON.stringify([
      { jsonrpc: '2.0', id: 1, method: 'ping' },
      { jsonrpc: '2.0', method: 'notifications/initialized' },
      { id: 2 },
    ]);
    const { text } = await sendTo(upstream, list, { protocolVersion: '2025-03-26' });
    const answers = JSON.parse(text) as readonly Message[];
    assert.deepEqual(
      answers.map(({ id, error }) => [id, error?.code]),
      [
        [1, undefined],
        [null, -32_600],
      ],
    );
    assert.equal((await sendTo(upstream, list, { protocolVersion: '2025-11-25' })).head?.status, 400);
  });

  test('a long list of tools comes in pages', async (t) => {
    const paths = Object.fromEntries(
      Array.from({ length: 900 }, (_, index) => [`/r${index}`, { get: { description: 'x'.repeat(1900) } }]),
    );
    const api = await startApi(t, { document: () => JSON.stringify({ openapi: '3.0.0', paths }) });
    const { upstream } = upstreamOf(t, { document: `${api.origin}/openapi.json` });
    const client = new Client({ name: 'test', version: '1' });
    await client.connect(clientTransport(upstream));
    const first = await client.listTools();
    const second = await client.listTools({ cursor: first.nextCursor ?? '' });
    assert.equal(first.tools.length + second.tools.length, 900);
    assert.equal(second.nextCursor, undefined);
  });

  test('an abort ends the call to the API', async (t) => {
    let arrive: () => void = () => undefined;
    let leave: () => void = () => undefined;
    const arrived = new Promise<void>((resolve) => (arrive = resolve));
    const left = new Promise<void>((resolve) => (leave = resolve));
    const api = await startApi(t, {
      script({ url }, response) {
        if (!url.startsWith('/v1')) return false;
        response.once('close', leave);
        arrive();
        return true;
      },
    });
    const { upstream } = upstreamOf(t, { document: `${api.origin}/openapi.yaml` });
    const reason = new GatewayError('client_closed', 'The client left.');
    const message = { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'listBooks' } };
    const told = await sendTo(upstream, JSON.stringify(message), {}, (call) => {
      void arrived.then(() => call.abort(reason));
    });
    assert.equal(told.error, reason);
    assert.equal(told.head, undefined);
    await left;
  });

  test('closing ends the calls that are under way', async (t) => {
    const api = await startApi(t, { script: ({ url }) => url.startsWith('/v1') && (closing(), true) });
    const { upstream } = upstreamOf(t, { document: `${api.origin}/openapi.yaml` });
    const closing = (): void => void upstream.close();
    await assert.rejects(callTool(upstream, 'listBooks', {}), { code: 'shutting_down' });
  });

  test('a receiver that pauses is told of the end when it resumes', async (t) => {
    const { upstream } = upstreamOf(t, { document: '/nowhere/api.yaml' });
    const order: string[] = [];
    await new Promise<void>((resolve, reject) => {
      const call = upstream.send(
        {
          method: 'POST',
          body: Buffer.from('{"jsonrpc":"2.0","id":1,"method":"ping"}'),
          sessionId: undefined,
          protocolVersion: undefined,
          lastEventId: undefined,
          headers: [],
          headTimeoutMs: 0,
          idleTimeoutMs: 0,
        },
        {
          head: () => void order.push('head'),
          data: () => {
            order.push('data');
            setImmediate(() => {
              order.push('resume');
              call.resume();
            });
            return false;
          },
          end: () => {
            order.push('end');
            resolve();
          },
          fail: reject,
        },
      );
    });
    assert.deepEqual(order, ['head', 'data', 'resume', 'end']);
  });

  test('a document in the file of the operator names the host, and a prefix of its path is kept', async (t) => {
    const folder = await mkdtemp(path.join(tmpdir(), 'openapi-'));
    t.after(() => rm(folder, { recursive: true }));
    const api = await startApi(t);
    const document = path.join(folder, 'api.yaml');
    await writeFile(document, libraryDocument('https://elsewhere.example.com'));
    const { upstream } = upstreamOf(t, { document, baseUrl: `${api.origin}/deep/v1/?tenant=7` });
    await callTool(upstream, 'listBooks', { limit: 3 });
    assert.equal(api.calls()[0]?.url, '/deep/v1/books?tenant=7&limit=3');
  });
});
