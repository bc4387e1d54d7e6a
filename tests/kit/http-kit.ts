/** Both ends of the wire for tests: a provider that does what the test says, and clients that hide nothing. */
import http, { type IncomingMessage, type ServerResponse } from 'node:http';
import net, { type AddressInfo, type Socket } from 'node:net';
import type { TestContext } from 'node:test';

/** A test, or what ends something for a whole file. */
export interface Ending {
  after(close: () => void): void;
}

/** A request as the provider received it. */
export interface ReceivedRequest {
  readonly method: string;
  readonly url: string;
  /** Flat, in order and case. */
  readonly rawHeaders: readonly string[];
  readonly headers: http.IncomingHttpHeaders;
  /** Grows while it comes. */
  body: Buffer;
  /** The whole request has come. */
  complete: boolean;
  /** The connection ended before the answer did. */
  cut: boolean;
}

/** A provider on 127.0.0.1. */
export interface Upstream {
  readonly url: string;
  readonly host: string;
  readonly requests: ReceivedRequest[];
  /** Connections taken so far. */
  connections: number;
  /** Connections that are open now. */
  readonly open: ReadonlySet<Socket>;
}

/** Answers one request. Without `early`, it is called when the request has come whole. */
export type Answering = (
  request: ReceivedRequest,
  response: ServerResponse,
  message: IncomingMessage,
) => void;

