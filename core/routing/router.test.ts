import assert from 'node:assert/strict';
import net from 'node:net';
import { describe, test, type TestContext } from 'node:test';
import { definePlugin, GatewayError } from '../pipeline/plugin.ts';
import { providerPlugin, startTestGateway } from '../../tests/kit/gateway-kit.ts';
import { connect, send, until } from '../../tests/kit/http-kit.ts';
import { credentialsOf, key, ours, routed } from '../../tests/kit/routing-kit.ts';

const none = { authorization: undefined, boxed: undefined, azure: undefined };
const stale = () => new GatewayError('upstream_reset', 'The connection was closed.', { source: 'provider' });
const bearer = (secret: string) => ({ authorization: `Bearer ${secret}` });

describe('which provider', () => {
  const refused: readonly [string, Record<string, string>, string, RegExp][] = [
    [
      'none',
      {},
      'provider_missing',
      /x-acme-virtual-key; x-acme-provider with "Authorization: Bearer <provider key>"; x-acme-config; or x-acme-provider with x-acme-custom-host/,
    ],
    ['an empty one', { 'x-acme-provider': '' }, 'provider_missing', /names no provider/],
    [
      'two',
      { 'x-acme-provider': 'plain', 'x-acme-virtual-key': 'held' },
      'provider_ambiguous',
      /"plain" and the virtual key "held".*x-acme-virtual-key/,
    ],
    [
      'an unknown one',
      { 'x-acme-provider': 'plian' },
      'provider_unknown',
      /no provider "plian".*Did you mean "plain"/,
    ],
    [
      'an unknown slug',
      { 'x-acme-provider': '@hled' },
      'provider_unknown',
      /no provider slug "@hled".*"held"/,
    ],
    [
      'a built-in name as slug',
      { 'x-acme-provider': '@plain' },
      'provider_unknown',
      /no provider slug "@plain"/,
    ],
    [
      'a built-in name as virtual key',
      { 'x-acme-virtual-key': 'plain' },
      'provider_unknown',
      /no virtual key "plain"/,
    ],
    ['a name of every object', { 'x-acme-provider': 'constructor' }, 'provider_unknown', /no provider/],
    ['a config that says nothing', { 'x-acme-config': '{}' }, 'invalid_config', /config/],
    ['a config that is not there', { 'x-acme-config': 'pc-none' }, 'config_unknown', /"pc-none"/],
  ];
  for (const [name, headers, code, message] of refused) {
    test(`${name}: 400 ${code}`, async (t) => {
      const { gateway, upstream } = await routed(t, { server: { header_prefix: 'x-acme' } });
      const all = { 'x-acme-api-key': ours, ...headers };
      const answer = await send(gateway.url, { path: '/v1/chat/completions', headers: all, body: '{broken' });
      assert.deepEqual([answer.status, answer.json().error.code], [400, code]);
      assert.match(answer.json().error.message, message);
      assert.equal(upstream.requests.length, 0);
    });
  }

  test('a model that names a provider that there is not says so, when nothing else names one', async (t) => {
    const { gateway, upstream } = await routed(t);
    const ask = async (model: string) =>
      (
        await send(gateway.url, { path: '/v1/chat/completions', headers: key, body: { model, messages: [] } })
      ).json().error;
    const unknown = await ask('@hled/gpt');
    assert.equal(unknown.code, 'provider_unknown');
    assert.match(unknown.message, /no provider slug "@hled".*Did you mean "held"/);
    for (const model of ['gpt', '@gpt', 'a/@b']) assert.equal((await ask(model)).code, 'provider_missing');
    assert.equal(upstream.requests.length, 0);
  });

  test('the default of the plugin, when the request names none', async (t) => {
    const { gateway, upstream } = await routed(t, { plugins: [providerPlugin({ default: 'held' })] });
    await send(gateway.url, { path: '/v1/x' });
    assert.deepEqual(credentialsOf(upstream), { ...none, ...bearer('held-secret') });
    await send(gateway.url, { path: '/v1/x', headers: { 'x-service-provider': 'plain', ...bearer('sk') } });
    assert.deepEqual(credentialsOf(upstream), { ...none, ...bearer('sk') });
  });

  test('a provider in YAML completes the built-in row of its name', async (t) => {
    const { gateway, upstream } = await routed(t);
    await send(gateway.url, { path: '/v1/x', headers: { ...key, 'x-service-provider': 'overridden' } });
    const [request] = upstream.requests;
    assert.equal(request?.url, '/over/x');
    assert.deepEqual([request?.headers['x-row'], request?.headers['x-yaml']], ['built-in', '1']);
  });

  test('the row’s headers give way to the client’s own', async (t) => {
    const { gateway, upstream } = await routed(t);
    const headers = { ...key, 'x-service-provider': 'boxed', 'X-Version': '8' };
    await send(gateway.url, { path: '/v1/x', headers });
    assert.equal(upstream.requests[0]?.headers['x-version'], '8');
    assert.equal(upstream.requests[0]?.url, '/boxed/x');
  });

  test('what is known of it reaches the log', async (t) => {
    const { gateway } = await routed(t);
    await send(gateway.url, { path: '/v1/x', headers: { ...key, 'x-service-virtual-key': 'held' } });
    const { facts } = await gateway.untilSettled();
    assert.deepEqual([facts.provider, facts.aiService, facts.virtualKey], ['held', 'held', 'held']);
    assert.ok(facts.upstreamEndedAt >= facts.upstreamStartedAt && facts.upstreamStartedAt > 0);
  });
});

