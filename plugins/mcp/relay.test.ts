import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
  CreateMessageRequestSchema,
  ToolListChangedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { createMcpClients } from '../../adapters/mcp/create-mcp-clients.ts';
import { createUndiciTransport } from '../../adapters/transport/undici-transport.ts';
import {
  realClock,
  recordingLog,
  RecordingMetrics,
} from '../../core/lifecycle/recording-services.test-support.ts';
import type { AnyPlugin, Hooks } from '../../core/pipeline/plugin.ts';
import { startTestGateway } from '../../tests/kit/gateway-kit.ts';
import { send, until } from '../../tests/kit/http-kit.ts';
import { startMcpServer } from '../../tests/kit/mcp-server.ts';
import { testKey } from '../../tests/kit/plugin-kit.ts';
import { startStatefulMcpServer, type StatefulMcpServer } from '../../tests/kit/stateful-mcp-server.ts';
import auth from '../auth/index.ts';
import logger from '../logger/index.ts';
import mcp from './index.ts';
import type { ServerOptions } from './options.ts';

type Upstream = Parameters<typeof startStatefulMcpServer>[0];

/** They leave before their servers do: a client whose stream ends opens it again. */
const clientsOf = new WeakMap<TestContext, Client[]>();

async function startServer(t: TestContext, options: Upstream = {}): Promise<StatefulMcpServer> {
  const server = await startStatefulMcpServer(options);
  t.after(async () => {
    for (const client of clientsOf.get(t) ?? []) await client.close();
    await server.close();
  });
  return server;
}

/** A gateway in front of one server, `/tools/mcp`. */
async function start(
  t: TestContext,
  server: Pick<StatefulMcpServer, 'url'>,
  own: Partial<ServerOptions> = {},
) {
  const log = recordingLog([]);
  const transport = createUndiciTransport({ log, clock: realClock, metrics: new RecordingMetrics() });
  t.after(() => transport.close());
  const clients = createMcpClients({ log, clock: realClock, transport, trustedHosts: [] });
  const options = { servers: { tools: { url: server.url, ...own } } };
  let hooks: Hooks | undefined;
  const kept: AnyPlugin = {
    ...mcp,
    create: async (...given) => (hooks = await (mcp as AnyPlugin).create(...given)),
  };
  const gateway = await startTestGateway(t, {
    plugins: [auth, { plugin: kept, options }, logger],
    mcp: clients,
    keys: {
      ann: testKey({ id: 'ann', scopes: ['mcp.invoke'] }),
      bob: testKey({ id: 'bob', scopes: ['mcp.invoke'] }),
      chat: testKey({ id: 'chat', scopes: ['completions.write'] }),
    },
  });
  const connect = async (key = 'ann', client = new Client({ name: 'test', version: '1' })) => {
    const way = new StreamableHTTPClientTransport(new URL(`${gateway.url}/tools/mcp`), {
      requestInit: { headers: { authorization: `Bearer ${key}` } },
    });
    await client.connect(way);
    clientsOf.set(t, [...(clientsOf.get(t) ?? []), client]);
    return { client, way };
  };
  const post = (body: unknown, headers: Record<string, string> = {}, key = 'ann') =>
    send(gateway.url, {
      method: 'POST',
      path: '/tools/mcp',
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'x-service-api-key': key,
        ...headers,
      },
      body: typeof body === 'string' ? body : JSON.stringify(body),
    });
  return { gateway, connect, post, retire: () => hooks?.retiring?.() };
}

const call = (name: string, given: object = {}, id: string | number = 1) => ({
  jsonrpc: '2.0',
  id,
  method: 'tools/call',
  params: { name, arguments: given },
});

for (const isJson of [false, true]) {
  test(`a client of the SDK works with only the URL changed, answers as ${isJson ? 'JSON' : 'events'}`, async (t) => {
    const server = await startServer(t, { isJson });
    const { connect } = await start(t, server);
    const { client } = await connect();
    assert.deepEqual(client.getServerVersion(), { name: 'stateful', version: '1.0.0' });
    const { tools } = await client.listTools();
    assert.deepEqual(tools.map(({ name }) => name).sort(), ['add', 'ask', 'count', 'secret']);
    const sum = await client.callTool({ name: 'add', arguments: { a: 2, b: 3 } });
    assert.deepEqual(sum.content, [{ type: 'text', text: '5' }]);
    assert.deepEqual((await client.readResource({ uri: 'note://one' })).contents, [
      { uri: 'note://one', text: 'first note' },
    ]);
    assert.equal((await client.getPrompt({ name: 'greet' })).messages.length, 1);
    assert.equal(
      server.requests.some(({ headers }) => headers.authorization !== undefined),
      false,
    );
    assert.match(
      server.requests[0]?.headers['traceparent'] as string,
      /^00-[0-9a-f]{32}-[0-9a-f]{16}-0[01]$/,
    );
  });
}

