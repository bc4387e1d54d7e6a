import assert from 'node:assert/strict';
import zlib from 'node:zlib';
import { describe, test, type TestContext } from 'node:test';
import { definePlugin, GatewayError, type AnyPlugin, type Part } from '../pipeline/plugin.ts';
import { jsonAnswer } from '../pipeline/settle.ts';
import { providerPlugin, startTestGateway, type TestGatewayOptions } from '../../tests/kit/gateway-kit.ts';
import { begin, connect, send, startUpstream, until } from '../../tests/kit/http-kit.ts';

/** Says what it found of the body. */
const reader = (reads: readonly Part[] = ['request.body']): AnyPlugin =>
  definePlugin({
    name: 'reader',
    capabilities: { answers: true, reads },
    create: () => ({
      request: ({ body }) =>
        jsonAnswer(200, {
          present: body.present,
          loaded: body.loaded,
          length: body.loaded ? body.bytes.length : -1,
          text: body.loaded ? body.text.slice(0, 100) : '',
        }),
    }),
  });

const reading = (t: TestContext, options: TestGatewayOptions = {}) =>
  startTestGateway(t, { plugins: [reader()], ...options });

const echo = (t: TestContext) => startUpstream(t, (request, response) => void response.end(request.body));

describe('limits of a body in memory', () => {
  const server = { max_body_bytes: 2000, max_buffered_bytes: 5000, body_idle_timeout_ms: 30_000 };
  const impatient = { ...server, body_idle_timeout_ms: 200 };

  test('exactly the limit is read', async (t) => {
    const { url } = await reading(t, { server });
    const answer = await send(url, { body: 'x'.repeat(2000) });
    assert.deepEqual(answer.json(), { present: true, loaded: true, length: 2000, text: 'x'.repeat(100) });
  });

  test('an announced length over the limit gets 413 before a byte is asked for', async (t) => {
    const { url } = await reading(t, { server });
    const answer = await send(url, { body: 'x'.repeat(2001), headers: { expect: '100-continue' } });
    assert.equal(answer.status, 413);
    assert.equal(answer.continues, 0);
    assert.equal(answer.json().error.code, 'body_too_large');
    assert.match(answer.json().error.message, /2000 bytes.*server\.max_body_bytes/);
  });

  test('a chunked body over the limit gets 413 by counting, and the connection stays of use', async (t) => {
    const gateway = await reading(t, { server });
    const client = await connect(t, gateway.port);
    client.write('POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n');
    for (let i = 0; i < 6; i++) client.write(`200\r\n${'x'.repeat(512)}\r\n`);
    assert.match(await client.until('body_too_large'), /^HTTP\/1\.1 413 /);
    client.write('200\r\n' + 'x'.repeat(512) + '\r\n0\r\n\r\n');
    client.write('GET / HTTP/1.1\r\nhost: x\r\n\r\n');
    assert.match(await client.until('"present":false'), /HTTP\/1\.1 200 /);
    assert.equal(gateway.gateway.bufferedBytes, 0);
  });

  test('one that came whole with its head is counted, too, and the connection stays of use', async (t) => {
    const gateway = await reading(t, { server });
    const client = await connect(t, gateway.port);
    const chunks = `7d0\r\n${'x'.repeat(2000)}\r\n`;
    const head = 'POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n';
    client.write(`${head}${chunks}1\r\ny\r\n0\r\n\r\n`);
    assert.match(await client.until('body_too_large'), /^HTTP\/1\.1 413 /);
    client.write(`${head}${chunks}0\r\n\r\n`);
    assert.match(await client.until('"length":2000'), /HTTP\/1\.1 200 /);
    client.write(`${head}0\r\n\r\n`);
    assert.match(await client.until('"length":0'), /HTTP\/1\.1 200 /);
    assert.equal(gateway.gateway.bufferedBytes, 0);
  });

  // A busy machine delays the drops: none of them may count as a long pause, after which also the rate is looked at.
  for (const [bound, pace, message] of [
    [
      'below the rate that is asked for',
      { body_idle_timeout_ms: 3000, body_min_bytes_per_second: 500 },
      /less than 500 bytes a second[\s\S]*body_min_bytes_per_second/,
    ],
    [
      'for longer than any may take',
      { body_idle_timeout_ms: 60_000, body_min_bytes_per_second: 0, body_timeout_ms: 300 },
      /not complete after 300 ms[\s\S]*body_timeout_ms/,
    ],
  ] as const) {
    for (const streamed of [false, true]) {
      test(`a client that sends ${bound} gets 408, ${streamed ? 'with a streamed body' : 'with one in memory'}`, async (t) => {
        const slow = { ...server, ...pace };
        const upstream = await echo(t);
        const gateway = streamed
          ? await startTestGateway(t, { providers: { up: { base_url: upstream.url } }, server: slow })
          : await reading(t, { server: slow });
        const client = await connect(t, gateway.port);
        client.write('POST /v1/files HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n');
        const drops = setInterval(() => client.write('x'), 50);
        t.after(() => clearInterval(drops));
        const text = await client.until('"code":"body_timeout"');
        assert.match(text, /^HTTP\/1\.1 408 /);
        assert.match(text, message);
      });
    }
  }

  test('a client that sends on and on after its answer is cut', async (t) => {
    const { port } = await reading(t, { server: impatient });
    const client = await connect(t, port);
    client.write('POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 100000\r\n\r\n');
    await client.until('body_too_large');
    await client.ended();
  });

  test('all bodies together have a limit: 503, and room again afterwards', async (t) => {
    let open: (() => void) | undefined;
    const waiting: AnyPlugin = definePlugin({
      name: 'waiting',
      capabilities: { answers: true, reads: ['request.body'] },
      create: () => ({
        request: async ({ body }) => {
          if (body.text.startsWith('hold')) await new Promise<void>((resolve) => (open = resolve));
          return jsonAnswer(200, 'ok');
        },
      }),
    });
    const gateway = await startTestGateway(t, {
      plugins: [waiting],
      server: { ...server, max_body_bytes: 4000 },
    });
    const first = send(gateway.url, { body: 'hold'.padEnd(3000) });
    await until(() => open !== undefined, 'the first request');
    assert.equal(gateway.gateway.bufferedBytes, 3000);
    const second = await send(gateway.url, { body: 'x'.repeat(3000) });
    assert.equal(second.status, 503);
    assert.equal(second.json().error.code, 'overloaded');
    assert.equal(second.headers['retry-after'], '1');
    open?.();
    assert.equal((await first).status, 200);
    await gateway.untilSettled(2);
    assert.equal(gateway.gateway.bufferedBytes, 0);
    assert.equal((await send(gateway.url, { body: 'x'.repeat(3000) })).status, 200);
  });

  test('a body that finds no room with what parsing it takes gets 503 before a byte is asked for', async (t) => {
    const gateway = await reading(t, { server: { max_body_bytes: 100_000, max_buffered_bytes: 200_000 } });
    const body = 'x'.repeat(70_000);
    const headers = { expect: '100-continue', 'content-type': 'application/json' };
    const refused = await send(gateway.url, { body, headers });
    assert.deepEqual([refused.status, refused.continues, refused.headers['retry-after']], [503, 0, '1']);
    await gateway.untilSettled();
    assert.equal(gateway.gateway.bufferedBytes, 0);
    // A body that is not parsed takes its own length alone.
    const upload = await send(gateway.url, { body, headers: { 'content-type': 'audio/wav' } });
    assert.equal(upload.status, 200);
    assert.equal((await send(gateway.url, { body: body.slice(4000), headers })).status, 200);
  });

  describe('senders that are slow with large bodies', () => {
    const large = 1_200_000;
    const limits = { max_body_bytes: 2_000_000, max_buffered_bytes: 16_000_000 };
    const head = `POST / HTTP/1.1\r\nhost: x\r\ncontent-length: ${large}\r\n\r\n`;

    test('hold what they have sent and little more: others, large ones too, get in', async (t) => {
      const gateway = await reading(t, { server: limits });
      const held = (sent: number): number => 3 * Math.max(2 * sent, 65_536);
      for (let i = 0; i < 20; i++) (await connect(t, gateway.port)).write(head + 'x'.repeat(1000));
      await until(() => gateway.gateway.bufferedBytes === 20 * held(1000), 'twenty beginnings');
      assert.equal((await send(gateway.url, { body: 'x'.repeat(3000) })).status, 200);
      assert.equal((await send(gateway.url, { body: 'x'.repeat(large) })).status, 200);
      const one = await connect(t, gateway.port);
      one.write(head + 'x'.repeat(100_000));
      await until(() => gateway.gateway.bufferedBytes > 20 * held(1000) + 300_000, 'a longer beginning');
      await until(
        () => gateway.gateway.bufferedBytes <= 20 * held(1000) + held(100_000),
        'no more than twice it',
      );
    });

    test('leave a share of the memory to ordinary requests', async (t) => {
      const gateway = await reading(t, { server: { ...limits, max_buffered_bytes: 4.03 * 3 * large } });
      for (let i = 0; i < 6; i++) {
        const client = await connect(t, gateway.port);
        client.write(head + 'x'.repeat(large - 1));
        // Each has been taken as far as it goes before the next one comes.
        const before = gateway.gateway.bufferedBytes;
        await until(
          () => client.received() !== '' || gateway.gateway.bufferedBytes >= before + 3 * large,
          'its body',
        );
      }
      assert.equal(gateway.gateway.bufferedBytes, 3 * 3 * large);
      const refused = await connect(t, gateway.port);
      refused.write(head);
      assert.match(await refused.until('overloaded'), /^HTTP\/1\.1 503 /);
      const ordinary = Array.from({ length: 5 }, () => send(gateway.url, { body: 'x'.repeat(60_000) }));
      assert.deepEqual(
        (await Promise.all(ordinary)).map(({ status }) => status),
        [200, 200, 200, 200, 200],
      );
    });
  });

  test('a body in pieces of unknown length is refused when its next piece finds no room', async (t) => {
    const gateway = await reading(t, { server: { max_body_bytes: 100_000, max_buffered_bytes: 100_000 } });
    const client = await connect(t, gateway.port);
    client.write('POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n');
    for (let i = 0; i < 10; i++) client.write(`1000\r\n${'x'.repeat(4096)}\r\n`);
    assert.match(await client.until('overloaded'), /^HTTP\/1\.1 503 /);
    client.write('0\r\n\r\n');
    await gateway.untilSettled();
    assert.equal(gateway.gateway.bufferedBytes, 0);
  });

  test('a decoded body counts against that limit, too', async (t) => {
    const { url } = await reading(t, { server: { max_body_bytes: 100_000, max_buffered_bytes: 5000 } });
    const body = zlib.gzipSync('x'.repeat(50_000));
    const answer = await send(url, { body, headers: { 'content-encoding': 'gzip' } });
    assert.equal(answer.status, 503);
  });

  test('a client that pauses too long gets 408, and its connection ends', async (t) => {
    const gateway = await reading(t, { server: impatient });
    const client = await connect(t, gateway.port);
    client.write('POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\nabc');
    const text = await client.ended();
    assert.match(text, /^HTTP\/1\.1 408 /);
    assert.match(text, /connection: close/i);
    assert.match(text, /body_timeout/);
    assert.equal((await gateway.untilSettled()).outcome.error?.code, 'body_timeout');
    assert.equal(gateway.gateway.bufferedBytes, 0);
  });

  test('a client that leaves while it sends is cancelled', async (t) => {
    const gateway = await reading(t, { server });
    const client = await connect(t, gateway.port);
    client.write('POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\nabc');
    await until(() => gateway.gateway.bufferedBytes === 10, 'the announced bytes');
    client.socket.destroy();
    const { outcome } = await gateway.untilSettled();
    assert.deepEqual([outcome.kind, outcome.status], ['cancelled', 499]);
    assert.equal(gateway.gateway.bufferedBytes, 0);
  });
});

