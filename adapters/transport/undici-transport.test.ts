import assert from 'node:assert/strict';
import { createServer, type IncomingMessage, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { after, afterEach, beforeEach, describe, it } from 'node:test';
import { gzipSync } from 'node:zlib';
import {
  RawServer,
  Recorder,
  scripted,
  send,
  testTransport,
  until,
  type Reply,
} from './transport.test-support.ts';
import type { UndiciTransport } from './undici-transport.ts';

let transport: UndiciTransport;
const cleanups: (() => Promise<unknown> | undefined)[] = [];

beforeEach(() => {
  transport = testTransport();
});
afterEach(async () => {
  await transport.close();
  assert.deepEqual(transport.stats(), { origins: 0, connections: 0, pending: 0, running: 0 });
  for (const cleanup of cleanups.splice(0)) await cleanup();
});

async function httpServer(listener: RequestListener): Promise<{ origin: string; server: Server }> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  cleanups.push(() => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  });
  return { origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, server };
}

async function rawServer(...replies: readonly Reply[]): Promise<RawServer> {
  const server = await RawServer.start(scripted(...replies));
  cleanups.push(() => server.stop());
  return server;
}

async function readAll(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}

describe('answers', () => {
  it('hands over status, raw headers in order and case, and the body', async () => {
    const server = await rawServer((socket) =>
      socket.write(
        'HTTP/1.1 201 Created\r\nX-B: 1\r\nSet-Cookie: a=1\r\nx-a: \xe9\r\nSET-COOKIE: b=2\r\nContent-Length: 3\r\n\r\nabc',
        'latin1',
      ),
    );
    const outcome = await send(transport, server).ended;
    assert.equal(outcome.status, 201);
    assert.deepEqual(outcome.headers, [
      ...['X-B', '1', 'Set-Cookie', 'a=1', 'x-a', '\xe9', 'SET-COOKIE', 'b=2', 'Content-Length', '3'],
    ]);
    assert.equal(outcome.body.toString(), 'abc');
    assert.equal(outcome.error, undefined);
  });

  it('does not touch compressed bytes', async () => {
    const packed = gzipSync('x'.repeat(10_000));
    const { origin } = await httpServer((_, response) => {
      response.writeHead(200, { 'content-encoding': 'gzip' }).end(packed);
    });
    const outcome = await send(transport, { origin }).ended;
    assert.ok(outcome.body.equals(packed));
  });

  const heads = [
    ['100 Continue', 'HTTP/1.1 100 Continue\r\n\r\n'],
    ['103 Early Hints', 'HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n'],
    [
      'several',
      'HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n',
    ],
  ] as const;
  for (const [name, informational] of heads) {
    it(`ignores informational answers: ${name}, in one piece and byte by byte`, async () => {
      const bytes = `${informational}HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok`;
      const whole = await rawServer((socket) => socket.write(bytes));
      assert.equal((await send(transport, whole).ended).status, 200);
      const slow = await rawServer((socket) => {
        socket.setNoDelay(true);
        let sent = 0;
        const next = () => {
          if (sent < bytes.length) socket.write(bytes[sent++] as string, () => setImmediate(next));
        };
        next();
      });
      const outcome = await send(transport, slow).ended;
      assert.deepEqual([outcome.status, outcome.body.toString(), outcome.error], [200, 'ok', undefined]);
    });
  }

  const bodiless = [
    ['HEAD', 'HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n'],
    ['GET', 'HTTP/1.1 204 No Content\r\n\r\n'],
    ['GET', 'HTTP/1.1 304 Not Modified\r\ncontent-length: 500\r\n\r\n'],
    ['POST', 'HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n'],
  ] as const;
  for (const [method, reply] of bodiless) {
    it(`ends an answer without a body: ${method}, ${reply.slice(9, 12)}`, async () => {
      const server = await rawServer((socket) => socket.write(reply));
      const outcome = await send(transport, { origin: server.origin, method }).ended;
      assert.deepEqual([outcome.error, outcome.body.length], [undefined, 0]);
      assert.equal(outcome.status, Number(reply.slice(9, 12)));
    });
  }

  it('ends an answer that is delimited by the end of its connection', async () => {
    const server = await rawServer((socket) => socket.end('HTTP/1.1 200 OK\r\n\r\nuntil the end'));
    const outcome = await send(transport, server).ended;
    assert.deepEqual([outcome.error, outcome.body.toString()], [undefined, 'until the end']);
  });

  it('carries large bodies both ways', async () => {
    const { origin } = await httpServer((request, response) => void request.pipe(response));
    const body = Buffer.alloc(20 * 1024 * 1024, 'weir');
    const outcome = await send(transport, { origin, method: 'POST', body }).ended;
    assert.equal(outcome.error, undefined);
    assert.ok(outcome.body.equals(body));
  });
});

