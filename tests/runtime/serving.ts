import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import http from 'node:http';
import { after, afterEach, before, describe, test } from 'node:test';
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';
import { chdbMissing } from '../../storage/embedded/chdb-fixture.ts';
import { begin, connect, send, type Sending } from '../kit/http-kit.ts';
import {
  engineOf,
  eventually,
  ownerKey,
  startWeir,
  stopEverything,
  type WeirProcess,
} from '../kit/process-kit.ts';
import type { Runtime } from '../kit/runtimes.ts';
import { startProvider, type Arrived, type SteerableProvider } from './steerable-provider.ts';

const key = { 'x-service-api-key': ownerKey };
const mock = { ...key, 'x-service-provider': 'mock' };
const chat = { model: 'mock-gpt', messages: [{ role: 'user', content: 'Hello' }] };
const json = { 'content-type': 'application/json' };

function configuration(provider: string): object {
  return {
    version: 1,
    server: { header_timeout_ms: 300 },
    storage: { analytics: { url: chdbMissing ? 'none:' : 'chdb:' }, journal: { ship_ms: 50 } },
    providers: { local: { base_url: `http://${provider}`, credentials: 'none' } },
    pipelines: [
      { name: 'admin', match: { routes: 'contributed' }, plugins: ['auth', 'management'] },
      {
        name: 'gateway',
        match: { path: '/**' },
        plugins: [
          'auth',
          { 'request-parameters': { params: { blockedKeys: ['logit_bias'] } } },
          { provider: { default: 'local' } },
          { logger: { bodies: true } },
        ],
      },
    ],
  };
}

