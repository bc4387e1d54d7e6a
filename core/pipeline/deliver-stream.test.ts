import assert from 'node:assert/strict';
import { once } from 'node:events';
import { describe, test, type TestContext } from 'node:test';
import zlib from 'node:zlib';
import fc from 'fast-check';
import { definePlugin } from './plugin.ts';
import { providerPlugin, startTestGateway, type TestGatewayOptions } from '../../tests/kit/gateway-kit.ts';
import { ask, asking, delta, done, finish, pieces, usage } from '../../tests/kit/chat-stream-kit.ts';
import { ManualClock } from '../../tests/conformance/manual-clock.ts';
import { begin, connect, send, startUpstream, until, type Answering } from '../../tests/kit/http-kit.ts';

const whole = [': hello\n\n', delta('Hel'), delta('lo €😀', { odd: 1 }), finish, usage, done].join('');

const eventStream = { 'content-type': 'text/event-stream' };

async function streaming(t: TestContext, answer: Answering, options: TestGatewayOptions = {}) {
  const upstream = await startUpstream(t, answer);
  const gateway = await startTestGateway(t, {
    plugins: [providerPlugin({ default: 'up' })],
    providers: { up: { base_url: upstream.url, also_speaks: ['anthropic-messages'] } },
    ...options,
  });
  return { gateway, upstream };
}

/** Nothing of the request is left anywhere. */
async function assertQuiet({ gateway, upstream }: Awaited<ReturnType<typeof streaming>>): Promise<void> {
  await until(() => gateway.gateway.activeRequests === 0, 'the request to settle');
  await until(() => upstream.open.size === 0, 'the end of the upstream connection');
  await until(() => gateway.server.connections() === 0, 'the end of the client connection');
  assert.deepEqual(gateway.transport.stats(), { origins: 0, connections: 0, pending: 0, running: 0 });
  assert.equal(gateway.held(), 0);
}

describe('bytes pass as they are', () => {
  test('wherever the chunks end', async (t) => {
    let given: Buffer[] = [];
    const { gateway } = await streaming(t, (request, response) =>
      pieces(given)(request, response, response.req),
    );
    const bytes = Buffer.from(whole);
    await fc.assert(
      fc.asyncProperty(fc.uniqueArray(fc.nat({ max: bytes.length - 1 }), { maxLength: 20 }), async (cuts) => {
        const edges = [0, ...cuts.filter((at) => at > 0).sort((a, b) => a - b), bytes.length];
        given = edges.slice(1).map((edge, i) => bytes.subarray(edges[i], edge));
        const answer = await send(gateway.url, asking);
        assert.deepEqual([answer.body, answer.complete], [bytes, true]);
      }),
      { numRuns: 25 },
    );
    for (const { outcome, facts } of gateway.settled) {
      assert.deepEqual([outcome.kind, facts.finishReason, facts.modelAnswered], ['completed', 'stop', 'm-1']);
      assert.equal(facts.usage?.totalTokens, 7);
      assert.equal(facts.responseBytes, bytes.length);
      assert.ok(facts.firstTokenAt >= facts.firstByteAt && facts.firstByteAt > 0);
    }
  });

  test('also of an endpoint that is not modelled, with its length and odd headers', async (t) => {
    const bytes = Buffer.from(Array.from({ length: 5000 }, (_, i) => (i * 7) % 256));
    const { gateway } = await streaming(t, (_request, response) => {
      response.writeHead(206, ['Content-Type', 'application/x-odd', 'content-length', '5000', 'X-Part', '1']);
      response.write(bytes.subarray(0, 10));
      setImmediate(() => response.end(bytes.subarray(10)));
    });
    const answer = await send(gateway.url, { path: '/v1/odd' });
    assert.deepEqual([answer.status, answer.body], [206, bytes]);
    assert.equal(answer.headers['content-length'], '5000');
    assert.ok(answer.rawHeaders.includes('X-Part'));
  });

  for (const coding of ['gzip', 'br', 'deflate'] as const) {
    test(`a stream compressed with ${coding} stays so, and its usage is found`, async (t) => {
      const packed =
        coding === 'gzip'
          ? zlib.gzipSync(whole)
          : coding === 'br'
            ? zlib.brotliCompressSync(whole)
            : zlib.deflateSync(whole);
      const parts = [packed.subarray(0, 11), packed.subarray(11, 30), packed.subarray(30)];
      const { gateway } = await streaming(t, pieces(parts, { 'content-encoding': coding }));
      const answer = await send(gateway.url, asking);
      assert.deepEqual([answer.body, answer.headers['content-encoding']], [packed, coding]);
      const { facts } = await gateway.untilSettled();
      assert.deepEqual([facts.usage?.totalTokens, facts.finishReason], [7, 'stop']);
    });
  }

  test('a copy that cannot be decoded costs the usage and nothing else', async (t) => {
    const { gateway } = await streaming(t, pieces(['no', 'nsense'], { 'content-encoding': 'gzip' }));
    const answer = await send(gateway.url, asking);
    assert.equal(answer.text, 'nonsense');
    const { outcome, facts } = await gateway.untilSettled();
    assert.deepEqual([outcome.kind, facts.usage], ['completed', undefined]);
  });

  test('the head does not wait for the first byte', async (t) => {
    const { gateway } = await streaming(t, pieces([], {}, 'hang'));
    const { request, response } = await begin(gateway.url, asking);
    assert.equal(response.statusCode, 200);
    request.destroy();
  });

  test('an empty stream is an empty answer', async (t) => {
    const { gateway } = await streaming(t, pieces([]));
    const answer = await send(gateway.url, asking);
    assert.deepEqual([answer.status, answer.text, answer.complete], [200, '', true]);
  });
});