describe('encodings of a body', () => {
  const text = JSON.stringify({ words: 'compressed '.repeat(50) });
  const codings: readonly [string, Buffer][] = [
    ['gzip', zlib.gzipSync(text)],
    ['x-gzip', zlib.gzipSync(text)],
    ['deflate', zlib.deflateSync(text)],
    ['br', zlib.brotliCompressSync(text)],
    ['identity', Buffer.from(text)],
    [' GZIP ', zlib.gzipSync(text)],
  ];
  for (const [coding, body] of codings) {
    test(`${coding} is decoded for plugins and forwarded as it came`, async (t) => {
      const upstream = await startUpstream(t, (_request, response) => void response.end('{}'));
      let seen = '';
      const looking = definePlugin({
        name: 'looking',
        capabilities: { reads: ['request.body'] },
        create: () => ({ request: (context) => void (seen = context.body.text) }),
      });
      const { url } = await startTestGateway(t, {
        plugins: [looking, providerPlugin({ default: 'up' })],
        providers: { up: { base_url: upstream.url } },
      });
      await send(url, { path: '/v1/x', body, headers: { 'content-encoding': coding } });
      assert.equal(seen, text);
      assert.deepEqual(upstream.requests[0]?.body, body);
      assert.equal(upstream.requests[0]?.headers['content-encoding'], coding.trim());
      assert.equal(upstream.requests[0]?.headers['content-length'], String(body.length));
    });
  }

  test('a changed body leaves decoded, without the header that described it', async (t) => {
    const upstream = await startUpstream(t, (_request, response) => void response.end('{}'));
    const changing = definePlugin({
      name: 'changing',
      capabilities: { changes: ['request.json'] },
      create: () => ({ request: ({ body }) => body.set(['model'], 'other') }),
    });
    const { url } = await startTestGateway(t, {
      plugins: [changing, providerPlugin({ default: 'up' })],
      providers: { up: { base_url: upstream.url } },
    });
    const body = zlib.gzipSync('{ "model":"m",  "seed": 12345678901234567890, "messages":[] }');
    await send(url, { path: '/v1/x', body, headers: { 'content-encoding': 'gzip' } });
    const [request] = upstream.requests;
    assert.equal(
      request?.body.toString(),
      '{ "model":"other",  "seed": 12345678901234567890, "messages":[] }',
    );
    assert.equal(request?.headers['content-encoding'], undefined);
    assert.equal(request?.headers['content-length'], String(request?.body.length));
  });

  const refused: readonly [string, string, Buffer, number, string][] = [
    ['an unknown coding', 'zstd', Buffer.from('x'), 415, 'body_encoding_unsupported'],
    ['two codings', 'gzip, br', Buffer.from('x'), 415, 'body_encoding_unsupported'],
    ['broken gzip', 'gzip', Buffer.from('nonsense'), 400, 'invalid_request'],
    ['torn br', 'br', zlib.brotliCompressSync(text).subarray(0, 20), 400, 'invalid_request'],
    ['a bomb', 'gzip', zlib.gzipSync('x'.repeat(100_000)), 413, 'body_too_large'],
    ['a br bomb', 'br', zlib.brotliCompressSync('x'.repeat(100_000)), 413, 'body_too_large'],
  ];
  for (const [name, coding, body, status, code] of refused) {
    test(`${name} gets ${status}`, async (t) => {
      const gateway = await reading(t, { server: { max_body_bytes: 20_000 } });
      const answer = await send(gateway.url, { body, headers: { 'content-encoding': coding } });
      assert.equal(answer.status, status);
      assert.equal(answer.json().error.code, code);
      await gateway.untilSettled();
      assert.equal(gateway.gateway.bufferedBytes, 0);
    });
  }

  test('nobody reads: an unknown coding is not our business', async (t) => {
    const upstream = await echo(t);
    const { url } = await startTestGateway(t, { providers: { up: { base_url: upstream.url } } });
    const answer = await send(url, { path: '/v1/x', body: 'zz', headers: { 'content-encoding': 'zstd' } });
    assert.equal(answer.text, 'zz');
    assert.equal(upstream.requests[0]?.headers['content-encoding'], 'zstd');
  });
});