test('progress, questions of the server and its announcements reach the client', async (t) => {
  const server = await startServer(t);
  const { connect } = await start(t, server);
  const asking = new Client({ name: 'test', version: '1' }, { capabilities: { sampling: {} } });
  asking.setRequestHandler(CreateMessageRequestSchema, () => ({
    model: 'm',
    role: 'assistant',
    content: { type: 'text', text: 'This one.' },
  }));
  const changed = new Promise<void>((resolve) =>
    asking.setNotificationHandler(ToolListChangedNotificationSchema, () => resolve()),
  );
  const { client } = await connect('ann', asking);
  const seen: number[] = [];
  await client.callTool({ name: 'count', arguments: { to: 3 } }, undefined, {
    onprogress: ({ progress }) => void seen.push(progress),
  });
  assert.deepEqual(seen, [1, 2, 3]);
  const asked = await client.callTool({ name: 'ask' });
  assert.match(JSON.stringify(asked.content), /This one\./);
  await until(() => server.requests.some(({ method }) => method === 'GET'), 'the stream of the server');
  server.announceTools();
  await changed;
});

test('without a handshake, as from 2026-07-28 on: the headers that repeat parts of the message reach the server', async (t) => {
  const server = await startServer(t, { hasSessions: false });
  const { post } = await start(t, server);
  const mirrored = { 'Mcp-Method': 'tools/call', 'Mcp-Name': 'add', 'Mcp-Param-Region': 'eu' };
  const given = { 'mcp-protocol-version': '2025-11-25', 'x-other': 'no', ...mirrored };
  assert.equal((await post(call('add', { a: 1, b: 1 }), given)).status, 200);
  const { headers } = server.requests.at(-1) ?? assert.fail();
  const { 'mcp-method': method, 'mcp-name': name, 'mcp-param-region': region, 'x-other': other } = headers;
  assert.deepEqual([method, name, region, other], ['tools/call', 'add', 'eu', undefined]);
});

test('a version that the gateway does not know is for the server to judge', async (t) => {
  const server = await startServer(t, { hasSessions: false });
  const { post } = await start(t, server);
  const answer = await post(call('add', { a: 1, b: 1 }), { 'mcp-protocol-version': 'v999.0.0' });
  assert.equal(answer.status, 400);
  assert.match(answer.text, /Unsupported protocol version.*2025-11-25/);
});

test('a stream of subscriptions may be silent for longer than a call may take', async (t) => {
  const said = ['acknowledged', 'changed'].map((name) => `data: {"jsonrpc":"2.0","method":"${name}"}\n\n`);
  const server = await startMcpServer({
    intercept({ message }, response) {
      if (message?.method !== 'subscriptions/listen') return false;
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write(said[0]);
      setTimeout(() => response.end(said[1]), 500);
      return true;
    },
  });
  t.after(() => server.close());
  const { post } = await start(t, server, { call_timeout_ms: 100 });
  const answer = await post({ jsonrpc: '2.0', id: 1, method: 'subscriptions/listen', params: {} });
  assert.deepEqual([answer.status, answer.text], [200, said.join('')]);
});

test('a stream of subscriptions ends when the configuration is replaced, with whole events, and its server is told', async (t) => {
  let left: () => void = () => undefined;
  const serverLeft = new Promise<void>((resolve) => (left = resolve));
  const said = 'data: {"jsonrpc":"2.0","method":"acknowledged"}\n\n';
  const server = await startMcpServer({
    intercept({ message }, response) {
      if (message?.method !== 'subscriptions/listen') return false;
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write(said);
      response.on('close', left);
      return true;
    },
  });
  t.after(() => server.close());
  const { gateway, retire } = await start(t, server);
  const answer = await fetch(`${gateway.url}/tools/mcp`, {
    method: 'POST',
    headers: {
      ...{ 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
      'x-service-api-key': 'ann',
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'subscriptions/listen', params: {} }),
  });
  const reader = (answer.body as ReadableStream<Uint8Array>).getReader();
  const first = await reader.read();
  assert.equal(Buffer.from(first.value ?? []).toString(), said);
  assert.equal(gateway.held(), 1);
  retire();
  assert.equal((await reader.read()).done, true, 'it ends, and is not cut');
  await serverLeft;
  await until(() => gateway.held() === 0, 'the request to be over');
  retire();
});

