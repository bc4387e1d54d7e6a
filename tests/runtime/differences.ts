import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import https from 'node:https';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { after, afterEach, before, describe, test, type TestContext } from 'node:test';
import { fileURLToPath } from 'node:url';
import { brotliCompressSync } from 'node:zlib';
import { makeHome, type Home } from '../kit/gateway-process.ts';
import { connect, send, type Received } from '../kit/http-kit.ts';
import { eventually, ownerKey, startWeir, stopEverything, type WeirProcess } from '../kit/process-kit.ts';
import type { Runtime } from '../kit/runtimes.ts';
import { startProvider, type SteerableProvider } from './steerable-provider.ts';

const certificates = fileURLToPath(new URL('../fixtures/tls', import.meta.url));
const key = { 'x-service-api-key': ownerKey };
const largeBytes = 30_000_000;
/** Of a client between two reads: all of them together take far longer than the stall timeout, each far less. */
const pauseMs = 5;

const large = `import { definePlugin } from 'weir-gateway/plugin';

export default definePlugin({
  name: 'large',
  capabilities: { answers: true },
  create() {
    const body = Buffer.alloc(${largeBytes}, 'x');
    return {
      request() {
        return { status: 200, headers: [], body };
      },
    };
  },
});
`;

const shout = `import { definePlugin } from 'weir-gateway/plugin';

export default definePlugin({
  name: 'shout',
  capabilities: { reads: ['response.text'], changes: ['response.text'], stream: 'window' },
  create() {
    return {
      response() {},
      stream() {
        return {
          event(event, emit) {
            emit(event.type === 'text-delta' ? { ...event, text: event.text.toUpperCase() } : event);
          },
        };
      },
    };
  },
});
`;

const configuration = (provider: string, byAuthority: string, bySelf: string): string => `version: 1
server: { client_stall_timeout_ms: 300 }
storage: { analytics: { url: "none:" } }
providers:
  local: { base_url: "http://${provider}", credentials: none }
  certified: { base_url: "https://${byAuthority}", credentials: none }
  self-signed: { base_url: "https://${bySelf}", credentials: none }
pipelines:
  - name: chat
    match: { path: /chat/completions }
    plugins: [auth, ./shout.ts, provider: { default: local }]
  - name: large
    match: { path: /large }
    plugins: [auth, ./large.ts]
  - name: rest
    match: { path: /** }
    plugins: [auth, provider: { default: local }]
`;

async function startSecure(name: string): Promise<https.Server> {
  const [cert, secret] = await Promise.all(
    [`${name}.pem`, `${name}-key.pem`].map((file) => readFile(path.join(certificates, file))),
  );
  const server = https.createServer({ cert, key: secret }, (message, response) => {
    message.resume();
    response.end('{"secure":true}');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return server;
}

const hostOf = (server: https.Server): string => `127.0.0.1:${(server.address() as AddressInfo).port}`;

/** Each row of the table in docs/runtimes.md, as it is on this runtime. */
export function describeDifferences(runtime: Runtime): void {
  describe('what differs between runtimes', () => {
    let home: Home;
    let weir: WeirProcess;
    let provider: SteerableProvider;
    let secure: https.Server[] = [];

    before(async () => {
      provider = await startProvider();
      secure = await Promise.all(['server', 'self-signed'].map(startSecure));
      const [byAuthority = '', bySelf = ''] = secure.map(hostOf);
      home = await makeHome(configuration(provider.host, byAuthority, bySelf));
      await home.write('large.ts', large);
      await home.write('shout.ts', shout);
      const trusted = await Promise.all(
        ['authority', 'self-signed'].map((name) => readFile(path.join(certificates, `${name}.pem`), 'utf8')),
      );
      const env = { NODE_EXTRA_CA_CERTS: await home.write('trusted.pem', trusted.join('')) };
      weir = await startWeir({ runtime, config: home.configFile, data: home.data, env });
    });
    afterEach(() => provider.reset());
    after(async () => {
      await stopEverything();
      provider.close();
      for (const server of secure) server.close();
      await home.remove();
    });

    const through = (name: string): Promise<Received> =>
      send(weir.url, { path: '/v1/thing', headers: { ...key, 'x-service-provider': name } });

    /** How many bytes of an answer come to a client that pauses after each that it reads. */
    async function takeSlowly(t: TestContext, target: string): Promise<number> {
      const client = await connect(t, weir.port);
      let taken = 0;
      client.socket.on('data', (chunk) => {
        taken += chunk.length;
        client.socket.pause();
        setTimeout(() => client.socket.resume(), pauseMs);
      });
      client.write(
        `GET ${target} HTTP/1.1\r\nhost: x\r\nx-service-api-key: ${ownerKey}\r\nconnection: close\r\n\r\n`,
      );
      await client.ended();
      return taken;
    }

    test('none: a server whose certificate an authority of NODE_EXTRA_CA_CERTS has signed', async () => {
      assert.equal((await through('certified')).text, '{"secure":true}');
    });

    test('a server whose own certificate, signed by itself, is in NODE_EXTRA_CA_CERTS', async () => {
      const { status, text } = await through('self-signed');
      if (runtime === 'node') assert.equal(text, '{"secure":true}');
      else assert.match(text, /TLS failed[^]*the certificate is not trusted/);
      assert.equal(status, runtime === 'node' ? 200 : 502);
    });

    test('a client that takes a large unstreamed answer more slowly than client_stall_timeout_ms', async (t) => {
      const taken = await takeSlowly(t, '/v1/large');
      if (runtime === 'node') assert.ok(taken > largeBytes, `only ${taken} bytes`);
      else assert.ok(taken < largeBytes, 'it came whole: the runtime now knows of progress within a write');
    });

    test('none: the same of an answer that is streamed', async (t) => {
      provider.answer = (response) => response.end(Buffer.alloc(largeBytes, 'x'));
      const taken = await takeSlowly(t, '/v1/thing');
      assert.ok(taken > largeBytes, `only ${taken} bytes`);
    });

    test('a stream in brotli that is torn, read by a plugin', async () => {
      const delta = `data: {"choices":[{"index":0,"delta":{"content":"abc"}}]}\n\n`;
      const whole = brotliCompressSync(delta.repeat(3));
      provider.answer = (response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream', 'content-encoding': 'br' });
        response.end(whole.subarray(0, -1));
      };
      const body = { model: 'm', stream: true, messages: [{ role: 'user', content: 'x' }] };
      const answer = await send(weir.url, { path: '/v1/chat/completions', headers: key, body });
      assert.equal(answer.complete, runtime === 'deno', answer.text);
      assert.equal(/"error"/.test(answer.text), runtime === 'node', answer.text);
    });

    test('/metrics counts garbage collections', async () => {
      const counts = async (): Promise<boolean> =>
        /^nodejs_gc_duration_seconds_count\{.*\} [1-9]/m.test(
          (await send(weir.url, { path: '/metrics' })).text,
        );
      // Five answers of 30 MB leave garbage behind.
      for (let request = 0; request < 5; request++) await through('local');
      if (runtime === 'node') await eventually(async () => (await counts()) || undefined);
      else assert.equal(await counts(), false);
    });
  });
}
