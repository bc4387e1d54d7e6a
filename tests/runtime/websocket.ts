import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, afterEach, before, describe, test } from 'node:test';
import { makeHome, type Home } from '../kit/gateway-process.ts';
import { connect, send } from '../kit/http-kit.ts';
import { eventually, ownerKey, startWeir, stopEverything, type WeirProcess } from '../kit/process-kit.ts';
import type { Runtime } from '../kit/runtimes.ts';
import { openSocket, startWebSocketProvider, type WebSocketProvider } from '../kit/websocket-provider.ts';

const key = { 'x-service-api-key': ownerKey };
const switching = [
  'Host: gateway.example',
  'Connection: Upgrade',
  'Upgrade: websocket',
  'Sec-WebSocket-Version: 13',
  'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
].join('\r\n');

const configuration = (provider: string, comment: string): string => `version: 1
# ${comment}
server: { shutdown_timeout_ms: 200, keep_alive_timeout_ms: 1000 }
storage: { analytics: { url: "none:" } }
providers:
  local: { base_url: "http://${provider}", credentials: none }
pipelines:
  - name: gateway
    match: { path: /** }
    plugins: [auth, provider: { default: local }, logger]
`;

/** What one gateway does with WebSocket connections. */
export function describeWebSocket(runtime: Runtime): void {
  describe('WebSocket', () => {
    let home: Home;
    let weir: WeirProcess;
    let provider: WebSocketProvider;

    before(async () => {
      provider = await startWebSocketProvider();
      home = await makeHome(configuration(provider.host, 'first'));
      weir = await startWeir({ runtime, config: home.configFile, data: home.data });
    });
    afterEach(() => {
      provider.sockets.length = 0;
      provider.decline = () => undefined;
    });
    after(async () => {
      await stopEverything();
      provider.close();
      await home.remove();
    });

    const open = (): ReturnType<typeof openSocket> =>
      openSocket(`${weir.url}/v1/realtime?model=m`, { headers: key });
    const status = async (): Promise<Record<string, unknown>> =>
      JSON.parse((await send(weir.url, { path: '/status', headers: key })).text) as Record<string, unknown>;

    test('messages of every size come back, and the close', async () => {
      const client = await open();
      client.socket.send('text');
      assert.equal(await client.next(), 'text');
      const large = randomBytes(5 << 20);
      client.socket.send(large);
      assert.ok(large.equals((await client.next()) as Buffer));
      client.socket.close(1000);
      assert.equal(await client.closed, 1000);
      await eventually(async () => (await status())['active_requests'] === 0 || undefined);
    });

    test('a refusal, and the answer of a provider that declines, come in HTTP', async (t) => {
      const stranger = await connect(t, weir.port);
      stranger.write(`GET /v1/realtime HTTP/1.1\r\n${switching}\r\n\r\n`);
      assert.match(await stranger.ended(), /^HTTP\/1\.1 401 [^]*key_missing/);
      provider.decline = () => 'HTTP/1.1 403 Forbidden\r\ncontent-length: 2\r\n\r\nno';
      const client = await connect(t, weir.port);
      client.write(`GET /v1/realtime HTTP/1.1\r\n${switching}\r\nx-service-api-key: ${ownerKey}\r\n\r\n`);
      assert.match(await client.ended(), /^HTTP\/1\.1 403 Forbidden\r\n[^]*\r\n\r\nno$/);
    });

    test('a connection that served a request before is switched, and lives longer than an idle one', async (t) => {
      provider.greeting = 'hello';
      t.after(() => (provider.greeting = undefined));
      const client = await connect(t, weir.port);
      const head = `HTTP/1.1\r\nx-service-api-key: ${ownerKey}\r\n${switching}\r\n\r\n`;
      client.write(`GET /v1/any HTTP/1.1\r\nhost: x\r\nx-service-api-key: ${ownerKey}\r\n\r\n`);
      await client.until('plain 0');
      client.write(`GET /v1/realtime ${head}`);
      assert.match(await client.until('hello'), /\r\n\r\nplain 0HTTP\/1\.1 101 [^]*hello$/);
      await new Promise((resolve) => setTimeout(resolve, 1500));
      provider.sockets[0]?.send('still there');
      await client.until('still there');
    });

    test('either side sees the end of the other', async () => {
      const leaving = await open();
      leaving.socket.close();
      await eventually(() => provider.sockets[0]?.ended || undefined);
      const left = await open();
      provider.sockets[1]?.connection.destroy();
      assert.equal(await left.closed, 1006);
    });

    test('an offer of HTTP/2 in clear text is left alone', async () => {
      const offer = { connection: 'Upgrade, HTTP2-Settings', upgrade: 'h2c', 'http2-settings': 'AAEA' };
      for (const body of [undefined, 'x'.repeat(100_000)]) {
        const received = await send(weir.url, { path: '/v1/any', headers: { ...key, ...offer }, body });
        assert.deepEqual([received.status, received.text], [200, `plain ${body?.length ?? 0}`]);
      }
    });

    test('a reload leaves it where it began', async () => {
      const client = await open();
      const { generation } = await status();
      await home.write('gateway.config.yaml', configuration(provider.host, 'second'));
      await eventually(async () => (await status())['generation'] !== generation || undefined);
      assert.equal((await status())['retiring_generations'], 1);
      client.socket.send('still there');
      assert.equal(await client.next(), 'still there');
      client.socket.close();
      await eventually(async () => (await status())['retiring_generations'] === 0 || undefined);
    });

    test('SIGTERM cuts it at the shutdown deadline', async () => {
      const client = await open();
      const { code, stderr } = await weir.stop();
      assert.equal(code, 0);
      assert.match(stderr, /cut at the shutdown deadline/);
      assert.equal(await client.closed, 1006);
    });
  });
}
