// WebSocket through the gateway, with real sockets: relayed unread, with the pipeline before it and the log after it.
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import net from 'node:net';
import { describe, test } from 'node:test';
import { definePlugin } from '../../core/pipeline/plugin.ts';
import { connect, until } from '../kit/http-kit.ts';
import { eventually } from '../kit/process-kit.ts';
import {
  callers,
  handshake,
  held,
  masked,
  secret,
  silentProvider,
  startRealtime,
} from '../kit/realtime-kit.ts';
import { startWebSocketProvider } from '../kit/websocket-provider.ts';

describe('what is relayed', () => {
  test('text and binary messages, both ways, and the close', async (t) => {
    let seen: string[] = [];
    const witness = definePlugin({
      name: 'witness',
      create: () => ({ settled: (context) => void (seen = [context.endpoint.id, context.remoteAddress]) }),
    });
    const { open, provider, gateway } = await startRealtime(t, { plugins: [witness] });
    const client = await open();
    client.socket.send('Grüße');
    assert.equal(await client.next(), 'Grüße');
    const bytes = randomBytes(70_000);
    client.socket.send(bytes);
    assert.deepEqual(await client.next(), bytes);
    assert.equal(gateway.gateway.activeRequests, 1);
    assert.equal(gateway.held(), 1);
    assert.equal(gateway.settled.length, 0);
    client.socket.close(1000);
    assert.equal(await client.closed, 1000);
    const { outcome, facts } = await gateway.untilSettled();
    assert.deepEqual([outcome.kind, outcome.status, outcome.error], ['completed', 101, undefined]);
    assert.ok(facts.requestBytes > 70_000 && facts.responseBytes > 70_000);
    assert.equal(facts.requestBytes, provider.sockets[0]?.received);
    assert.deepEqual(seen, ['realtime', '127.0.0.1']);
    assert.equal(facts.modelRequested, 'gpt-realtime');
    assert.equal(facts.apiKeyId, 'key-1');
    assert.equal(facts.provider, 'up');
    assert.equal(facts.upstreamHost, provider.host);
    assert.ok(facts.upstreamEndedAt > facts.upstreamStartedAt);
    assert.equal(gateway.gateway.activeRequests, 0);
    await until(() => gateway.held() === 0, 'the generation to be released');
    assert.deepEqual([gateway.transport.stats().running, gateway.transport.stats().pending], [0, 0]);
    await until(() => gateway.transport.stats().connections === 0, 'the connection to be closed');
  });

  test('5 MiB in one message, and a message in several frames', async (t) => {
    const { open, provider } = await startRealtime(t);
    const client = await open();
    const large = randomBytes(5 << 20);
    client.socket.send(large);
    assert.ok(large.equals((await client.next()) as Buffer));
    const socket = provider.sockets[0];
    assert.ok(socket);
    for (const [at, part] of ['one ', 'two ', 'three'].entries()) {
      socket.send(part, { opcode: at === 0 ? 1 : 0, final: at === 2 });
    }
    assert.equal(await client.next(), 'one two three');
  });

  test('what comes together with either head', async (t) => {
    const { provider, gateway } = await startRealtime(t);
    provider.greeting = 'session.created';
    const client = await connect(t, gateway.port);
    client.write(Buffer.concat([Buffer.from(handshake()), masked(Buffer.from('at once'))]));
    const text = await client.until('at once');
    assert.match(text, /^HTTP\/1\.1 101 Switching Protocols\r\n/);
    assert.ok(text.includes('session.created'));
    assert.equal(provider.sockets[0]?.frames[0]?.payload.toString(), 'at once');
  });

  test('a side that has ended still hears the other', async (t) => {
    const { provider, gateway } = await startRealtime(t);
    provider.serve = ({ connection }) => {
      connection.removeAllListeners('end');
      connection.resume();
      connection.once('end', () => connection.end('the last words'));
    };
    const client = net.connect({ port: gateway.port, host: '127.0.0.1', allowHalfOpen: true });
    t.after(() => client.destroy());
    client.write(handshake());
    let text = '';
    client.on('data', (chunk: Buffer) => (text += chunk.toString('latin1')));
    await until(() => text.includes('\r\n\r\n'), 'the switch');
    client.end();
    await once(client, 'end');
    assert.ok(text.endsWith('the last words'));
    assert.equal((await gateway.untilSettled()).outcome.kind, 'completed');
  });

  for (const slow of ['client', 'provider'] as const) {
    test(`a ${slow} that does not read pauses the other side`, async (t) => {
      const { provider, gateway } = await startRealtime(t);
      const chunk = Buffer.alloc(65_536);
      const most = 512;
      let written = 0;
      const pour = (into: NodeJS.WritableStream): void => {
        while (written < most) {
          written += 1;
          if (!into.write(chunk)) {
            into.once('drain', () => pour(into));
            return;
          }
        }
      };
      let resume = (): void => undefined;
      let taken = 0;
      provider.serve = ({ connection }) => {
        if (slow === 'client') pour(connection);
        else {
          connection.pause();
          resume = () => connection.on('data', (bytes: Buffer) => (taken += bytes.length)).resume();
        }
      };
      const client = net.connect({ port: gateway.port, host: '127.0.0.1' });
      t.after(() => client.destroy());
      client.write(handshake());
      const [head] = (await once(client, 'data')) as [Buffer];
      if (slow === 'client') {
        taken = head.length - head.indexOf('\r\n\r\n') - 4;
        client.pause();
        resume = () => client.on('data', (bytes: Buffer) => (taken += bytes.length)).resume();
      } else pour(client);
      let before = -1;
      // Until nothing moves any more.
      while (before !== written) {
        before = written;
        await new Promise((resolve) => setTimeout(resolve, 100));
      }
      assert.ok(written < most, `all of ${most * chunk.length} bytes were taken`);
      resume();
      await eventually(() => taken === most * chunk.length || undefined);
    });
  }
});

