// Bytes that go through the gateway arrive as they were sent, in both directions.
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import http, { type IncomingMessage, type ServerResponse } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { after, afterEach, before, describe, test } from 'node:test';
import { brotliCompressSync, constants, createGzip, gunzipSync, gzipSync } from 'node:zlib';
import { begin, send, type Received, type Sending } from '../kit/http-kit.ts';
import { ownerKey, startWeir, stopEverything, type WeirProcess } from '../kit/process-kit.ts';

/** What the provider received. */
interface Seen {
  readonly method: string;
  readonly url: string;
  readonly rawHeaders: readonly string[];
  readonly headers: http.IncomingHttpHeaders;
  readonly bytes: number;
  readonly sha256: string;
  readonly body: Buffer;
}

let weir: WeirProcess;
let provider: http.Server;
let seen: Seen[] = [];
let answer: (response: ServerResponse, request: Seen) => void;
let onHead: ((request: IncomingMessage) => void) | undefined;

const justFine = (response: ServerResponse): void => {
  response.writeHead(200, { 'content-type': 'application/json' }).end('{"ok":true}');
};

before(async () => {
  provider = http.createServer((message, response) => void receive(message, response));
  await new Promise<void>((resolve) => provider.listen(0, '127.0.0.1', resolve));
  const address = `http://127.0.0.1:${(provider.address() as AddressInfo).port}`;
  weir = await startWeir({
    yaml: {
      version: 1,
      storage: { analytics: { url: 'none:' } },
      security: { trusted_hosts: [address.slice('http://'.length)] },
      providers: {
        plain: { base_url: address, credentials: 'none' },
        based: { base_url: `${address}/api/v1`, api_key: 'sk-held-by-the-gateway' },
      },
      pipelines: [
        {
          name: 'changing',
          match: { path: '/chat/completions' },
          plugins: [
            'auth',
            { 'request-parameters': { params: { blockedKeys: ['logit_bias'] } } },
            { 'add-prefix': { prefix: 'Briefly: ' } },
            { provider: { default: 'plain' } },
            { logger: { bodies: true } },
          ],
        },
        {
          name: 'rest',
          match: { path: '/**' },
          plugins: [
            'auth',
            { 'request-parameters': { params: { blockedKeys: ['logit_bias'] } } },
            { provider: { default: 'plain' } },
            { logger: { bodies: true } },
          ],
        },
      ],
    },
  });
});
after(async () => {
  await stopEverything();
  provider.close();
  provider.closeAllConnections();
});
afterEach(() => {
  answer = justFine;
  onHead = undefined;
  seen = [];
});
answer = justFine;

async function receive(message: IncomingMessage, response: ServerResponse): Promise<void> {
  onHead?.(message);
  const hash = createHash('sha256');
  const kept: Buffer[] = [];
  let bytes = 0;
  try {
    for await (const chunk of message as AsyncIterable<Buffer>) {
      hash.update(chunk);
      if (bytes < 1_000_000) kept.push(chunk);
      bytes += chunk.length;
    }
  } catch {
    return;
  }
  const request: Seen = {
    method: message.method ?? '',
    url: message.url ?? '',
    rawHeaders: message.rawHeaders,
    headers: message.headers,
    bytes,
    sha256: hash.digest('hex'),
    body: Buffer.concat(kept),
  };
  seen.push(request);
  answer(response, request);
}

const key = { 'x-service-api-key': ownerKey };

const through = ({
  headers = {},
  ...rest
}: Sending & { headers?: Record<string, string | string[]> }): Promise<Received> =>
  send(weir.url, { ...rest, headers: { ...key, ...headers } });

function only(): Seen {
  assert.equal(seen.length, 1, `the provider saw ${seen.length} requests`);
  return seen[0] as Seen;
}

function valuesOf(rawHeaders: readonly string[], name: string): string[] {
  return rawHeaders.filter((_, at) => at % 2 === 1 && rawHeaders[at - 1]?.toLowerCase() === name);
}

