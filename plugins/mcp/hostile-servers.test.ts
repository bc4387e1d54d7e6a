import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import http from 'node:http';
import { describe, test, type TestContext } from 'node:test';
import { createMcpClients } from '../../adapters/mcp/create-mcp-clients.ts';
import { createUndiciTransport } from '../../adapters/transport/undici-transport.ts';
import {
  realClock,
  recordingLog,
  RecordingMetrics,
} from '../../core/lifecycle/recording-services.test-support.ts';
import { startTestGateway } from '../../tests/kit/gateway-kit.ts';
import { send, startUpstream, until } from '../../tests/kit/http-kit.ts';
import { testKey } from '../../tests/kit/plugin-kit.ts';
import auth from '../auth/index.ts';
import mcp from './index.ts';
import type { ServerOptions } from './options.ts';

type Answering = (response: ServerResponse) => void;

/** With it the gateway reads lists and results. */
const reading: Partial<ServerOptions> = { allow: ['add'], max_result_bytes: 64 };

/** A gateway in front of a server that answers like this; `max_message_bytes` is 64 KiB. */
async function start(t: TestContext, answer: Answering, own: Partial<ServerOptions> = {}) {
  const upstream = await startUpstream(t, (_request, response) => answer(response));
  const log = recordingLog([]);
  const transport = createUndiciTransport({ log, clock: realClock, metrics: new RecordingMetrics() });
  t.after(() => transport.close());
  const options = { max_message_bytes: 65_536, servers: { tools: { url: `${upstream.url}/mcp`, ...own } } };
  const gateway = await startTestGateway(t, {
    plugins: [auth, { plugin: mcp, options }],
    mcp: createMcpClients({ log, clock: realClock, transport, trustedHosts: [] }),
    keys: { ann: testKey({ id: 'ann', scopes: ['mcp.invoke'] }) },
  });
  const headers = { 'content-type': 'application/json', 'x-service-api-key': 'ann' };
  const ask = (method = 'tools/call', params: object = { name: 'add' }) => ({
    method: 'POST',
    path: '/tools/mcp',
    headers,
    body: JSON.stringify({ jsonrpc: '2.0', id: 7, method, params }),
  });
  const say = async (method?: string, params?: object) => send(gateway.url, ask(method, params));
  return { gateway, upstream, ask, say };
}

const json = { 'content-type': 'application/json' };
const events = { 'content-type': 'text/event-stream' };
const message = (result: unknown, id: unknown = 7) => JSON.stringify({ jsonrpc: '2.0', id, result });
const event = (text: string) => `event: message\ndata: ${text}\n\n`;
const text = (length: number) => ({ content: [{ type: 'text', text: 'x'.repeat(length) }] });