describe('usage that the client did not ask for', () => {
  test('is asked for, found, and taken out again', async (t) => {
    const { gateway, upstream } = await streaming(t, pieces([whole.slice(0, 50), whole.slice(50)]));
    const answer = await send(gateway.url, ask());
    assert.equal(answer.text, whole.replace(usage, ''));
    assert.equal((await gateway.untilSettled()).facts.usage?.totalTokens, 7);
    assert.deepEqual(JSON.parse(String(upstream.requests[0]?.body)), {
      ...ask().body,
      stream_options: { include_usage: true },
    });
  });

  for (const coding of ['gzip', 'br'] as const) {
    test(`also out of a stream that comes compressed with ${coding} although nobody asked`, async (t) => {
      const packed = coding === 'gzip' ? zlib.gzipSync(whole) : zlib.brotliCompressSync(whole);
      const parts = [packed.subarray(0, 20), packed.subarray(20)];
      const { gateway } = await streaming(t, pieces(parts, { 'content-encoding': coding }));
      const answer = await send(gateway.url, ask());
      assert.equal(answer.text, whole.replace(usage, ''));
      assert.equal(answer.headers['content-encoding'], undefined);
      assert.equal((await gateway.untilSettled()).facts.usage?.totalTokens, 7);
    });
  }

  test('the rest of the request keeps its bytes', async (t) => {
    const { gateway, upstream } = await streaming(t, pieces([whole]));
    const odd =
      '{ "seed":1234567890123456789,\n"stream" :true, "messages":[{"role":"user","content":"\\u20ac"}],"model":"m" }';
    await send(gateway.url, { path: '/v1/chat/completions', body: odd });
    assert.equal(
      upstream.requests[0]?.body.toString(),
      '{ "seed":1234567890123456789,\n"stream" :true, "messages":[{"role":"user","content":"\\u20ac"}],"model":"m","stream_options":{"include_usage":true} }',
    );
  });

  const untouched: readonly [string, object, string][] = [
    ['it asked itself', { stream_options: { include_usage: true } }, '/v1/chat/completions'],
    ['it does not stream', { stream: false }, '/v1/chat/completions'],
    ['another endpoint', { prompt: 'x' }, '/v1/completions'],
  ];
  for (const [name, more, path] of untouched) {
    test(`neither request nor stream is touched: ${name}`, async (t) => {
      const { gateway, upstream } = await streaming(t, pieces([whole]));
      const { body } = ask(more);
      const answer = await send(gateway.url, { path, body });
      assert.equal(answer.text, whole);
      assert.equal(upstream.requests[0]?.body.toString(), JSON.stringify(body));
    });
  }

  for (const [given, sent] of [
    [null, { include_usage: true }],
    [
      { include_usage: false, other: 1 },
      { include_usage: true, other: 1 },
    ],
    [{}, { include_usage: true }],
  ]) {
    test(`stream_options ${JSON.stringify(given)} is completed`, async (t) => {
      const { gateway, upstream } = await streaming(t, pieces([whole]));
      const answer = await send(gateway.url, ask({ stream_options: given }));
      assert.equal(answer.text, whole.replace(usage, ''));
      assert.deepEqual(JSON.parse(String(upstream.requests[0]?.body)).stream_options, sent);
    });
  }

  test('a host that needs no asking, or knows none, is not asked', async (t) => {
    for (const mode of ['always', 'never'] as const) {
      const upstream = await startUpstream(t, pieces([whole]));
      const gateway = await startTestGateway(t, {
        providers: { up: { base_url: upstream.url, usage_in_stream: mode } },
      });
      assert.equal((await send(gateway.url, ask())).text, whole);
      assert.equal(upstream.requests[0]?.body.toString(), JSON.stringify(ask().body));
    }
  });

  test('an error that comes instead of a stream passes', async (t) => {
    const { gateway } = await streaming(t, (_request, response) => {
      response.writeHead(429, { 'content-type': 'application/json', 'retry-after': '3' });
      response.end('{"error":{"message":"slow down"}}');
    });
    const answer = await send(gateway.url, ask());
    assert.deepEqual([answer.status, answer.headers['retry-after']], [429, '3']);
    assert.equal(answer.text, '{"error":{"message":"slow down"}}');
  });
});

