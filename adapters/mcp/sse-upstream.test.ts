import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { type Clock, systemClock } from '../../core/ports/clock.ts';
import type { McpUpstream } from '../../core/ports/mcp.ts';
import { ManualClock } from '../../tests/conformance/manual-clock.ts';
import { describeClients } from '../../tests/conformance/mcp-upstream.ts';
import { eventually } from '../../tests/kit/process-kit.ts';
import { startSseMcp, type SseMcp } from '../../tests/kit/sse-mcp.ts';
import { silentLog, testTransport } from '../transport/transport.test-support.ts';
import { createMcpClients } from './create-mcp-clients.ts';
import { ask, Asked, gone, initialize, openSession, toolCall } from './upstream.test-support.ts';

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

describeClients('a server over the older transport', async (t) => (await started(t)).upstream);

test('credentials of each request go to the server, and sessions of the gateway do not', async (t) => {
  const { server, upstream } = await started(t);
  const sessionId = await openSession(upstream, { headers: ['authorization', 'Bearer first'] });
  const body = toolCall(1, 'pid');
  await ask(upstream, { sessionId, body, headers: ['authorization', 'Bearer second'] });
  const sent = server.requests.map(({ method, headers }) => `${method} ${headers.authorization}`);
  assert.deepEqual(sent.slice(0, 2), ['GET Bearer first', 'POST Bearer first']);
  assert.equal(sent.at(-1), 'POST Bearer second');
  assert.ok(server.requests.every(({ headers }) => headers['mcp-session-id'] === undefined));
  await ask(upstream, { method: 'DELETE', sessionId });
  await untilStreams(server, 0);
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
