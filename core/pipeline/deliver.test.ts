import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import zlib from 'node:zlib';
import type { ResponseContext } from './context.ts';
import { definePlugin, GatewayError, type AnyPlugin, type Answer } from './plugin.ts';
import { providerPlugin, startTestGateway, type PlacedPlugin } from '../../tests/kit/gateway-kit.ts';
import { connect, send, startUpstream, until, type Answering } from '../../tests/kit/http-kit.ts';

const chat = {
  path: '/v1/chat/completions',
  body: { model: 'm', messages: [{ role: 'user', content: 'x' }] },
};

const responding = (response: (context: ResponseContext) => void | Promise<void>): AnyPlugin =>
  definePlugin({ name: 'responding', capabilities: { stream: 'ignore' }, create: () => ({ response }) });

const answering = (answer: Answer): AnyPlugin =>
  definePlugin({
    name: 'answering',
    capabilities: { answers: true },
    create: () => ({ request: () => answer }),
  });

async function through(t: TestContext, answer: Answering, plugin?: AnyPlugin | PlacedPlugin) {
  const upstream = await startUpstream(t, answer);
  const gateway = await startTestGateway(t, {
    plugins: [...(plugin ? [plugin] : []), providerPlugin({ default: 'up' })],
    providers: { up: { base_url: upstream.url } },
  });
  return { gateway, upstream };
}

const json =
  (text: string | Buffer, headers: Record<string, string> = {}): Answering =>
  (_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json', ...headers });
    response.end(text);
  };

describe('an answer that nobody changes', () => {
  const odd = '{ "a":1,\r\n "seed": 12345678901234567890, "a" : 2}\n ';
  test('leaves with its very bytes, status and headers', async (t) => {
    const { gateway } = await through(t, (_request, response) => {
      response.writeHead(402, 'Payment Wanted', [
        ...['Content-Type', 'application/json', 'X-Odd-Case', '1', 'set-cookie', 'a=1', 'set-cookie', 'b=2'],
        ...['connection', 'x-hop', 'x-hop', 'gone', 'keep-alive', 'timeout=5', 'x-ratelimit-remaining', '7'],
      ]);
      response.end(odd);
    });
    const answer = await send(gateway.url, chat);
    assert.deepEqual([answer.status, answer.text], [402, odd]);
    assert.equal(answer.headers['set-cookie'], undefined, 'a cookie would be one of the gateway');
    assert.equal(answer.headers['x-ratelimit-remaining'], '7');
    assert.ok(answer.rawHeaders.includes('X-Odd-Case'));
    assert.equal(answer.headers['x-hop'], undefined);
    assert.equal(answer.headers['content-length'], String(odd.length));
    const { outcome, facts } = await gateway.untilSettled();
    assert.deepEqual([outcome.kind, outcome.status, facts.responseBytes], ['completed', 402, odd.length]);
  });

  test('also when a hook looks at it', async (t) => {
    let seen: unknown;
    const { gateway } = await through(
      t,
      json(odd),
      responding(({ response }) => {
        seen = response.json;
        assert.equal(response.source, 'provider');
        assert.equal(response.streamed, false);
      }),
    );
    assert.equal((await send(gateway.url, chat)).text, odd);
    assert.deepEqual(seen, { a: 2, seed: 12345678901234567890n });
  });

  test('a compressed one stays compressed when a hook only looked', async (t) => {
    const packed = zlib.gzipSync(odd);
    let seen = '';
    const { gateway } = await through(
      t,
      json(packed, { 'content-encoding': 'gzip' }),
      responding(({ response }) => void (seen = response.text)),
    );
    const answer = await send(gateway.url, chat);
    assert.equal(seen, odd);
    assert.deepEqual([answer.headers['content-encoding'], answer.body], ['gzip', packed]);
  });
});

