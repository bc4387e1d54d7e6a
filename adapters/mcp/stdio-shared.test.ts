import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import type { McpStdioTarget } from '../../core/ports/mcp.ts';
import { ManualClock } from '../../tests/conformance/manual-clock.ts';
import { describeRequests } from '../../tests/conformance/mcp-upstream.ts';
import { eventually } from '../../tests/kit/process-kit.ts';
import { callTool, sceneTarget, startStdio, untilGone } from './stdio.test-support.ts';
import { ask, Asked, bodyOf, initialize, openSession, toolCall } from './upstream.test-support.ts';

const shared = (overrides: Partial<McpStdioTarget> = {}) => sceneTarget({ isShared: true, ...overrides });

/** Two sessions of one child. */
async function sessions(t: TestContext, overrides: Partial<McpStdioTarget> = {}) {
  const { upstream, log } = startStdio(t, shared(overrides));
  // Timers of the gateway keep no process alive, and between two children nothing else does.
  const alive = setInterval(() => undefined, 1_000);
  t.after(() => clearInterval(alive));
  const [ann, bob] = [await openSession(upstream), await openSession(upstream)];
  const pid = Number(await callTool(upstream, ann, 'pid'));
  return { upstream, log, ann, bob, pid };
}

const notification = (method: string, params: object) => bodyOf({ jsonrpc: '2.0', method, params });
const request = (id: unknown, method: string, params: object = {}) =>
  bodyOf({ jsonrpc: '2.0', id, method, params });

describeRequests('a child that sessions share', (t) => Promise.resolve(startStdio(t, shared()).upstream));

test('one child serves all sessions, outlives them, and ends with the gateway', async (t) => {
  const { upstream, ann, bob, pid } = await sessions(t, { maxChildren: 1 });
  assert.equal(await callTool(upstream, bob, 'pid'), String(pid));
  for (const sessionId of [ann, bob]) await ask(upstream, { method: 'DELETE', sessionId });
  assert.equal((await ask(upstream, { sessionId: ann, body: toolCall(1, 'pid') })).head?.status, 404);
  assert.equal(await callTool(upstream, await openSession(upstream), 'pid'), String(pid));
  await upstream.close();
  await untilGone(pid);
});

test('sessions with equal ids and progress tokens get their own answers and progress, and cancel their own requests', async (t) => {
  const { upstream, ann, bob } = await sessions(t);
  const calls = Array.from({ length: 40 }, (_, index) => {
    const sessionId = index % 2 === 0 ? ann : bob;
    const text = `${index % 2 === 0 ? 'ann' : 'bob'} ${index}`;
    const id = Math.floor(index / 2);
    return { id, text, over: ask(upstream, { sessionId, body: toolCall(id, 'echo', { text }) }) };
  });
  for (const { id, text, over } of calls) {
    const answer = JSON.parse((await over).body) as { id: number; result: { content: [{ text: string }] } };
    assert.deepEqual([answer.id, answer.result.content[0].text], [id, text]);
  }
  const meta = { progressToken: 'p' };
  const [counted, other] = await Promise.all(
    [ann, bob].map((sessionId, index) =>
      ask(upstream, { sessionId, body: toolCall('c', 'count', { to: 2 + index }, meta) }),
    ),
  );
  assert.deepEqual(
    [counted, other].map((one) => one?.body.match(/"progressToken":"p"/g)?.length),
    [2, 3],
  );
  const waits = [ann, bob].map((sessionId, index) => {
    const body = toolCall('w', 'wait', { name: `w${index}` }, meta);
    return new Asked(upstream, { sessionId, body });
  });
  for (const { headed } of waits) await headed;
  const cancelled = notification('notifications/cancelled', { requestId: 'w' });
  await ask(upstream, { sessionId: ann, body: cancelled });
  await waits[0]?.over;
  await eventually(
    async () => (await callTool(upstream, bob, 'events')).includes('w0:cancelled') || undefined,
  );
  assert.doesNotMatch(await callTool(upstream, bob, 'events'), /w1:cancelled/);
  await ask(upstream, { method: 'DELETE', sessionId: bob });
  const later = await openSession(upstream);
  await eventually(
    async () => (await callTool(upstream, later, 'events')).includes('w1:cancelled') || undefined,
  );
});

test('log messages reach no session, changed lists all, and news of a resource those that subscribed', async (t) => {
  const { upstream, ann, bob } = await sessions(t);
  const opened = await ask(upstream, { body: initialize });
  const { capabilities } = (JSON.parse(opened.body) as { result: { capabilities: object } }).result;
  assert.deepEqual(Object.keys(capabilities).sort(), ['resources', 'tools']);
  const heard = [ann, bob].map((sessionId) => new Asked(upstream, { method: 'GET', sessionId }));
  for (const { headed } of heard) await headed;
  const uri = 'counter://value';
  const subscribe = request('s', 'resources/subscribe', { uri });
  assert.match((await ask(upstream, { sessionId: bob, body: subscribe })).body, /"result":\{\}/);
  assert.equal(await callTool(upstream, ann, 'say', { text: 'of ann alone' }), 'said');
  await callTool(upstream, ann, 'touch');
  await callTool(upstream, ann, 'grow', { name: 'grown' });
  for (const { text } of heard) {
    assert.match(text, /tools\/list_changed/);
    assert.doesNotMatch(text, /of ann alone/);
  }
  assert.deepEqual(
    heard.map(({ text }) => text.includes('resources/updated')),
    [false, true],
  );
  const level = request('l', 'logging/setLevel', { level: 'debug' });
  assert.match((await ask(upstream, { sessionId: ann, body: level })).body, /-32601.*has no logging/);
  // Both are told from now on; the last one to leave unsubscribes.
  await ask(upstream, { sessionId: ann, body: subscribe });
  for (const sessionId of [bob, ann])
    await ask(upstream, { sessionId, body: request('u', 'resources/unsubscribe', { uri }) });
  assert.equal(
    await callTool(upstream, ann, 'events'),
    `subscribe:${uri} unsubscribe:${uri}`,
    'the child is asked once for all',
  );
});