describe('what goes to the provider', () => {
  for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS', 'PROPFIND']) {
    test(`${method}, with its raw path and query`, async (t) => {
      const { gateway, upstream } = await routed(t, { plugins: [providerPlugin({ default: 'held' })] });
      const path = '/v1/files/a%2Fb//c;d?x=%20&y=a+b&z';
      const body = ['POST', 'PUT', 'PATCH', 'PROPFIND'].includes(method) ? 'bytes' : undefined;
      const answer = await send(gateway.url, { method, path, body });
      assert.equal(answer.status, 200);
      const [request] = upstream.requests;
      assert.deepEqual([request?.method, request?.url], [method, '/v1/files/a%2Fb//c;d?x=%20&y=a+b&z']);
      assert.equal(request?.body.toString(), body ?? '');
      assert.equal(answer.text, method === 'HEAD' ? '' : '{}');
    });
  }

  test('headers in their order and case, repeats kept, hop-by-hop ones dropped', async (t) => {
    const { gateway, upstream } = await routed(t, { plugins: [providerPlugin({ default: 'open' })] });
    const headers = [
      ...['X-Zed', '1', 'x-a', '2', 'X-Zed', '3', 'User-Agent', 'sdk/1', 'cookie', 'c=1', 'x-hop', '1'],
      ...[
        'Connection',
        'close, x-hop',
        'keep-alive',
        'timeout=5',
        'TE',
        'trailers',
        'proxy-authorization',
        'p',
      ],
      ...['upgrade', 'h2c', 'accept', '*/*'],
    ];
    await send(gateway.url, { path: '/v1/x', headers });
    const sent = upstream.requests[0]?.rawHeaders ?? [];
    const pairs = sent.flatMap((name, i) => (i % 2 === 0 ? [`${name}: ${sent[i + 1]}`] : []));
    assert.deepEqual(pairs, [
      ...[`host: ${upstream.host}`, 'connection: keep-alive'],
      ...['X-Zed: 1', 'x-a: 2', 'X-Zed: 3', 'User-Agent: sdk/1', 'cookie: c=1', 'accept: */*'],
    ]);
  });

  test('accept-encoding: the client’s where the answer passes unread, identity where it is read', async (t) => {
    const { gateway, upstream } = await routed(t, { plugins: [providerPlugin({ default: 'open' })] });
    const headers = { 'accept-encoding': 'zstd, br' };
    await send(gateway.url, { path: '/v1/x', headers });
    const body = { model: 'm', messages: [{ role: 'user', content: 'x' }] };
    await send(gateway.url, { path: '/v1/chat/completions', headers, body });
    await send(gateway.url, { path: '/v1/x' });
    assert.deepEqual(
      upstream.requests.map((request) => request.headers['accept-encoding']),
      ['zstd, br', 'identity', undefined],
    );
  });

  test('an answer without a body keeps its head: HEAD, 204, 304', async (t) => {
    const statuses = [200, 204, 304];
    const { gateway } = await routed(t, {
      plugins: [providerPlugin({ default: 'open' })],
      answer: (request, response) => {
        const status = Number(request.url.slice(1));
        response.writeHead(status, status === 204 ? { etag: 'e' } : { etag: 'e', 'content-length': '42' });
        response.end();
      },
    });
    for (const status of statuses) {
      const method = status === 200 ? 'HEAD' : 'GET';
      const answer = await send(gateway.url, { method, path: `/v1/${status}` });
      assert.deepEqual([answer.status, answer.text, answer.headers.etag], [status, '', 'e']);
      assert.equal(answer.headers['content-length'], status === 204 ? undefined : '42');
      assert.equal(answer.complete, true);
    }
    await gateway.untilSettled(3);
    assert.ok(gateway.settled.every(({ outcome }) => outcome.kind === 'completed'));
  });

  test('a modelled body is checked after the plugins have had their say', async (t) => {
    const fixing = definePlugin({
      name: 'fixing',
      capabilities: { changes: ['request.json'] },
      create: () => ({ request: ({ body }) => body.set(['temperature'], 1) }),
    });
    const { gateway, upstream } = await routed(t, { plugins: [fixing, providerPlugin({ default: 'open' })] });
    const body = { model: 'm', temperature: 99, messages: [{ role: 'user', content: 'x' }] };
    assert.equal((await send(gateway.url, { path: '/v1/chat/completions', body })).status, 200);
    assert.equal(JSON.parse(String(upstream.requests[0]?.body)).temperature, 1);
    assert.equal((await gateway.untilSettled()).facts.modelRequested, 'm');
  });

  const invalid: readonly [string, unknown, Record<string, string>, string, string | null][] = [
    [
      'out of range',
      { model: 'm', temperature: 99, messages: [{ role: 'user', content: 'x' }] },
      {},
      'invalid_request',
      'temperature',
    ],
    ['no JSON', '{', {}, 'invalid_json', null],
    ['no object', '[1]', {}, 'invalid_json', null],
    ['empty', '', {}, 'invalid_json', null],
    [
      'thinking, strictly',
      {
        model: 'm',
        thinking: { type: 'enabled', budget_tokens: 9 },
        messages: [{ role: 'user', content: 'x' }],
      },
      {},
      'invalid_request',
      'thinking',
    ],
  ];
  for (const [name, body, headers, code, param] of invalid) {
    test(`a modelled body that is wrong: ${name}`, async (t) => {
      const { gateway, upstream } = await routed(t, { plugins: [providerPlugin({ default: 'open' })] });
      const answer = await send(gateway.url, { path: '/v1/chat/completions', method: 'POST', headers, body });
      assert.deepEqual(
        [answer.status, answer.json().error.code, answer.json().error.param],
        [400, code, param],
      );
      assert.equal(upstream.requests.length, 0);
    });
  }

  test('strict compliance: the header wins over the option, in both spellings', async (t) => {
    const lax = { plugins: [providerPlugin({ default: 'open', strict_open_ai_compliance: false })] };
    const strict = { plugins: [providerPlugin({ default: 'open' })] };
    const body = {
      model: 'm',
      thinking: { type: 'enabled', budget_tokens: 9 },
      messages: [{ role: 'user', content: 'x' }],
    };
    for (const [options, headers, status] of [
      [strict, {}, 400],
      [strict, { 'x-service-strict-open-ai-compliance': 'false' }, 200],
      [strict, { 'x-portkey-strict-openai-compliance': 'FALSE' }, 200],
      [lax, {}, 200],
      [lax, { 'x-service-strict-openai-compliance': 'true' }, 400],
    ] as const) {
      const { gateway } = await routed(t, options);
      const answer = await send(gateway.url, { path: '/v1/chat/completions', headers: { ...headers }, body });
      assert.equal(answer.status, status);
    }
  });
});