describe('requests', () => {
  it('writes path, headers in order and the framing of the body', async () => {
    let head = '';
    const server = await RawServer.start((socket) =>
      socket.on('data', (chunk) => {
        head += chunk.toString('latin1');
        if (head.endsWith('hello')) socket.write('HTTP/1.1 204 No Content\r\n\r\n');
      }),
    );
    cleanups.push(() => server.stop());
    const headers = ['X-One', '1', 'content-length', '99', 'connection', 'close', 'expect', '100-continue'];
    headers.push('x-one', '2', 'Transfer-Encoding', 'chunked', 'Keep-Alive', 'x', 'upgrade', 'h2c');
    await send(transport, {
      origin: server.origin,
      method: 'PATCH',
      path: '/v1/a%2Fb?c=%20',
      headers,
      body: Buffer.from('hello'),
    }).ended;
    assert.deepEqual(head.split('\r\n'), [
      'PATCH /v1/a%2Fb?c=%20 HTTP/1.1',
      `host: 127.0.0.1:${server.port}`,
      'connection: keep-alive',
      'X-One: 1',
      'x-one: 2',
      'content-length: 5',
      '',
      'hello',
    ]);
  });

  const framings = [
    ['POST', [], undefined, 'chunked'],
    ['PUT', ['content-length', '6'], '6', undefined],
    ['DELETE', [], undefined, 'chunked'],
  ] as const;
  for (const [method, headers, length, encoding] of framings) {
    it(`streams a body: ${method}, ${encoding ?? 'with its length'}`, async () => {
      const { origin } = await httpServer((request, response) => {
        assert.equal(request.headers['content-length'], length);
        assert.equal(request.headers['transfer-encoding'], encoding);
        void readAll(request).then((body) => response.end(body));
      });
      const body = new Readable({ read: () => undefined });
      const recorder = send(transport, { origin, method, headers, body });
      body.push('abc');
      setImmediate(() => {
        body.push('def');
        body.push(null);
      });
      assert.equal((await recorder.ended).body.toString(), 'abcdef');
    });
  }

  it('holds a streamed body back while the server does not read it', async () => {
    const server = await RawServer.start((socket) => socket.pause());
    cleanups.push(() => server.stop());
    let produced = 0;
    const body = new Readable({
      read() {
        produced += 65_536;
        this.push(Buffer.alloc(65_536));
      },
    });
    const recorder = send(transport, { origin: server.origin, method: 'POST', body, headTimeoutMs: 300 });
    const outcome = await recorder.ended;
    assert.equal(outcome.error?.code, 'upstream_timeout', 'a server that takes nothing is timed out');
    assert.ok(produced < 32 * 1024 * 1024, `${produced} bytes were produced`);
    assert.equal(body.destroyed, false, 'the source belongs to the caller');
  });

  it('waits as long as the client needs to send its body', async () => {
    const { origin } = await httpServer((request, response) => {
      void readAll(request).then((body) => response.end(body));
    });
    const body = new Readable({ read: () => undefined });
    const recorder = send(transport, { origin, method: 'POST', body, headTimeoutMs: 40 });
    body.push('a');
    await new Promise((resolve) => setTimeout(resolve, 150));
    body.push(null);
    assert.equal((await recorder.ended).body.toString(), 'a');
  });

  it('keeps an answer that comes before the body is sent, and leaves the source alone', async () => {
    const server = await rawServer((socket) =>
      socket.write('HTTP/1.1 413 Too Large\r\ncontent-length: 3\r\n\r\nbig'),
    );
    const body = new Readable({ read: () => undefined });
    body.push('some');
    const outcome = await send(transport, { origin: server.origin, method: 'POST', body }).ended;
    assert.deepEqual([outcome.status, outcome.body.toString(), outcome.error], [413, 'big', undefined]);
    await until(() => transport.stats().connections === 0, 'the half-used connection is closed');
    assert.equal(body.destroyed, false);
  });
});

