import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { definePlugin, type AnyPlugin } from '../pipeline/plugin.ts';
import { jsonAnswer } from '../pipeline/settle.ts';
import { providerPlugin, startTestGateway, type TestGatewayOptions } from '../../tests/kit/gateway-kit.ts';
import { begin, connect, send, startUpstream, until } from '../../tests/kit/http-kit.ts';

/** Answers with what the engine made of the request. */
const mirror: AnyPlugin = definePlugin({
  name: 'mirror',
  capabilities: { answers: true },
  create: () => ({
    request: (context) =>
      jsonAnswer(200, {
        id: context.id,
        method: context.method,
        path: context.path,
        originalPath: context.originalPath,
        query: context.query,
        endpoint: context.endpoint.id,
        key: context.service('api-key'),
        remote: context.remoteAddress,
        metadata: context.facts.metadata,
        trace: context.facts.traceId,
        span: context.facts.spanId,
        parent: context.facts.parentSpanId,
        name: context.facts.spanName,
      }),
  }),
});

const mirroring = (t: TestContext, options: TestGatewayOptions = {}) =>
  startTestGateway(t, { plugins: [mirror], ...options });

describe('paths', () => {
  const cases: readonly [sent: string, path: string, query: string, endpoint: string][] = [
    ['/v1/chat/completions', '/chat/completions', '', 'proxy'],
    ['/chat/completions', '/chat/completions', '', 'proxy'],
    ['/v1', '/', '', 'proxy'],
    ['/', '/', '', 'proxy'],
    ['/v1x/models', '/v1x/models', '', 'proxy'],
    ['/v1/proxy/models', '/models', '', 'models'],
    ['/proxy/v2/deep', '/v2/deep', '', 'proxy'],
    ['/proxy', '/proxy', '', 'proxy'],
    ['/v1/files/a%2Fb?x=1&y=%20?', '/files/a%2Fb', '?x=1&y=%20?', 'files'],
    ['/v1//double//slashes', '//double//slashes', '', 'proxy'],
    ['/v1/dotted/.hidden/a..b/...', '/dotted/.hidden/a..b/...', '', 'proxy'],
    ['http://other.example/v1/models?a=b', '/models', '?a=b', 'models'],
    ['HTTP://other.example', '/', '', 'proxy'],
  ];
  for (const [sent, path, query, endpoint] of cases) {
    test(`${sent} is ${path}`, async (t) => {
      const { url } = await mirroring(t);
      const answer = await send(url, { path: sent });
      assert.equal(answer.status, 200);
      const { path: seen, query: asked, endpoint: found } = answer.json();
      assert.deepEqual([seen, asked, found], [path, query, endpoint]);
    });
  }

  const refused = [
    '/v1/../admin',
    '/v1/./models',
    '/v1/models/..',
    '/v1/%2e%2e/x',
    '/v1/.%2E/x',
    '/v1/files%2f..%2fx',
    '/v1/a\\..\\x',
    '/v1/a%5c..%5cx',
    '/v1/..;/x',
  ];
  for (const path of refused) {
    test(`${path} is refused`, async (t) => {
      const gateway = await mirroring(t);
      const answer = await send(gateway.url, { path });
      assert.equal(answer.status, 400);
      assert.equal(answer.json().error.code, 'invalid_request');
      assert.match(answer.json().error.message, /Send the plain path/);
      assert.equal((await gateway.untilSettled()).outcome.kind, 'refused');
    });
  }

  test('a target without a path is refused', async (t) => {
    const { port } = await mirroring(t);
    const client = await connect(t, port);
    client.write('OPTIONS * HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n');
    assert.match(await client.ended(), /^HTTP\/1\.1 400 /);
  });

  test('another base path, and none', async (t) => {
    const deep = await mirroring(t, { server: { base_path: '/api/v2' } });
    assert.equal((await send(deep.url, { path: '/api/v2/models' })).json().path, '/models');
    assert.equal((await send(deep.url, { path: '/v1/models' })).json().path, '/v1/models');
    const none = await mirroring(t, { server: { base_path: '/' } });
    assert.equal((await send(none.url, { path: '/models' })).json().path, '/models');
  });

  test('a path that no pipeline serves gets 404 and is settled', async (t) => {
    const gateway = await startTestGateway(t, {
      pipelines: [{ match: { path: '/chat/**', methods: ['POST'] }, plugins: [mirror] }],
    });
    const answer = await send(gateway.url, { path: '/v1/models' });
    assert.equal(answer.status, 404);
    assert.equal(answer.json().error.code, 'route_not_found');
    const { outcome, id } = await gateway.untilSettled();
    assert.deepEqual([outcome.kind, outcome.status], ['refused', 404]);
    assert.equal(answer.headers['x-service-request-id'], id);
    assert.equal(gateway.held(), 0);
  });
});