describe('sessions', () => {
  test('a server that forgets its sessions is greeted anew, and the client notices nothing', async (t) => {
    const server = await startServer(t);
    const { connect, gateway } = await start(t, server);
    const { client, way } = await connect();
    const id = way.sessionId;
    await server.forget();
    const sum = await client.callTool({ name: 'add', arguments: { a: 1, b: 1 } });
    assert.deepEqual(sum.content, [{ type: 'text', text: '2' }]);
    assert.equal(way.sessionId, id);
    assert.equal(server.sessions().length, 1);
    assert.ok(gateway.lines.some((line) => JSON.stringify(line).includes('shook hands anew')));
    const greetings = server.requests.filter(({ body }) => body.includes('"initialize"'));
    assert.deepEqual(JSON.parse(greetings[1]?.body ?? '').params.clientInfo, { name: 'test', version: '1' });
  });

  test('a server that starts again is waited for', async (t) => {
    const first = await startServer(t);
    const { connect } = await start(t, first);
    const { client } = await connect();
    await first.close();
    const called = client.callTool({ name: 'add', arguments: { a: 20, b: 22 } });
    const second = await startServer(t, { port: first.port });
    assert.deepEqual((await called).content, [{ type: 'text', text: '42' }]);
    assert.equal(second.sessions().length, 1);
  });

  test('the id is of the key that began it, and of this server', async (t) => {
    const server = await startServer(t);
    const { connect, post } = await start(t, server);
    const { way } = await connect();
    const id = way.sessionId ?? '';
    assert.equal(server.sessions().includes(id), false);
    const own = await post(call('add', { a: 1, b: 2 }), { 'mcp-session-id': id });
    assert.equal(own.status, 200, own.text);
    const answers = [
      await post(call('add', { a: 1, b: 2 }), { 'mcp-session-id': id }, 'bob'),
      await post(call('add', { a: 1, b: 2 }), { 'mcp-session-id': `${id.slice(0, -8)}AAAAAAAA` }),
      await post(call('add', { a: 1, b: 2 }), { 'mcp-session-id': server.sessions()[0] ?? '' }),
    ];
    for (const { status, text } of answers) {
      assert.equal(status, 404, text);
      assert.match(text, /mcp_session_unknown/);
    }
  });

  test('the client ends it', async (t) => {
    const server = await startServer(t);
    const { connect, post } = await start(t, server);
    const { way } = await connect();
    const id = way.sessionId ?? '';
    await way.terminateSession();
    assert.deepEqual(server.sessions(), []);
    assert.equal((await post(call('add'), { 'mcp-session-id': id })).status, 404);
    assert.deepEqual(server.sessions(), []);
  });

  test('a server without sessions gets none', async (t) => {
    const server = await startServer(t, { hasSessions: false });
    const { connect } = await start(t, server);
    const { client, way } = await connect();
    assert.equal(way.sessionId, undefined);
    assert.equal((await client.listTools()).tools.length, 4);
  });
});

describe('tools that are off', () => {
  for (const isJson of [false, true]) {
    test(`are not listed and not called, answers as ${isJson ? 'JSON' : 'events'}`, async (t) => {
      const server = await startServer(t, { isJson });
      const { connect, post } = await start(t, server, {
        allow: ['add', 'secret', 'co*'],
        tools: { secret: { enabled: false }, add: { description: 'Sum of two numbers' } },
      });
      const { client, way } = await connect();
      const { tools } = await client.listTools();
      assert.deepEqual(
        tools.map(({ name, description }) => [name, description]),
        [
          ['add', 'Sum of two numbers'],
          ['count', 'Counts with progress'],
        ],
      );
      const before = server.requests.length;
      await assert.rejects(
        client.callTool({ name: 'secret' }),
        /"secret" of the MCP server "tools" cannot be used/,
      );
      await assert.rejects(client.callTool({ name: 'ask' }), /-32602/);
      assert.equal(server.requests.length, before);
      const headers = { 'mcp-session-id': way.sessionId ?? '' };
      const refused = await post(call('secret', {}, 'seven'), headers);
      assert.equal(refused.json().id, 'seven');
      assert.equal(refused.json().error.data.code, 'mcp_capability_refused');
    });
  }

  test('a long result is cut, and says so', async (t) => {
    const server = await startServer(t, {
      more: (one) =>
        void one.registerTool('long', {}, () => ({ content: [{ type: 'text', text: 'ä'.repeat(500) }] })),
    });
    const { connect } = await start(t, server, { tools: { long: { max_result_bytes: 101 } } });
    const { client } = await connect();
    const { content } = await client.callTool({ name: 'long' });
    assert.deepEqual(content, [
      { type: 'text', text: 'ä'.repeat(50) },
      { type: 'text', text: '[899 bytes of the result are left out: it is longer than 101 bytes]' },
    ]);
  });
});

