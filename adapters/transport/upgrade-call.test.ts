import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import https from 'node:https';
import type { AddressInfo } from 'node:net';
import { describe, test, type TestContext } from 'node:test';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { SwitchedAnswer, UpgradeCall, UpstreamRequest } from '../../core/ports/transport.ts';
import { noMetrics, RawServer, scripted, silentLog, testTransport, until } from './transport.test-support.ts';
import { createUndiciTransport, type UndiciTransport } from './undici-transport.ts';

const switching =
  'HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\nX-Odd: a\r\n\r\n';

async function server(t: TestContext, answer: string): Promise<RawServer> {
  const raw = await RawServer.start(scripted((socket) => socket.write(answer)));
  t.after(() => raw.stop());
  return raw;
}

function opened(t: TestContext, limits: Parameters<typeof testTransport>[0] = {}): UndiciTransport {
  const transport = testTransport(limits);
  t.after(() => transport.close());
  return transport;
}

function ask(
  transport: UndiciTransport,
  request: Partial<UpstreamRequest> & { origin: string },
): UpgradeCall {
  return transport.upgrade({
    method: 'GET',
    path: '/realtime',
    headers: ['sec-websocket-version', '13'],
    body: null,
    connectTimeoutMs: 5000,
    headTimeoutMs: 5000,
    idleTimeoutMs: 5000,
    ...request,
    origin: request.origin,
  });
}

async function switched(call: UpgradeCall): Promise<SwitchedAnswer> {
  const answer = await call.answer;
  assert.equal(answer.kind, 'switched');
  return answer;
}

const code = (expected: string) => (error: unknown) => GatewayError.is(error) && error.code === expected;
const stopped = new GatewayError('client_closed', 'Enough.');