describe('requests', () => {
  for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'HEAD']) {
    test(`${method} on a path that nobody knows`, async () => {
      const body = ['POST', 'PUT', 'PATCH', 'DELETE'].includes(method) ? '{"a": 1 ,\n"b":[]}' : undefined;
      const received = await through({
        method,
        path: '/v1/any/thing',
        body,
        headers: body ? { 'content-type': 'application/json' } : {},
      });
      assert.equal(received.status, 200);
      assert.equal(only().method, method);
      assert.equal(only().url, '/any/thing');
      assert.equal(only().body.toString(), body ?? '');
    });
  }

  const path = '/v1/files/a%2Fb%20c/..d;x=1/?q=a%20b+c&q=%2F&empty=&flag&u=%C3%A9';
  test('escapes, semicolons and queries go on as they are, below the base path of the provider', async () => {
    await through({ path });
    assert.equal(only().url, path.slice('/v1'.length));
    seen = [];
    await through({ path, headers: { 'x-service-provider': 'based' } });
    assert.equal(only().url, `/api${path}`);
  });

  test('the same without /v1', async () => {
    await through({ path: '/thing?x=%2F' });
    assert.equal(only().url, '/thing?x=%2F');
  });

  const boundary = 'b0undary';
  const multipart = Buffer.concat([
    Buffer.from(`--${boundary}\r\ncontent-disposition: form-data; name="file"; filename="é.bin"\r\n\r\n`),
    randomBytes(50_000),
    Buffer.from(`\r\n--${boundary}--\r\n`),
  ]);
  for (const [what, type, body] of [
    ['multipart', `multipart/form-data; boundary=${boundary}`, multipart],
    ['binary', 'application/octet-stream', randomBytes(70_000)],
    [
      'JSON with strange spacing',
      'application/json',
      Buffer.from(' {"z":1.0,\t"a":1e2,"seed":9223372036854775807}\n'),
    ],
    ['JSON that is none', 'text/plain', Buffer.from('{"a":')],
    ['nothing', 'application/json', Buffer.alloc(0)],
  ] as const) {
    test(`a body of ${what} arrives byte for byte`, async () => {
      const received = await through({
        method: 'POST',
        path: '/v1/uploads',
        body,
        headers: { 'content-type': type },
      });
      assert.equal(received.status, 200, received.text);
      assert.ok(only().body.equals(body));
      assert.equal(only().headers['content-type'], type);
      assert.equal(only().headers['content-length'], String(body.length));
    });
  }

  test('a compressed body arrives compressed', async () => {
    const body = gzipSync('{"a":1}');
    await through({
      method: 'POST',
      path: '/v1/uploads',
      body,
      headers: { 'content-type': 'application/octet-stream', 'content-encoding': 'gzip' },
    });
    assert.ok(only().body.equals(body));
    assert.equal(only().headers['content-encoding'], 'gzip');
  });

  test('integers keep their digits where plugins read and change the body', async () => {
    const body = `{"model":"m","seed":9223372036854775807,"messages":[{"role":"user","content":"Hi"}],"x":1.10}`;
    await through({ path: '/v1/chat/completions', body, headers: { 'content-type': 'application/json' } });
    assert.equal(only().body.toString(), body.replace('"Hi"', '"Briefly: Hi"'));
  });

  test('a large upload is streamed: its beginning arrives before its end was sent', async () => {
    const pieces = 64;
    const piece = randomBytes(1 << 20);
    const arrived = new Promise<IncomingMessage>((resolve) => (onHead = resolve));
    const request = http.request(`${weir.url}/v1/uploads`, {
      method: 'POST',
      headers: {
        ...key,
        'content-type': 'application/octet-stream',
        'content-length': pieces * piece.length,
      },
    });
    const responded = once(request, 'response') as Promise<[IncomingMessage]>;
    const hash = createHash('sha256');
    request.write(piece);
    hash.update(piece);
    await arrived;
    for (let sent = 1; sent < pieces; sent++) {
      hash.update(piece);
      if (!request.write(piece)) await once(request, 'drain');
    }
    request.end();
    const [response] = await responded;
    response.resume();
    assert.equal(response.statusCode, 200);
    assert.equal(only().bytes, pieces * piece.length);
    assert.equal(only().sha256, hash.digest('hex'));
  });
});

