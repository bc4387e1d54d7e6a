import assert from 'node:assert/strict';
import { type TestContext, describe, test } from 'node:test';
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
  ToolListChangedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { type Clock, systemClock } from '../../core/ports/clock.ts';
import type { McpUpstream } from '../../core/ports/mcp.ts';
import { ManualClock } from '../../tests/conformance/manual-clock.ts';
import { startMcpRelay } from '../../tests/kit/mcp-relay.ts';
import { eventually } from '../../tests/kit/process-kit.ts';
import { startSseMcp, type SseMcp } from '../../tests/kit/sse-mcp.ts';
import { silentLog, testTransport } from '../transport/transport.test-support.ts';
import { createMcpClients } from './create-mcp-clients.ts';
import { ask, Asked, bodyOf, gone, initialize, openSession, toolCall } from './upstream.test-support.ts';

/** The server of scenes, and the way to it. */
async function started(
  t: TestContext,
  clock: Clock = systemClock,
): Promise<{ server: SseMcp; upstream: McpUpstream }> {
  const server = await startSseMcp();
  const transport = testTransport();
  const upstream = createMcpClients({
    log: silentLog,
    clock,
    transport,
    trustedHosts: [server.host],
  }).upstream({ type: 'sse', url: server.url, guarded: true });
  t.after(async () => {
    await upstream.close();
    server.close();
    await transport.close();
  });
  return { server, upstream };
}

async function untilStreams(server: SseMcp, count: number): Promise<void> {
  await eventually(
    () => server.openStreams() === count || undefined,
    () => `${count} open streams; there are ${server.openStreams()}`,
  );
}

describe('a server over the older transport, for clients of Streamable HTTP', () => {
  test('offers its tools and runs them', async (t) => {
    const { server, upstream } = await started(t);
    const relay = await startMcpRelay(t, upstream);
    const { client, call, transport } = await relay.connect({}, { authorization: 'Bearer of-client' });
    const { tools } = await client.listTools();
    assert.ok(tools.some(({ name }) => name === 'echo'));
    assert.equal(await call('echo', { text: 'ä\n🌊' }), 'ä\n🌊');
    assert.ok(server.requests.every(({ headers }) => headers.authorization === 'Bearer of-client'));
    assert.ok(server.requests.every(({ headers }) => headers['mcp-session-id'] === undefined));
    await transport.terminateSession();
    await untilStreams(server, 0);
  });

  test('reports the progress of the call that asks for it', async (t) => {
    const { upstream } = await started(t);
    const { client } = await (await startMcpRelay(t, upstream)).connect();
    const counted = async (to: number) => {
      const progress: number[] = [];
      await client.callTool({ name: 'count', arguments: { to } }, undefined, {
        onprogress: (report) => progress.push(report.progress),
      });
      return progress;
    };
    assert.deepEqual(await Promise.all([counted(3), counted(2)]), [
      [1, 2, 3],
      [1, 2],
    ]);
  });

  test('is told of a cancelled call', async (t) => {
    const { upstream } = await started(t);
    const { client, call } = await (await startMcpRelay(t, upstream)).connect();
    const controller = new AbortController();
    const waits = client.callTool({ name: 'wait', arguments: { name: 'a' } }, undefined, {
      signal: controller.signal,
    });
    await eventually(async () => (await call('events')).includes('a:waits') || undefined);
    controller.abort();
    await assert.rejects(waits);
    await eventually(async () => (await call('events')).includes('a:cancelled') || undefined);
  });

  test('asks the client for a sample, a confirmation and roots, and says that its tools have changed', async (t) => {
    const { upstream } = await started(t);
    const relay = await startMcpRelay(t, upstream);
    const { client, call } = await relay.connect({ sampling: {}, elicitation: {}, roots: {} });
    client.setRequestHandler(CreateMessageRequestSchema, ({ params }) => ({
      model: 'm',
      role: 'assistant',
      content: { type: 'text', text: `heard ${JSON.stringify(params.messages[0]?.content)}` },
    }));
    client.setRequestHandler(ElicitRequestSchema, () => ({ action: 'accept', content: { sure: true } }));
    client.setRequestHandler(ListRootsRequestSchema, () => ({ roots: [{ uri: 'file:///r' }] }));
    const changed = new Promise((resolve) => {
      client.setNotificationHandler(ToolListChangedNotificationSchema, resolve);
    });
    assert.match(await call('ask', { question: 'why' }), /heard.*why/);
    assert.equal(await call('confirm'), 'accept {"sure":true}');
    assert.equal(await call('roots'), '{"roots":[{"uri":"file:///r"}]}');
    await call('grow', { name: 'new' });
    await changed;
  });
});