/** What one gateway does with requests. */
export function describeServing(runtime: Runtime): void {
  describe('requests and answers', () => {
    let weir: WeirProcess;
    let provider: SteerableProvider;

    before(async () => {
      provider = await startProvider();
      weir = await startWeir({ runtime, yaml: configuration(provider.host) });
    });
    afterEach(() => provider.reset());
    after(async () => {
      await stopEverything();
      provider.close();
    });

    const ask = (sending: Sending): ReturnType<typeof send> =>
      send(weir.url, { ...sending, headers: { ...key, ...(sending.headers as Record<string, string>) } });
    const only = (): Arrived => {
      assert.equal(provider.requests.length, 1);
      return provider.requests[0] as Arrived;
    };

    test('the built-in provider answers, and the log of it is read back', { skip: chdbMissing }, async () => {
      const answer = await ask({ path: '/v1/chat/completions', headers: mock, body: chat });
      assert.equal(answer.status, 200, answer.text);
      const id = String(answer.headers['x-service-request-id']);
      const log = await eventually(async () => {
        const found = await ask({ path: `/v1/logs/${id}` });
        return found.status === 200 ? found.json() : undefined;
      });
      assert.deepEqual([log.id, log.metrics.status, log.request.body], [id, 200, chat]);
      assert.ok(log.metrics.total_tokens > 0 && log.metrics.cost > 0);
    });

    test('only a known key is served, and it does not reach the provider', async () => {
      assert.equal((await send(weir.url, { path: '/v1/thing' })).status, 401);
      const wrong = { authorization: 'Bearer wk_no_such_key_1234567' };
      assert.equal((await send(weir.url, { path: '/v1/thing', headers: wrong })).status, 401);
      assert.deepEqual(provider.requests, []);
      const right = { authorization: `Bearer ${ownerKey}` };
      assert.equal((await send(weir.url, { path: '/v1/thing', headers: right })).status, 200);
      assert.ok(!only().rawHeaders.some((value) => value.includes(ownerKey)));
    });

    test('path, headers and bytes pass unchanged, both ways', async () => {
      const bytes = randomBytes(200_000);
      provider.answer = (response) =>
        response
          .writeHead(201, ['Link', '<a>', 'X-Odd-Case', '1', 'Set-Cookie', 'a=1', 'link', '<b>'])
          .end(bytes);
      const body = Buffer.from(' {"z":1.0,\t"a":1e2,"seed":9223372036854775807}\n');
      const path = '/v1/files/a%2Fb%20c/..d;x=1/?q=a%20b+c&q=%2F&flag';
      const answer = await ask({ method: 'PUT', path, body, headers: { ...json, 'X-Mixed': 'Yes' } });
      assert.equal(only().url, path.slice('/v1'.length));
      assert.equal(only().method, 'PUT');
      assert.ok(only().body.equals(body));
      assert.ok(only().rawHeaders.some((name) => /^x-mixed$/i.test(name)));
      assert.equal(answer.status, 201);
      assert.ok(answer.body.equals(bytes));
      assert.equal(answer.headers['link'], '<a>, <b>');
      assert.equal(answer.headers['set-cookie'], undefined, 'it would be a cookie of the gateway');
      assert.ok(answer.rawHeaders.includes('X-Odd-Case'));
    });

    test('a large upload is streamed: its beginning arrives before its end was sent', async () => {
      const piece = randomBytes(1 << 20);
      const pieces = 24;
      const hash = createHash('sha256');
      const length = pieces * piece.length;
      const headers = { ...key, 'content-type': 'application/octet-stream', 'content-length': length };
      const request = http.request(`${weir.url}/v1/uploads`, { method: 'POST', headers });
      const responded = once(request, 'response') as Promise<[http.IncomingMessage]>;
      for (let sent = 0; sent < pieces; sent++) {
        hash.update(piece);
        if (!request.write(piece)) await once(request, 'drain');
      }
      request.end();
      const [response] = await responded;
      response.resume();
      assert.equal(response.statusCode, 200);
      assert.deepEqual([only().bytes, only().sha256], [length, hash.digest('hex')]);
    });

    test('a stream comes byte for byte, each event when it was sent', async () => {
      const events = Array.from(
        { length: 20 },
        (_, at) => `data: {"choices":[{"index":0,"delta":{"content":"${at} é"}}]}\n\n`,
      );
      events.push('data: [DONE]\n\n');
      const steps: (() => void)[] = [];
      provider.answer = (response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        for (const event of events) steps.push(() => response.write(event));
        steps.push(() => response.end());
        steps.shift()?.();
      };
      const path = '/v1/chat/completions';
      const { response } = await begin(weir.url, { path, headers: key, body: { ...chat, stream: true } });
      let text = '';
      // The next event leaves the provider only when the one before has arrived here.
      for await (const chunk of response as AsyncIterable<Buffer>) {
        text += chunk.toString('utf8');
        steps.shift()?.();
      }
      assert.equal(text, events.join(''));
    });

    const streaming = (then?: (response: http.ServerResponse) => void): void => {
      provider.answer = (response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        response.write('data: {"choices":[{"index":0,"delta":{"content":"a"}}]}\n\n', () => then?.(response));
      };
    };

    test('a client that leaves ends the call to the provider', async () => {
      streaming();
      const path = '/v1/chat/completions';
      const sending = { path, headers: key, body: { ...chat, stream: true } };
      const { request, response } = await begin(weir.url, sending);
      await once(response, 'data');
      assert.equal(provider.cut, 0);
      request.destroy();
      await eventually(() => provider.cut === 1 || undefined);
      await eventually(
        async () => (await send(weir.url, { path: '/status' })).json().active_requests === 0 || undefined,
      );
    });

    test('a stream that the provider breaks off does not look whole', async () => {
      streaming((response) => response.destroy());
      const path = '/v1/chat/completions';
      const answer = await ask({ path, body: { ...chat, stream: true } });
      assert.equal(answer.complete, false);
      assert.match(answer.text, /^data: .*"a"[^]*"error"/);
    });

    test('Expect: 100-continue is answered for who may send a body', async () => {
      const sending = { path: '/v1/thing', body: { large: true }, headers: { expect: '100-continue' } };
      const admitted = await ask(sending);
      assert.deepEqual([admitted.status, admitted.continues], [200, 1]);
      const refused = await send(weir.url, sending);
      assert.deepEqual([refused.status, refused.continues], [401, 0]);
    });

    for (const [encoding, compress] of [
      ['gzip', gzipSync],
      ['deflate', deflateSync],
      ['br', brotliCompressSync],
    ] as const) {
      test(`a body in ${encoding} is read; a torn one is refused`, async () => {
        const headers = { ...json, 'content-encoding': encoding };
        const path = '/v1/chat/completions';
        const body = compress(JSON.stringify(chat));
        const answer = await ask({ path, headers, body });
        assert.equal(answer.status, 200, answer.text);
        assert.ok(only().body.equals(body));
        for (const length of [body.length - 1, body.length >> 1]) {
          const torn = await ask({ path, headers, body: body.subarray(0, length) });
          assert.equal(torn.status, 400, torn.text);
          assert.match(torn.text, new RegExp(`no valid ${encoding} data`));
        }
        const blocked = compress(JSON.stringify({ ...chat, logit_bias: {} }));
        assert.equal((await ask({ path, headers, body: blocked })).status, 446);
        assert.equal(provider.requests.length, 1);
      });
    }

    for (const [what, bytes, expected] of [
      ['no HTTP', 'nonsense\r\n\r\n', /^HTTP\/1\.1 400 [^]*no valid HTTP request/],
      [
        'headers too large',
        `GET / HTTP/1.1\r\nhost: x\r\nx: ${'x'.repeat(70_000)}\r\n\r\n`,
        /^HTTP\/1\.1 431 /,
      ],
      ['headers that do not come', 'GET / HTTP/1.1\r\nhost: x\r\nx-slow: ', /^HTTP\/1\.1 408 /],
      ['HTTP/1.0 without a host', 'GET /healthz HTTP/1.0\r\n\r\n', /^HTTP\/1\.1 200 OK[^]*"ok"\}$/],
      [
        'length and chunks',
        'POST /v1/x HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n',
        /^HTTP\/1\.1 400 /,
      ],
    ] as const) {
      test(`${what} gets its answer, and the connection ends`, async (t) => {
        const connection = await connect(t, weir.port);
        connection.write(bytes);
        assert.match(await connection.ended(), expected);
      });
    }

    test('a connection is used for the next request', async () => {
      const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
      const ports: unknown[] = [];
      agent.on('free', (socket: { localPort?: number }) => ports.push(socket.localPort));
      for (let request = 0; request < 3; request++) {
        assert.equal((await ask({ path: '/v1/thing', agent })).status, 200);
      }
      await eventually(() => ports.length === 3 || undefined);
      agent.destroy();
      assert.equal(new Set(ports).size, 1);
    });

    test('/metrics: requests, and what the process takes', async () => {
      const { text } = await send(weir.url, { path: '/metrics' });
      for (const line of text.split('\n'))
        assert.match(line, /^(#.*|[a-z_][a-z0-9_]*(\{.*\})? [-+0-9.eNaInf]+|)$/i);
      const value = (name: string): number => Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1]);
      assert.match(text, /^weir_requests_total\{.*"200".*\} [1-9]/m);
      for (const name of ['process_cpu_seconds_total', 'process_resident_memory_bytes'])
        assert.ok(value(name) > 0, name);
      assert.ok(value('nodejs_eventloop_lag_p99_seconds') >= 0);
    });

    test('without its analytics engine it says so, serves, and has every row in the end', async (t) => {
      if (chdbMissing) return t.skip(chdbMissing);
      if (process.platform !== 'linux') return t.skip('finding the engine takes /proc');
      const engine = await engineOf(weir);
      process.kill(engine, 'SIGKILL');
      const degraded = async (): Promise<readonly string[]> => {
        const ready = await send(weir.url, { path: '/readyz' });
        assert.equal(ready.status, 200, ready.text);
        return ready.json().degraded;
      };
      await eventually(async () => ((await degraded()).includes('analytics') ? true : undefined));
      const { status, headers } = await ask({ path: '/v1/thing' });
      assert.equal(status, 200);
      await eventually(
        async () => ((await degraded()).length === 0 ? true : undefined),
        () => `readiness; standard error: ${weir.stderr()}`,
        20_000,
      );
      const path = `/v1/logs/${String(headers['x-service-request-id'])}`;
      await eventually(async () => ((await ask({ path })).status === 200 ? true : undefined));
    });
  });
}