describe('what is wrong is told with its remedy', () => {
  test('messages', async (t) => {
    const server = await startServer(t);
    const { post } = await start(t, server);
    const wrong: [unknown, number, RegExp][] = [
      ['{"jsonrpc"', -32700, /no valid JSON/],
      ['', -32700, /no valid JSON/],
      ['3', -32600, /no JSON object/],
      [{ id: 1, method: 'ping' }, -32600, /"jsonrpc": "2\.0"/],
      [{ jsonrpc: '2.0', id: 1 }, -32600, /no "method"/],
      [{ jsonrpc: '2.0', id: {}, method: 'ping' }, -32600, /"id"/],
      [{ jsonrpc: '2.0', id: 1, method: 'ping', params: 3 }, -32600, /"params"/],
      [{ jsonrpc: '2.0', id: 1, method: 'm'.repeat(300) }, -32600, /"method"/],
      [[], -32600, /holds 0 messages/],
      [Array.from({ length: 51 }, () => ({ jsonrpc: '2.0', method: 'x' })), -32600, /holds 51 messages/],
      [[{ jsonrpc: '2.0', id: 1, method: 'ping' }, 7], -32600, /at \/1/],
      [{ jsonrpc: '2.0', id: 1, method: 'tools/call', params: {} }, -32600, /"name"/],
    ];
    for (const [body, code, message] of wrong) {
      const answer = await post(body);
      assert.equal(answer.status, 400, answer.text);
      assert.match(answer.text, /mcp_message_invalid|invalid_json/);
      assert.equal(answer.json().error.code, code, answer.text);
      assert.match(answer.json().error.message, message);
    }
    assert.equal(server.requests.length, 0);
    const version = await post(
      { jsonrpc: '2.0', id: 1, method: 'ping' },
      { 'mcp-protocol-version': 'a new one' },
    );
    assert.match(version.text, /MCP-Protocol-Version/);
  });

  test('keys, servers, methods and origins', async (t) => {
    const server = await startServer(t);
    const { gateway, post } = await start(t, server);
    const ping = { jsonrpc: '2.0', id: 1, method: 'ping' };
    const none = await send(gateway.url, { method: 'POST', path: '/tools/mcp', body: JSON.stringify(ping) });
    assert.deepEqual([none.status, none.json().error.data.code], [401, 'key_missing']);
    const chat = await post(ping, {}, 'chat');
    assert.deepEqual([chat.status, chat.json().error.data.code], [403, 'scope_missing']);
    const headers = { 'x-service-api-key': 'ann' };
    const gone = await send(gateway.url, { method: 'POST', path: '/gone/mcp', headers, body: '{}' });
    assert.deepEqual([gone.status, gone.json().error.data.code], [404, 'mcp_server_unknown']);
    assert.match(gone.text, /no MCP server \\"gone\\".*It may use: tools/);
    const put = await send(gateway.url, { method: 'PUT', path: '/tools/mcp', headers, body: '{}' });
    assert.deepEqual([put.status, put.headers['allow']], [405, 'GET, POST, DELETE']);
    const page = await post(ping, { origin: 'https://evil.example' });
    assert.deepEqual([page.status, page.json().error.data.code], [403, 'origin_refused']);
    assert.equal(server.requests.length, 0);
  });

  test('a server that refuses the credentials does not send the client to sign in here', async (t) => {
    const server = await startStatefulMcpServer();
    await server.close();
    const { startUpstream } = await import('../../tests/kit/http-kit.ts');
    const refusing = await startUpstream(t, (_request, response) => {
      response
        .writeHead(401, { 'www-authenticate': 'Bearer resource_metadata="https://evil.example"' })
        .end();
    });
    const { post } = await start(t, { ...server, url: `${refusing.url}/mcp` });
    const answer = await post({ jsonrpc: '2.0', id: 1, method: 'ping' });
    assert.equal(answer.status, 502, answer.text);
    assert.equal(answer.headers['www-authenticate'], undefined);
    assert.match(answer.text, /answered with status 401; check the headers/);
  });
});
