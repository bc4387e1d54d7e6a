import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
  ToolListChangedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';
import type { McpUpstream } from '../../core/ports/mcp.ts';
import { startMcpRelay } from '../kit/mcp-relay.ts';
import { eventually } from '../kit/process-kit.ts';
import {
  ask,
  Asked,
  bodyOf,
  initialize,
  openSession,
  toolCall,
} from '../../adapters/mcp/upstream.test-support.ts';

/** Starts the server of scenes for a test, and opens the way to it. */
type Start = (t: TestContext) => Promise<McpUpstream>;

/** What clients of Streamable HTTP see of a server of any transport. */
export function describeRequests(name: string, start: Start): void {
  describe(`${name}, for clients of Streamable HTTP`, () => {
    test('offers its tools and runs them', async (t) => {
      const upstream = await start(t);
      const relay = await startMcpRelay(t, upstream);
      const { client, call, transport } = await relay.connect();
      const { tools } = await client.listTools();
      assert.ok(tools.some(({ name }) => name === 'echo'));
      assert.equal(await call('echo', { text: 'ä\n🌊' }), 'ä\n🌊');
      const { sessionId } = transport;
      await transport.terminateSession();
      assert.equal((await ask(upstream, { sessionId, body: toolCall(1, 'pid') })).head?.status, 404);
    });

    test('reports the progress of the call that asks for it', async (t) => {
      const upstream = await start(t);
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
      const upstream = await start(t);
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

    test('an answer is JSON unless something comes before it', async (t) => {
      const upstream = await start(t);
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
      const upstream = await start(t);
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

    test('an unknown session is 404, a missing one 400, and what is no message 400', async (t) => {
      const upstream = await start(t);
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
    });

    test('an id of a pending request is not used twice', async (t) => {
      const upstream = await start(t);
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
  });
}

/** The same, of a server whose sessions are their clients' own: it may ask them. */
export function describeClients(name: string, start: Start): void {
  describeRequests(name, start);
  describe(`${name}, which asks its clients`, () => {
    test('asks the client for a sample, a confirmation and roots, and says that its tools have changed', async (t) => {
      const upstream = await start(t);
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

    test('what the server says without being asked waits for a stream', async (t) => {
      const upstream = await start(t);
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
  });
}