describe('credentials', () => {
  for (const [where, headers] of [
    ['the service header', { 'x-service-api-key': ownerKey }],
    ['a header of the alias', { 'x-portkey-api-key': ownerKey }],
    ['Authorization', { authorization: `Bearer ${ownerKey}` }],
    ['both', { 'x-service-api-key': ownerKey, authorization: `Bearer ${ownerKey}` }],
  ] as [string, Record<string, string>][]) {
    test(`a service key in ${where} is never forwarded`, async () => {
      for (const provider of ['plain', 'based']) {
        seen = [];
        const received = await send(weir.url, {
          path: '/v1/thing',
          headers: { ...headers, 'x-service-provider': provider },
        });
        assert.equal(received.status, 200, received.text);
        assert.ok(!only().rawHeaders.some((value) => value.includes(ownerKey)));
        assert.ok(!only().rawHeaders.some((name) => /^x-(service|portkey)-/i.test(name)));
        const held = provider === 'based' ? 'Bearer sk-held-by-the-gateway' : undefined;
        assert.equal(only().headers.authorization, held);
      }
    });
  }

  test('without a key nothing reaches the provider', async () => {
    const received = await send(weir.url, { path: '/v1/thing' });
    assert.equal(received.status, 401);
    assert.deepEqual(seen, []);
  });
});

