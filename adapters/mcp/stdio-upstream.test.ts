import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import type { McpStdioTarget } from '../../core/ports/mcp.ts';
import { ManualClock } from '../../tests/conformance/manual-clock.ts';
import { describeClients } from '../../tests/conformance/mcp-upstream.ts';
import { eventually } from '../../tests/kit/process-kit.ts';
import { callTool, isAlive, sceneTarget, startStdio, untilGone } from './stdio.test-support.ts';
import { ask, Asked, gone, initialize, openSession, toolCall } from './upstream.test-support.ts';

/** A program of a few lines. */
function scripted(code: string, overrides: Partial<McpStdioTarget> = {}): McpStdioTarget {
  return sceneTarget({ command: process.execPath, args: ['-e', code], ...overrides });
}

/** A session at the server of scenes, and the process of its child. */
async function session(t: TestContext, overrides: Partial<McpStdioTarget> = {}) {
  const { upstream, log } = startStdio(t, sceneTarget(overrides));
  const sessionId = await openSession(upstream);
  const pid = Number(await callTool(upstream, sessionId, 'pid'));
  return { upstream, log, sessionId, pid };
}

describeClients('a child of its own', (t) => Promise.resolve(startStdio(t, sceneTarget()).upstream));

test('each session has a child, which ends with it', async (t) => {
  const { upstream, sessionId, pid } = await session(t);
  const other = await openSession(upstream);
  const otherPid = Number(await callTool(upstream, other, 'pid'));
  assert.notEqual(pid, otherPid);
  await ask(upstream, { method: 'DELETE', sessionId });
  await untilGone(pid);
  assert.equal(await callTool(upstream, other, 'pid'), String(otherPid));
});

test('one session too many: the one that has been idle for longest makes room; without one it is refused', async (t) => {
  const { upstream, sessionId: first, pid } = await session(t, { maxChildren: 2 });
  const second = await openSession(upstream);
  const firstWaits = new Asked(upstream, { sessionId: first, body: toolCall(1, 'wait', { name: 'a' }) });
  const secondWaits = new Asked(upstream, { sessionId: second, body: toolCall(1, 'wait', { name: 'b' }) });
  const refused = await ask(upstream, { body: initialize });
  assert.equal(refused.error?.code, 'upstream_busy');
  assert.match(refused.error.message, /scenes has 2 sessions in use/);
  firstWaits.call.abort(gone());
  const third = await openSession(upstream);
  assert.ok(!isAlive(pid));
  assert.equal((await ask(upstream, { sessionId: first, body: toolCall(2, 'pid') })).head?.status, 404);
  assert.match(await callTool(upstream, third, 'pid'), /^\d+$/);
  secondWaits.call.abort(gone());
});

test('a session without requests ends after half an hour, and its child with it', async (t) => {
  const clock = new ManualClock();
  const { upstream } = startStdio(t, sceneTarget(), clock);
  const pid = Number(await callTool(upstream, await openSession(upstream), 'pid'));
  clock.advance(29 * 60_000);
  assert.ok(isAlive(pid));
  clock.advance(2 * 60_000);
  await untilGone(pid);
});

test('kill -9 of the child: pending requests fail, later ones are 404, and a new session has a new child', async (t) => {
  const { upstream, sessionId, pid, log } = await session(t);
  const waiting = new Asked(upstream, { sessionId, body: toolCall(1, 'wait', { name: 'a' }) });
  const listener = new Asked(upstream, { method: 'GET', sessionId });
  await listener.headed;
  process.kill(pid, 'SIGKILL');
  const { error } = await waiting.over;
  assert.equal(error?.code, 'upstream_reset');
  assert.match(error.message, /scenes ended by SIGKILL/);
  assert.equal((await listener.over).error?.code, 'upstream_reset');
  assert.equal((await ask(upstream, { sessionId, body: toolCall(2, 'pid') })).head?.status, 404);
  assert.ok(log.lines.some(({ message }) => /ended by SIGKILL; its session is over/.test(message)));
  assert.match(await callTool(upstream, await openSession(upstream), 'pid'), /^\d+$/);
});