describe('headers', () => {
  test('the request id of the answer is that of the settled request, and the trace defaults to it', async (t) => {
    const gateway = await mirroring(t);
    const answer = await send(gateway.url, { path: '/v1/models' });
    const { id } = await gateway.untilSettled();
    assert.equal(answer.headers['x-service-request-id'], id);
    assert.equal(answer.headers['x-service-trace-id'], id);
    assert.match(id, /^[0-9a-f-]{36}$/);
  });

  test('prefix and aliases', async (t) => {
    const { url } = await mirroring(t, {
      server: { header_prefix: 'x-acme', header_aliases: ['x-portkey', 'x-old'] },
    });
    const key = async (headers: Record<string, string>) => (await send(url, { headers })).json().key;
    assert.equal(await key({ 'X-Acme-Api-Key': 'a' }), 'a');
    assert.equal(await key({ 'x-portkey-api-key': 'b' }), 'b');
    assert.equal(await key({ 'x-old-api-key': 'c' }), 'c');
    assert.equal(await key({ 'x-old-api-key': 'c', 'x-acme-api-key': 'a' }), 'a');
    assert.equal(await key({ 'x-service-api-key': 'd' }), undefined);
    const answer = await send(url);
    assert.ok(answer.headers['x-acme-request-id']);
  });

  test('a trace id is echoed without what no header may carry', async (t) => {
    const { port } = await mirroring(t);
    const client = await connect(t, port);
    client.write(
      Buffer.from(
        'GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\nx-service-trace-id: a\xe9b\r\n\r\n',
        'latin1',
      ),
    );
    assert.match(await client.ended(), /x-service-trace-id: a\?b\r\n/);
  });

  test('metadata', async (t) => {
    const { url } = await mirroring(t);
    const metadata = async (value: string) => {
      const answer = await send(url, { headers: { 'x-service-metadata': value } });
      return answer.status === 200 ? answer.json().metadata : answer.json().error;
    };
    assert.deepEqual(await metadata('{"_user":"ann","n":3,"b":true,"z":null}'), {
      _user: 'ann',
      n: '3',
      b: 'true',
      z: 'null',
    });
    const many = JSON.stringify(Object.fromEntries(Array.from({ length: 65 }, (_, i) => [`k${i}`, '1'])));
    for (const [value, reason] of [
      ['nonsense', /no valid JSON/],
      ['[1]', /no JSON object/],
      ['null', /no JSON object/],
      ['{"a":{"b":1}}', /an object or a list under "a"/],
      ['{"a":[1]}', /an object or a list under "a"/],
      [`{"a":"${'x'.repeat(129)}"}`, /more than 128 characters under "a"/],
      [`{"${'k'.repeat(129)}":"x"}`, /more than 128 characters/],
      [many, /more than 64 keys/],
    ] as const) {
      const error = await metadata(value);
      assert.equal(error.code, 'invalid_header', value);
      assert.equal(error.param, 'metadata');
      assert.match(error.message, reason);
    }
  });

  test('an identifier that is too long is refused by name', async (t) => {
    const { url } = await mirroring(t);
    const headers = { 'x-service-span-name': 'x'.repeat(256) };
    const answer = await send(url, { headers });
    assert.equal(answer.status, 400);
    assert.equal(answer.json().error.param, 'span-name');
  });
});

describe('refusals', () => {
  test('each in the dialect of its path, with a request id', async (t) => {
    const refusing: AnyPlugin = definePlugin({
      name: 'refusing',
      capabilities: { answers: true },
      create: () => ({
        request() {
          throw new TypeError('a secret of the plugin');
        },
      }),
    });
    const { url } = await startTestGateway(t, { plugins: [refusing] });
    const chat = await send(url, { path: '/v1/chat/completions', body: {} });
    assert.equal(chat.status, 500);
    assert.deepEqual(Object.keys(chat.json()), ['error']);
    assert.equal(chat.json().error.code, 'plugin_failed');
    assert.doesNotMatch(chat.text, /secret/);
    const messages = await send(url, { path: '/v1/messages', body: {} });
    assert.equal(messages.json().type, 'error');
    assert.ok(messages.headers['x-service-request-id']);
    assert.equal(messages.headers['content-type'], 'application/json');
  });
});

