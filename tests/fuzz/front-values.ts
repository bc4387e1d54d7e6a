/** Requests for the HTTP front: what stands in their heads and bodies, and framings that hide a second request. */
import fc from 'fast-check';
import { RouteConfigSchema } from '../../core/organisation/route-config.ts';
import { brokenValues } from '../property/broken-values.ts';
import { valuesOf } from '../property/schema-arbitrary.ts';
import { editedBytes } from './bytes.ts';
import { brokenSamples, clientWires } from './samples.ts';

/** The key that the gateway knows. */
export const secret = 'wk_fuzzed_0123456789abcdef';

const prefixes = ['x-service-', 'x-portkey-', 'X-Service-'];
const ours = [
  ...[
    'provider',
    'virtual-key',
    'config',
    'custom-host',
    'metadata',
    'trace-id',
    'span-id',
    'parent-span-id',
    'span-name',
  ],
  ...[
    'cache',
    'cache-force-refresh',
    'cache-namespace',
    'cache-ttl',
    'retry-count',
    'request-timeout',
    'debug',
    'explain',
  ],
  ...[
    'forward-headers',
    'sensitive-headers',
    'strict-open-ai-compliance',
    'strict-openai-compliance',
    'api-key',
  ],
  ...[
    'package-version',
    'default-input-guardrails',
    'before-request-hooks',
    'azure-resource-name',
    'aws-region',
    'x',
  ],
  ...[
    'vertex-project-id',
    'vertex-region',
    'mirror',
    'openai-organization',
    'anthropic-beta',
    'input-mutators',
  ],
];
const plain = [
  ...[
    'accept',
    'accept-encoding',
    'authorization',
    'baggage',
    'connection',
    'content-encoding',
    'content-type',
  ],
  ...[
    'cookie',
    'expect',
    'forwarded',
    'host',
    'if-match',
    'if-none-match',
    'keep-alive',
    'last-event-id',
    'origin',
  ],
  ...[
    'range',
    'referer',
    'te',
    'trailer',
    'traceparent',
    'tracestate',
    'upgrade',
    'via',
    'x-api-key',
    'x-forwarded-for',
  ],
  ...[
    'x-forwarded-host',
    'x-forwarded-proto',
    'x-goog-api-key',
    'anthropic-version',
    'idempotency-key',
    'mcp-session-id',
  ],
  ...['sec-websocket-key', 'sec-websocket-version', 'sec-websocket-protocol', 'sec-websocket-extensions'],
];
const headerName = fc.oneof(
  {
    arbitrary: fc
      .tuple(fc.constantFrom(...prefixes), fc.constantFrom(...ours))
      .map((parts) => parts.join('')),
    weight: 3,
  },
  { arbitrary: fc.constantFrom(...plain), weight: 2 },
  fc.stringMatching(/^[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,20}$/),
);
const inline = valuesOf(RouteConfigSchema, {
  document: { components: {} },
  known: { provider: ['mock', 'openai', '@mock'] },
});
const headerValue = fc.oneof(
  {
    arbitrary: fc
      .oneof(inline, brokenValues(inline))
      .map((value) => Buffer.from(JSON.stringify(value)).toString('latin1')),
    weight: 2,
  },
  fc.constantFrom(
    ...[
      '',
      ' ',
      '0',
      '-1',
      '1e999',
      'true',
      'TRUE',
      'null',
      '[]',
      '{}',
      '{"a":"b"}',
      '{"a":',
      '"',
      ',',
      ',,,',
      ';',
      '%',
      '%00',
      '*',
    ],
    ...[
      'mock',
      '@mock',
      '@mock/gpt',
      'openai',
      'nobody',
      'main',
      'pc-main',
      '__proto__',
      'constructor',
      'toString',
    ],
    ...[
      'https://host.example/v1',
      'http://127.0.0.1:1',
      'http://[::1]/',
      'https://a b',
      'file:///etc',
      '//x',
      'https://x/?y#z',
    ],
    ...[
      'simple',
      'semantic',
      'gzip',
      'br',
      'deflate, gzip',
      'zstd',
      'identity',
      'multipart/form-data',
      'multipart/form-data; boundary=x',
    ],
    ...[
      'application/json; charset=utf-16',
      'text/plain',
      'text/event-stream',
      'application/x-www-form-urlencoded',
      'a/b;=;=',
    ],
    ...[
      '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01',
      '00-0-0-0',
      'ff-x',
      'k=v;p,k2=%zz',
      '100-continue',
      'upgrade',
    ],
    ...[
      'Bearer',
      'Bearer ',
      `Bearer ${secret}`,
      'Bearer a.b.c',
      'Basic !!!',
      'websocket',
      'h2c',
      'close',
      'keep-alive, x',
      'trailers',
    ],
    ...[
      'for=1;by=2',
      '127.0.0.1',
      '::1, 10.0.0.1, x',
      'bytes=0-',
      '"x"',
      'W/"x"',
      '\xff\xfe',
      'ü',
      'x'.repeat(300),
      '9'.repeat(400),
    ],
  ),
  fc.uint8Array({ maxLength: 12 }).map((bytes) =>
    Buffer.from(bytes)
      .toString('latin1')
      .replaceAll(/[\0\r\n]/g, ' '),
  ),
);
const paths = fc.oneof(
  {
    arbitrary: fc.constantFrom(
      ...[
        '/v1/chat/completions',
        '/v1/completions',
        '/v1/embeddings',
        '/v1/responses',
        '/v1/messages',
        '/v1/models',
        '/',
      ],
      ...[
        '/v1/messages/count_tokens',
        '/v1beta/models/m:generateContent',
        '/v1beta/models/m:streamGenerateContent?alt=sse',
      ],
      ...[
        '/v1/moderations',
        '/v1/rerank',
        '/v1/images/generations',
        '/v1/audio/speech',
        '/v1/audio/transcriptions',
        '/v1/files',
      ],
      ...[
        '/v1/files/x/content',
        '/v1/batches',
        '/v1/fine_tuning/jobs',
        '/v1/realtime?model=m',
        '/v1/proxy/x',
        '/v1/unknown',
      ],
      ...[
        '/v1/responses/x',
        '/v1/prompts/x/completions',
        '//v1//chat',
        '/v1/chat/completions/',
        '/V1/CHAT',
        '/v1/%63hat/completions',
      ],
      ...[
        '/v1/chat/completions?x=%zz',
        '/v1/../v1/models',
        '/v1/%2e%2e/x',
        '/v1/a;b',
        '/v1/%00',
        '*',
        'http://x/v1/models',
        'x:80',
      ],
    ),
    weight: 5,
  },
  fc.webPath(),
);
const methods = fc.oneof(
  { arbitrary: fc.constant('POST'), weight: 5 },
  fc.constantFrom('GET', 'PUT', 'PATCH', 'DELETE', 'HEAD', 'OPTIONS', 'TRACE', 'CONNECT', 'PURGE', 'QUERY'),
);
const bodies = fc.oneof(
  {
    arbitrary: brokenSamples(clientWires.flatMap(({ requests }) => requests)).map((body) =>
      Buffer.from(JSON.stringify(body)),
    ),
    weight: 3,
  },
  editedBytes(
    fc
      .constantFrom(...clientWires.flatMap(({ requests }) => requests))
      .map((body) => Buffer.from(JSON.stringify({ model: 'm', ...body }))),
  ),
  fc
    .constantFrom('', '{', '--x\r\ncontent-disposition: form-data; name="model"\r\n\r\nm\r\n--x--\r\n')
    .map((text) => Buffer.from(text)),
);

