import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { before, describe, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { eventOf, initializeResult, rpcAnswer, type McpScript } from '../../tests/kit/mcp-server.ts';
import {
  countingClock,
  failure,
  keepingLog,
  scripted,
  testClients,
  untilClosed,
} from './mcp.test-support.ts';
import { protocolLibrary } from './conversation.ts';

type Intercept = NonNullable<McpScript['intercept']>;

const secret = 'planted-secret-4711';
const json = { 'content-type': 'application/json' };
const events = { 'content-type': 'text/event-stream' };
const answerAll =
  (answer: (...args: Parameters<Intercept>) => unknown): Intercept =>
  (arrived, response) => {
    answer(arrived, response);
    return true;
  };
const status = (code: number, headers: Record<string, string> = {}): Intercept =>
  answerAll((_arrived, response) => response.writeHead(code, headers).end(`inside: ${secret}`));
const body = (text: string, headers: Record<string, string> = json): Intercept =>
  answerAll((_arrived, response) => response.writeHead(200, headers).end(text));

/** The fault, the server's behaviour, the sentence and the status that are told. */
type Row = readonly [name: string, intercept: Intercept, message: RegExp, status?: number];

const ofHttp: readonly Row[] = [
  ['it wants credentials', status(401), /status 401; it wants credentials: set the headers/, 401],
  ['it wants OAuth', status(401, { 'www-authenticate': 'Bearer resource_metadata="x"' }), /OAuth/, 401],
  [
    'a refusal that never ends',
    answerAll((_arrived, response) => response.writeHead(401).write('x')),
    /it wants credentials/,
    401,
  ],
  ['it forbids', status(403), /check the headers that are sent/, 403],
  ['nothing is there', status(404), /check the path of the URL/, 404],
  ['another transport', status(405), /try the other one, http or sse/, 405],
  ['too many requests', status(429), /try again later/, 429],
  ['it does not understand', status(400), /check the URL, its transport and the headers/, 400],
  ['it failed', status(500), /status 500; see the server's log/, 500],
  ['no status of HTTP', status(999), /status 999, which is none/],
  ['a redirect elsewhere', status(307, { location: 'http://10.0.0.1/mcp' }), /to which it redirects/, 307],
  ['a redirect that changes the method', status(302, { location: '/mcp/' }), /redirects/, 302],
  ['a page for people', body('<html>hello</html>', { 'content-type': 'text/html' }), /does not answer as an/],
  ['no JSON', body(`{"jsonrpc": ${secret}`), /does not answer as an MCP server does/],
  ['JSON of another kind', body('{"hello":"world"}'), /whether its transport is http/],
  ['no content', answerAll((_a, response) => response.writeHead(204).end()), /does not answer as an MCP/],
  [
    'an error of the protocol',
    answerAll(({ message }, response) => {
      const error = { code: -32602, message: secret };
      response.writeHead(200, json).end(JSON.stringify({ jsonrpc: '2.0', id: message?.id, error }));
    }),
    /the error -32602; see its log/,
  ],
  [
    'a version that is not known',
    answerAll(({ message = {} }, response) => {
      const results = { initialize: { ...initializeResult, protocolVersion: '1999-01-01' } };
      response.writeHead(200, json).end(rpcAnswer({ results }, message));
    }),
    /version of the protocol that is not known/,
  ],
  [
    'a handshake without a name',
    answerAll(({ message = {} }, response) => {
      const results = { initialize: { ...initializeResult, serverInfo: {} } };
      response.writeHead(200, json).end(rpcAnswer({ results }, message));
    }),
    /does not answer as an MCP server does/,
  ],
  [
    'compressed bytes',
    answerAll(({ message = {} }, response) => {
      const bytes = gzipSync(rpcAnswer({}, message));
      response.writeHead(200, { ...json, 'content-encoding': 'gzip' }).end(bytes);
    }),
    /compressed bytes where plain ones/,
  ],
  [
    'a connection that is cut before an answer',
    answerAll((_arrived, response) => response.destroy()),
    /cannot be reached or broke the connection/,
  ],
  [
    'an answer that is cut',
    answerAll((_arrived, response) => {
      response.writeHead(200, { ...json, 'content-length': '100' }).write('{"jsonrpc"');
      setImmediate(() => response.destroy());
    }),
    /cannot be reached or broke the connection/,
  ],
  ['a stream that ends without an answer', body(': nothing\n\n', events), /ended its stream without an/],
  [
    'a stream with an answer to nobody',
    body(eventOf('message', '{"jsonrpc":"2.0","id":77,"result":{}}'), events),
    /ended its stream without an answer/,
  ],
  [
    'a stream that is cut',
    answerAll((_arrived, response) => {
      response.writeHead(200, events).write(': soon\n\n');
      setImmediate(() => response.destroy());
    }),
    /broke the connection/,
  ],
  [
    'a stream that says that it may be taken up again, and ends',
    body('id: 1\nretry: 1\ndata:\n\n', events),
    /ended its stream without an answer/,
  ],
  ['no answer', answerAll(() => undefined), /was not finished within 300 ms/],
  [
    'an answer that never ends',
    answerAll((_arrived, response) => response.writeHead(200, json).write('{')),
    /was not finished within 300 ms/,
  ],
  [
    'no answer after the handshake',
    ({ message }) => message?.method === 'tools/list',
    /was not finished within 300 ms/,
  ],
  [
    'a list that is none',
    ({ message = {} }, response) => {
      if (message.method !== 'tools/list') return false;
      response
        .writeHead(200, json)
        .end(rpcAnswer({ results: { 'tools/list': { tools: [{ name: 1 }] } } }, message));
      return true;
    },
    /does not answer as an MCP server does/,
  ],
];

const listening =
  (text: string): Intercept =>
  ({ method }, response) => {
    if (method !== 'GET') return false;
    response.writeHead(200, events).write(text);
    return true;
  };

const ofSse: readonly Row[] = [
  ['it wants credentials', status(401), /it wants credentials/, 401],
  ['nothing is there', status(404), /check the path of the URL/, 404],
  ['a redirect elsewhere', status(307, { location: 'http://10.0.0.1/sse' }), /redirects/, 307],
  ['a page for people', body('<html>', { 'content-type': 'text/html' }), /whether its transport is sse/],
  ['no content', answerAll((_a, response) => response.writeHead(204).end()), /does not answer as an MCP/],
  [
    'another host for messages',
    listening(eventOf('endpoint', 'http://10.0.0.1/message')),
    /names another host/,
  ],
  ['a strange address for messages', listening(eventOf('endpoint', 'http://[')), /does not answer as an MCP/],
  ['no address for messages', listening(': welcome\n\n'), /was not finished within 300 ms/],
  ['a stream that ends at once', body('', events), /ended its stream without an answer/],
  [
    'a stream that wants to be opened again',
    body('retry: 0\n\n', events),
    /ended its stream without an answer/,
  ],
  [
    'a connection that is cut before an answer',
    answerAll((_arrived, response) => response.destroy()),
    /cannot be reached or broke the connection/,
  ],
  [
    'a stream that is cut',
    answerAll((_arrived, response) => {
      response.writeHead(200, events).write(': soon\n\n');
      setImmediate(() => response.destroy());
    }),
    /broke the connection/,
  ],
  [
    'a stream that ends in the middle',
    ({ method, message }, response) => {
      if (method === 'GET') setTimeout(() => response.end(), 50);
      return message?.method === 'tools/list' && Boolean(response.writeHead(202).end());
    },
    /ended its stream without an answer/,
  ],
  [
    'messages are not taken',
    ({ method }, response) => method === 'POST' && Boolean(response.writeHead(401).end(secret)),
    /status 401/,
    401,
  ],
  ['messages are swallowed', ({ method }) => method === 'POST', /was not finished within 300 ms/],
];

/** Those that keep a process alive. */
function activeTimers(): number {
  return process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length;
}

describe('mcp_failed', () => {
  // Loaded with the first handshake, within its time.
  before(protocolLibrary);

  for (const [transport, rows] of [
    ['http', ofHttp],
    ['sse', ofSse],
  ] as const) {
    for (const [name, intercept, message, told] of rows) {
      test(`${transport}: ${name}`, async (t) => {
        const clock = countingClock();
        const log = keepingLog();
        const limits = { timeoutMs: message.source.includes('not finished') ? 300 : 10_000, graceMs: 20 };
        const { server, clients, at } = await scripted(t, { intercept }, { clock, log, limits });
        const headers = ['authorization', `Bearer ${secret}`];
        const timers = activeTimers();
        const error = await failure(clients.describe({ ...at(transport), headers }));
        assert.equal(error.code, 'mcp_failed');
        assert.deepEqual([error.status, error.adminCode], [502, 'AB04']);
        assert.match(error.message, message);
        assert.match(error.message, new RegExp(`^The handshake with "${server.host}" failed: `));
        assert.deepEqual(error.extra, told === undefined ? undefined : { status: told });
        const shown = `${error.message} ${String(error.cause)} ${JSON.stringify([error, log.lines])}`;
        assert.doesNotMatch(shown, new RegExp(`${secret}|10\\.0\\.0\\.1`));
        await untilClosed(server);
        assert.equal(clock.pending.size, 0, 'timers are left');
        assert.equal(activeTimers(), timers, "the library's timers are left");
      });
    }
  }

  test('nothing of it comes back later', async (t) => {
    const { server, clients, at } = await scripted(
      t,
      { intercept: body('id: 1\nretry: 1\ndata:\n\n', events) },
      { limits: { graceMs: 5 } },
    );
    for (const transport of ['http', 'sse'] as const) await failure(clients.describe(at(transport)));
    const asked = server.requests.length;
    await new Promise((resolve) => setTimeout(resolve, 50));
    assert.equal(server.requests.length, asked);
    assert.equal(asked, 2);
  });

  const raw: readonly [string, (socket: Socket) => void, RegExp][] = [
    ['no HTTP', (socket) => socket.end('SSH-2.0-OpenSSH_9.2\r\n'), /broke the connection/],
    ['nothing at all', (socket) => socket.destroy(), /broke the connection/],
  ];
  for (const [name, serve, message] of raw) {
    test(name, async (t) => {
      const server = createServer((socket) => {
        socket.on('error', () => undefined);
        socket.once('data', () => serve(socket));
      });
      server.listen(0, '127.0.0.1');
      await once(server, 'listening');
      t.after(() => void server.close());
      const host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
      const address = { url: `http://${host}/`, transport: 'http', headers: [] } as const;
      const error = await failure(testClients(host).greet(address));
      assert.match(`${error.code} ${error.message}`, message);
      assert.doesNotMatch(error.message, /SSH/);
    });
  }

  test('nobody listens, and TLS where none is spoken', async (t) => {
    const { server, clients } = await scripted(t);
    const secure = { url: `https://${server.host}/mcp`, transport: 'http', headers: [] } as const;
    assert.match((await failure(clients.greet(secure))).message, /no trusted TLS connection/);
    const nobody = { ...secure, url: 'http://127.0.0.1:1/mcp' };
    assert.match((await failure(testClients('127.0.0.1').greet(nobody))).message, /cannot be reached/);
  });

  test('an unknown name', async () => {
    const address = { url: 'https://nobody.example.com/mcp', transport: 'http', headers: [] } as const;
    const error = await failure(testClients('127.0.0.1').greet(address));
    assert.match(`${error.code} ${error.message}`, /mcp_failed.*name is unknown/);
  });

  test('a header that cannot be sent', async (t) => {
    const { server, clients, at } = await scripted(t);
    const error = await failure(clients.greet({ ...at(), headers: ['x-a', `a\r\nx-b: ${secret}`] }));
    assert.match(`${error.code} ${error.message}`, /mcp_failed.*a header cannot be sent/);
    assert.doesNotMatch(`${error.message} ${String(error.cause)}`, new RegExp(secret));
    assert.equal(server.requests.length, 0);
  });
});