describe('Expect: 100-continue', () => {
  const guard = definePlugin({
    name: 'guard',
    create: () => ({
      request(context) {
        if (context.header('x-let-in') === undefined) throw new GatewayError('key_missing', 'No.');
      },
    }),
  });

  test('is answered only after the header-only hooks have passed', async (t) => {
    const { url } = await startTestGateway(t, { plugins: [guard, reader()] });
    const headers = { expect: '100-continue', 'x-let-in': 'yes' };
    const answer = await send(url, { body: 'hello', headers });
    assert.equal(answer.continues, 1);
    assert.equal(answer.json().text, 'hello');
  });

  test('a refusal comes without it and ends the connection, whose body will not follow', async (t) => {
    const { port } = await startTestGateway(t, { plugins: [guard, reader()] });
    const client = await connect(t, port);
    client.write('POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\nexpect: 100-continue\r\n\r\n');
    const text = await client.ended();
    assert.match(text, /^HTTP\/1\.1 401 /);
    assert.match(text, /connection: close/i);
  });

  test('a streamed body is asked for when the provider takes it', async (t) => {
    const upstream = await echo(t);
    const { url } = await startTestGateway(t, { providers: { up: { base_url: upstream.url } } });
    const answer = await send(url, { path: '/v1/x', body: 'hello', headers: { expect: '100-continue' } });
    assert.equal(answer.continues, 1);
    assert.equal(answer.text, 'hello');
    assert.equal(upstream.requests[0]?.headers.expect, undefined);
  });
});

