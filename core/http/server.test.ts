import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import type { ServerResponse } from 'node:http';
import { describe, test } from 'node:test';
import { definePlugin } from '../pipeline/plugin.ts';
import { jsonAnswer } from '../pipeline/settle.ts';
import type { Gateway } from './gateway.ts';
import { startServer } from './server.ts';
import { collectGarbage } from '../base/collect-garbage.ts';
import { providerPlugin, startTestGateway, testConfig } from '../../tests/kit/gateway-kit.ts';
import { begin, connect, send, startUpstream, until } from '../../tests/kit/http-kit.ts';

const ok = definePlugin({
  name: 'ok',
  capabilities: { answers: true, reads: ['request.body'] },
  create: () => ({ request: ({ body }) => jsonAnswer(200, body.text) }),
});

test('an idle connection keeps nothing of the request that it brought', async (t) => {
  const answers: WeakRef<ServerResponse>[] = [];
  const gateway: Pick<Gateway, 'handle' | 'announceDrain' | 'drain' | 'activeRequests'> = {
    handle(_request, response) {
      answers.push(new WeakRef(response));
      response.end('fine');
    },
    announceDrain: () => undefined,
    drain: () => Promise.resolve(),
    activeRequests: 0,
  };
  const server = await startServer(gateway as Gateway, testConfig().server, 0);
  t.after(() => server.close(0));
  const client = await connect(t, server.port);
  client.write('GET / HTTP/1.1\r\nhost: x\r\n\r\n');
  await client.until('fine');
  const isGone = (): boolean => {
    collectGarbage();
    return answers[0]?.deref() === undefined;
  };
  await until(isGone, 'the end of what the request was');
  assert.deepEqual([answers.length, server.connections()], [1, 1]);
});

describe('connections while the process is busy', () => {
  /** Connections that another process gets within a second in which this one does nothing. */
  const connected = (port: number, count: number): number => {
    const client = `let open = 0;
      for (let n = 0; n < ${count}; n++) require('net').connect(${port}, '127.0.0.1', () => open++).on('error', () => {});
      setTimeout(() => { console.log(open); process.exit(0); }, 1000);`;
    return Number(spawnSync(process.execPath, ['-e', client], { encoding: 'utf8' }).stdout);
  };

  test('are kept by the system, as many as server.backlog says', async (t) => {
    const { port } = await startTestGateway(t, { plugins: [ok], server: { backlog: 8 } });
    const kept = connected(port, 200);
    assert.ok(kept >= 8 && kept <= 16, `${kept} connections`);
  });

  test('are by default more than the 511 of Node, where the system allows it', async (t) => {
    const allowed = Number(await readFile('/proc/sys/net/core/somaxconn', 'utf8'));
    const count = Math.min(900, allowed);
    const { port } = await startTestGateway(t, { plugins: [ok] });
    assert.equal(connected(port, count), count);
  });
});