describe('an answer that a hook changes', () => {
  test('by splicing: the rest stays as it was', async (t) => {
    const { gateway } = await through(
      t,
      json('{ "id":"x",  "big": 12345678901234567890, "drop" : [1], "n":1 }'),
      responding(({ response }) => {
        response.set(['id'], 'y');
        response.remove(['drop']);
        response.remove(['never', 'there']);
        response.status = 203;
        response.setHeader('X-Judged', 'yes');
        response.removeHeader('content-type');
      }),
    );
    const answer = await send(gateway.url, chat);
    const expected = '{ "id":"y",  "big": 12345678901234567890, "n":1 }';
    assert.deepEqual([answer.status, answer.text], [203, expected]);
    assert.equal(answer.headers['content-length'], String(expected.length));
    assert.deepEqual([answer.headers['x-judged'], answer.headers['content-type']], ['yes', undefined]);
  });

  for (const [coding, packed] of [
    ['gzip', zlib.gzipSync('{"a":1}')],
    ['br', zlib.brotliCompressSync('{"a":1}')],
    ['deflate', zlib.deflateSync('{"a":1}')],
  ] as const) {
    test(`a ${coding} one leaves decoded`, async (t) => {
      const { gateway } = await through(
        t,
        json(packed, { 'content-encoding': coding }),
        responding(({ response }) => response.set(['a'], 2)),
      );
      const answer = await send(gateway.url, chat);
      assert.equal(answer.text, '{"a":2}');
      assert.equal(answer.headers['content-encoding'], undefined);
      assert.equal(answer.headers['content-length'], '7');
    });
  }

  test('one that is no JSON cannot be changed as JSON', async (t) => {
    const { gateway } = await through(
      t,
      json('<html>'),
      responding(({ response }) => response.set(['a'], 2)),
    );
    assert.equal((await send(gateway.url, chat)).json().error.code, 'upstream_invalid');
  });

  for (const [name, coding, body] of [
    ['in an unknown way', 'zstd', Buffer.from('x')],
    ['and broken', 'gzip', Buffer.from('nonsense')],
  ] as const) {
    test(`one that is compressed ${name} cannot be read: it is not let through unread`, async (t) => {
      const { gateway } = await through(
        t,
        json(body, { 'content-encoding': coding }),
        responding(() => undefined),
      );
      const answer = await send(gateway.url, chat);
      assert.ok(answer.status >= 500, String(answer.status));
      assert.equal((await gateway.untilSettled()).outcome.kind, 'failed');
    });
  }

  test('a hook that refuses replaces it, with the extra members of its error', async (t) => {
    const { gateway } = await through(
      t,
      json('{"a":"the secret answer"}'),
      responding(() => {
        throw new GatewayError('hooks_failed', 'No.', {
          extra: { hook_results: { id: 1 } },
          headers: ['x-why', 'rule'],
        });
      }),
    );
    const answer = await send(gateway.url, chat);
    assert.deepEqual([answer.status, answer.statusText], [446, 'Hooks failed']);
    assert.deepEqual(answer.json().hook_results, { id: 1 });
    assert.equal(answer.headers['x-why'], 'rule');
    assert.doesNotMatch(answer.text, /secret/);
  });

  test('a refusal passes the hooks before it, which see that the gateway wrote it', async (t) => {
    let seen: unknown;
    const looking = definePlugin({
      name: 'looking',
      create: () => ({
        response({ response }) {
          seen = [response.source, response.status];
          response.set(['error', 'message'], 'Changed.');
        },
      }),
    });
    const upstream = await startUpstream(t, json('{}'));
    const gateway = await startTestGateway(t, {
      plugins: [
        looking,
        responding(() => Promise.reject(new GatewayError('hooks_failed', 'No.'))),
        providerPlugin({ default: 'up' }),
      ],
      providers: { up: { base_url: upstream.url } },
    });
    const answer = await send(gateway.url, chat);
    assert.deepEqual([answer.status, answer.json().error.message], [446, 'Changed.']);
    assert.deepEqual(seen, ['gateway', 446]);
  });
});

describe('answers of endpoints that are not modelled', () => {
  test('a JSON document is made whole for a response hook', async (t) => {
    const { gateway } = await through(
      t,
      (_request, response) => {
        response.writeHead(200, {
          'content-type': 'application/json; charset=utf-8',
          'content-length': '17',
        });
        response.write('{"text":');
        setTimeout(() => response.end('"secret"}'), 20);
      },
      responding(({ response }) => response.set(['text'], '***')),
    );
    const answer = await send(gateway.url, { path: '/v1/unknown' });
    assert.equal(answer.text, '{"text":"***"}');
    assert.deepEqual(
      answer.rawHeaders.filter((_, i, all) => i % 2 === 1 && all[i - 1]?.toLowerCase() === 'content-length'),
      ['14'],
    );
  });

  test('its failure in the middle is a proper error', async (t) => {
    const { gateway } = await through(
      t,
      (_request, response) => {
        response.writeHead(200, { 'content-type': 'application/json' });
        response.write('{"text":');
        setTimeout(() => response.destroy(), 20);
      },
      responding(() => undefined),
    );
    const answer = await send(gateway.url, { path: '/v1/unknown' });
    assert.deepEqual([answer.status, answer.json().error.code], [502, 'upstream_reset']);
  });

  test('a client that leaves meanwhile ends the call', async (t) => {
    const { gateway, upstream } = await through(
      t,
      (_request, response) => {
        response.writeHead(200, { 'content-type': 'application/json' });
        response.write('{"text":');
      },
      responding(() => undefined),
    );
    const client = await connect(t, gateway.port);
    client.write('GET /v1/unknown HTTP/1.1\r\nhost: x\r\n\r\n');
    await until(() => upstream.requests.length === 1, 'the call');
    client.socket.destroy();
    assert.equal((await gateway.untilSettled()).outcome.kind, 'cancelled');
    await until(() => upstream.open.size === 0, 'the end of the call');
  });

  test('binary answers flow past the hook untouched', async (t) => {
    const bytes = Buffer.from(Array.from({ length: 1000 }, (_, i) => i % 256));
    let called = false;
    const { gateway } = await through(
      t,
      (_request, response) => {
        response.writeHead(200, { 'content-type': 'audio/wav', 'content-length': '1000' });
        response.end(bytes);
      },
      responding(() => void (called = true)),
    );
    const answer = await send(gateway.url, { path: '/v1/audio/speech', body: {} });
    assert.deepEqual([answer.body, answer.headers['content-length']], [bytes, '1000']);
    assert.equal(called, false);
  });
});

