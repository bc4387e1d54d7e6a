import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Log } from '../../core/ports/log.ts';
import type { UpstreamHandler } from '../../core/ports/transport.ts';
import {
  RawServer,
  Recorder,
  scripted,
  send,
  silentLog,
  testTransport,
  until,
  type Reply,
} from './transport.test-support.ts';
import type { UndiciTransport } from './undici-transport.ts';

let transport: UndiciTransport;
const servers: RawServer[] = [];

beforeEach(() => {
  transport = testTransport();
});
afterEach(async () => {
  await transport.close();
  assert.deepEqual(transport.stats(), { origins: 0, connections: 0, pending: 0, running: 0 });
  for (const server of servers.splice(0)) await server.stop();
});

async function rawServer(...replies: readonly Reply[]): Promise<RawServer> {
  const server = await RawServer.start(scripted(...replies));
  servers.push(server);
  return server;
}

const answer: Reply = (socket) => socket.write('HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx');
const reset: Reply = (socket) => socket.resetAndDestroy();
const hangUp: Reply = (socket) => socket.end();
const send200 =
  (head: string, body: string, then: Reply): Reply =>
  (socket) =>
    socket.write(`HTTP/1.1 200 OK\r\n${head}\r\n\r\n${body}`, () => setTimeout(() => then(socket), 5));

describe('a provider that cannot be reached', () => {
  it('names host, port, cause and remedy when the connection is refused', async () => {
    const server = await rawServer();
    const { origin, port } = server;
    await server.stop();
    servers.length = 0;
    const { error, facts } = await send(transport, { origin }).ended;
    assert.equal(error?.code, 'upstream_unreachable');
    assert.equal(
      error.message,
      `cannot connect to 127.0.0.1:${port}: ECONNREFUSED, nothing listens there: check host and port of base_url and that the server runs`,
    );
    assert.equal(facts?.stale, false);
  });

  it('names a host that does not exist', async () => {
    const { error } = await send(transport, { origin: 'https://no-such-host.invalid' }).ended;
    assert.equal(error?.code, 'upstream_unreachable');
    assert.match(error.message, /^cannot connect to no-such-host\.invalid:443: (ENOTFOUND|EAI_AGAIN), /);
  });

  it('says so when the port does not speak TLS', async () => {
    const server = await RawServer.start((socket) =>
      socket.on('data', () => socket.write('HTTP/1.1 400\r\n\r\n')),
    );
    servers.push(server);
    const { error } = await send(transport, { origin: `https://127.0.0.1:${server.port}` }).ended;
    assert.equal(error?.code, 'upstream_unreachable');
    assert.match(error.message, /TLS failed, (ERR_SSL_\w+|EPROTO), that port does not speak TLS/);
  });

  it('gives up connecting after the connect timeout', async () => {
    // A TLS handshake that nobody answers is a connection that does not stand.
    const server = await rawServer(() => undefined);
    const origin = `https://127.0.0.1:${server.port}`;
    const { error, facts } = await send(transport, { origin, connectTimeoutMs: 30 }).ended;
    assert.equal(error?.code, 'upstream_unreachable');
    assert.match(error.message, /no connection within 30 ms/);
    assert.equal(facts?.stale, false);
    await until(() => server.sockets.size === 0, 'the socket is closed');
  });

  const origins = ['nonsense', 'ftp://127.0.0.1', 'http://'];
  for (const origin of origins) {
    it(`fails, and does not throw, for the origin ${origin}`, async () => {
      const { error } = await send(transport, { origin }).ended;
      assert.equal(error?.code, 'upstream_unreachable');
    });
  }
});