describe('a reader that is slow', () => {
  test('pauses the provider, whatever it has to say, and gets all of it', async (t) => {
    const chunk = Buffer.alloc(64 * 1024, 'x');
    const chunks = 1500;
    let sent = 0;
    let stuck = false;
    const { gateway } = await streaming(t, (_request, response) => {
      response.writeHead(200, { 'content-type': 'application/octet-stream' });
      const go = (): void => {
        stuck = false;
        while (sent < chunks) {
          sent++;
          if (!response.write(chunk)) {
            stuck = true;
            response.once('drain', go);
            return;
          }
        }
        response.end();
      };
      go();
    });
    const { response } = await begin(gateway.url, { path: '/v1/x' });
    let before = -1;
    while (before !== sent || !stuck) {
      before = sent;
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    assert.ok(sent < chunks / 2, `${sent} of ${chunks} chunks were taken although nobody reads`);
    let received = 0;
    for await (const piece of response) received += (piece as Buffer).length;
    assert.equal(received, chunks * chunk.length);
    assert.equal((await gateway.untilSettled()).outcome.kind, 'completed');
  });

  test('one that takes nothing is cut, and so is the call', async (t) => {
    const endless: Answering = (_request, response) => {
      response.writeHead(200, { 'content-type': 'application/octet-stream' });
      const go = (): void => {
        while (!response.destroyed && response.write(Buffer.alloc(64 * 1024)));
      };
      response.on('drain', go);
      go();
    };
    const parts = await streaming(t, endless, { server: { client_stall_timeout_ms: 150 } });
    const client = await connect(t, parts.gateway.port);
    client.socket.pause();
    client.write('GET /v1/x HTTP/1.1\r\nhost: x\r\n\r\n');
    const { outcome } = await parts.gateway.untilSettled();
    assert.deepEqual(
      [outcome.kind, outcome.status, outcome.error?.code],
      ['cancelled', 499, 'client_stalled'],
    );
    await assertQuiet(parts);
  });

  test('one that waits for a slow provider is not stalled', async (t) => {
    const { gateway } = await streaming(
      t,
      (_request, response) => {
        response.writeHead(200, eventStream);
        response.write('x'.repeat(200_000));
        setTimeout(() => response.end('last'), 400);
      },
      { server: { client_stall_timeout_ms: 100 } },
    );
    const answer = await send(gateway.url, { path: '/v1/x' });
    assert.ok(answer.complete && answer.text.endsWith('last'));
  });
});

describe('a client that leaves', () => {
  const moments: readonly [string, Answering, string][] = [
    ['before the first byte', pieces([], {}, 'hang'), 'HTTP/1.1 200'],
    ['after the first byte', pieces([delta('a')], {}, 'hang'), 'delta'],
    ['in the middle of a frame', pieces([delta('a'), 'data: {"cho'], {}, 'hang'), '"cho'],
  ];
  for (const [name, answer, sign] of moments) {
    test(`${name}: the call is aborted, and it settles once as cancelled`, async (t) => {
      const parts = await streaming(t, answer);
      const client = await connect(t, parts.gateway.port);
      const body = JSON.stringify(asking.body);
      client.write(
        `POST ${asking.path} HTTP/1.1\r\nhost: x\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
      );
      await client.until(sign);
      client.socket.destroy();
      const { outcome } = await parts.gateway.untilSettled();
      assert.deepEqual(
        [outcome.kind, outcome.status, outcome.error?.code],
        ['cancelled', 499, 'client_closed'],
      );
      await assertQuiet(parts);
      assert.equal(parts.gateway.settled.length, 1);
      assert.equal(parts.upstream.requests[0]?.cut, true);
    });
  }

  test('while a compressed stream is scanned: what was learned is kept', async (t) => {
    const encoder = zlib.createGzip();
    const flushed = await new Promise<Buffer>((resolve) => {
      const chunks: Buffer[] = [];
      encoder.on('data', (chunk: Buffer) => chunks.push(chunk));
      encoder.write(delta('a') + usage);
      encoder.flush(() => resolve(Buffer.concat(chunks)));
    });
    const parts = await streaming(t, pieces([flushed], { 'content-encoding': 'gzip' }, 'hang'));
    const { request, response } = await begin(parts.gateway.url, asking);
    await new Promise((resolve) => response.once('data', resolve));
    request.destroy();
    const { outcome, facts } = await parts.gateway.untilSettled();
    assert.deepEqual([outcome.kind, facts.usage?.totalTokens], ['cancelled', 7]);
    await assertQuiet(parts);
  });
});

describe('a provider that fails', () => {
  test('before its head: 502', async (t) => {
    const { gateway } = await streaming(t, (_request, response) => void response.destroy());
    const answer = await send(gateway.url, asking);
    assert.deepEqual([answer.status, answer.json().error.code], [502, 'upstream_reset']);
    assert.equal((await gateway.untilSettled()).outcome.kind, 'failed');
  });

  test('after its head and before its first byte: 502 all the same', async (t) => {
    const { gateway } = await streaming(t, pieces([], {}, 'cut'));
    const answer = await send(gateway.url, asking);
    assert.deepEqual([answer.status, answer.json().error.code], [502, 'upstream_reset']);
  });

  test('between two frames: an error event, and an end that is none', async (t) => {
    const { gateway } = await streaming(t, pieces([delta('a'), delta('b')], {}, 'cut'));
    const answer = await send(gateway.url, asking);
    assert.deepEqual([answer.status, answer.complete], [200, false]);
    assert.ok(answer.text.startsWith(delta('a') + delta('b')));
    const last = answer.text.slice((delta('a') + delta('b')).length);
    assert.match(last, /^data: \{"error":.*"code":"upstream_reset".*\}\n\n$/);
    assert.doesNotMatch(answer.text, /DONE/);
    const { outcome } = await gateway.untilSettled();
    assert.deepEqual([outcome.kind, outcome.status, outcome.error?.code], ['failed', 200, 'upstream_reset']);
  });

  const silent: readonly [string, string[], Record<string, string>, string][] = [
    ['in the middle of a frame', [delta('a'), 'data: {"choi'], {}, asking.path],
    ['in a compressed stream', [delta('a')], { 'content-encoding': 'gzip' }, asking.path],
    ['in an answer of known length', [delta('a')], { 'content-length': '9999' }, asking.path],
    ['in no event stream', [delta('a')], { 'content-type': 'application/octet-stream' }, '/v1/x'],
  ];
  for (const [name, given, headers, path] of silent) {
    test(`${name}: the cut alone says it`, async (t) => {
      const { gateway } = await streaming(t, pieces(given, headers, 'cut'));
      const answer = await send(gateway.url, { ...asking, path });
      assert.deepEqual([answer.text, answer.complete], [given.join(''), false]);
      assert.equal((await gateway.untilSettled()).outcome.kind, 'failed');
    });
  }

  test('by saying nothing for too long', async (t) => {
    const { gateway } = await streaming(t, pieces([delta('a')], {}, 'hang'), {
      plugins: [providerPlugin({ default: 'up', idle_timeout_ms: 100 })],
    });
    const answer = await send(gateway.url, asking);
    assert.match(answer.text, /upstream_timeout/);
    assert.equal(answer.complete, false);
  });

  test('in the dialect of the client', async (t) => {
    const { gateway } = await streaming(t, pieces(['event: ping\ndata: {"type":"ping"}\n\n'], {}, 'cut'));
    const body = { model: 'm', max_tokens: 1, stream: true, messages: [{ role: 'user', content: 'x' }] };
    const answer = await send(gateway.url, { path: '/v1/messages', body });
    assert.match(answer.text, /event: error\ndata: \{"type":"error"/);
  });
});

describe('what is kept for the log', () => {
  const keeping = (bytes: number) =>
    definePlugin({ name: 'keeping', capabilities: { keepsResponseBytes: bytes }, create: () => ({}) });

  test('up to the bound that a plugin asks for', async (t) => {
    for (const [bytes, kept, truncated] of [
      [100_000, whole, false],
      [60, Buffer.from(whole).subarray(0, 60).toString(), true],
    ] as const) {
      const { gateway } = await streaming(t, pieces([whole.slice(0, 40), whole.slice(40)]), {
        plugins: [keeping(bytes), providerPlugin({ default: 'up' })],
      });
      await send(gateway.url, asking);
      const { outcome } = await gateway.untilSettled();
      assert.deepEqual([outcome.responseBody?.toString(), outcome.responseTruncated], [kept, truncated]);
      assert.equal(outcome.responseContentType, 'text/event-stream');
    }
  });

  test('nothing when nobody asks', async (t) => {
    const { gateway } = await streaming(t, pieces([whole]));
    await send(gateway.url, asking);
    assert.equal((await gateway.untilSettled()).outcome.responseBody, undefined);
  });
});

describe('while a stream goes on', () => {
  test('of the request only its bytes are kept, and whoever wants more of it gets it', async (t) => {
    const seen: unknown[] = [];
    const reading = definePlugin({
      name: 'reading',
      capabilities: { reads: ['request.json'] },
      create: () => ({
        request: (context) => void seen.push(context.json),
        settled: (context, outcome) => void seen.push(context.json, outcome.requestIsJson),
      }),
    });
    const { gateway } = await streaming(t, pieces([whole]), {
      plugins: [reading, providerPlugin({ default: 'up' })],
    });
    await send(gateway.url, asking);
    await gateway.untilSettled();
    const [before, after, isJson] = seen;
    assert.deepEqual([after, isJson], [before, true]);
    assert.notEqual(after, before);
  });

  test('the timer of its head has ended with the first byte', async (t) => {
    const clock = new ManualClock();
    const { gateway } = await streaming(t, pieces([delta('a')], {}, 'hang'), { clock });
    const waiting = clock.waiting;
    const { request, response } = await begin(gateway.url, asking);
    await once(response, 'data');
    assert.equal(clock.waiting, waiting);
    request.destroy();
  });
});