describe('connections', () => {
  it('uses a connection again and opens no more than there are calls', async () => {
    const { origin } = await httpServer((_, response) => setImmediate(() => response.end('x')));
    for (let round = 0; round < 3; round += 1) {
      const calls = Array.from({ length: 5 }, () => send(transport, { origin }).ended);
      assert.deepEqual(
        new Set((await Promise.all(calls)).map((outcome) => outcome.error)),
        new Set([undefined]),
      );
      await new Promise(setImmediate);
      await new Promise(setImmediate);
    }
    assert.deepEqual(transport.stats(), { origins: 1, connections: 5, pending: 0, running: 0 });
  });

  it('does not use a connection again when the server announces its end', async () => {
    const server = await rawServer((socket) =>
      socket.write('HTTP/1.1 200 OK\r\nkeep-alive: timeout=1\r\ncontent-length: 1\r\n\r\nx'),
    );
    await send(transport, server).ended;
    await until(() => server.sockets.size === 0, 'the connection is closed');
    assert.equal((await send(transport, server).ended).error, undefined);
    assert.equal(server.accepted, 2);
  });

  it('forgets an origin whose connections are closed', async () => {
    const server = await rawServer((socket) => socket.end('HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nx'));
    await send(transport, server).ended;
    await until(() => transport.stats().origins === 0, 'the origin is forgotten');
    assert.equal(transport.stats().connections, 0);
  });

  it('refuses more calls to an origin than are allowed, and takes them again later', async () => {
    transport = testTransport({ maxPerOrigin: 2 });
    const held: (() => void)[] = [];
    const { origin } = await httpServer((_, response) => held.push(() => response.end('x')));
    const calls = [send(transport, { origin }), send(transport, { origin })];
    const refused = await send(transport, { origin }).ended;
    assert.equal(refused.error?.code, 'upstream_busy');
    assert.match(refused.error.message, /^2 requests to 127\.0\.0\.1:\d+ are in flight/);
    await until(() => held.length === 2, 'both arrive');
    for (const release of held) release();
    await Promise.all(calls.map((call) => call.ended));
    const again = send(transport, { origin });
    await until(() => held.length === 3, 'the next one is let through');
    held[2]?.();
    assert.equal((await again.ended).error, undefined);
  });

  it('closes the least recently used idle origin to make room, never one with a call in flight', async () => {
    transport = testTransport({ maxOrigins: 2 });
    const answer: Reply = (socket) => socket.write('HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx');
    const [first, second, third, silent] = await Promise.all([
      ...[rawServer(answer), rawServer(answer), rawServer(answer), rawServer(() => undefined)],
    ]);
    await send(transport, first as RawServer).ended;
    await send(transport, second as RawServer).ended;
    await send(transport, first as RawServer).ended;
    await send(transport, third as RawServer).ended;
    await until(() => second?.sockets.size === 0, 'the second one, used longest ago, is closed');
    assert.equal(first?.sockets.size !== 0 && third?.sockets.size !== 0, true);
    const waiting = send(transport, silent as RawServer);
    await until(() => silent?.sockets.size === 1, 'the silent one is reached');
    const other = send(transport, { origin: (silent as RawServer).origin.replace('127.0.0.1', '127.0.0.2') });
    const refused = await send(transport, second as RawServer).ended;
    assert.equal(refused.error?.code, 'upstream_busy', 'both places hold calls in flight');
    void other;
    assert.equal(waiting.ends, 0);
  });

  it('takes a call from inside the end of another', async () => {
    const { origin } = await httpServer((_, response) => response.end('x'));
    const second = new Recorder();
    const first = new Recorder();
    first.onHead = () => void send(transport, { origin }, second);
    send(transport, { origin }, first);
    assert.equal((await second.ended).body.toString(), 'x');
    assert.equal((await first.ended).body.toString(), 'x');
  });

  it('refuses calls once it is closed and ends those in flight', async () => {
    const server = await rawServer(() => undefined);
    const flying = send(transport, server);
    await until(() => server.sockets.size === 1, 'the call is on its way');
    await transport.close();
    assert.equal((await flying.ended).error?.code, 'shutting_down');
    assert.equal((await send(transport, server).ended).error?.code, 'shutting_down');
    assert.equal(transport.stats().connections, 0);
  });
});

after(() => assert.equal(cleanups.length, 0));