test('an answer is JSON unless something comes before it', async (t) => {
  const { upstream } = await started(t);
  const opened = await ask(upstream, { body: initialize });
  const sessionId = opened.head?.sessionId;
  assert.deepEqual(
    [opened.head?.status, opened.head?.contentType, sessionId?.length],
    [200, 'application/json', 36],
  );
  assert.equal((JSON.parse(opened.body) as { id: string }).id, 'hello');
  const plain = await ask(upstream, { sessionId, body: toolCall(1, 'count', { to: 2 }) });
  assert.equal(plain.head?.contentType, 'application/json');
  assert.equal(plain.head.sessionId, undefined);
  const body = toolCall(2, 'count', { to: 2 }, { progressToken: 'p' });
  const streamed = await ask(upstream, { sessionId, body });
  assert.equal(streamed.head?.contentType, 'text/event-stream');
  const events = streamed.body.split('\n\n').filter((event) => event !== '');
  assert.equal(events.length, 3);
  assert.match(events[2] ?? '', /^event: message\ndata: \{.*counted to 2/);
});

test('a notification is answered with 202, a list of requests with a stream of responses', async (t) => {
  const { upstream } = await started(t);
  const sessionId = await openSession(upstream);
  const notified = await ask(upstream, {
    sessionId,
    body: bodyOf({ jsonrpc: '2.0', method: 'notifications/roots/list_changed' }),
  });
  assert.deepEqual([notified.head?.status, notified.body], [202, '']);
  const ping = (id: number) => ({ jsonrpc: '2.0', id, method: 'ping' });
  const both = await ask(upstream, { sessionId, body: bodyOf([ping(1), ping(2)]) });
  assert.deepEqual(
    both.body.match(/"id":\d/g)?.toSorted((a, b) => a.localeCompare(b)),
    ['"id":1', '"id":2'],
  );
});

test('what the server says without being asked waits for a stream', async (t) => {
  const { upstream } = await started(t);
  const sessionId = await openSession(upstream);
  const said = await ask(upstream, { sessionId, body: toolCall(1, 'say', { text: 'during' }) });
  assert.match(said.body, /during[^]*"id":1/);
  const listener = new Asked(upstream, { method: 'GET', sessionId });
  assert.equal((await listener.headed).contentType, 'text/event-stream');
  const heard = await ask(upstream, { sessionId, body: toolCall(2, 'say', { text: 'aside' }) });
  assert.equal(heard.head?.contentType, 'application/json');
  assert.match(listener.text, /aside/);
  const second = await ask(upstream, { method: 'GET', sessionId });
  assert.equal(second.head?.status, 409);
  await ask(upstream, { method: 'DELETE', sessionId });
  assert.equal((await listener.over).error, undefined);
});

test('an unknown session is 404, a missing one 400, and what is no message 400', async (t) => {
  const { server, upstream } = await started(t);
  for (const method of ['POST', 'GET', 'DELETE'] as const) {
    const body = method === 'POST' ? toolCall(1, 'pid') : null;
    const unknown = await ask(upstream, { method, body, sessionId: 'other' });
    assert.deepEqual([unknown.head?.status, unknown.error], [404, undefined]);
    assert.equal((await ask(upstream, { method, body })).head?.status, 400);
  }
  const sessionId = await openSession(upstream);
  for (const body of ['{', '[]', '{"id":1}', '{"jsonrpc":"2.0","id":null,"method":"ping"}']) {
    assert.equal((await ask(upstream, { sessionId, body: Buffer.from(body) })).head?.status, 400);
  }
  const again = await ask(upstream, { sessionId, body: initialize });
  assert.match(again.body, /has had its handshake/);
  assert.equal(server.openStreams(), 1);
});

test('an id of a pending request is not used twice', async (t) => {
  const { upstream } = await started(t);
  const sessionId = await openSession(upstream);
  const waiting = new Asked(upstream, { sessionId, body: toolCall(1, 'wait', { name: 'a' }) });
  const second = await ask(upstream, { sessionId, body: toolCall(1, 'pid') });
  assert.deepEqual([second.head?.status, /pending one/.test(second.body)], [400, true]);
  const params = { requestId: 1 };
  await ask(upstream, {
    sessionId,
    body: bodyOf({ jsonrpc: '2.0', method: 'notifications/cancelled', params }),
  });
  assert.deepEqual([(await waiting.over).body, (await waiting.over).error], ['', undefined]);
});

test('a broken stream ends the session: pending requests fail, later ones are 404', async (t) => {
  const { server, upstream } = await started(t);
  const sessionId = await openSession(upstream);
  const waiting = new Asked(upstream, { sessionId, body: toolCall(1, 'wait', { name: 'a' }) });
  const listener = new Asked(upstream, { method: 'GET', sessionId });
  await listener.headed;
  server.cut();
  assert.equal((await waiting.over).error?.code, 'upstream_reset');
  assert.equal((await listener.over).error?.code, 'upstream_reset');
  assert.equal((await ask(upstream, { sessionId, body: toolCall(2, 'pid') })).head?.status, 404);
  assert.notEqual(await openSession(upstream), sessionId);
});

test('a session that the server has forgotten is 404, and ends', async (t) => {
  const { server, upstream } = await started(t);
  const sessionId = await openSession(upstream);
  server.forget();
  const refused = await ask(upstream, { sessionId, body: toolCall(1, 'pid') });
  assert.deepEqual([refused.head?.status, refused.body], [404, 'no such session']);
  await untilStreams(server, 0);
});

test('a refusal of the stream or of a message is passed on with its challenge', async (t) => {
  const { server, upstream } = await started(t);
  server.intercept = ({ method }, response) => {
    if (method !== 'GET') return false;
    response.writeHead(401, { 'www-authenticate': 'Bearer realm="r"', 'mcp-session-id': 's' }).end('no');
    return true;
  };
  const refused = await ask(upstream, { body: initialize });
  assert.deepEqual(
    [refused.head?.status, refused.head?.wwwAuthenticate, refused.head?.sessionId, refused.body],
    [401, 'Bearer realm="r"', undefined, 'no'],
  );
  server.intercept = ({ method }, response) => {
    if (method === 'POST') response.writeHead(403).end('not you');
    return method === 'POST';
  };
  const forbidden = await ask(upstream, { body: initialize });
  assert.deepEqual([forbidden.head?.status, forbidden.body], [403, 'not you']);
  await untilStreams(server, 0);
});

test('an address on another origin is refused, and nothing is sent there', async (t) => {
  const { server, upstream } = await started(t);
  for (const endpoint of [
    'http://localhost:1/m',
    '//evil.example/m',
    `http://u:p@${server.host}/m`,
    'http://',
  ]) {
    server.intercept = (_arrived, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write(`event: endpoint\ndata: ${endpoint}\n\n`);
      return true;
    };
    const { error } = await ask(upstream, { body: initialize, headers: ['authorization', 'secret'] });
    assert.equal(error?.code, 'upstream_invalid');
    assert.match(error.message, /another origin/);
  }
  assert.ok(server.requests.every(({ method }) => method === 'GET'));
});

test('a server that hangs is given up at the time limit of the caller', async (t) => {
  const { server, upstream } = await started(t);
  const sessionId = await openSession(upstream);
  const body = toolCall(1, 'wait', { name: 'a' });
  const late = await ask(upstream, { sessionId, body, headTimeoutMs: 60 });
  assert.deepEqual([late.error?.code, late.head], ['upstream_timeout', undefined]);
  // The server is told that the request is not waited for.
  await eventually(async () => {
    const { body: events } = await ask(upstream, { sessionId, body: toolCall(2, 'events') });
    return events.includes('a:cancelled') || undefined;
  });
  const reporting = toolCall(3, 'wait', { name: 'b' }, { progressToken: 'p' });
  const streaming = await ask(upstream, { sessionId, idleTimeoutMs: 60, body: reporting });
  assert.deepEqual([streaming.error?.code, streaming.head?.status], ['upstream_timeout', 200]);

  server.intercept = ({ method }, response) => {
    if (method === 'GET') response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders();
    return method === 'GET';
  };
  const silent = await ask(upstream, { body: initialize, headTimeoutMs: 60 });
  assert.equal(silent.error?.code, 'upstream_timeout');
  await untilStreams(server, 1);
});

test('a caller that goes away leaves the session as it is; during the handshake the session ends', async (t) => {
  const { server, upstream } = await started(t);
  const sessionId = await openSession(upstream);
  const waiting = new Asked(upstream, { sessionId, body: toolCall(1, 'wait', { name: 'a' }) });
  waiting.call.abort(gone());
  assert.equal((await waiting.over).error?.code, 'client_closed');
  assert.match((await ask(upstream, { sessionId, body: toolCall(1, 'pid') })).body, /\d/);
  server.intercept = ({ method }) => method === 'POST';
  const greeting = new Asked(upstream, { body: initialize });
  await untilStreams(server, 2);
  greeting.call.abort(gone());
  await untilStreams(server, 1);
});

test('a reader without room holds the server up, and nothing is lost', async (t) => {
  const { server, upstream } = await started(t);
  const sessionId = await openSession(upstream);
  const listener = new Asked(upstream, { method: 'GET', sessionId }, false);
  await listener.headed;
  const body = toolCall(1, 'flood', { messages: 400, bytes: 100_000 });
  const flooding = new Asked(upstream, { sessionId, body });
  await eventually(() => listener.chunks.length === 1 || undefined);
  const other = await openSession(upstream);
  for (let id = 0; id < 50; id += 1) await ask(upstream, { sessionId: other, body: toolCall(id, 'pid') });
  // The rest of the 40 MB is in the buffers of the system, and at most 1 MiB and one read here.
  assert.ok(server.unsentBytes() > 20_000_000);
  assert.equal(listener.chunks.length, 1);
  listener.reads = true;
  listener.call.resume();
  await flooding.over;
  await eventually(() => listener.text.match(/"data":"\d+:x/g)?.length === 400 || undefined);
  assert.ok(listener.chunks.every((chunk) => chunk.length < 1_500_000));
});

test('an event beyond 16 MiB ends the session with an error that says so', async (t) => {
  const { server, upstream } = await started(t);
  const sessionId = await openSession(upstream);
  const { error } = await ask(upstream, { sessionId, body: toolCall(1, 'big', { bytes: 17_000_000 }) });
  assert.equal(error?.code, 'upstream_too_large');
  await untilStreams(server, 0);
});

test('a session without requests and streams ends after half an hour', async (t) => {
  const clock = new ManualClock();
  const { server, upstream } = await started(t, clock);
  const idle = await openSession(upstream);
  const listening = await openSession(upstream);
  await new Asked(upstream, { method: 'GET', sessionId: listening }).headed;
  clock.advance(29 * 60_000);
  assert.equal((await ask(upstream, { sessionId: idle, body: toolCall(1, 'pid') })).head?.status, 200);
  clock.advance(29 * 60_000);
  assert.equal(server.openStreams(), 2);
  clock.advance(2 * 60_000);
  await untilStreams(server, 1);
  assert.equal((await ask(upstream, { sessionId: idle, body: toolCall(2, 'pid') })).head?.status, 404);
  const sessionId = listening;
  assert.equal((await ask(upstream, { sessionId, body: toolCall(2, 'pid') })).head?.status, 200);
});

test('closing ends the streams of all sessions', async (t) => {
  const { server, upstream } = await started(t);
  const sessionId = await openSession(upstream);
  const listener = new Asked(upstream, { method: 'GET', sessionId });
  await listener.headed;
  await upstream.close();
  assert.equal((await listener.over).error?.code, 'shutting_down');
  await untilStreams(server, 0);
  assert.equal((await ask(upstream, { body: initialize })).error?.code, 'shutting_down');
});