describe('answers of plugins', () => {
  test('the length is what is sent, whatever the plugin says', async (t) => {
    const headers = ['content-type', 'text/plain', 'Content-Length', '99'];
    const gateway = await startTestGateway(t, {
      plugins: [answering({ status: 200, headers, body: Buffer.from('four') })],
    });
    const answer = await send(gateway.url);
    assert.deepEqual([answer.text, answer.headers['content-length']], ['four', '4']);
  });

  test('a header that cannot be sent cuts the answer and is logged; the next request is served', async (t) => {
    const headers = ['x-broken', 'a\nb'];
    let broken = true;
    const plugin = definePlugin({
      name: 'breaking',
      create: () => ({
        request: () => ({ status: 200, headers: broken ? headers : [], body: Buffer.from('ok') }),
      }),
    });
    const gateway = await startTestGateway(t, { plugins: [plugin] });
    await assert.rejects(send(gateway.url), { code: 'ECONNRESET' });
    const { outcome } = await gateway.untilSettled();
    assert.deepEqual([outcome.kind, outcome.error?.code], ['failed', 'internal']);
    assert.match(gateway.lines.map(({ message }) => message).join(), /could not be delivered/);
    broken = false;
    assert.equal((await send(gateway.url)).text, 'ok');
  });

  test('no body at all', async (t) => {
    const gateway = await startTestGateway(t, {
      plugins: [answering({ status: 204, headers: [], body: null })],
    });
    const answer = await send(gateway.url);
    assert.deepEqual([answer.status, answer.text, answer.headers['content-length']], [204, '', undefined]);
  });
});

describe('large answers to slow clients', () => {
  const large = Buffer.alloc(30_000_000, 'x');

  test('settle when the client has taken them', async (t) => {
    const gateway = await startTestGateway(t, {
      plugins: [answering({ status: 200, headers: [], body: large })],
    });
    const client = await connect(t, gateway.port);
    client.socket.pause();
    client.write('GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n');
    await until(() => gateway.gateway.activeRequests === 1, 'the request');
    assert.equal(gateway.settled.length, 0);
    client.socket.resume();
    const { outcome } = await gateway.untilSettled();
    assert.deepEqual([outcome.kind, outcome.status], ['completed', 200]);
  });

  test('a client that takes nothing is cut and settled as cancelled', async (t) => {
    const gateway = await startTestGateway(t, {
      plugins: [answering({ status: 200, headers: [], body: large })],
      server: { client_stall_timeout_ms: 150 },
    });
    const client = await connect(t, gateway.port);
    client.socket.pause();
    client.write('GET / HTTP/1.1\r\nhost: x\r\n\r\n');
    const { outcome } = await gateway.untilSettled();
    assert.deepEqual([outcome.kind, outcome.error?.code], ['cancelled', 'client_stalled']);
    await until(() => gateway.server.connections() === 0, 'the end of the connection');
  });

  test('a client that takes a little now and then is not stalled', async (t) => {
    const gateway = await startTestGateway(t, {
      plugins: [answering({ status: 200, headers: [], body: large })],
      server: { client_stall_timeout_ms: 1500 },
    });
    const client = await connect(t, gateway.port);
    let taken = 0;
    client.socket.on('data', (chunk) => {
      taken += chunk.length;
      client.socket.pause();
      setTimeout(() => client.socket.resume(), 5);
    });
    client.write('GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n');
    const { outcome } = await gateway.untilSettled();
    assert.equal(outcome.kind, 'completed');
    await until(() => taken > large.length, 'the last byte');
  });

  test('a client that leaves in the middle is cancelled', async (t) => {
    const gateway = await startTestGateway(t, {
      plugins: [answering({ status: 200, headers: [], body: large })],
    });
    const client = await connect(t, gateway.port);
    client.write('GET / HTTP/1.1\r\nhost: x\r\n\r\n');
    await client.until('xxx');
    client.socket.destroy();
    const { outcome } = await gateway.untilSettled();
    assert.deepEqual([outcome.kind, outcome.error?.code], ['cancelled', 'client_closed']);
  });
});
