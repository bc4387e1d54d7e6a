import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import {
  CreateMessageRequestSchema,
  ToolListChangedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';
import type { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import assert from 'node:assert/strict';
import http from 'node:http';
import { describe, test, type TestContext } from 'node:test';
import { createMcpClients } from '../../adapters/mcp/create-mcp-clients.ts';
import { createUndiciTransport } from '../../adapters/transport/undici-transport.ts';
import { readSseFrame, SseSplitter } from '../../core/base/sse.ts';
import {
  realClock,
  recordingLog,
  RecordingMetrics,
} from '../../core/lifecycle/recording-services.test-support.ts';
import type { AnyPlugin, Hooks, Scope } from '../../core/pipeline/plugin.ts';
import type { RequestRow } from '../../core/ports/request-row.ts';
import { startTestGateway } from '../../tests/kit/gateway-kit.ts';
import { send, startUpstream, until } from '../../tests/kit/http-kit.ts';
import { TestClock, TestJournal, testKey } from '../../tests/kit/plugin-kit.ts';
import { startStatefulMcpServer } from '../../tests/kit/stateful-mcp-server.ts';
import auth from '../auth/index.ts';
import logger from '../logger/index.ts';
import mcp from './index.ts';

/** A stream as a client reads it: the fields of its events, in their order. */
interface OpenStream {
  readonly events: { readonly event: string; readonly data: string; readonly id: string | undefined }[];
  /** The address of the first event. */
  readonly endpoint: string;
  /** Resolves with the message that has this id. */
  answer(id: number | string): Promise<any>;
  readonly isOver: () => boolean;
  pause(): void;
  resume(): void;
  leave(): void;
}

interface Setup {
  /** Further options of the plugin. */
  readonly more?: object;
  /** Further tools of `tools`. */
  readonly own?: (server: McpServer) => void;
  readonly isJson?: boolean;
  /** Of another server in the place of `tools`. */
  readonly url?: string;
  readonly clock?: TestClock;
}

/** A gateway in front of two servers, `tools` and `wiki`. */
async function start(t: TestContext, { more, own, isJson = false, url, clock }: Setup = {}) {
  const clients: Client[] = [];
  const server = await startStatefulMcpServer({ isJson, ...(own && { more: own }) });
  const wiki = await startStatefulMcpServer({ isJson: true });
  const log = recordingLog([]);
  const transport = createUndiciTransport({ log, clock: realClock, metrics: new RecordingMetrics() });
  const journal = new TestJournal();
  const servers = {
    tools: { url: url ?? server.url, tools: { secret: { enabled: false } } },
    wiki: { url: wiki.url },
  };
  let hooks: Hooks | undefined;
  let tick = (): unknown => undefined;
  const seen: AnyPlugin = {
    ...mcp,
    async create(options, scope) {
      const setInterval: Scope['setInterval'] = (run) => {
        tick = run;
        return () => undefined;
      };
      const own = Object.assign(Object.create(scope) as Scope, { setInterval });
      return (hooks = await (mcp as AnyPlugin).create(options, own));
    },
  };
  const gateway = await startTestGateway(t, {
    plugins: [{ plugin: logger, options: {} }, auth, { plugin: seen, options: { servers, ...more } }],
    mcp: createMcpClients({ log, clock: realClock, transport, trustedHosts: [] }),
    keys: {
      ann: testKey({ id: 'ann', scopes: ['mcp.invoke'] }),
      bob: testKey({ id: 'bob', scopes: ['mcp.invoke'] }),
    },
    journal,
    ...(clock && { clock }),
  });
  const agent = new http.Agent({ keepAlive: false });
  t.after(async () => {
    for (const client of clients) await client.close();
    agent.destroy();
    await server.close();
    await wiki.close();
    await transport.close();
  });

  const connect = async (path = '/tools/sse', client = new Client({ name: 'test', version: '1' })) => {
    const way = new SSEClientTransport(new URL(gateway.url + path), {
      requestInit: { headers: { authorization: 'Bearer ann' } },
    });
    clients.push(client);
    await client.connect(way);
    return { client, way };
  };
  const post = (path: string, body: unknown, key = 'ann') =>
    send(gateway.url, {
      method: 'POST',
      path,
      headers: { 'content-type': 'application/json', 'x-service-api-key': key },
      body: typeof body === 'string' ? body : JSON.stringify(body),
    });
  const open = (path = '/tools/sse', headers: Record<string, string> = {}): Promise<OpenStream> =>
    new Promise((resolve, reject) => {
      const request = http.get(gateway.url + path, {
        agent,
        headers: { 'x-service-api-key': 'ann', ...headers },
      });
      request.on('error', reject);
      request.on('response', (response) => {
        const events: OpenStream['events'] = [];
        let isOver = false;
        let heard = (): void => undefined;
        const splitter = new SseSplitter((frame) => {
          const { data = '', event = '' } = readSseFrame(frame);
          const id = /^id: (.*)$/m.exec(frame.toString('utf8'))?.[1];
          events.push({ event, data, id });
          if (events.length === 1)
            resolve({
              events,
              endpoint: data,
              isOver: () => isOver,
              leave: () => request.destroy(),
              pause: () => response.pause(),
              resume: () => response.resume(),
              async answer(wanted) {
                for (;;) {
                  const found = events.slice(1).map((one) => JSON.parse(one.data));
                  const message = found.find((one) => one.id === wanted && !('method' in one));
                  if (message !== undefined) return message;
                  await new Promise<void>((next) => (heard = next));
                }
              },
            });
          heard();
        });
        response.on('data', (chunk: Buffer) => splitter.push(chunk));
        response.on('error', () => undefined);
        response.on('close', () => {
          isOver = true;
          heard();
        });
        if (response.statusCode !== 200) reject(new Error(`Status ${response.statusCode}`));
      });
    });
  /** A stream whose session has begun. */
  const begin = async (path?: string): Promise<OpenStream> => {
    const stream = await open(path);
    assert.equal((await post(stream.endpoint, greeting)).status, 202);
    await stream.answer('greeting');
    const initialized = { jsonrpc: '2.0', method: 'notifications/initialized' };
    assert.equal((await post(stream.endpoint, initialized)).status, 202);
    return stream;
  };
  return {
    gateway,
    server,
    wiki,
    journal,
    connect,
    post,
    open,
    begin,
    retire: () => hooks?.retiring?.(),
    tick: () => tick(),
  };
}

const greeting = {
  jsonrpc: '2.0',
  id: 'greeting',
  method: 'initialize',
  params: { protocolVersion: '2024-11-05', capabilities: {}, clientInfo: { name: 'raw', version: '1' } },
};
const call = (id: number | string, name: string, given: object = {}) => ({
  jsonrpc: '2.0',
  id,
  method: 'tools/call',
  params: { name, arguments: given },
});

for (const isJson of [false, true]) {
  test(`a client of the older transport works in front of a server of the new one, answers as ${isJson ? 'JSON' : 'events'}`, async (t) => {
    const { connect, server } = await start(t, { isJson });
    const { client } = await connect();
    assert.deepEqual(client.getServerVersion(), { name: 'stateful', version: '1.0.0' });
    const { tools } = await client.listTools();
    assert.deepEqual(tools.map(({ name }) => name).sort(), ['add', 'ask', 'count'], 'one is switched off');
    const sums = await Promise.all(
      [1, 2, 3].map((a) => client.callTool({ name: 'add', arguments: { a, b: 1 } })),
    );
    assert.deepEqual(
      sums.map(({ content }) => content),
      ['2', '3', '4'].map((text) => [{ type: 'text', text }]),
    );
    await assert.rejects(client.callTool({ name: 'secret' }), /switched off/);
    assert.equal(server.sessions().length, 1);
    await client.close();
    await until(() => server.sessions().length === 0, 'the session of the server ends with the stream');
  });
}

test('progress, questions of the server and its announcements come on the stream', async (t) => {
  const { connect, server, begin, post } = await start(t);
  const asking = new Client({ name: 'test', version: '1' }, { capabilities: { sampling: {} } });
  asking.setRequestHandler(CreateMessageRequestSchema, () => ({
    model: 'm',
    role: 'assistant',
    content: { type: 'text', text: 'this one' },
  }));
  let changes = 0;
  asking.setNotificationHandler(ToolListChangedNotificationSchema, () => void (changes += 1));
  const { client } = await connect('/tools/sse', asking);
  assert.match(JSON.stringify(await client.callTool({ name: 'ask' })), /this one/);
  await until(() => server.requests.some(({ method }) => method === 'GET'), 'the gateway listens');
  server.announceTools();
  await until(() => changes === 1, 'the client hears of the change');
  const stream = await begin();
  const { params, ...rest } = call(1, 'count', { to: 3 });
  await post(stream.endpoint, { ...rest, params: { ...params, _meta: { progressToken: 'p' } } });
  await stream.answer(1);
  const messages = stream.events.slice(2).map(({ data }) => JSON.parse(data));
  assert.deepEqual(
    messages.map(({ method, params: said }) => [method, said?.progress]),
    [...[1, 2, 3].map((progress) => ['notifications/progress', progress]), [undefined, undefined]],
  );
  stream.leave();
});

test('all servers together are served so as well', async (t) => {
  const { connect, server, wiki } = await start(t);
  const { client } = await connect('/sse');
  const names = (await client.listTools()).tools.map(({ name }) => name);
  assert.ok(names.includes('tools__add') && names.includes('wiki__add'), names.join());
  for (const name of ['tools__add', 'wiki__add'])
    assert.match(JSON.stringify(await client.callTool({ name, arguments: { a: 1, b: 2 } })), /"3"/);
  assert.deepEqual([server.sessions().length, wiki.sessions().length], [1, 1]);
  await client.close();
  await until(
    () => server.sessions().length + wiki.sessions().length === 0,
    'the sessions of all servers end with the stream',
  );
});

describe('a message', () => {
  test('is answered with 202 at once, and on the stream when its answer is there', async (t) => {
    const { begin, post, journal, gateway } = await start(t);
    const stream = await begin();
    assert.match(stream.endpoint, /^\/tools\/sse\?sessionId=[\w.~-]+$/);
    const answers = await Promise.all(
      [1, 2].map((id) => post(stream.endpoint, call(id, 'add', { a: id, b: 1 }))),
    );
    assert.deepEqual(
      answers.map(({ status, text }) => [status, text]),
      [
        [202, ''],
        [202, ''],
      ],
    );
    assert.equal((await stream.answer(2)).result.content[0].text, '3');
    assert.equal((await stream.answer(1)).result.content[0].text, '2');
    assert.ok(stream.events.slice(1).every(({ event }) => event === 'message'));
    await gateway.untilSettled(4);
    const rows = journal.rows<Partial<RequestRow>>('requests').filter(({ mcp_tool: tool }) => tool === 'add');
    assert.deepEqual(
      rows.map(({ endpoint, status, outcome, mcp_server: of }) => [endpoint, status, outcome, of]),
      Array(2).fill(['mcp.tools.call', 200, 'completed', 'tools']),
      'rows are as those of the new transport',
    );
    assert.ok(rows.every(({ response_bytes: bytes = 0 }) => bytes > 20));
    stream.leave();
  });

  test('that is refused has its error on the stream', async (t) => {
    const { begin, post } = await start(t);
    const stream = await begin();
    assert.equal((await post(stream.endpoint, call(7, 'secret'))).status, 202);
    assert.equal((await stream.answer(7)).error.data.code, 'mcp_capability_refused');
    assert.equal((await post(stream.endpoint, { jsonrpc: '2.0', id: 8, method: 'no/such' })).status, 202);
    assert.equal((await stream.answer(8)).error.code, -32_601);
    stream.leave();
  });

  test('whose server does not answer is not left open', async (t) => {
    const { begin, post, server } = await start(t);
    const stream = await begin();
    await server.close();
    assert.equal((await post(stream.endpoint, call(9, 'add', { a: 1, b: 1 }))).status, 202);
    assert.match((await stream.answer(9)).error.message, /./);
    stream.leave();
  });

  test('that is none is refused where it was sent', async (t) => {
    const { begin, post } = await start(t);
    const stream = await begin();
    for (const [body, code, rpcCode] of [
      ['{"jsonrpc":', 'invalid_json', -32_700],
      [{ id: 1, method: 'ping' }, 'mcp_message_invalid', -32_600],
      ['[]', 'mcp_message_invalid', -32_600],
    ] as const) {
      const { status, text } = await post(stream.endpoint, body);
      const { error } = JSON.parse(text);
      assert.deepEqual([status, error.code, error.data.code], [400, rpcCode, code]);
    }
    assert.equal(stream.events.length, 2);
    stream.leave();
  });

  test('without a session, of another key, of another server or of none is refused without telling', async (t) => {
    const { begin, post, gateway } = await start(t);
    const stream = await begin();
    const ping = { jsonrpc: '2.0', id: 1, method: 'ping' };
    const without = await post('/tools/sse', ping);
    assert.equal(without.status, 400);
    assert.match(without.text, /open its stream with GET/);
    const query = stream.endpoint.slice(stream.endpoint.indexOf('?'));
    const answers = [
      await post(stream.endpoint, ping, 'bob'),
      await post(`/wiki/sse${query}`, ping),
      await post('/tools/sse?sessionId=nonsense', ping),
    ];
    const told = answers.map(({ status, text }) => [status, JSON.parse(text).error.message]);
    assert.deepEqual(told, Array(3).fill(told[0]));
    assert.equal(told[0]?.[0], 404);
    const asSession = await send(gateway.url, {
      method: 'POST',
      path: '/tools/mcp',
      headers: {
        'content-type': 'application/json',
        'x-service-api-key': 'ann',
        'mcp-session-id': new URLSearchParams(query).get('sessionId') as string,
      },
      body: JSON.stringify(ping),
    });
    assert.equal(asSession.status, 404, 'the id of a stream is no session of the new transport');
    stream.leave();
    await until(() => stream.isOver(), 'the stream is over');
    await until(() => gateway.held() === 0, 'the gateway has noticed');
    const late = await post(stream.endpoint, ping);
    assert.equal(late.status, 404);
    assert.match(late.text, /another replica/);
  });
});

test('other pages and methods are refused as on the new transport', async (t) => {
  const { open, gateway } = await start(t);
  await assert.rejects(open('/tools/sse', { origin: 'https://evil.example' }), /Status 403/);
  await assert.rejects(open('/nothing/sse'), /Status 404/);
  await assert.rejects(open('/tools/sse', { 'x-service-api-key': 'wrong' }), /Status 401/);
  const { status, headers } = await send(gateway.url, {
    method: 'DELETE',
    path: '/tools/sse',
    headers: { 'x-service-api-key': 'ann' },
  });
  assert.deepEqual([status, headers['allow']], [405, 'GET, POST']);
});

test('when the configuration is replaced the stream ends behind its requests, and its session goes on', async (t) => {
  let release = (): void => undefined;
  const { begin, open, post, server, retire } = await start(t, {
    own(one) {
      one.registerTool('wait', {}, async () => {
        await new Promise<void>((resolve) => (release = resolve));
        return { content: [{ type: 'text', text: 'waited' }] };
      });
    },
  });
  const stream = await begin();
  const session = stream.events.find(({ id }) => id !== undefined)?.id as string;
  await until(() => server.requests.some(({ method }) => method === 'GET'), 'the gateway listens');
  const [upstream] = server.sessions();
  await post(stream.endpoint, call(1, 'wait'));
  await until(() => server.requests.some(({ body }) => body.includes('"wait"')), 'the call is under way');
  retire();
  assert.equal(stream.isOver(), false);
  release();
  assert.equal((await stream.answer(1)).result.content[0].text, 'waited');
  await until(() => stream.isOver(), 'the stream ends');
  assert.deepEqual(server.sessions(), [upstream], 'the session at the server does not');

  const again = await open('/tools/sse', { 'last-event-id': session });
  assert.equal((await post(again.endpoint, call(2, 'add', { a: 2, b: 2 }))).status, 202);
  assert.equal((await again.answer(2)).result.content[0].text, '4');
  assert.deepEqual(server.sessions(), [upstream]);

  const stolen = await open('/tools/sse', { 'last-event-id': session, 'x-service-api-key': 'bob' });
  assert.equal((await post(stolen.endpoint, call(3, 'add', { a: 2, b: 2 }), 'bob')).status, 202);
  assert.ok((await stolen.answer(3)).error, 'the session of another key is not taken up');
  stolen.leave();
  again.leave();
  await until(() => server.sessions().length === 0, 'the session ends with its client');
});

describe('bounds', () => {
  test('a client that does not read holds up the server, and gets everything when it does', async (t) => {
    const total = 64;
    let written = 0;
    const upstream = await startUpstream(t, (request, response) => {
      const { id, method } = JSON.parse(request.body.toString() || '{}');
      if (method !== 'tools/call') {
        const result = {
          protocolVersion: '2024-11-05',
          capabilities: {},
          serverInfo: { name: 'x', version: '1' },
        };
        response.writeHead(request.method === 'GET' ? 405 : id === undefined ? 202 : 200, {
          'content-type': 'application/json',
        });
        response.end(id === undefined ? '' : JSON.stringify({ jsonrpc: '2.0', id, result }));
        return;
      }
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      const data = 'x'.repeat(2 ** 20);
      const pump = (): void => {
        while (written < total) {
          written += 1;
          const params = { level: 'info', data, logger: String(written) };
          const message = { jsonrpc: '2.0', method: 'notifications/message', params };
          if (!response.write(`data: ${JSON.stringify(message)}\n\n`))
            return void response.once('drain', pump);
        }
        response.end(`data: ${JSON.stringify({ jsonrpc: '2.0', id, result: { content: [] } })}\n\n`);
      };
      pump();
    });
    const { begin, post } = await start(t, { url: `${upstream.url}/mcp` });
    const stream = await begin();
    stream.pause();
    assert.equal((await post(stream.endpoint, call(1, 'flood'))).status, 202);
    let before = 0;
    await until(() => {
      const isHeld = written > 0 && written === before;
      before = written;
      return isHeld;
    }, 'the server is held up');
    assert.ok(written < total / 2, `${written} MiB were taken without a reader`);
    stream.resume();
    assert.deepEqual((await stream.answer(1)).result, { content: [] });
    const order = stream.events.slice(2, -1).map(({ data }) => Number(JSON.parse(data).params.logger));
    assert.deepEqual(
      order,
      Array.from({ length: total }, (_, index) => index + 1),
    );
    stream.leave();
  });

  test('a session has at most 100 requests without an answer', async (t) => {
    const { begin, post } = await start(t, {
      own: (one) => void one.registerTool('wait', {}, () => new Promise(() => undefined)),
    });
    const stream = await begin();
    const first = await Promise.all(
      Array.from({ length: 100 }, (_, id) => post(stream.endpoint, call(id, 'wait'))),
    );
    assert.ok(first.every(({ status }) => status === 202));
    const { status, text } = await post(stream.endpoint, call(100, 'wait'));
    assert.deepEqual([status, JSON.parse(text).error.data.code], [503, 'overloaded']);
    stream.leave();
  });

  test('a key has at most 1,000 streams, and one that leaves makes room', async (t) => {
    const { open, gateway } = await start(t, {});
    const streams = await Promise.all(Array.from({ length: 1000 }, () => open()));
    await assert.rejects(open(), /Status 429/);
    streams[0]?.leave();
    await until(() => gateway.held() === 999, 'the gateway has noticed it');
    (await open()).leave();
    for (const stream of streams) stream.leave();
  });

  test('a stream without messages ends after the hours of a session', async (t) => {
    const clock = new TestClock();
    const { begin, post, tick } = await start(t, { clock, more: { session_hours: 2 } });
    const [stream, idle] = [await begin(), await begin()];
    clock.advance(3_600_000);
    tick();
    await post(stream.endpoint, call(1, 'add', { a: 1, b: 1 }));
    await stream.answer(1);
    clock.advance(3_700_000);
    tick();
    await until(() => idle.isOver(), 'the idle stream ends');
    assert.equal(stream.isOver(), false);
    clock.advance(3_700_000);
    tick();
    await until(() => stream.isOver(), 'the stream ends');
  });
});
