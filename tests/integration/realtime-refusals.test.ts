// Requests for WebSocket that are not switched: whoever says no, it comes as plain HTTP, and the connection ends.
import assert from 'node:assert/strict';
import http from 'node:http';
import net from 'node:net';
import { describe, test, type TestContext } from 'node:test';
import { definePlugin } from '../../core/pipeline/plugin.ts';
import guardrails from '../../plugins/guardrails/index.ts';
import type { TestGateway } from '../kit/gateway-kit.ts';
import { connect, send, until } from '../kit/http-kit.ts';
import { callers, handshake, silentProvider, startRealtime } from '../kit/realtime-kit.ts';

const teapot = definePlugin({
  name: 'teapot',
  capabilities: { answers: true, reads: ['request.body'] },
  create: () => ({
    request: ({ body }) => ({ status: 418, headers: [], body: Buffer.from(`body:${body.bytes.length}`) }),
  }),
});

describe('what is not switched is answered in HTTP', () => {
  const ask = async (t: TestContext, gateway: TestGateway, text: string): Promise<string> => {
    const client = await connect(t, gateway.port);
    client.write(text);
    return client.ended();
  };

  test('no key: 401 from the gateway, and nothing reaches the provider', async (t) => {
    const { gateway, provider } = await startRealtime(t);
    const text = await ask(t, gateway, handshake({}));
    assert.match(
      text,
      /^HTTP\/1\.1 401 Unauthorized\r\n[^]*\r\nconnection: close\r\n[^]*"code":"key_missing"/i,
    );
    assert.equal(provider.sockets.length, 0);
    const { outcome } = await gateway.untilSettled();
    assert.deepEqual([outcome.kind, outcome.status], ['refused', 401]);
    assert.equal(gateway.held(), 0);
  });

  test('the answer of a plugin, which finds no body', async (t) => {
    const { gateway } = await startRealtime(t, { plugins: [teapot] });
    assert.match(await ask(t, gateway, handshake()), /^HTTP\/1\.1 418 [^]*\r\n\r\nbody:0$/);
    assert.equal((await gateway.untilSettled()).outcome.kind, 'completed');
  });

  test('a guardrail that denies the model; one that would read frames has nothing to judge', async (t) => {
    const { gateway, provider } = await startRealtime(t, { plugins: [guardrails] });
    const asking = (guardrail: object, phase = 'input') => {
      const config = { provider: '@up', [`${phase}_guardrails`]: [{ id: 'g', ...guardrail, deny: true }] };
      return handshake({ ...callers, 'x-service-config': JSON.stringify(config) });
    };
    const refused = await ask(t, gateway, asking({ 'default.modelWhitelist': { models: ['other'] } }));
    assert.match(refused, /^HTTP\/1\.1 446 [^]*"type":"hooks_failed"/);
    assert.equal(provider.sockets.length, 0);
    const unread = { 'default.contains': { words: ['Initech'], operator: 'none' } };
    for (const [index, phase] of ['input', 'output'].entries()) {
      const client = await connect(t, gateway.port);
      client.write(asking(unread, phase));
      await client.until('101 Switching');
      assert.equal(provider.sockets.length, index + 1);
      client.socket.destroy();
    }
    await gateway.untilSettled(3);
    assert.deepEqual(
      gateway.settled.map(({ facts }) => facts.verdicts.map(({ verdict }) => verdict)),
      [['refused'], ['skipped'], ['skipped']],
    );
  });

  test("the provider's own 403, with its headers and body", async (t) => {
    const { gateway, provider } = await startRealtime(t);
    provider.decline = () =>
      'HTTP/1.1 403 Forbidden\r\nx-why: because\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\nb\r\n{"error":1}\r\n0\r\n\r\n';
    const text = await ask(t, gateway, handshake());
    assert.match(text, /^HTTP\/1\.1 403 Forbidden\r\n[^]*x-why: because\r\n[^]*\r\n\r\n\{"error":1\}$/);
    assert.match(text, /content-length: 11\r\n/);
    const { outcome, facts } = await gateway.untilSettled();
    assert.deepEqual([outcome.status, outcome.error, facts.responseBytes], [403, undefined, 11]);
    assert.ok(facts.upstreamEndedAt > 0);
    await until(() => gateway.transport.stats().connections === 0, 'the connection to be closed');
  });

  test('an answer of more than 1 MiB is cut off', async (t) => {
    const { gateway, provider } = await startRealtime(t);
    provider.decline = () => `HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n${'x'.repeat(1_100_000)}`;
    assert.match(await ask(t, gateway, handshake()), /^HTTP\/1\.1 502 [^]*"code":"upstream_too_large"/);
  });

  test('nobody listens: 502; the provider hangs up: 502; it never answers: 504', async (t) => {
    const { gateway, provider } = await startRealtime(
      t,
      {
        providers: { nobody: { base_url: 'http://127.0.0.1:9', credentials: 'none' } },
      },
      { head_timeout_ms: 100 },
    );
    const unreachable = await ask(t, gateway, handshake({ ...callers, 'x-service-provider': 'nobody' }));
    assert.match(unreachable, /^HTTP\/1\.1 502 [^]*"code":"upstream_unreachable"/);
    provider.decline = (request) => {
      request.socket.destroy();
      return '';
    };
    assert.match(await ask(t, gateway, handshake()), /^HTTP\/1\.1 502 [^]*"code":"upstream_reset"/);
    const silent = net.createServer((socket) => t.after(() => void socket.destroy()));
    const late = await startRealtime(t, await silentProvider(t, silent), {
      default: 'silent',
      head_timeout_ms: 100,
    });
    assert.match(await ask(t, late.gateway, handshake()), /^HTTP\/1\.1 504 [^]*"code":"upstream_timeout"/);
    assert.equal(late.gateway.transport.stats().running, 0);
  });

  const head = handshake();
  for (const [what, request, expected] of [
    [
      'another protocol',
      head.replace('Upgrade: websocket', 'Upgrade: irc'),
      /^HTTP\/1\.1 400 [^]*not_supported/,
    ],
    ['another method', head.replace('GET ', 'POST '), /^HTTP\/1\.1 400 [^]*asked for with GET/],
    [
      'a body',
      head.replace('\r\n\r\n', '\r\ncontent-length: 2\r\n\r\nab'),
      /^HTTP\/1\.1 400 [^]*has no body/,
    ],
  ] as const) {
    test(what, async (t) => {
      const { gateway, provider } = await startRealtime(t);
      assert.match(await ask(t, gateway, request), expected);
      assert.equal(provider.sockets.length, 0);
      assert.equal((await gateway.untilSettled()).outcome.kind, 'refused');
    });
  }

  test('an offer of HTTP/2 in clear text is left alone: the request is served, its body too', async (t) => {
    const echo = definePlugin({
      name: 'echo',
      capabilities: { answers: true, reads: ['request.body'] },
      create: () => ({ request: ({ body }) => ({ status: 200, headers: [], body: body.bytes }) }),
    });
    const { gateway } = await startRealtime(t, { plugins: [echo] });
    const body = 'x'.repeat(100_000);
    const offer = { connection: 'Upgrade, HTTP2-Settings', upgrade: 'h2c', 'http2-settings': 'AAEA' };
    const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
    t.after(() => agent.destroy());
    let warnings = 0;
    const warned = (): void => void (warnings += 1);
    process.on('warning', warned);
    t.after(() => process.off('warning', warned));
    for (let request = 0; request < 15; request++) {
      const received = await send(gateway.url, {
        method: 'POST',
        path: '/v1/any',
        headers: { ...callers, ...offer },
        body,
        agent,
      });
      assert.deepEqual([received.status, received.text], [200, body]);
    }
    assert.deepEqual([gateway.server.connections(), warnings], [1, 0]);
  });
});