/** A request whose head may hold any octet but line ends. */
export interface FuzzedRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: readonly (readonly [string, string])[];
  readonly body: Buffer;
  readonly isKnown: boolean;
}

/** Requests whose parts are each well known, and odd together. */
export const requests: fc.Arbitrary<FuzzedRequest> = fc.record({
  method: methods,
  path: paths,
  headers: fc.array(fc.tuple(headerName, headerValue), { maxLength: 6 }),
  body: bodies,
  isKnown: fc.oneof({ arbitrary: fc.constant(true), weight: 6 }, fc.constant(false)),
});

/** The request on the wire; its connection ends with it. */
export function requestBytes({ method, path, headers, body, isKnown }: FuzzedRequest): Buffer {
  const lines = [
    `${method} ${path} HTTP/1.1`,
    'host: gateway',
    ...headers.map(([name, value]) => `${name}: ${value}`),
    ...(isKnown ? [`x-service-api-key: ${secret}`] : []),
    `content-length: ${body.length}`,
    'connection: close',
  ];
  return Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1'), body]);
}

/** Framings of which two servers may make two requests, or one. Each hides a request that must not be served. */
export const framings: readonly (readonly [
  name: string,
  headers: (length: number) => string,
  body: (hidden: string) => string,
])[] = [
  ['both', (n) => `Content-Length: ${n}\r\nTransfer-Encoding: chunked`, (hidden) => `0\r\n\r\n${hidden}`],
  [
    'chunked first',
    (n) => `Transfer-Encoding: chunked\r\nContent-Length: ${n}`,
    (hidden) => `0\r\n\r\n${hidden}`,
  ],
  [
    'space before the colon',
    (n) => `Content-Length: ${n}\r\nTransfer-Encoding : chunked`,
    (hidden) => `0\r\n\r\n${hidden}`,
  ],
  [
    'folded',
    (n) => `Content-Length: ${n}\r\nTransfer-Encoding:\r\n chunked`,
    (hidden) => `0\r\n\r\n${hidden}`,
  ],
  ['tab', (n) => `Content-Length: ${n}\r\nTransfer-Encoding:\tchunked`, (hidden) => `0\r\n\r\n${hidden}`],
  [
    'vertical tab',
    (n) => `Content-Length: ${n}\r\nTransfer-Encoding: \x0bchunked`,
    (hidden) => `0\r\n\r\n${hidden}`,
  ],
  [
    'not last',
    (n) => `Content-Length: ${n}\r\nTransfer-Encoding: chunked, identity`,
    (hidden) => `0\r\n\r\n${hidden}`,
  ],
  [
    'twice',
    (n) => `Content-Length: ${n}\r\nTransfer-Encoding: x\r\nTransfer-Encoding: chunked`,
    (hidden) => `0\r\n\r\n${hidden}`,
  ],
  ['unknown coding', () => 'Transfer-Encoding: xchunked', (hidden) => `0\r\n\r\n${hidden}`],
  ['two lengths', (n) => `Content-Length: ${n}\r\nContent-Length: 0`, (hidden) => hidden],
  ['two lengths, short first', (n) => `Content-Length: 0\r\nContent-Length: ${n}`, (hidden) => hidden],
  ['list of lengths', (n) => `Content-Length: 0, ${n}`, (hidden) => hidden],
  ['signed length', (n) => `Content-Length: +${n}`, (hidden) => hidden],
  ['length in hexadecimal', (n) => `Content-Length: 0x${n.toString(16)}`, (hidden) => hidden],
  ['odd name', (n) => `Content-Length: ${n}\r\nContent_Length: 0\r\nContent-Length\0: 0`, (hidden) => hidden],
  ['bare line feed', (n) => `X: y\nContent-Length: 0\r\nContent-Length: ${n}`, (hidden) => hidden],
  ['bare carriage return', (n) => `X: y\rContent-Length: 0\r\nContent-Length: ${n}`, (hidden) => hidden],
  [
    'chunk in a chunk',
    () => 'Transfer-Encoding: chunked',
    (hidden) => `${hidden.length.toString(16)}\r\n${hidden}\r\n0\r\n\r\n`,
  ],
  [
    'line feed in an extension',
    () => 'Transfer-Encoding: chunked',
    (hidden) => `${(hidden.length + 5).toString(16)};a=\n\r\n0\r\n\r\n${hidden}\r\n0\r\n\r\n`,
  ],
  ['size with a prefix', () => 'Transfer-Encoding: chunked', (hidden) => `0x0\r\n\r\n${hidden}`],
  ['negative size', () => 'Transfer-Encoding: chunked', (hidden) => `-1\r\n\r\n${hidden}`],
  ['huge size', () => 'Transfer-Encoding: chunked', (hidden) => `fffffffffffffffff\r\n${hidden}`],
  ['no end of a chunk', () => 'Transfer-Encoding: chunked', (hidden) => `1\r\na0\r\n\r\n${hidden}`],
  ['plain', (n) => `Content-Length: ${n}`, (hidden) => hidden],
];
/** The request that is hidden in the body of another one. */
export const hidden = `GET /v1/hidden HTTP/1.1\r\nHost: gateway\r\n\r\n`;
/** A few more headers of a request. */
export const strayHeaders = fc.array(fc.tuple(headerName, headerValue), { maxLength: 2 });