describe('the one re-send', () => {
  /** Serves each connection `perConnection` times, then closes it without a word at the next request. */
  async function forgetful(t: TestContext, perConnection = 1) {
    const heard: string[] = [];
    const sockets = new Set<net.Socket>();
    const server = net.createServer((socket) => {
      sockets.add(socket);
      let served = 0;
      socket.on('error', () => undefined);
      socket.on('data', (chunk) => {
        const text = chunk.toString();
        const isHead = /^[A-Z]+ \//.test(text);
        if (isHead) heard.push(text.slice(0, text.indexOf(' HTTP')));
        if (isHead && served++ >= perConnection) return void socket.resetAndDestroy();
        if (isHead) socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}');
      });
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    t.after(() => {
      server.close();
      for (const socket of sockets) socket.destroy();
    });
    const { port } = server.address() as net.AddressInfo;
    const gateway = await startTestGateway(t, {
      providers: { up: { base_url: `http://127.0.0.1:${port}` } },
    });
    return { gateway, heard };
  }
  const chat = {
    path: '/v1/chat/completions',
    body: { model: 'm', messages: [{ role: 'user', content: 'x' }] },
  };

  test('saves a request on a pooled connection that the provider had closed', async (t) => {
    const { gateway, heard } = await forgetful(t);
    for (let i = 0; i < 2; i++) assert.equal((await send(gateway.url, chat)).status, 200);
    const { facts, outcome } = await gateway.untilSettled(2);
    assert.deepEqual([outcome.kind, facts.resent, facts.attempts], ['completed', true, 1]);
    assert.equal((await gateway.untilSettled(1)).facts.resent, false);
    assert.equal(heard.length, 3, 'first, lost, sent again');
  });

  test('a request without a body is sent again, too', async (t) => {
    const { gateway } = await forgetful(t);
    for (let i = 0; i < 2; i++) assert.equal((await send(gateway.url, { path: '/v1/models' })).status, 200);
    assert.equal((await gateway.untilSettled(2)).facts.resent, true);
  });

  test('a streamed body is not: the failure is told', async (t) => {
    const { gateway, heard } = await forgetful(t);
    const upload = { path: '/v1/files', body: 'bytes' };
    assert.equal((await send(gateway.url, upload)).status, 200);
    const answer = await send(gateway.url, upload);
    assert.deepEqual([answer.status, answer.json().error.code], [502, 'upstream_reset']);
    assert.equal((await gateway.untilSettled(2)).facts.resent, false);
    assert.equal(heard.length, 2);
  });

  test('a fresh connection that is reset is a failure of the provider', async (t) => {
    const { gateway, heard } = await forgetful(t, 0);
    const answer = await send(gateway.url, chat);
    assert.deepEqual([answer.status, answer.json().error.code], [502, 'upstream_reset']);
    assert.deepEqual([heard.length, (await gateway.untilSettled()).facts.resent], [1, false]);
  });

  test('never twice', async (t) => {
    let calls = 0;
    const gateway = await startTestGateway(t, {
      providers: { up: { base_url: 'http://127.0.0.1:1' } },
      transport: {
        send(_request, handler) {
          calls++;
          queueMicrotask(() => handler.fail(stale(), { stale: true }));
          return { resume() {}, abort() {} };
        },
        close: () => Promise.resolve(),
      },
    });
    const answer = await send(gateway.url, chat);
    assert.deepEqual([answer.status, calls], [502, 2]);
  });

  test('not for a client that has left', async (t) => {
    let calls = 0;
    let failNow: (() => void) | undefined;
    const gateway = await startTestGateway(t, {
      providers: { up: { base_url: 'http://127.0.0.1:1' } },
      transport: {
        send(_request, handler) {
          calls++;
          failNow = () => handler.fail(stale(), { stale: true });
          return { resume() {}, abort() {} };
        },
        close: () => Promise.resolve(),
      },
    });
    const client = await connect(t, gateway.port);
    client.write('GET /v1/models HTTP/1.1\r\nhost: x\r\n\r\n');
    await until(() => failNow !== undefined, 'the call');
    client.socket.destroy();
    await until(() => gateway.server.connections() === 0, 'the end of the connection');
    failNow?.();
    assert.equal((await gateway.untilSettled()).outcome.kind, 'cancelled');
    assert.equal(calls, 1);
  });
});

describe('answers that are collected', () => {
  const body = { model: 'm', messages: [{ role: 'user', content: 'x' }] };

  test('are bounded', async (t) => {
    const { gateway, upstream } = await routed(t, {
      plugins: [providerPlugin({ default: 'open', max_answer_bytes: 5000 })],
      answer: (_request, response) => {
        response.writeHead(200, { 'content-type': 'application/json' });
        response.write('x'.repeat(6000));
      },
    });
    const answer = await send(gateway.url, { path: '/v1/chat/completions', body });
    assert.deepEqual([answer.status, answer.json().error.code], [502, 'upstream_too_large']);
    assert.match(answer.json().error.message, /5000 bytes \(max_answer_bytes of the provider plugin\)/);
    await until(() => upstream.open.size === 0, 'the end of the call');
    const { outcome } = await gateway.untilSettled();
    assert.equal(outcome.error?.source, 'provider');
  });

  test('a cut in the middle is a proper error', async (t) => {
    const { gateway } = await routed(t, {
      plugins: [providerPlugin({ default: 'open' })],
      answer: (_request, response) => {
        response.writeHead(200, { 'content-type': 'application/json', 'content-length': '100' });
        response.write('{"half":');
        setImmediate(() => response.destroy());
      },
    });
    const answer = await send(gateway.url, { path: '/v1/chat/completions', body });
    assert.deepEqual([answer.status, answer.json().error.code], [502, 'upstream_reset']);
  });

  test('usage, model and finish reason are learned from them', async (t) => {
    const { gateway } = await routed(t, {
      plugins: [providerPlugin({ default: 'open' })],
      answer: (_request, response) => {
        response.writeHead(200, { 'content-type': 'application/json' });
        response.end(
          '{"model":"m-2","choices":[{"finish_reason":"length"}],"usage":{"prompt_tokens":5,"completion_tokens":6,"total_tokens":11}}',
        );
      },
    });
    await send(gateway.url, { path: '/v1/chat/completions', body });
    const { facts } = await gateway.untilSettled();
    assert.deepEqual(
      [facts.modelAnswered, facts.finishReason, facts.usage?.totalTokens],
      ['m-2', 'length', 11],
    );
  });

  test('usage of an unmodelled answer that flows by is learned, too', async (t) => {
    const { gateway } = await routed(t, {
      plugins: [providerPlugin({ default: 'open' })],
      answer: (_request, response) => {
        response.writeHead(200, { 'content-type': 'application/json' });
        response.write('{"usage":{"prompt_tokens":5,');
        setImmediate(() => response.end('"completion_tokens":6,"total_tokens":11}}'));
      },
    });
    await send(gateway.url, { path: '/v1/deployments/x/chat/completions', body });
    assert.equal((await gateway.untilSettled()).facts.usage?.totalTokens, 11);
  });

  test('timeouts of the plugin’s options', async (t) => {
    const { gateway } = await routed(t, {
      plugins: [providerPlugin({ default: 'open', head_timeout_ms: 60 })],
      answer: () => undefined,
    });
    const answer = await send(gateway.url, { path: '/v1/chat/completions', body });
    assert.deepEqual([answer.status, answer.json().error.code], [504, 'upstream_timeout']);
  });

  test('a client that leaves before a collected answer is complete ends the call', async (t) => {
    const { gateway, upstream } = await routed(t, {
      plugins: [providerPlugin({ default: 'open' })],
      answer: (_request, response) => {
        response.writeHead(200, { 'content-type': 'application/json' });
        response.write('{');
      },
    });
    const client = await connect(t, gateway.port);
    const text = JSON.stringify(body);
    client.write(
      `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: ${text.length}\r\n\r\n${text}`,
    );
    await until(() => upstream.requests.length === 1, 'the call');
    client.socket.destroy();
    assert.equal((await gateway.untilSettled()).outcome.kind, 'cancelled');
    await until(() => upstream.open.size === 0, 'the end of the call');
  });
});