describe('connections', () => {
  test('one keeps serving, and a HEAD gets no body', async (t) => {
    const { port } = await mirroring(t);
    const client = await connect(t, port);
    client.write('HEAD /v1/models HTTP/1.1\r\nhost: x\r\n\r\n');
    const head = await client.until('\r\n\r\n');
    assert.match(head, /^HTTP\/1\.1 200 /);
    assert.ok(head.endsWith('\r\n\r\n'));
    client.write('GET /v1/second HTTP/1.1\r\nhost: x\r\n\r\n');
    assert.match(await client.until('/second'), /"path":"\/second"/);
  });

  test('pipelined requests are answered in their order', async (t) => {
    const gates = new Map<string, () => void>();
    const slow: AnyPlugin = definePlugin({
      name: 'slow',
      capabilities: { answers: true },
      create: () => ({
        request: async ({ path }) => {
          if (path === '/one') await new Promise<void>((resolve) => gates.set(path, resolve));
          return jsonAnswer(200, path);
        },
      }),
    });
    const gateway = await startTestGateway(t, { plugins: [slow] });
    const client = await connect(t, gateway.port);
    client.write('GET /one HTTP/1.1\r\nhost: x\r\n\r\nGET /two HTTP/1.1\r\nhost: x\r\n\r\n');
    await gateway.untilSettled(1);
    assert.equal(client.received(), '');
    gates.get('/one')?.();
    const text = await client.until('"/two"');
    assert.ok(text.indexOf('"/one"') < text.indexOf('"/two"'));
  });

  test('a pipelined request whose connection ends is aborted, too', async (t) => {
    const upstream = await startUpstream(
      t,
      (_request, response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        response.write('data: {}\n\n');
      },
      { early: true },
    );
    const gateway = await startTestGateway(t, { providers: { up: { base_url: upstream.url } } });
    const client = await connect(t, gateway.port);
    client.write('GET /one HTTP/1.1\r\nhost: x\r\n\r\nGET /two HTTP/1.1\r\nhost: x\r\n\r\n');
    await client.until('data: {}');
    await until(() => upstream.requests.length === 2, 'both requests');
    client.socket.destroy();
    await gateway.untilSettled(2);
    assert.deepEqual(
      gateway.settled.map(({ outcome }) => outcome.kind),
      ['cancelled', 'cancelled'],
    );
    await until(() => upstream.open.size === 0, 'both upstream connections closed');
  });

  test('while draining, answers ask for the end of the connection', async (t) => {
    const gateway = await mirroring(t);
    const before = await connect(t, gateway.port);
    before.write('GET / HTTP/1.1\r\nhost: x\r\n\r\n');
    assert.doesNotMatch(await before.until('"path"'), /connection: close/i);
    await gateway.gateway.drain();
    assert.equal(gateway.gateway.isDraining, true);
    before.write('GET / HTTP/1.1\r\nhost: x\r\n\r\n');
    assert.match(await before.ended(), /connection: close/i);
  });

  test('the memory of a request is given back and the count returns to zero', async (t) => {
    const upstream = await startUpstream(t, (_request, response) => void response.end('{}'));
    const gateway = await startTestGateway(t, { providers: { up: { base_url: upstream.url } } });
    const body = { model: 'm', messages: [{ role: 'user', content: 'x'.repeat(50_000) }] };
    await send(gateway.url, { path: '/v1/chat/completions', body });
    await gateway.untilSettled();
    assert.equal(gateway.gateway.bufferedBytes, 0);
    assert.equal(gateway.gateway.activeRequests, 0);
    assert.equal(gateway.held(), 0);
  });

  test('an active request counts until it has settled', async (t) => {
    const upstream = await startUpstream(
      t,
      (_request, response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        response.write('data: 1\n\n');
      },
      { early: true },
    );
    const gateway = await startTestGateway(t, {
      plugins: [providerPlugin({ default: 'up' })],
      providers: { up: { base_url: upstream.url } },
    });
    const { request } = await begin(gateway.url, { path: '/v1/x' });
    assert.equal(gateway.gateway.activeRequests, 1);
    assert.equal(gateway.held(), 1);
    request.destroy();
    await gateway.untilSettled();
    assert.equal(gateway.gateway.activeRequests, 0);
    assert.equal(gateway.held(), 0);
  });
});