test('a child that hangs is given up at the time limit of the caller; in the handshake it is ended', async (t) => {
  const { upstream, sessionId } = await session(t);
  const body = toolCall(1, 'wait', { name: 'a' });
  const late = await ask(upstream, { sessionId, body, headTimeoutMs: 50 });
  assert.equal(late.error?.code, 'upstream_timeout');
  assert.match(await callTool(upstream, sessionId, 'events'), /a:waits a:cancelled/);

  const silent = scripted('process.stderr.write(`pid ${process.pid}\\n`); setInterval(() => 0, 1e6)');
  const { upstream: hanging, log } = startStdio(t, silent);
  const greeting = await ask(hanging, { body: initialize, headTimeoutMs: 500 });
  assert.equal(greeting.error?.code, 'upstream_timeout');
  const told = await eventually(() => log.lines.find(({ fields }) => JSON.stringify(fields).includes('pid')));
  await untilGone(Number(/pid (\d+)/.exec(JSON.stringify(told.fields))?.[1]));
});

test('a reader without room holds the child up, and nothing is lost', async (t) => {
  const { upstream, sessionId } = await session(t);
  const listener = new Asked(upstream, { method: 'GET', sessionId }, false);
  await listener.headed;
  const flooding = new Asked(upstream, {
    sessionId,
    body: toolCall(1, 'flood', { messages: 400, bytes: 100_000 }),
  });
  await eventually(() => listener.chunks.length === 1 || undefined);
  const other = await openSession(upstream);
  for (let i = 0; i < 50; i += 1) await callTool(upstream, other, 'pid');
  assert.deepEqual([listener.chunks.length, flooding.headSeen], [1, undefined]);
  listener.reads = true;
  listener.call.resume();
  assert.match((await flooding.over).body, /flooded/);
  assert.equal(listener.text.match(/"data":"\d+:x/g)?.length, 400);
  assert.ok(listener.chunks.every((chunk) => chunk.length < 1_500_000));
});

test('what is no message is logged and passed over; a message beyond 16 MiB fails its request', async (t) => {
  const { upstream, sessionId, log } = await session(t, { env: { TOKEN: 'tk-secret' } });
  const deep = `[{"jsonrpc":"2.0","method":"m","params":{"p":${'['.repeat(200_000)}${']'.repeat(200_000)}}}]`;
  const garbage = `starting with tk-secret\n\n{"jsonrpc":"2.0"}\n${deep}\n[1]\n\u0000\u0001\n`;
  assert.equal(await callTool(upstream, sessionId, 'print', { text: garbage }), 'printed');
  const logged = log.lines.map(({ fields }) => (fields as { line?: string }).line);
  assert.deepEqual(logged.slice(0, 2), ['starting with ***', '{"jsonrpc":"2.0"}']);
  assert.ok(logged.every((line = '') => line.length <= 2_048));
  const waiting = new Asked(upstream, { sessionId, body: toolCall(1, 'wait', { name: 'a' }) });
  const { error } = await ask(upstream, { sessionId, body: toolCall(2, 'big', { bytes: 17_000_000 }) });
  assert.equal(error?.code, 'upstream_too_large');
  const large = await ask(upstream, { sessionId, body: toolCall(3, 'big', { bytes: 16_000_000 }) });
  assert.ok(large.body.length > 16_000_000);
  waiting.call.abort(gone());
});

test('standard error goes to the log by the line: bounded, and without the values of its variables', async (t) => {
  const { upstream, sessionId, log } = await session(t, { env: { TOKEN: 'tk-secret\nof two lines' } });
  const complain = (text: string, times: number) =>
    callTool(upstream, sessionId, 'complain', { text, times });
  await complain(`${'x'.repeat(5_000)}tk-secret`, 1);
  await complain('key tk-secret, of two lines', 500);
  await eventually(() => log.lines.length >= 50 || undefined);
  const lines = log.lines.map(({ fields }) => fields as { server: string; line: string });
  assert.equal(lines.length, 50);
  assert.deepEqual(lines[0], { server: 'scenes', line: 'x'.repeat(2_048) });
  assert.deepEqual(lines[49], { server: 'scenes', line: 'key ***, ***' });
});

test('the child has its variables, and few of those of the gateway', async (t) => {
  process.env['WEIR_TEST_SECRET'] = 'sk-1';
  t.after(() => delete process.env['WEIR_TEST_SECRET']);
  const { upstream, sessionId } = await session(t, { env: { TOKEN: 'a' } });
  const env = JSON.parse(await callTool(upstream, sessionId, 'env')) as Record<string, string>;
  assert.deepEqual(
    [env['TOKEN'], env['WEIR_TEST_SECRET'], env['PATH']],
    ['a', undefined, process.env['PATH']],
  );
});

test('a program that is not there or ends at once is not started again and again', async (t) => {
  const missing = startStdio(t, sceneTarget({ command: '/nowhere/server' }));
  const refused = await ask(missing.upstream, { body: initialize });
  assert.equal(refused.error?.code, 'upstream_unreachable');
  assert.match(refused.error.message, /could not be started \(ENOENT\)/);
  const nul = startStdio(t, sceneTarget({ args: ['a\0b'] }));
  assert.equal((await ask(nul.upstream, { body: initialize })).error?.code, 'upstream_unreachable');

  const clock = new ManualClock();
  const { upstream, log } = startStdio(t, scripted('process.exit(3)'), clock);
  for (const delay of [0, 100, 200, 400, 800, 1_600]) {
    const asked = new Asked(upstream, { body: initialize });
    clock.advance(delay);
    assert.match((await asked.over).error?.message ?? '', /scenes ended with code 3/);
  }
  const early = await ask(upstream, { body: initialize });
  assert.match(early.error?.message ?? '', /code 3, 6 times in a row; it is started again in 4 s/);
  assert.equal(log.lines.filter(({ message }) => message.includes('in a row')).length, 5);
  clock.advance(2_000);
  const later = new Asked(upstream, { body: initialize });
  clock.advance(2_000);
  assert.match((await later.over).error?.message ?? '', /7 times in a row|ended with code 3/);
});

test('a handshake that the child refuses opens no session, and the child ends', async (t) => {
  const answer = '{"jsonrpc":"2.0","id":"hello","error":{"code":-32602,"message":"too old"}}';
  const code = `process.stdin.once('data', () => console.log('${answer}')); setInterval(() => 0, 1e6)`;
  const { upstream } = startStdio(t, scripted(code, { maxChildren: 1 }));
  for (let i = 0; i < 2; i += 1) {
    const refused = await ask(upstream, { body: initialize });
    assert.deepEqual([refused.head?.status, refused.head?.sessionId], [200, undefined]);
    assert.match(refused.body, /too old/);
  }
});

test('closing leaves no process: not one that ignores SIGTERM, nor one that a child has started', async (t) => {
  const { upstream, sessionId, pid } = await session(t);
  const descendant = Number(await callTool(upstream, sessionId, 'descend'));
  const greeting = '{"jsonrpc":"2.0","id":"hello","result":{"protocolVersion":"2025-11-25"}}';
  const stubborn = startStdio(
    t,
    scripted(`
      process.on('SIGTERM', () => process.stderr.write('no\\n'));
      process.stderr.write('pid ' + process.pid + '\\n');
      process.stdin.once('data', () => console.log('${greeting}'));
      setInterval(() => 0, 1e6);
    `),
  );
  assert.equal((await ask(stubborn.upstream, { body: initialize })).head?.status, 200);
  const lines = () => JSON.stringify(stubborn.log.lines);
  const stubbornPid = Number(await eventually(() => /pid (\d+)/.exec(lines())?.[1]));
  const started = performance.now();
  await Promise.all([upstream.close(), stubborn.upstream.close()]);
  assert.ok(performance.now() - started < 20_000, 'it has waited for a process that does not end');
  await untilGone(pid);
  await untilGone(descendant);
  await untilGone(stubbornPid);
});

test('the output of a child that ends right after it still arrives', async (t) => {
  const { upstream } = startStdio(
    t,
    scripted(`
      process.stdin.on('data', (text) => {
        const { id, method } = JSON.parse(text);
        const result = { text: 'x'.repeat(method === 'initialize' ? 1 : 1e6) };
        const line = JSON.stringify({ jsonrpc: '2.0', id, result }) + '\\n';
        process.stdout.write(line, () => method === 'initialize' || process.exit(0));
      });
    `),
  );
  const { head } = await ask(upstream, { body: initialize });
  const last = await ask(upstream, { sessionId: head?.sessionId, body: toolCall(1, 'any') });
  assert.deepEqual([last.error, last.body.length > 1e6], [undefined, true]);
});
