import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { createAddressGuard } from '../addresses/address-guard.ts';
import { Connection, TlsSessions } from './connection.ts';
import { noMetrics, RawServer, scripted, send, silentLog, until } from './transport.test-support.ts';
import { createUndiciTransport, type UndiciTransportOptions } from './undici-transport.ts';

const clock = { now: () => 0, monotonic: () => performance.now(), after: () => () => undefined };

function guardedTransport(t: TestContext, more: Partial<UndiciTransportOptions> = {}) {
  const transport = createUndiciTransport({ log: silentLog, metrics: noMetrics, clock, ...more });
  t.after(() => transport.close());
  return transport;
}

async function server(t: TestContext, received: Buffer[] = []) {
  const ok = scripted((socket) => socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok'));
  const raw = await RawServer.start((socket) => {
    socket.on('data', (chunk: Buffer) => received.push(chunk));
    ok(socket);
  });
  t.after(() => raw.stop());
  return raw;
}

describe('guarded calls', () => {
  test('never reach loopback: by address, by name, by a name that leads there', async (t) => {
    const raw = await server(t);
    const resolve = () => Promise.resolve([{ address: '127.0.0.1', family: 4 }]);
    const transport = guardedTransport(t, { resolve });
    for (const host of ['127.0.0.1', '[::1]', 'localhost', 'a.example.com', '2130706433', '127.1']) {
      for (const scheme of ['http', 'https']) {
        const { error, facts } = await send(transport, {
          origin: `${scheme}://${host}:${raw.port}`,
          guarded: true,
        }).ended;
        assert.equal(error?.code, 'address_refused', host);
        assert.deepEqual(facts, { stale: false });
      }
    }
    assert.equal(raw.accepted, 0);
    await until(() => transport.stats().origins === 0, 'no pool is left');
  });

  test('never use a connection that was opened without the guard, nor the other way round', async (t) => {
    const raw = await server(t);
    const transport = guardedTransport(t);
    const { origin } = raw;
    assert.equal((await send(transport, { origin }).ended).status, 200);
    // undici reports a moment later that the connection is free.
    await new Promise((resolve) => setTimeout(resolve, 20));
    assert.equal((await send(transport, { origin, guarded: true }).ended).error?.code, 'address_refused');
    assert.equal((await send(transport, { origin, guarded: false }).ended).status, 200);
    assert.equal(raw.accepted, 1, 'the connection without the guard was kept and used again');
  });

  test('have room for so many origins of their own, and take none from the others', async (t) => {
    const raw = await server(t);
    let waits = 0;
    const resolve = () => new Promise<never>(() => (waits += 1));
    const transport = guardedTransport(t, { resolve, maxGuardedOrigins: 2, maxOrigins: 1 });
    const first = send(transport, { origin: 'http://a.example.com', guarded: true });
    const second = send(transport, { origin: 'http://b.example.com', guarded: true });
    const third = await send(transport, { origin: 'http://c.example.com', guarded: true }).ended;
    assert.equal(third.error?.code, 'upstream_busy');
    assert.equal((await send(transport, { origin: raw.origin }).ended).status, 200);
    assert.deepEqual([waits, transport.stats().origins, transport.stats().pending], [2, 3, 2]);
    await transport.close();
    for (const { ended } of [first, second]) assert.equal((await ended).error?.code, 'shutting_down');
  });

  for (const scheme of ['http', 'https']) {
    test(`over ${scheme}: a socket that stands at another address than was checked is cut before a byte is sent`, async (t) => {
      const received: Buffer[] = [];
      const raw = await server(t, received);
      const guard = {
        ...createAddressGuard(),
        lookup: (_name: string, _options: object, callback: (...found: never[]) => void) =>
          callback(...([null, [{ address: '127.0.0.1', family: 4 }]] as never[])),
      };
      const owner = { connectionIdle: () => undefined, connectionGone: () => undefined };
      const observer = {
        sessions: new TlsSessions(),
        opened: () => 0,
        connected: () => assert.fail('it was used'),
        closed: () => undefined,
      };
      const connection = new Connection(`${scheme}://a.example.com:${raw.port}`, owner, observer, guard);
      connection.call = { resume: () => undefined, abort: () => undefined };
      const error = await new Promise<unknown>((resolve) =>
        connection.dispatch(
          { method: 'GET', path: '/' },
          {
            onConnect: () => undefined,
            onHeaders: () => assert.fail('it was answered'),
            onData: () => true,
            onComplete: () => undefined,
            onError: resolve,
          },
        ),
      );
      assert.equal((error as { code?: string }).code, 'address_refused');
      connection.destroy();
      await until(() => raw.accepted === 1 && raw.sockets.size === 0, 'the socket is closed');
      assert.equal(Buffer.concat(received).length, 0);
    });
  }
});