test('the child can ask no client, and is told why', async (t) => {
  const { upstream, ann } = await sessions(t);
  for (const method of ['roots/list', 'sampling/createMessage', 'elicitation/create'])
    assert.match(
      await callTool(upstream, ann, 'raw', { method }),
      /shared by several clients, and none of them can be asked/,
    );
});

test('kill -9 of the child: what is under way fails, and all sessions go on with the next one, subscriptions included', async (t) => {
  const { upstream, log, ann, bob, pid } = await sessions(t);
  const listener = new Asked(upstream, { method: 'GET', sessionId: bob });
  await listener.headed;
  await ask(upstream, {
    sessionId: bob,
    body: request('s', 'resources/subscribe', { uri: 'counter://value' }),
  });
  const waiting = [ann, bob].map(
    (sessionId) => new Asked(upstream, { sessionId, body: toolCall(1, 'wait', { name: 'a' }) }),
  );
  await eventually(
    async () => (await callTool(upstream, ann, 'events')).match(/a:waits.*a:waits/) ?? undefined,
  );
  process.kill(pid, 'SIGKILL');
  for (const { over } of waiting) {
    const { error } = await over;
    assert.equal(error?.code, 'upstream_reset');
    assert.match(error.message, /scenes ended by SIGKILL and is started again; send the request again/);
  }
  const next = await callTool(upstream, ann, 'pid');
  assert.notEqual(next, String(pid));
  assert.equal(await callTool(upstream, bob, 'pid'), next);
  await callTool(upstream, ann, 'touch');
  assert.match(listener.text, /resources\/updated/);
  assert.ok(
    log.lines.some(({ message }) => /ended by SIGKILL; it is started again after 100 ms/.test(message)),
  );
});

test('a program that ends again and again is started less and less often, and told of meanwhile', async (t) => {
  const clock = new ManualClock();
  const target = shared({ command: process.execPath, args: ['-e', 'process.exit(3)'] });
  const { upstream, log } = startStdio(t, target, clock);
  for (const delay of [0, 100, 200, 400, 800, 1_600]) {
    const asked = new Asked(upstream, { body: initialize });
    clock.advance(delay);
    assert.match((await asked.over).error?.message ?? '', /scenes ended with code 3/);
  }
  const early = await ask(upstream, { body: initialize });
  assert.equal(early.error?.code, 'upstream_unreachable');
  assert.match(early.error.message, /code 3, 6 times in a row; it is started again in 4 s/);
  assert.equal(log.lines.filter(({ message }) => message.includes('in a row')).length, 5);
});

test('a child that refuses the handshake, or does not answer it in a minute, opens no session', async (t) => {
  const answer = '{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"too old"}}';
  const code = `process.stdin.once('data', () => console.log('${answer}')); setInterval(() => 0, 1e6)`;
  const refusing = startStdio(t, shared({ command: process.execPath, args: ['-e', code] }));
  const refused = await ask(refusing.upstream, { body: initialize });
  assert.match(refused.error?.message ?? '', /refused the handshake of the gateway/);
  const clock = new ManualClock();
  const silent = ['-e', 'process.on("SIGTERM", () => process.exit()); setInterval(() => 0, 1e6)'];
  const { upstream } = startStdio(t, shared({ command: process.execPath, args: silent }), clock);
  const asked = new Asked(upstream, { body: initialize, headTimeoutMs: 0 });
  await new Promise((resolve) => setImmediate(resolve));
  clock.advance(60_000);
  assert.match((await asked.over).error?.message ?? '', /did not answer the handshake within 60 s/);
});

test('a client that does not read holds up no other one, and a message beyond 16 MiB fails its request alone', async (t) => {
  const { upstream, ann, bob } = await sessions(t);
  const body = toolCall(1, 'big', { bytes: 2_000_000 });
  const unread = new Asked(upstream, { sessionId: ann, body }, false);
  await unread.headed;
  assert.equal(await callTool(upstream, bob, 'echo', { text: 'on' }), 'on');
  const tooBig = ask(upstream, { sessionId: bob, body: toolCall(2, 'big', { bytes: 17_000_000 }) });
  assert.equal((await tooBig).error?.code, 'upstream_too_large');
  unread.reads = true;
  unread.call.resume();
  assert.ok((await unread.over).body.length > 2_000_000);
});