describe('a connection that breaks', () => {
  const first = [
    ['a reset', reset],
    ['a close', hangUp],
  ] as const;
  for (const [name, reply] of first) {
    it(`before the head on a fresh connection is not stale: ${name}`, async () => {
      const server = await rawServer(reply);
      const { error, facts } = await send(transport, {
        origin: server.origin,
        method: 'POST',
        body: Buffer.from('{}'),
      }).ended;
      assert.deepEqual([error?.code, facts?.stale], ['upstream_reset', false]);
      assert.match(error?.message ?? '', /^127\.0\.0\.1:\d+ closed the connection before it answered/);
    });

    it(`before the head on a used connection is stale: ${name}`, async () => {
      const server = await rawServer(answer, reply, answer);
      assert.equal((await send(transport, server).ended).error, undefined);
      await settled(server);
      const { error, facts } = await send(transport, server).ended;
      assert.deepEqual([error?.code, facts?.stale, server.accepted], ['upstream_reset', true, 1]);
      assert.equal(
        (await send(transport, server).ended).error,
        undefined,
        'the next call gets a fresh connection',
      );
    });
  }

  it('is not stale once a byte of the answer has come', async () => {
    const server = await rawServer(answer, (socket) => socket.write('HTTP', () => socket.destroy()));
    await send(transport, server).ended;
    await settled(server);
    const { error, facts } = await send(transport, server).ended;
    assert.deepEqual([error?.code, facts?.stale, server.accepted], ['upstream_reset', false, 1]);
  });

  it('is replaced without a failure when the server closed it while it was idle', async () => {
    const server = await rawServer(
      (socket) => socket.end('HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\nx'),
      answer,
    );
    await send(transport, server).ended;
    assert.equal((await send(transport, server).ended).error, undefined);
    assert.equal(server.accepted, 2);
  });

  const torn: [string, string, string, Reply][] = [
    ['shorter than its length, closed', 'content-length: 10', 'abc', hangUp],
    ['shorter than its length, reset', 'content-length: 10', 'abc', reset],
    [
      'shorter than its length, closed as announced',
      'connection: close\r\ncontent-length: 10',
      'abc',
      hangUp,
    ],
    ['a torn chunk', 'transfer-encoding: chunked', '5\r\nab', hangUp],
    ['a missing last chunk', 'transfer-encoding: chunked', '3\r\nabc\r\n', hangUp],
    [
      'a missing last chunk, closed as announced',
      'connection: close\r\ntransfer-encoding: chunked',
      '3\r\nabc\r\n',
      hangUp,
    ],
    ['chunked, reset', 'transfer-encoding: chunked', '3\r\nabc\r\n', reset],
    ['delimited by the end of the connection, reset', 'connection: close', 'abc', reset],
  ];
  for (const [name, head, body, then] of torn) {
    it(`in the middle of an answer never ends it: ${name}`, async () => {
      const server = await rawServer(send200(head, body, then));
      const outcome = await send(transport, server).ended;
      assert.deepEqual([outcome.error?.code, outcome.facts?.stale], ['upstream_reset', false]);
      assert.match(outcome.error?.message ?? '', /after \d bytes of its answer, which is incomplete/);
    });
  }

  it('is reported while the answer is paused', async () => {
    const server = await rawServer(send200('connection: close', 'abc', reset));
    const recorder = new Recorder();
    recorder.onData = () => false;
    send(transport, server, recorder);
    assert.equal((await recorder.ended).error?.code, 'upstream_reset');
  });
});