describe('bodies that nobody reads', () => {
  test('are streamed: the provider has the first bytes before the client has sent the last', async (t) => {
    const upstream = await echo(t);
    const gateway = await startTestGateway(t, {
      providers: { up: { base_url: upstream.url } },
      server: { max_body_bytes: 1024 },
    });
    const client = await connect(t, gateway.port);
    client.write('POST /v1/files HTTP/1.1\r\nhost: x\r\ncontent-length: 4096\r\nconnection: close\r\n\r\n');
    client.write('a'.repeat(2048));
    await until(() => upstream.requests[0]?.body.length === 2048, 'the first half');
    assert.equal(gateway.gateway.bufferedBytes, 0);
    assert.equal(upstream.requests[0]?.headers['content-length'], '4096');
    client.write('b'.repeat(2048));
    const text = await client.ended();
    assert.ok(text.endsWith('a'.repeat(2048) + 'b'.repeat(2048)));
    const { facts, outcome } = await gateway.untilSettled();
    assert.equal(facts.requestBytes, 4096);
    assert.equal(outcome.requestBody, undefined);
  });

  test('a chunked one stays chunked', async (t) => {
    const upstream = await echo(t);
    const { url } = await startTestGateway(t, { providers: { up: { base_url: upstream.url } } });
    const headers = { 'transfer-encoding': 'chunked' };
    const answer = await send(url, { path: '/v1/files', body: Buffer.from([0, 255, 13, 10]), headers });
    assert.deepEqual(answer.body, Buffer.from([0, 255, 13, 10]));
    assert.equal(upstream.requests[0]?.headers['transfer-encoding'], 'chunked');
  });

  test('a client that pauses too long gets 408 and the upload is cut', async (t) => {
    const upstream = await echo(t);
    const gateway = await startTestGateway(t, {
      providers: { up: { base_url: upstream.url } },
      server: { body_idle_timeout_ms: 150 },
    });
    const client = await connect(t, gateway.port);
    client.write('POST /v1/files HTTP/1.1\r\nhost: x\r\ncontent-length: 4096\r\n\r\nabc');
    assert.match(await client.ended(), /^HTTP\/1\.1 408 [\s\S]*body_timeout/);
    await until(() => upstream.requests[0]?.cut === true, 'the end of the upload');
    assert.equal((await gateway.untilSettled()).outcome.kind, 'refused');
  });

  test('a provider that pauses is no fault of the client', async (t) => {
    let goOn: (() => void) | undefined;
    const upstream = await startUpstream(
      t,
      (request, response, message) => {
        message.pause();
        goOn = () => message.resume();
        message.on('end', () => response.end(String(request.body.length)));
      },
      { early: true },
    );
    const gateway = await startTestGateway(t, {
      providers: { up: { base_url: upstream.url } },
      server: { body_idle_timeout_ms: 500 },
    });
    const size = 8_000_000;
    const answer = send(gateway.url, { path: '/v1/files', body: Buffer.alloc(size, 'x') });
    await until(() => goOn !== undefined, 'the upload');
    await new Promise((resolve) => setTimeout(resolve, 1200));
    assert.equal(gateway.settled.length, 0);
    goOn?.();
    assert.equal((await answer).text, String(size));
  });

  test('a client that leaves in the middle of it cuts the upload', async (t) => {
    const upstream = await echo(t);
    const gateway = await startTestGateway(t, { providers: { up: { base_url: upstream.url } } });
    const client = await connect(t, gateway.port);
    client.write('POST /v1/files HTTP/1.1\r\nhost: x\r\ncontent-length: 4096\r\n\r\nabc');
    await until(() => upstream.requests[0]?.body.length === 3, 'the first bytes');
    client.socket.destroy();
    const { outcome } = await gateway.untilSettled();
    assert.deepEqual([outcome.kind, outcome.status], ['cancelled', 499]);
    await until(() => upstream.open.size === 0, 'the end of the upload');
  });

  test('an answer that comes before the end of the upload reaches the client', async (t) => {
    const upstream = await startUpstream(
      t,
      (_request, response) => {
        response.writeHead(429, { 'content-type': 'application/json' });
        response.end('{"error":"slow down"}');
      },
      { early: true },
    );
    const gateway = await startTestGateway(t, { providers: { up: { base_url: upstream.url } } });
    const client = await connect(t, gateway.port);
    client.write('POST /v1/files HTTP/1.1\r\nhost: x\r\ncontent-length: 4096\r\n\r\nabc');
    assert.match(await client.until('slow down'), /^HTTP\/1\.1 429 /);
    client.write('x'.repeat(4093) + 'GET /v1/again HTTP/1.1\r\nhost: x\r\n\r\n');
    await gateway.untilSettled(2);
    assert.deepEqual(
      upstream.requests.map(({ url }) => url),
      ['/files', '/again'],
    );
  });

  test('the mock provider ends its upload early without ending the client', async (t) => {
    const gateway = await startTestGateway(t, { plugins: [providerPlugin({ default: 'mock' })] });
    const { response } = await begin(gateway.url, {
      path: '/v1/echo',
      body: 'hello',
      headers: { 'x-mock-faults': 'status=503' },
    });
    assert.equal(response.statusCode, 503);
    response.resume();
  });
});