describe('requests that are none', () => {
  test('headers that do not come in time get 408', async (t) => {
    const { port } = await startTestGateway(t, { plugins: [ok], server: { header_timeout_ms: 150 } });
    const client = await connect(t, port);
    client.write('GET / HTTP/1.1\r\nhost: x\r\nx-slow: ');
    const text = await client.ended();
    assert.match(text, /^HTTP\/1\.1 408 /);
    assert.match(text, /The headers did not arrive in time/);
  });

  test('a slow body is not a slow head', async (t) => {
    const { port } = await startTestGateway(t, { plugins: [ok], server: { header_timeout_ms: 1000 } });
    const client = await connect(t, port);
    client.write('POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\nconnection: close\r\n\r\na');
    await new Promise((resolve) => setTimeout(resolve, 1500));
    client.write('b');
    assert.match(await client.ended(), /^HTTP\/1\.1 200 [\s\S]*"ab"$/);
  });

  const broken: readonly [string, string, RegExp][] = [
    ['no HTTP at all', 'nonsense\r\n\r\n', /^HTTP\/1\.1 400 [\s\S]*no valid HTTP request/],
    ['no host', 'GET / HTTP/1.1\r\n\r\n', /^HTTP\/1\.1 400 /],
    [
      'two lengths',
      'POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab',
      /^HTTP\/1\.1 400 /,
    ],
    [
      'length and chunks',
      'POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n',
      /^HTTP\/1\.1 400 /,
    ],
    ['a fragment', 'GET /v1/x#y HTTP/1.1\r\nhost: x\r\n\r\n', /^HTTP\/1\.1 400 [\s\S]*"#\\"[\s\S]*%23/],
    [
      'a fragment in the query',
      'GET /v1/x?a=1#/../y HTTP/1.1\r\nhost: x\r\n\r\n',
      /^HTTP\/1\.1 400 [\s\S]*"#\\"/,
    ],
    ['two hosts', 'GET /v1/x HTTP/1.1\r\nhost: x\r\nHost: y\r\n\r\n', /^HTTP\/1\.1 400 [\s\S]*one Host/],
    [
      'two types of one body',
      'POST /v1/x HTTP/1.1\r\nhost: x\r\ncontent-type: text/plain\r\nContent-Type: a/b\r\ncontent-length: 1\r\n\r\nx',
      /^HTTP\/1\.1 400 [\s\S]*one Content-Type/,
    ],
    [
      'chunks of HTTP/1.0',
      'POST /v1/x HTTP/1.0\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n',
      /^HTTP\/1\.[01] 400 [\s\S]*Content-Length/,
    ],
    [
      'a broken chunk',
      'POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n',
      /^HTTP\/1\.1 400 [\s\S]*no valid HTTP request/,
    ],
    [
      'headers too large',
      `GET / HTTP/1.1\r\nhost: x\r\nx-large: ${'x'.repeat(70_000)}\r\n\r\n`,
      /^HTTP\/1\.1 431 [\s\S]*65536 bytes/,
    ],
  ];
  for (const [name, bytes, expected] of broken) {
    test(name, async (t) => {
      const gateway = await startTestGateway(t, { plugins: [ok] });
      const client = await connect(t, gateway.port);
      client.write(bytes);
      assert.match(await client.ended(), expected);
      await until(() => gateway.server.connections() === 0, 'the end of the connection');
      assert.equal(gateway.gateway.activeRequests, 0);
    });
  }

  test('nonsense behind a request does not get into its answer', async (t) => {
    let upstreamResponse: ServerResponse | undefined;
    const upstream = await startUpstream(
      t,
      (_request, response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        response.write('data: 1\n\n');
        upstreamResponse = response;
      },
      { early: true },
    );
    const gateway = await startTestGateway(t, { providers: { up: { base_url: upstream.url } } });
    const client = await connect(t, gateway.port);
    client.write('GET /v1/x HTTP/1.1\r\nhost: x\r\n\r\n');
    await client.until('data: 1');
    client.write('nonsense\r\n\r\n');
    const text = await client.ended();
    assert.doesNotMatch(text, /HTTP\/1\.1 400/);
    upstreamResponse?.end();
    assert.equal((await gateway.untilSettled()).outcome.kind, 'cancelled');
  });
});

describe('listening', () => {
  test('an address that is taken is explained', async (t) => {
    const { gateway, port } = await startTestGateway(t, { plugins: [ok] });
    await assert.rejects(startServer(gateway, testConfig().server, port), {
      message: `Cannot listen on 127.0.0.1:${port}: the port is in use. Choose another one with --port or server.port`,
    });
  });
});