describe('an answer that is no HTTP', () => {
  const answers = [
    ['garbage', 'SSH-2.0-OpenSSH_9.2\r\n'],
    ['a bad status', 'HTTP/1.1 abc\r\n\r\n'],
    ['a bad chunk', 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n'],
    ['two framings', 'HTTP/1.1 200 OK\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n'],
    ['an endless head', `HTTP/1.1 200 OK\r\nx: ${'y'.repeat(70_000)}\r\n\r\n`],
    ['another protocol', 'HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n'],
  ] as const;
  for (const [name, bytes] of answers) {
    it(`is refused as invalid: ${name}`, async () => {
      const server = await rawServer((socket) => socket.write(bytes));
      const { error } = await send(transport, server).ended;
      assert.equal(error?.code, 'upstream_invalid', error?.message);
    });
  }
});

describe('timeouts', () => {
  it('names the head timeout when no answer begins', async () => {
    const server = await rawServer(answer, () => undefined);
    await send(transport, server).ended;
    await settled(server);
    const { error, facts } = await send(transport, { origin: server.origin, headTimeoutMs: 30 }).ended;
    assert.equal(error?.code, 'upstream_timeout');
    assert.match(error.message, /sent no answer within 30 ms \(head timeout\)/);
    assert.equal(facts?.stale, false, 'a request that the server may be working on is not sent again');
    await until(() => server.sockets.size === 0, 'the socket is closed');
  });

  it('names the idle timeout when an answer stops, and counts from the last byte', async () => {
    let writes = 0;
    const server = await rawServer((socket) => {
      socket.write('HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n');
      const timer = setInterval(() => {
        writes += 1;
        if (writes === 10) clearInterval(timer);
        socket.write('x');
      }, 120);
    });
    const outcome = await send(transport, { origin: server.origin, idleTimeoutMs: 1000 }).ended;
    assert.equal(outcome.error?.code, 'upstream_timeout');
    assert.match(outcome.error.message, /sent nothing for 1000 ms \(idle timeout\) after 10 bytes/);
    assert.equal(outcome.status, 200);
  });

  it('does not blame the server while the reader is slow', async () => {
    const server = await rawServer((socket) =>
      socket.write(`HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nabc`, () =>
        setTimeout(() => socket.write('def', () => recorder.resume()), 700),
      ),
    );
    const recorder = new Recorder();
    recorder.onData = (chunk) => chunk.toString() !== 'abc';
    send(transport, { origin: server.origin, idleTimeoutMs: 400 }, recorder);
    const outcome = await recorder.ended;
    assert.deepEqual([outcome.error, outcome.body.toString()], [undefined, 'abcdef']);
  });

  it('has no bound at zero', async () => {
    const server = await rawServer((socket) => setTimeout(() => answer(socket), 60));
    const request = { origin: server.origin, headTimeoutMs: 0, idleTimeoutMs: 0, connectTimeoutMs: 0 };
    assert.equal((await send(transport, request).ended).error, undefined);
  });
});

describe('a request that cannot be sent', () => {
  const requests = [
    ['a header with a line break', { headers: ['x-a', 'b\r\nc: d'] }, 'invalid_header'],
    ['a header without a name', { headers: ['', 'b'] }, 'invalid_header'],
    ['a second host', { headers: ['host', 'a', 'host', 'b'] }, 'invalid_header'],
    ['a path with a space', { path: '/a b' }, 'invalid_request'],
    ['a method with a space', { method: 'GE T' }, 'invalid_request'],
  ] as const;
  for (const [name, part, code] of requests) {
    it(`fails once, after send has returned: ${name}`, async () => {
      const server = await rawServer(answer);
      const recorder = send(transport, { origin: server.origin, ...part });
      assert.equal(recorder.ends, 0);
      assert.equal((await recorder.ended).error?.code, code);
      assert.equal((await send(transport, server).ended).error, undefined, 'the origin is not harmed');
    });
  }

  const broken: [string, (body: Readable) => void, string][] = [
    ['an error', (body) => body.destroy(new Error('gone')), 'client_closed'],
    ['an early close', (body) => body.destroy(), 'client_closed'],
    [
      'an error of the gateway',
      (body) => body.destroy(new GatewayError('body_timeout', 'slow')),
      'body_timeout',
    ],
  ];
  for (const [name, breakIt, code] of broken) {
    it(`aborts the upstream when the request body breaks: ${name}`, async () => {
      const server = await rawServer(() => undefined);
      const body = new Readable({ read: () => undefined });
      body.on('error', () => undefined);
      const recorder = send(transport, { origin: server.origin, method: 'POST', body });
      body.push('abc');
      await until(() => server.sockets.size === 1, 'the request is on its way');
      breakIt(body);
      assert.equal((await recorder.ended).error?.code, code);
      await until(() => server.sockets.size === 0, 'the connection is closed');
    });
  }

  it('fails when the body had broken before', async () => {
    const server = await rawServer(answer);
    const body = new Readable({ read: () => undefined });
    body.destroy();
    const { error } = await send(transport, { origin: server.origin, method: 'POST', body }).ended;
    assert.equal(error?.code, 'client_closed');
  });

  it('fails when a streamed body is not as long as it says', async () => {
    const server = await rawServer(() => undefined);
    const request = { origin: server.origin, method: 'POST', headers: ['content-length', '2'] };
    const { error } = await send(transport, { ...request, body: Readable.from([Buffer.from('abc')]) }).ended;
    assert.equal(error?.code, 'invalid_request');
  });
});

describe('abort', () => {
  const reason = new GatewayError('client_closed', 'the client left');

  async function abortedAt(
    server: { origin: string },
    when: (recorder: Recorder) => Promise<void>,
  ): Promise<void> {
    const recorder = send(transport, server);
    await when(recorder);
    recorder.call?.abort(reason);
    const { error, facts } = await recorder.ended;
    assert.equal(error, reason);
    assert.equal(facts?.stale, false);
    recorder.call?.abort(new GatewayError('internal', 'twice'));
    recorder.resume();
    await until(() => transport.stats().connections === 0, 'no socket is left');
    assert.equal(recorder.ends, 1);
  }

  it('at once, before the connection stands', async () => {
    const server = await rawServer(answer);
    await abortedAt(server, () => Promise.resolve());
  });

  it('during the TLS handshake', async () => {
    const server = await rawServer(() => undefined);
    await abortedAt({ origin: `https://127.0.0.1:${server.port}` }, () =>
      until(() => server.sockets.size === 1, 'the handshake has begun'),
    );
  });

  it('while the answer is awaited', async () => {
    const server = await rawServer(() => undefined);
    await abortedAt(server, () => until(() => transport.stats().running === 1, 'the request is sent'));
    assert.equal(server.accepted, 1, 'no connection is opened in its place');
  });

  it('on a used connection, as soon as the request has been given to it', async () => {
    const server = await rawServer(answer);
    await send(transport, server).ended;
    await settled(server);
    await abortedAt(server, () => nextTurn());
  });

  it('within the turn in which the request was made: a used connection stays of use', async () => {
    const second: Reply = (socket) => socket.write('HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nsecond');
    const server = await rawServer(answer, second);
    await send(transport, server).ended;
    await settled(server);
    const recorder = send(transport, server);
    recorder.call?.abort(reason);
    assert.equal((await recorder.ended).error, reason);
    const next = send(transport, server);
    assert.equal((await next.ended).error, undefined);
    assert.equal(Buffer.concat(next.chunks).toString(), 'second', 'the aborted request was never sent');
    assert.equal(server.accepted, 1);
    assert.equal(recorder.ends, 1);
  });

  it('in the middle of the answer', async () => {
    const server = await rawServer(send200('content-length: 10', 'abc', () => undefined));
    await abortedAt(server, (recorder) => recorder.headArrived);
  });

  it('from inside head and data, and nothing follows', async () => {
    const server = await rawServer((socket) =>
      socket.write('HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc'),
    );
    const inHead = new Recorder();
    inHead.onHead = () => inHead.call?.abort(reason);
    assert.equal((await send(transport, server, inHead).ended).error, reason);
    assert.equal(inHead.chunks.length, 0);
    for (const more of [true, false]) {
      const inData = new Recorder();
      inData.onData = () => {
        inData.call?.abort(reason);
        return more;
      };
      assert.equal((await send(transport, server, inData).ended).error, reason);
    }
    await until(() => server.sockets.size === 0, 'no socket is left');
  });

  it('after the end does nothing', async () => {
    const server = await rawServer(answer);
    const recorder = send(transport, server);
    await recorder.ended;
    recorder.call?.abort(reason);
    recorder.resume();
    assert.equal(recorder.ends, 1);
    await settled(server);
    assert.equal((await send(transport, server).ended).error, undefined);
    assert.equal(server.accepted, 1, 'the connection is still used');
  });
});

describe('a receiver that throws', () => {
  const failing = [
    ['head', 'an answer could not be processed'],
    ['data', 'an answer could not be processed'],
    ['end', 'the receiver of an answer failed'],
    ['fail', 'the receiver of an answer failed'],
  ] as const;
  for (const [method, message] of failing) {
    it(`is logged and leaves no socket in use: ${method}`, async () => {
      const logged: string[] = [];
      const log: Log = { ...silentLog, error: (text) => void logged.push(text) };
      transport = testTransport({ log });
      const server = await rawServer(method === 'fail' ? reset : answer);
      const recorder = new Recorder();
      let code = '';
      const receiver: UpstreamHandler = {
        head: (status, headers) => recorder.head(status, headers),
        data: (chunk) => recorder.data(chunk),
        end: () => recorder.end(),
        fail: (error) => void (code = error.code),
        [method]: () => {
          throw new Error('broken');
        },
      };
      transport.send(
        {
          origin: server.origin,
          method: 'GET',
          path: '/',
          headers: [],
          body: null,
          connectTimeoutMs: 0,
          headTimeoutMs: 0,
          idleTimeoutMs: 0,
        },
        receiver,
      );
      await until(() => logged.length > 0, 'it is logged');
      assert.deepEqual(logged, [message]);
      assert.equal(code, method === 'head' || method === 'data' ? 'internal' : '');
      assert.equal(transport.stats().running, 0);
    });
  }
});

/** Waits until the connection may be used again. */
async function settled(server: RawServer): Promise<void> {
  await new Promise(setImmediate);
  await new Promise(setImmediate);
  assert.equal(server.sockets.size, 1);
}