describe('answers', () => {
  const gzipped = gzipSync(randomBytes(5000).toString('hex'));
  const brotli = brotliCompressSync(JSON.stringify({ usage: { prompt_tokens: 1, completion_tokens: 2 } }));
  for (const [what, headers, body] of [
    ['binary', { 'content-type': 'audio/mpeg' }, randomBytes(100_000)],
    ['JSON with strange spacing', { 'content-type': 'application/json' }, Buffer.from('{ "a" : 1.0 }\n\n')],
    ['gzip', { 'content-type': 'application/json', 'content-encoding': 'gzip' }, gzipped],
    ['br', { 'content-type': 'application/json', 'content-encoding': 'br' }, brotli],
    [
      'damaged gzip',
      { 'content-type': 'application/json', 'content-encoding': 'gzip' },
      gzipped.subarray(0, 900),
    ],
  ] as [string, Record<string, string>, Buffer][]) {
    for (const path of ['/v1/chat/completions', '/v1/embeddings', '/v1/thing']) {
      test(`${what} from ${path} comes byte for byte`, async () => {
        answer = (response) => response.writeHead(200, headers).end(body);
        const received = await through({
          path,
          headers: { 'accept-encoding': 'gzip, br' },
          body: { model: 'm', input: 'x', messages: [{ role: 'user', content: 'Hi' }] },
        });
        assert.equal(received.status, 200);
        assert.ok(received.complete);
        assert.ok(received.body.equals(body));
        assert.equal(received.headers['content-encoding'], headers['content-encoding']);
      });
    }
  }

  test('what the client can decode is what the provider is told, and no more', async () => {
    await through({ path: '/v1/thing' });
    assert.match(String(only().headers['accept-encoding'] ?? 'identity'), /^identity$/);
    seen = [];
    await through({ path: '/v1/thing', headers: { 'accept-encoding': 'gzip' } });
    assert.equal(only().headers['accept-encoding'], 'gzip');
  });

  const events = Array.from(
    { length: 20 },
    (_, at) => `data: {"choices":[{"index":0,"delta":{"content":"${at} é"}}]}\n\n`,
  );
  events.push(
    'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":20,"total_tokens":23}}\n\n',
  );
  events.push(': a comment\r\nevent: odd\r\ndata: x\r\n\r\n', 'data: [DONE]\n\n');
  const asks = {
    model: 'm',
    stream: true,
    stream_options: { include_usage: true },
    messages: [{ role: 'user', content: 'Hi' }],
  };

  test('a stream of events comes byte for byte, each when it was sent', async () => {
    const steps: (() => void)[] = [];
    answer = (response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      for (const event of events) steps.push(() => response.write(event));
      steps.push(() => response.end());
      steps.shift()?.();
    };
    const { response } = await begin(weir.url, { path: '/v1/chat/completions', headers: key, body: asks });
    let text = '';
    // The next event leaves the provider only when the one before has arrived here.
    for await (const chunk of response as AsyncIterable<Buffer>) {
      text += chunk.toString('utf8');
      steps.shift()?.();
    }
    assert.equal(text, events.join(''));
  });

  for (const encoding of ['gzip', 'br'] as const) {
    test(`a stream that is compressed with ${encoding} comes byte for byte`, async () => {
      const whole = Buffer.from(events.join(''));
      const body = encoding === 'gzip' ? gzipSync(whole) : brotliCompressSync(whole);
      answer = (response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream', 'content-encoding': encoding });
        for (let at = 0; at < body.length; at += 37) response.write(body.subarray(at, at + 37));
        response.end();
      };
      const received = await through({
        path: '/v1/chat/completions',
        body: asks,
        headers: { 'accept-encoding': encoding },
      });
      assert.ok(received.body.equals(body));
    });
  }

  test('a compressed stream is not held back', async () => {
    const gzip = createGzip();
    answer = (response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream', 'content-encoding': 'gzip' });
      gzip.pipe(response);
      gzip.write(events[0]);
      gzip.flush(constants.Z_SYNC_FLUSH);
    };
    const { response } = await begin(weir.url, {
      path: '/v1/chat/completions',
      body: asks,
      headers: { ...key, 'accept-encoding': 'gzip' },
    });
    const chunks: Buffer[] = [];
    response.on('data', (chunk: Buffer) => chunks.push(chunk));
    await once(response, 'data');
    gzip.end(events.slice(1).join(''));
    await once(response, 'end');
    assert.equal(gunzipSync(Buffer.concat(chunks)).toString(), events.join(''));
  });

  test('HEAD: the length that a body would have, and none', async () => {
    answer = (response) => response.writeHead(200, { 'content-length': '12345', etag: '"x"' }).end();
    const received = await through({ method: 'HEAD', path: '/v1/files/f' });
    assert.deepEqual(
      [received.status, received.headers['content-length'], received.headers.etag, received.body.length],
      [200, '12345', '"x"', 0],
    );
  });

  for (const [status, headers] of [
    [204, {}],
    [304, { etag: '"x"' }],
    [302, { location: 'https://elsewhere.example/a?b=%2F' }],
    [307, { location: '/relative' }],
  ] as [number, Record<string, string>][]) {
    test(`${status} comes as it is`, async () => {
      answer = (response) => response.writeHead(status, headers).end();
      const received = await through({ path: '/v1/thing' });
      assert.equal(received.status, status);
      for (const [name, value] of Object.entries(headers)) assert.equal(received.headers[name], value);
      assert.equal(received.body.length, 0);
      only();
    });
  }

  test('repeated headers stay apart and in order, and their case is kept', async () => {
    answer = (response) =>
      response
        .writeHead(200, [
          'Link',
          '<a>',
          'X-Odd-Case',
          '1',
          'Set-Cookie',
          'a=1',
          'link',
          '<b>',
          'x-odd-case',
          '2',
        ])
        .end();
    const received = await through({ path: '/v1/thing', headers: { 'x-many': ['1', '2'] } });
    assert.deepEqual(valuesOf(received.rawHeaders, 'link'), ['<a>', '<b>']);
    assert.deepEqual(valuesOf(received.rawHeaders, 'set-cookie'), [], 'a cookie would be of the gateway');
    assert.deepEqual(valuesOf(received.rawHeaders, 'x-odd-case'), ['1', '2']);
    assert.ok(received.rawHeaders.includes('X-Odd-Case'));
    assert.deepEqual(valuesOf(only().rawHeaders, 'x-many'), ['1', '2']);
  });

  test('hop-by-hop headers and what Connection names stay on their side', async () => {
    answer = (response) =>
      response.writeHead(200, { connection: 'x-hop', 'x-hop': 'provider', 'x-stays': 'yes' }).end('{}');
    const received = await through({
      path: '/v1/thing',
      headers: { connection: 'x-mine', 'x-mine': '1', te: 'trailers' },
    });
    assert.deepEqual([received.headers['x-hop'], received.headers['x-stays']], [undefined, 'yes']);
    assert.deepEqual([only().headers['x-mine'], only().headers.te], [undefined, undefined]);
  });

  test('the provider’s rate limit headers are untouched', async () => {
    const limits = {
      'x-ratelimit-limit-requests': '60',
      'x-ratelimit-remaining-tokens': '149984',
      'x-ratelimit-reset-requests': '1s',
      'retry-after': '7',
    };
    answer = (response) => response.writeHead(200, limits).end('{}');
    const received = await through({
      path: '/v1/chat/completions',
      body: { model: 'm', messages: [{ role: 'user', content: 'Hi' }] },
    });
    for (const [name, value] of Object.entries(limits)) assert.equal(received.headers[name], value);
  });

  for (const [status, body] of [
    [400, '{ "error": {"message":"No.", "weird": 1.0} }'],
    [401, '{"error":"flat"}'],
    [429, '{"error":{"type":"tokens","code":"rate_limit_exceeded"}}'],
    [500, '<html>oops</html>'],
    [529, ''],
  ] as [number, string][]) {
    for (const stream of [false, true]) {
      test(`the provider’s ${status} comes with its own body${stream ? ', to a client that streams' : ''}`, async () => {
        answer = (response) => response.writeHead(status, { 'content-type': 'application/json' }).end(body);
        const received = await through({
          path: '/v1/chat/completions',
          body: { model: 'm', stream, messages: [{ role: 'user', content: 'Hi' }] },
        });
        assert.deepEqual([received.status, received.text], [status, body]);
        only();
      });
    }
  }

  test('a large download is streamed: its beginning arrives before the provider has sent its end', async () => {
    const piece = randomBytes(1 << 20);
    const hash = createHash('sha256');
    let goOn: () => void = () => undefined;
    answer = (response) => {
      response.writeHead(200, { 'content-type': 'application/octet-stream' }).write(piece);
      goOn = () => {
        let left = 63;
        const more = (): void => {
          while (left-- > 0) if (!response.write(piece)) return void response.once('drain', more);
          response.end();
        };
        more();
      };
    };
    const { response } = await begin(weir.url, { path: '/v1/files/f/content', headers: key });
    let bytes = 0;
    for await (const chunk of response as AsyncIterable<Buffer>) {
      if (bytes === 0) goOn();
      bytes += chunk.length;
      hash.update(chunk);
    }
    assert.equal(bytes, 64 * piece.length);
    const expected = createHash('sha256');
    for (let at = 0; at < 64; at++) expected.update(piece);
    assert.equal(hash.digest('hex'), expected.digest('hex'));
  });

  test('an answer that the provider breaks off does not end as if it were whole', async () => {
    for (const headers of [{ 'content-length': '1000' }, { 'content-type': 'text/event-stream' }]) {
      answer = (response) => {
        response.writeHead(200, headers).write('data: 1\n\n', () => setImmediate(() => response.destroy()));
      };
      const received = await through({ path: '/v1/thing' });
      assert.equal(received.complete, false);
    }
  });
});