describe('a server that', () => {
  test('hangs before the head of its answer is given up after call_timeout_ms', async (t) => {
    const { say } = await start(t, () => undefined, { call_timeout_ms: 150 });
    const answer = await say();
    assert.equal(answer.status, 504, answer.text);
    assert.match(answer.text, /upstream_timeout|timed out|no answer/i);
  });

  for (const own of [{}, reading])
    test(`hangs within its stream is cut off, ${own === reading ? 'read' : 'relayed'}`, async (t) => {
      const { say, gateway } = await start(
        t,
        (response) => void response.writeHead(200, events).write(': begun\n\n'),
        { ...own, call_timeout_ms: 150 },
      );
      const answer = await say();
      const { outcome } = await gateway.untilSettled();
      assert.equal(outcome.kind, 'failed');
      assert.match(answer.text, /^: begun/);
    });

  test('floods a client that does not read is paused', async (t) => {
    let sent = 0;
    let stalled: (() => void) | undefined;
    const chunk = event(message(text(65_536)));
    const { gateway, ask } = await start(t, (response) => {
      response.writeHead(200, events);
      const pour = (): void => {
        let hasRoom = true;
        while (hasRoom && sent < 512_000_000) {
          hasRoom = response.write(chunk);
          sent += chunk.length;
        }
        // Without room for a second nothing more is wanted.
        const timer = setTimeout(() => stalled?.(), 1_000);
        response.once('drain', () => {
          clearTimeout(timer);
          pour();
        });
        response.once('close', () => clearTimeout(timer));
      };
      pour();
    });
    const waiting = new Promise<void>((resolve) => (stalled = resolve));
    const { body, ...options } = ask();
    const request = http.request(`${gateway.url}${options.path}`, options);
    request.on('error', () => undefined);
    request.on('response', (response) => void response.pause());
    request.end(body);
    await waiting;
    assert.ok(sent < 32_000_000, `${sent} bytes left the server`);
    request.destroy();
  });

  test('sends one endless event is cut off when the gateway has to read it', async (t) => {
    let isClosed = false;
    const { say, gateway } = await start(
      t,
      (response) => {
        response.writeHead(200, events).write('data: ');
        const pour = (): void => {
          if (!isClosed) response.write('x'.repeat(16_384), pour);
        };
        response.on('close', () => (isClosed = true));
        pour();
      },
      reading,
    );
    const answer = await say();
    const { outcome } = await gateway.untilSettled();
    assert.equal(outcome.kind, 'failed');
    assert.ok(answer.text.length < 2_000);
    await until(() => isClosed, 'the end of the connection');
  });

  const wrong: Record<string, readonly [Answering, RegExp]> = {
    'answers with a page': [
      (response) => void response.writeHead(200, { 'content-type': 'text/html' }).end('<script>1</script>'),
      /of another type than JSON .*text\/html.*check its URL.*mcp_failed/,
    ],
    redirects: [
      (response) => void response.writeHead(307, { location: 'http://127.0.0.1:1/' }).end(),
      /status 307; name the address to which it redirects.*mcp_failed/,
    ],
    'gives a session id of odd characters': [
      (response) => void response.writeHead(200, { ...json, 'mcp-session-id': 'a b\u00e9' }).end(message({})),
      /session id.*mcp_failed/,
    ],
    'gives a session id of 6 KiB': [
      (response) =>
        void response.writeHead(200, { ...json, 'mcp-session-id': 'a'.repeat(6_144) }).end(message({})),
      /session id.*mcp_failed/,
    ],
    'gives a session id of 16 KiB': [
      (response) =>
        void response.writeHead(200, { ...json, 'mcp-session-id': 'a'.repeat(16_384) }).end(message({})),
      /mcp_failed|upstream_/,
    ],
    'answers with a result of 100 MB': [
      (response) => void response.writeHead(200, json).end(message(text(100_000_000))),
      /max_message_bytes.*upstream_too_large/,
    ],
    'answers with invalid JSON': [
      (response) => void response.writeHead(200, json).end('{"jsonrpc": '),
      /no JSON-RPC message.*upstream_invalid/,
    ],
    'answers with a text': [
      (response) => void response.writeHead(200, json).end('"yes"'),
      /no JSON-RPC message.*upstream_invalid/,
    ],
  };
  for (const [what, [answer, told]] of Object.entries(wrong))
    test(`${what} is told of`, async (t) => {
      const { say, gateway } = await start(t, answer, reading);
      const { status, text: said, headers } = await say();
      assert.equal(status, 502, said);
      assert.match(said, told);
      assert.equal(JSON.parse(said).id, 7);
      assert.match(String(headers['content-type']), /^application\/json/);
      assert.doesNotMatch(JSON.stringify([said, gateway.lines]), /<script>/);
    });

  test('answers with an error page keeps its status and not its page', async (t) => {
    const { say } = await start(
      t,
      (response) => void response.writeHead(404, { 'content-type': 'text/html' }).end('<script>1</script>'),
    );
    const answer = await say();
    assert.deepEqual([answer.status, answer.text], [404, '']);
  });

  test('answers with a list that is none is told of', async (t) => {
    const { say } = await start(
      t,
      (response) => void response.writeHead(200, json).end(message({ tools: { add: 1 } })),
      reading,
    );
    assert.match((await say('tools/list', {})).text, /"tools\\" that are no list.*upstream_invalid/);
  });

  test('answers with another id, or in a list, does not get round what is off or cut', async (t) => {
    const long = message(text(5_000), 'another');
    const tools = { tools: [{ name: 'add' }, { name: 'secret' }, 'secret', null] };
    for (const [type, framed] of [
      [json, (one: string) => one],
      [events, event],
    ] as const)
      for (const wrap of [(one: string) => one, (one: string) => `[${one}]`]) {
        let result = long;
        const { say } = await start(
          t,
          (response) => void response.writeHead(200, type).end(framed(wrap(result))),
          reading,
        );
        assert.match((await say()).text, /4936 bytes of the result are left out/);
        result = message(tools, 'another');
        const listed = (await say('tools/list', {})).text;
        assert.match(listed, /"add"/);
        assert.doesNotMatch(listed, /secret/);
      }
  });

  test('sends events that are no JSON is cut off when the gateway has to read them', async (t) => {
    const { say, gateway } = await start(
      t,
      (response) => void response.writeHead(200, events).end(event('{"result": secret')),
      reading,
    );
    assert.doesNotMatch((await say()).text, /secret/);
    assert.equal((await gateway.untilSettled()).outcome.kind, 'failed');
  });
});