describe('the handshake', () => {
  test('credential, path, query and headers as the provider gets them', async (t) => {
    const { open, provider } = await startRealtime(t);
    await open('/v1/realtime?model=a%2Fb&x=1', {
      authorization: `Bearer ${secret}`,
      'openai-beta': 'realtime=v1',
      'x-portkey-trace-id': 'trace',
    });
    const [socket] = provider.sockets;
    assert.equal(socket?.url, '/api/v1/realtime?model=a%2Fb&x=1');
    assert.equal(socket?.headers.authorization, `Bearer ${held}`);
    assert.equal(socket?.headers['openai-beta'], 'realtime=v1');
    assert.equal(socket?.headers.host, provider.host);
    assert.equal(socket?.headers['sec-websocket-version'], '13');
    assert.ok(
      !socket?.rawHeaders.some((text) => text.includes(secret) || /^x-(service|portkey)-/i.test(text)),
    );
  });

  test('any path, and the headers of the 101', async (t) => {
    const { gateway, provider } = await startRealtime(t);
    const client = await connect(t, gateway.port);
    client.write(handshake(callers, '/any/thing'));
    const head = await client.until('\r\n\r\n');
    assert.match(head, /\r\nx-provider: yes\r\n/);
    assert.match(head, /\r\nsec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK\+xOo=\r\n/);
    assert.match(head, /\r\nx-service-request-id: [0-9a-f-]{36}\r\n/);
    assert.equal(head.match(/\r\nconnection:/gi)?.length, 1);
    assert.equal(head.match(/\r\nupgrade:/gi)?.length, 1);
    assert.equal(provider.sockets[0]?.url, '/api/v1/any/thing');
  });

  test('a browser names key and provider as subprotocols, which go no further', async (t) => {
    const { open, provider, gateway } = await startRealtime(
      t,
      {
        providers: { other: { base_url: 'http://127.0.0.1:9', api_key: 'sk-other' } },
      },
      { default: 'other' },
    );
    const protocols = ['realtime', `openai-insecure-api-key.${secret}`, 'x-service-provider.up'];
    const client = await open('/v1/realtime', {}, protocols);
    assert.equal(client.socket.protocol, 'realtime');
    const [socket] = provider.sockets;
    assert.equal(socket?.headers['sec-websocket-protocol'], 'realtime');
    assert.equal(socket?.headers.authorization, `Bearer ${held}`);
    assert.ok(!socket?.rawHeaders.some((text) => text.includes(secret)));
    client.socket.close();
    assert.equal((await gateway.untilSettled()).facts.apiKeyId, 'key-1');
  });

  const azure = { dialect: 'azure-openai', credentials: 'api-key', api_key: held } as const;
  const gemini = { dialect: 'google-gemini', credentials: 'x-goog-api-key', api_key: held } as const;
  const live = '/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent';
  for (const [what, path, provider, url, credential] of [
    [
      'Azure, dated',
      '/v1/realtime?model=m',
      { ...azure, azure_api_version: '2024-10-01-preview' },
      '/realtime?model=m&api-version=2024-10-01-preview&deployment=m',
      'api-key',
    ],
    [
      'Azure',
      '/v1/realtime?model=m',
      { ...azure, azure_api_version: 'v1' },
      '/v1/realtime?model=m',
      'api-key',
    ],
    ["Gemini's live API", live, gemini, live, 'x-goog-api-key'],
  ] as const) {
    test(`another provider: ${what}`, async (t) => {
      const other = await startWebSocketProvider();
      t.after(() => other.close());
      const { open } = await startRealtime(
        t,
        { providers: { other: { ...provider, base_url: `http://${other.host}` } } },
        { default: 'other' },
      );
      await open(path);
      const [socket] = other.sockets;
      assert.deepEqual([socket?.url, socket?.headers[credential]], [url, held]);
    });
  }

  test("a caller's own credential goes to a custom host, guarded unless it is trusted", async (t) => {
    const provider = await startWebSocketProvider();
    t.after(() => provider.close());
    const { gateway } = await startRealtime(t, { security: { trusted_hosts: [provider.host] } });
    const ask = async (host: string): Promise<string> => {
      const client = await connect(t, gateway.port);
      client.write(
        handshake({
          ...callers,
          authorization: 'Bearer sk-of-the-caller',
          'x-service-provider': 'openai',
          'x-service-custom-host': host,
        }),
      );
      return client.until('\r\n\r\n');
    };
    assert.match(await ask(`http://${provider.host}/v1`), /^HTTP\/1\.1 101 /);
    assert.equal(provider.sockets[0]?.headers.authorization, 'Bearer sk-of-the-caller');
    assert.match(await ask('http://127.0.0.1:1/v1'), /^HTTP\/1\.1 400 /);
    assert.equal(provider.sockets.length, 1);
  });
});