/** Starts a provider; it ends with the test. `early`: answers as soon as the head has come. */
export async function startUpstream(
  t: Ending,
  answer: Answering,
  { early = false, keepAliveMs = 60_000 }: { early?: boolean; keepAliveMs?: number } = {},
): Promise<Upstream> {
  const requests: ReceivedRequest[] = [];
  const open = new Set<Socket>();
  const server = http.createServer({ keepAliveTimeout: keepAliveMs }, (message, response) => {
    const request: ReceivedRequest = {
      method: message.method ?? '',
      url: message.url ?? '',
      rawHeaders: message.rawHeaders,
      headers: message.headers,
      body: Buffer.alloc(0),
      complete: false,
      cut: false,
    };
    requests.push(request);
    response.on('close', () => (request.cut = !response.writableFinished));
    message.on('data', (chunk: Buffer) => (request.body = Buffer.concat([request.body, chunk])));
    message.on('end', () => {
      request.complete = true;
      if (!early) answer(request, response, message);
    });
    if (early) answer(request, response, message);
  });
  const upstream = { requests, open, connections: 0, url: '', host: '' };
  server.on('connection', (socket) => {
    upstream.connections++;
    open.add(socket);
    socket.on('close', () => open.delete(socket));
    socket.on('error', () => undefined);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  upstream.host = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  upstream.url = `http://${upstream.host}`;
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  return upstream;
}

/** An answer as a client received it. */
export interface Received {
  readonly status: number;
  readonly statusText: string;
  readonly headers: http.IncomingHttpHeaders;
  readonly rawHeaders: readonly string[];
  readonly body: Buffer;
  readonly text: string;
  /** The body as JSON; throws when it is none. */
  readonly json: () => any;
  /** False when the connection ended before the body did. */
  readonly complete: boolean;
  /** Times that the server asked for the body. */
  readonly continues: number;
}

export interface Sending {
  readonly method?: string;
  readonly path?: string;
  readonly headers?: Readonly<Record<string, string | string[]>> | readonly string[];
  /** A value is sent as JSON, a string and bytes as they are. */
  readonly body?: unknown;
  readonly agent?: http.Agent;
  /** Leaves when the first bytes of an event stream have come: some have no end. */
  readonly leavesStreams?: boolean;
}

/** Sends one request on a connection of its own and waits for the end of the answer, whatever that is. */
export function send(url: string, sending: Sending = {}): Promise<Received> {
  return new Promise((resolve, reject) => {
    const { request, body, waits } = open(url, sending);
    let continues = 0;
    request.on('continue', () => {
      continues++;
      request.end(body);
    });
    request.on('response', (response) => {
      const chunks: Buffer[] = [];
      const done = (): void => {
        const whole = Buffer.concat(chunks);
        resolve({
          status: response.statusCode ?? 0,
          statusText: response.statusMessage ?? '',
          headers: response.headers,
          rawHeaders: response.rawHeaders,
          continues,
          body: whole,
          text: whole.toString('utf8'),
          complete: response.complete,
          json: () => JSON.parse(whole.toString('utf8')) as unknown,
        });
      };
      const isStream = response.headers['content-type']?.startsWith('text/event-stream') === true;
      response.on('data', (chunk: Buffer) => {
        chunks.push(chunk);
        if (isStream && sending.leavesStreams === true) request.destroy();
      });
      response.on('error', () => undefined);
      response.on('close', done);
    });
    request.on('error', reject);
    if (waits) request.flushHeaders();
    else request.end(body);
  });
}

/** Sends one request and hands over its answer unread. */
export function begin(
  url: string,
  sending: Sending = {},
): Promise<{ request: http.ClientRequest; response: IncomingMessage }> {
  return new Promise((resolve, reject) => {
    const { request, body } = open(url, sending);
    request.on('response', (response) => {
      response.on('error', () => undefined);
      request.on('error', () => undefined);
      resolve({ request, response });
    });
    request.on('error', reject);
    request.end(body);
  });
}

function open(url: string, { method, path = '', headers = {}, body, agent = undefined }: Sending) {
  const bytes =
    body === undefined || Buffer.isBuffer(body) || typeof body === 'string' ? body : JSON.stringify(body);
  const { hostname, port, pathname } = new URL(url);
  const list = Array.isArray(headers) ? [...(headers as string[])] : Object.entries(headers).flatMap(pairs);
  const has = (name: string): boolean => list.some((item, i) => i % 2 === 0 && item.toLowerCase() === name);
  if (!has('host')) list.push('host', `${hostname}:${port}`);
  if (bytes !== undefined && bytes !== body && !has('content-type'))
    list.push('content-type', 'application/json');
  if (bytes !== undefined && !has('content-length') && !has('transfer-encoding')) {
    list.push('content-length', String(Buffer.byteLength(bytes)));
  }
  const request = http.request({
    // `path` goes on the wire as it is: in a URL, dot segments would never reach the gateway.
    hostname,
    port,
    path: path === '' ? pathname : path,
    method: method ?? (bytes === undefined ? 'GET' : 'POST'),
    agent: agent ?? false,
    headers: list,
  });
  return { request, body: bytes, waits: has('expect') };
}

function pairs([name, value]: [string, string | string[]]): string[] {
  return [value].flat().flatMap((one) => [name, one]);
}

/** A bare connection: what is written goes on the wire as it is. */
interface RawConnection {
  readonly socket: Socket;
  write(text: string | Buffer): void;
  /** Everything received so far. */
  received(): string;
  /** Resolves when the text has been received. */
  until(text: string): Promise<string>;
  /** Resolves with everything received when the connection has ended. */
  ended(): Promise<string>;
}

/** Opens one; it ends with the test. */
export async function connect(t: TestContext, port: number): Promise<RawConnection> {
  const socket = net.connect({ port, host: '127.0.0.1', allowHalfOpen: false });
  t.after(() => void socket.destroy());
  let text = '';
  let closed = false;
  const waiting = new Set<() => void>();
  const wake = (): void => {
    for (const check of [...waiting]) check();
  };
  socket.on('data', (chunk) => {
    text += chunk.toString('latin1');
    wake();
  });
  socket.on('error', () => undefined);
  socket.on('close', () => {
    closed = true;
    wake();
  });
  await new Promise((resolve) => socket.once('connect', resolve));
  const when = (condition: () => boolean): Promise<string> =>
    new Promise((resolve, reject) => {
      const check = (): void => {
        if (condition()) resolve(text);
        else if (closed) reject(new Error(`The connection ended after: ${text}`));
        else return;
        waiting.delete(check);
      };
      waiting.add(check);
      check();
    });
  return {
    socket,
    write: (bytes) => void socket.write(bytes),
    received: () => text,
    until: (wanted) => when(() => text.includes(wanted)),
    ended: () => when(() => closed),
  };
}

/** Waits until a condition holds; fails with `what` after half a minute, which a busy machine does not need. */
export async function until(condition: () => boolean, what: string): Promise<void> {
  const end = performance.now() + 30_000;
  while (!condition()) {
    if (performance.now() > end) throw new Error(`Never came: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}
