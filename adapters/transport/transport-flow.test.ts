import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { createServer as createTlsServer, type TLSSocket } from 'node:tls';
import { createMetrics } from '../telemetry/prometheus.ts';
import { RawServer, Recorder, scripted, send, testTransport, until } from './transport.test-support.ts';
import type { UndiciTransport } from './undici-transport.ts';

let transport: UndiciTransport;
const cleanups: (() => Promise<unknown>)[] = [];

beforeEach(() => {
  transport = testTransport();
});
afterEach(async () => {
  await transport.close();
  assert.equal(transport.stats().connections, 0);
  for (const cleanup of cleanups.splice(0)) await cleanup();
});

describe('flow control', () => {
  /** A server that offers `total` bytes as fast as they are taken, and how many it has handed to its socket. */
  async function offering(total: number): Promise<{ origin: string; handed: () => number }> {
    let handed = 0;
    const server = createServer((_, response) => {
      const chunk = Buffer.alloc(65_536, 'w');
      const more = () => {
        while (handed < total) {
          handed += chunk.length;
          if (!response.write(chunk)) {
            response.once('drain', more);
            return;
          }
        }
        response.end();
      };
      more();
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    cleanups.push(() => {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(resolve));
    });
    const { port } = server.address() as AddressInfo;
    return { origin: `http://127.0.0.1:${port}`, handed: () => handed };
  }

  it('stops the server while the reader has no room, and loses nothing', async () => {
    const total = 64 * 1024 * 1024;
    const server = await offering(total);
    const recorder = new Recorder();
    let received = 0;
    recorder.onData = (chunk) => {
      received += chunk.length;
      return false;
    };
    send(transport, server, recorder);
    await until(() => received > 0, 'the first chunk');
    let before = -1;
    while (server.handed() !== before) {
      before = server.handed();
      await new Promise((resolve) => setTimeout(resolve, 30));
    }
    assert.ok(
      before < 24 * 1024 * 1024,
      `${before} bytes left the server for a reader that took ${received}`,
    );
    assert.ok(received < 200_000, `${received} bytes came after the pause`);
    let chunks = 0;
    recorder.onData = (chunk) => {
      recorder.chunks.length = 0;
      received += chunk.length;
      chunks += 1;
      // Once from outside and once from inside the call.
      if (chunks % 2 === 0) setImmediate(() => recorder.resume());
      else recorder.resume();
      return false;
    };
    recorder.resume();
    assert.equal((await recorder.ended).error, undefined);
    assert.equal(received, total);
  });

  it('lets one call resume another from inside its own data', async () => {
    const server = await RawServer.start(
      scripted((socket) => {
        socket.write('HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nabc');
        setTimeout(() => socket.write('def'), 5);
      }),
    );
    cleanups.push(() => server.stop());
    const paused = new Recorder();
    paused.onData = () => false;
    send(transport, server, paused);
    await until(() => paused.chunks.length === 1, 'the first call is paused');
    paused.onData = () => true;
    const other = new Recorder();
    other.onData = () => {
      paused.resume();
      return true;
    };
    send(transport, server, other);
    assert.deepEqual(
      [(await other.ended).error, (await paused.ended).body.toString()],
      [undefined, 'abcdef'],
    );
  });
});

describe('TLS', () => {
  async function tlsServer(): Promise<{ origin: string; sockets: TLSSocket[] }> {
    const sockets: TLSSocket[] = [];
    const server = createTlsServer({ key, cert }, (socket) => {
      sockets.push(socket);
      socket.on('error', () => undefined);
      scripted(() => socket.write('HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx'))(socket);
    });
    server.on('tlsClientError', () => undefined);
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    cleanups.push(() => {
      for (const socket of sockets) socket.destroy();
      return new Promise((resolve) => server.close(resolve));
    });
    return { origin: `https://127.0.0.1:${(server.address() as AddressInfo).port}`, sockets };
  }

  it('refuses a certificate that nobody vouches for, and says how to trust it', async () => {
    const server = await tlsServer();
    const { error, facts } = await send(transport, server).ended;
    assert.deepEqual([error?.code, facts?.stale], ['upstream_unreachable', false]);
    assert.match(error?.message ?? '', /TLS failed, DEPTH_ZERO_SELF_SIGNED_CERT, .* NODE_EXTRA_CA_CERTS/);
  });

  it('tells a stale connection by what was answered, not by the closing alert; then resumes the session', async () => {
    const server = await tlsServer();
    process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0';
    try {
      assert.equal((await send(transport, server).ended).body.toString(), 'x');
      await new Promise((resolve) => setTimeout(resolve, 20));
      const [first] = server.sockets;
      first?.removeAllListeners('data').on('data', () => first.end());
      const { error, facts } = await send(transport, server).ended;
      assert.deepEqual([error?.code, facts?.stale], ['upstream_reset', true]);
      assert.equal((await send(transport, server).ended).body.toString(), 'x');
      assert.equal(server.sockets.length, 2);
      assert.equal(server.sockets[1]?.isSessionReused(), true);
    } finally {
      delete process.env.NODE_TLS_REJECT_UNAUTHORIZED;
    }
  });
});

describe('metrics', () => {
  it('shows connections, calls and failures', async () => {
    const metrics = createMetrics();
    transport = testTransport({ metrics });
    const server = await RawServer.start((socket) => socket.resume());
    cleanups.push(() => server.stop());
    const first = send(transport, server);
    send(transport, server);
    await until(() => transport.stats().running === 2, 'both are on the wire');
    const { text } = await metrics.render();
    for (const line of [
      'weir_upstream_connections 2',
      'weir_upstream_origins 1',
      'weir_upstream_calls_pending 0',
      'weir_upstream_calls_running 2',
      'weir_upstream_connect_seconds_count 2',
    ]) {
      assert.ok(text.includes(`\n${line}\n`), line);
    }
    await until(() => [...server.sockets].length === 2, 'the server has accepted both');
    for (const socket of server.sockets) socket.destroy();
    await first.ended;
    await until(() => transport.stats().running === 0, 'both have failed');
    const later = await metrics.render();
    assert.ok(later.text.includes('weir_upstream_failures_total{code="upstream_reset"} 2'));
  });
});

// A self-signed pair for 127.0.0.1, made for this test and used nowhere else.
const key = `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgbfhyYKePCS35ManS
xvqFu+MPg25c/56tl7zlGCQdU7qhRANCAARztyVI0a2lfvj/LM38l9caE4aoxdMk
H3ksfKAjDZNpLrxFIZxp7DvI0Sk3sTld06mpNsVg/7V83QvnyWMTVZDC
-----END PRIVATE KEY-----`;
const cert = `-----BEGIN CERTIFICATE-----
MIIBSjCB8aADAgECAgEBMAoGCCqGSM49BAMCMBQxEjAQBgNVBAMMCWxvY2FsaG9z
dDAgFw0yMDAxMDEwMDAwMDBaGA8yMTIwMDEwMTAwMDAwMFowFDESMBAGA1UEAwwJ
bG9jYWxob3N0MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEc7clSNGtpX74/yzN
/JfXGhOGqMXTJB95LHygIw2TaS68RSGcaew7yNEpN7E5XdOpqTbFYP+1fN0L58lj
E1WQwqMyMDAwDwYDVR0RBAgwBocEfwAAATAdBgNVHQ4EFgQU4q8eYnQkcbqxYrbP
14IoYTQLyfwwCgYIKoZIzj0EAwIDSAAwRQIhAOgAy77nsV5SHUJ48WRttMO+Edex
oOofN9P9Whq34RO6AiAf1uwZwXJvxT96T19qCL0nMh1InFRxSWC18NTY2MvMzg==
-----END CERTIFICATE-----`;