describe('shutdown', () => {
  const streaming = async (t: Parameters<typeof startUpstream>[0]) => {
    const responses: ServerResponse[] = [];
    const upstream = await startUpstream(
      t,
      (_request, response) => {
        responses.push(response);
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        response.write('data: first\n\n');
      },
      { early: true },
    );
    const gateway = await startTestGateway(t, {
      plugins: [providerPlugin({ default: 'up' })],
      providers: { up: { base_url: upstream.url } },
    });
    return { gateway, responses, upstream };
  };

  test('a stream finishes within the deadline, and nothing is cut', async (t) => {
    const { gateway, responses } = await streaming(t);
    const answer = send(gateway.url, { path: '/v1/x' });
    await until(() => responses.length === 1, 'the stream');
    const closing = gateway.server.close(10_000);
    await assert.rejects(send(gateway.url, { path: '/v1/x' }), { code: 'ECONNREFUSED' });
    responses[0]?.end('data: last\n\n');
    assert.deepEqual(await closing, { cut: 0 });
    const { text, complete } = await answer;
    assert.deepEqual([text, complete], ['data: first\n\ndata: last\n\n', true]);
    assert.equal((await gateway.untilSettled()).outcome.kind, 'completed');
    await until(() => gateway.server.connections() === 0, 'the end of every connection');
  });

  test('what is open at the deadline is cut, counted and settled as failed', async (t) => {
    const { gateway, upstream } = await streaming(t);
    const { response } = await begin(gateway.url, { path: '/v1/x' });
    response.resume();
    assert.deepEqual(await gateway.server.close(30), { cut: 1 });
    const { outcome } = await gateway.untilSettled();
    assert.deepEqual([outcome.kind, outcome.error?.code], ['failed', 'shutting_down']);
    await until(() => gateway.server.connections() === 0, 'the end of every connection');
    await until(() => upstream.open.size === 0, 'the end of the upstream call');
  });

  test('connections that brought no request do not hold it up until the deadline', async (t) => {
    const { gateway } = await streaming(t);
    const client = await connect(t, gateway.port);
    await until(() => gateway.server.connections() === 1, 'the connection');
    assert.deepEqual(await gateway.server.close(10_000), { cut: 0 });
    await client.ended();
  });

  test('during the drain delay it listens and serves, and every answer says that it will go', async (t) => {
    const { gateway, responses } = await streaming(t);
    const idle = await connect(t, gateway.port);
    const before = await connect(t, gateway.port);
    before.write('GET /v1/x HTTP/1.1\r\nhost: x\r\n\r\n');
    await until(() => responses.length === 1, 'the stream that began before');
    const hurry = new AbortController();
    const closing = gateway.server.close(10_000, { drainDelayMs: 60_000, hurry: hurry.signal });
    assert.equal(gateway.gateway.isDraining, true);
    for (const client of [idle, await connect(t, gateway.port)]) {
      const count = responses.length;
      client.write('GET /v1/x HTTP/1.1\r\nhost: x\r\n\r\n');
      await until(() => responses.length === count + 1, 'the request');
      responses.at(-1)?.end('data: last\n\n');
      assert.match(await client.ended(), /^HTTP\/1.1 200 OK\r\n[^]*connection: close\r\n[^]*data: last/i);
    }
    responses[0]?.end('data: last\n\n');
    await gateway.untilSettled(3);
    hurry.abort();
    assert.deepEqual(await closing, { cut: 0 });
    await assert.rejects(send(gateway.url, { path: '/v1/x' }), { code: 'ECONNREFUSED' });
  });

  test('an answer whose head is not made when the draining begins says so too', async (t) => {
    const answers: (() => void)[] = [];
    const waits = definePlugin({
      name: 'waits',
      capabilities: { answers: true },
      create: () => ({
        request: async () => {
          await new Promise<void>((resolve) => answers.push(resolve));
          return jsonAnswer(200, 'late');
        },
      }),
    });
    const gateway = await startTestGateway(t, { plugins: [waits] });
    const client = await connect(t, gateway.port);
    client.write('GET /v1/x HTTP/1.1\r\nhost: x\r\n\r\n');
    await until(() => answers.length === 1, 'the request');
    const closing = gateway.server.close(10_000, { drainDelayMs: 20 });
    answers[0]?.();
    assert.match(await client.ended(), /connection: close\r\n[^]*late/i);
    assert.deepEqual(await closing, { cut: 0 });
  });
});