describe('a request for WebSocket', () => {
  test('switches after informational answers, and keeps the bytes that came with the head', async (t) => {
    const raw = await server(
      t,
      `HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n${switching}abc`,
    );
    const transport = opened(t);
    const { headers, connection } = await switched(ask(transport, { origin: raw.origin }));
    assert.deepEqual(headers, ['upgrade', 'websocket', 'connection', 'upgrade', 'X-Odd', 'a']);
    let text = '';
    connection.on('data', (chunk: Buffer) => (text += chunk.toString('latin1'))).resume();
    await until(() => text === 'abc', 'the bytes behind the head');
    raw.sockets.forEach((socket) => socket.write('def'));
    await until(() => text === 'abcdef', 'the bytes after it');
  });

  test('sends its head once, with the upgrade, and never on a connection that was used', async (t) => {
    let seen = '';
    const raw = await RawServer.start((socket) => {
      socket.on('data', (chunk: Buffer) => {
        seen += chunk.toString('latin1');
        socket.write(switching);
      });
    });
    t.after(() => raw.stop());
    const transport = opened(t);
    await switched(
      ask(transport, {
        origin: raw.origin,
        headers: ['Connection', 'keep-alive', 'Upgrade', 'other', 'Sec-WebSocket-Key', 'a2V5'],
      }),
    );
    assert.match(seen, /^GET \/realtime HTTP\/1\.1\r\n/);
    assert.deepEqual(seen.match(/^(?:connection|upgrade): .*$/gim), [
      'connection: upgrade',
      'upgrade: websocket',
    ]);
    assert.match(seen, /\r\nSec-WebSocket-Key: a2V5\r\n/);
    await switched(ask(transport, { origin: raw.origin }));
    assert.equal(raw.accepted, 2);
  });

  test('counts as a call to its origin until its connection has closed', async (t) => {
    const raw = await server(t, switching);
    const transport = opened(t, { maxPerOrigin: 1 });
    const { connection } = await switched(ask(transport, { origin: raw.origin }));
    assert.deepEqual(transport.stats(), { origins: 1, connections: 1, pending: 0, running: 1 });
    await assert.rejects(ask(transport, { origin: raw.origin }).answer, code('upstream_busy'));
    connection.destroy();
    await until(() => transport.stats().connections === 0, 'the connection to be closed');
    assert.deepEqual(transport.stats(), { origins: 0, connections: 0, pending: 0, running: 0 });
    await switched(ask(transport, { origin: raw.origin }));
  });

  test('may be aborted before and after the switch', async (t) => {
    const silent = await RawServer.start(() => undefined);
    t.after(() => silent.stop());
    const transport = opened(t);
    const waiting = ask(transport, { origin: silent.origin });
    await until(() => silent.accepted === 1, 'the connection');
    waiting.abort(stopped);
    await assert.rejects(waiting.answer, code('client_closed'));
    const raw = await server(t, switching);
    const call = ask(transport, { origin: raw.origin });
    const { connection } = await switched(call);
    call.abort(stopped);
    assert.ok(connection.destroyed);
    await until(() => transport.stats().connections === 0, 'both to be closed');
    assert.deepEqual([transport.stats().running, transport.stats().pending], [0, 0]);
  });

  test('a call that a caller addressed never reaches loopback', async (t) => {
    const raw = await server(t, switching);
    const transport = createUndiciTransport({
      log: silentLog,
      metrics: noMetrics,
      clock: { now: () => 0, monotonic: () => 0, after: () => () => undefined },
      resolve: () => Promise.resolve([{ address: '127.0.0.1', family: 4 }]),
    });
    t.after(() => transport.close());
    for (const host of ['127.0.0.1', 'localhost', 'a.example.com']) {
      const origin = `http://${host}:${raw.port}`;
      await assert.rejects(ask(transport, { origin, guarded: true }).answer, code('address_refused'), host);
    }
    assert.equal(raw.accepted, 0);
  });

  test('fails with what went wrong, in time', async (t) => {
    const transport = opened(t);
    const silent = await RawServer.start(() => undefined);
    t.after(() => silent.stop());
    const closing = await RawServer.start((socket) => socket.end());
    t.after(() => closing.stop());
    const garbage = await server(t, 'SSH-2.0-OpenSSH_9\r\n\r\n');
    const torn = await server(t, 'HTTP/1.1 403 Forbidden\r\ncontent-length: 9\r\n\r\nabc');
    const cases: readonly (readonly [string, Partial<UpstreamRequest> & { origin: string }])[] = [
      ['upstream_timeout', { origin: silent.origin, headTimeoutMs: 50 }],
      ['upstream_timeout', { origin: torn.origin, idleTimeoutMs: 50 }],
      ['upstream_reset', { origin: closing.origin }],
      ['upstream_invalid', { origin: garbage.origin }],
      ['upstream_unreachable', { origin: 'http://127.0.0.1:9' }],
      ['upstream_unreachable', { origin: 'mock:' }],
      ['invalid_header', { origin: silent.origin, headers: ['bad header', 'x'] }],
    ];
    for (const [expected, request] of cases) {
      await assert.rejects(ask(transport, request).answer, code(expected), expected);
    }
    assert.deepEqual([transport.stats().running, transport.stats().pending], [0, 0]);
    await until(() => transport.stats().connections === 0, 'every connection to be closed');
    await transport.close();
    await assert.rejects(ask(transport, { origin: silent.origin }).answer, code('shutting_down'));
  });

  test('closing the transport ends what switched and what waits', async (t) => {
    const raw = await server(t, switching);
    const silent = await RawServer.start(() => undefined);
    t.after(() => silent.stop());
    const transport = opened(t);
    const { connection } = await switched(ask(transport, { origin: raw.origin }));
    const waiting = ask(transport, { origin: silent.origin });
    const ended = assert.rejects(waiting.answer, code('shutting_down'));
    await transport.close();
    await ended;
    assert.ok(connection.destroyed);
    assert.equal(transport.stats().connections, 0);
  });

  test('over TLS the certificate is looked at', async (t) => {
    const file = (name: string) => readFile(new URL(`../../tests/fixtures/tls/${name}`, import.meta.url));
    const secure = https.createServer({ cert: await file('server.pem'), key: await file('server-key.pem') });
    secure.on('upgrade', (_request, socket) => socket.end(`${switching}secret`));
    await new Promise<void>((resolve) => secure.listen(0, '127.0.0.1', resolve));
    t.after(() => secure.close());
    const transport = opened(t);
    const origin = `https://127.0.0.1:${(secure.address() as AddressInfo).port}`;
    // The authority of the tests is not trusted in this process.
    await assert.rejects(ask(transport, { origin }).answer, /TLS failed.*the certificate is not trusted/);
  });
});