describe('how it ends', () => {
  test('the client leaves: the provider sees it', async (t) => {
    const { gateway, provider } = await startRealtime(t);
    const client = await connect(t, gateway.port);
    client.write(handshake());
    await client.until('\r\n\r\n');
    client.socket.resetAndDestroy();
    const { outcome } = await gateway.untilSettled();
    assert.deepEqual([outcome.kind, outcome.status], ['cancelled', 101]);
    await until(() => provider.sockets[0]?.ended === true, 'the end at the provider');
  });

  test('the client leaves before the provider has answered', async (t) => {
    let asked = 0;
    let gone = 0;
    const silent = net.createServer((socket) => {
      socket.on('error', () => undefined).on('close', () => (gone += 1));
      socket.on('data', () => (asked += 1));
    });
    const { gateway } = await startRealtime(t, await silentProvider(t, silent), { default: 'silent' });
    const client = await connect(t, gateway.port);
    client.write(handshake());
    await until(() => asked > 0, 'the request at the provider');
    client.socket.end();
    const { outcome } = await gateway.untilSettled();
    assert.deepEqual([outcome.kind, outcome.error?.code], ['cancelled', 'client_closed']);
    await until(() => gone === 1, 'the end at the provider');
  });

  test('the provider dies: the client sees it', async (t) => {
    const { open, gateway, provider } = await startRealtime(t);
    const client = await open();
    const connection = provider.sockets[0]?.connection as net.Socket;
    connection.resetAndDestroy();
    assert.equal(await client.closed, 1006);
    const { outcome } = await gateway.untilSettled();
    assert.deepEqual([outcome.kind, outcome.error?.code], ['failed', 'upstream_reset']);
  });

  test('no byte for the idle timeout ends both', async (t) => {
    const { open, gateway, provider } = await startRealtime(t, {}, { idle_timeout_ms: 100 });
    const client = await open();
    assert.equal(await client.closed, 1006);
    const { outcome } = await gateway.untilSettled();
    assert.deepEqual([outcome.kind, outcome.error?.code], ['failed', 'upstream_timeout']);
    await until(() => provider.sockets[0]?.ended === true, 'the end at the provider');
  });

  test('a client that takes nothing is cut', async (t) => {
    const { gateway, provider } = await startRealtime(t, { server: { client_stall_timeout_ms: 100 } });
    provider.serve = ({ connection }) => {
      const chunk = Buffer.alloc(65_536);
      const pour = (): void => {
        while (connection.writable && connection.write(chunk));
      };
      connection.on('drain', pour);
      pour();
    };
    const client = await connect(t, gateway.port);
    client.write(handshake());
    await client.until('\r\n\r\n');
    client.socket.pause();
    const { outcome } = await gateway.untilSettled();
    assert.deepEqual([outcome.kind, outcome.error?.code], ['cancelled', 'client_stalled']);
    await until(() => provider.sockets[0]?.ended === true, 'the end at the provider');
  });

  test('shutting down waits for it, then cuts it', async (t) => {
    const { open, gateway, provider } = await startRealtime(t);
    const client = await open();
    const closing = gateway.server.close(100);
    client.socket.send('still there');
    assert.equal(await client.next(), 'still there');
    assert.deepEqual(await closing, { cut: 1 });
    const { outcome } = await gateway.untilSettled();
    assert.deepEqual([outcome.kind, outcome.error?.code], ['failed', 'shutting_down']);
    assert.equal(await client.closed, 1006);
    await until(() => provider.sockets[0]?.ended === true, 'the end at the provider');
  });

  test('closing the transport ends what it relays', async (t) => {
    const { open, gateway } = await startRealtime(t);
    const client = await open();
    await gateway.transport.close();
    assert.equal(await client.closed, 1006);
    assert.equal(gateway.transport.stats().connections, 0);
  });
});