describe('what hooks read decides what is held', () => {
  const types = [
    'multipart/form-data; boundary=b',
    'audio/wav',
    'image/png',
    'video/mp4',
    'application/octet-stream',
  ];
  for (const type of types) {
    test(`a hook that reads JSON or text does not hold ${type}`, async (t) => {
      const { url } = await startTestGateway(t, { plugins: [reader(['request.json', 'request.text'])] });
      const headers = { 'content-type': type };
      const seen = await send(url, { path: '/v1/files', body: 'xyz', headers });
      assert.deepEqual(seen.json(), { present: true, loaded: false, length: -1, text: '' });
    });
  }

  test('such a hook finds no JSON and no texts, and the upload streams on', async (t) => {
    const upstream = await echo(t);
    const seen: unknown[] = [];
    const looking = definePlugin({
      name: 'looking',
      capabilities: { reads: ['request.text'] },
      create: () => ({
        request: (context) => void seen.push(context.json, context.conversation.texts, context.body.loaded),
      }),
    });
    const { url } = await startTestGateway(t, {
      plugins: [looking, providerPlugin({ default: 'up' })],
      providers: { up: { base_url: upstream.url } },
    });
    const headers = { 'content-type': 'multipart/form-data; boundary=b' };
    const answer = await send(url, { path: '/v1/files', body: '{"messages":[]}', headers });
    assert.equal(answer.text, '{"messages":[]}');
    assert.deepEqual(seen, [undefined, [], false]);
  });

  test('it may still load the bytes itself', async (t) => {
    const loading = definePlugin({
      name: 'loading',
      capabilities: { reads: ['request.json'], answers: true },
      create: () => ({
        request: async ({ body }) => {
          const before = body.json;
          await Promise.all([body.load(), body.load()]);
          return jsonAnswer(200, [before ?? null, body.json]);
        },
      }),
    });
    const { url } = await startTestGateway(t, { plugins: [loading] });
    const headers = { 'content-type': 'application/octet-stream' };
    assert.deepEqual((await send(url, { body: '{"a":1}', headers })).json(), [null, { a: 1 }]);
  });

  const loaded: readonly [string, Part, string, string][] = [
    ['request.body, whatever the type', 'request.body', '/v1/files', 'audio/wav'],
    ['JSON of an unmodelled endpoint', 'request.json', '/v1/x', 'application/json'],
    ['an odd type that may be JSON', 'request.text', '/v1/x', 'text/plain'],
    [
      'a modelled endpoint that calls its JSON an upload',
      'request.text',
      '/v1/chat/completions',
      'audio/wav',
    ],
  ];
  for (const [name, part, path, type] of loaded) {
    test(`is held: ${name}`, async (t) => {
      const { url } = await startTestGateway(t, { plugins: [reader([part])] });
      const seen = await send(url, { path, body: '{}', headers: { 'content-type': type } });
      assert.deepEqual(seen.json(), { present: true, loaded: true, length: 2, text: '{}' });
    });
  }

  test('a hook that declares nothing leaves the body alone', async (t) => {
    const { url } = await startTestGateway(t, { plugins: [reader([])] });
    assert.equal((await send(url, { body: '{}' })).json().loaded, false);
  });
});
