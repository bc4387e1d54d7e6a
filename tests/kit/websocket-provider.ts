/** A provider that speaks WebSocket (RFC 6455), as small as tests need it, and a client for tests. */
import { createHash } from 'node:crypto';
import http, { type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import { WebSocket, type WebSocketInit } from 'undici';

/** One frame of a client, unmasked. */
interface Frame {
  readonly final: boolean;
  /** 0 continues, 1 text, 2 binary, 8 close, 9 ping, 10 pong. */
  readonly opcode: number;
  readonly payload: Buffer;
}

/** One request for WebSocket that the provider got, and what came of it. */
interface ProviderSocket {
  readonly url: string;
  readonly rawHeaders: readonly string[];
  readonly headers: http.IncomingHttpHeaders;
  readonly connection: Duplex;
  readonly frames: Frame[];
  /** Bytes that came after the head. */
  received: number;
  /** The connection has ended. */
  ended: boolean;
  send(payload: string | Buffer, options?: { opcode?: number; final?: boolean }): boolean;
}

/** The provider. */
export interface WebSocketProvider {
  readonly host: string;
  readonly sockets: ProviderSocket[];
  /** Answers in HTTP instead of switching, when it returns something. */
  decline: (request: IncomingMessage) => string | undefined;
  /** Called when a connection was switched; instead of the echo when it is set. */
  serve: ((socket: ProviderSocket) => void) | undefined;
  /** Sent together with the head of the 101. */
  greeting: string | undefined;
  close(): void;
}

/** Starts one on 127.0.0.1. It echoes every message, frame by frame, unless it is told otherwise. */
export async function startWebSocketProvider(): Promise<WebSocketProvider> {
  const server = http.createServer((request, response) => {
    let bytes = 0;
    request.on('data', (chunk: Buffer) => (bytes += chunk.length));
    request.on('end', () => response.end(`plain ${bytes}`));
  });
  const provider: WebSocketProvider = {
    host: '',
    sockets: [],
    decline: () => undefined,
    serve: undefined,
    greeting: undefined,
    close() {
      server.close();
      server.closeAllConnections();
      for (const { connection } of provider.sockets) connection.destroy();
    },
  };
  server.on('upgrade', (request: IncomingMessage, connection: Duplex, head: Buffer) => {
    connection.on('error', () => undefined);
    const declined = provider.decline(request);
    if (declined !== undefined) {
      connection.end(declined);
      return;
    }
    accept(provider, request, connection, head);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return Object.assign(provider, { host: `127.0.0.1:${(server.address() as AddressInfo).port}` });
}

function accept(
  provider: WebSocketProvider,
  request: IncomingMessage,
  connection: Duplex,
  head: Buffer,
): void {
  const { headers, rawHeaders, url = '' } = request;
  const socket: ProviderSocket = {
    url,
    rawHeaders,
    headers,
    connection,
    frames: [],
    received: 0,
    ended: false,
    send: (payload, { opcode = 1, final = true } = {}) =>
      connection.write(frame({ final, opcode, payload: Buffer.from(payload) })),
  };
  provider.sockets.push(socket);
  const accepted = createHash('sha1')
    .update(`${headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`)
    .digest('base64');
  const protocol = headers['sec-websocket-protocol']?.split(',')[0]?.trim();
  const lines = [
    'HTTP/1.1 101 Switching Protocols',
    'upgrade: websocket',
    'connection: upgrade',
    `sec-websocket-accept: ${accepted}`,
    ...(protocol === undefined ? [] : [`sec-websocket-protocol: ${protocol}`]),
    'x-provider: yes',
  ];
  const { greeting } = provider;
  const first =
    greeting === undefined
      ? Buffer.alloc(0)
      : frame({ final: true, opcode: 1, payload: Buffer.from(greeting) });
  connection.write(Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\n\r\n`), first]));
  connection.once('end', () => connection.end());
  connection.once('close', () => (socket.ended = true));
  if (provider.serve !== undefined) {
    provider.serve(socket);
    return;
  }
  readFrames(connection, head, socket, (one) => {
    if (one.opcode === 8) {
      connection.end(frame({ ...one, final: true }));
      return;
    }
    if (!connection.write(frame(one))) {
      connection.pause();
      connection.once('drain', () => connection.resume());
    }
  });
}

/** Reads a client's masked frames. */
export function readFrames(
  connection: Duplex,
  head: Buffer,
  socket: ProviderSocket,
  take: (frame: Frame) => void,
): void {
  let pending: Buffer = Buffer.alloc(0);
  const hear = (chunk: Buffer): void => {
    socket.received += chunk.length;
    pending = pending.length === 0 ? chunk : Buffer.concat([pending, chunk]);
    for (;;) {
      const parsed = parse(pending);
      if (parsed === undefined) return;
      pending = pending.subarray(parsed.size);
      socket.frames.push(parsed.frame);
      take(parsed.frame);
    }
  };
  if (head.length > 0) hear(head);
  connection.on('data', hear);
}

function parse(bytes: Buffer): { frame: Frame; size: number } | undefined {
  if (bytes.length < 2) return undefined;
  const short = (bytes[1] as number) & 127;
  const extra = short === 126 ? 2 : short === 127 ? 8 : 0;
  const start = 2 + extra + 4;
  if (bytes.length < start) return undefined;
  const length = extra === 0 ? short : extra === 2 ? bytes.readUInt16BE(2) : Number(bytes.readBigUInt64BE(2));
  if (bytes.length < start + length) return undefined;
  const mask = bytes.subarray(start - 4, start);
  const payload = Buffer.from(bytes.subarray(start, start + length));
  for (let i = 0; i < payload.length; i++) payload[i] = (payload[i] as number) ^ (mask[i % 4] as number);
  const first = bytes[0] as number;
  return { frame: { final: (first & 128) !== 0, opcode: first & 15, payload }, size: start + length };
}

/** A frame as a server sends it. */
export function frame({ final, opcode, payload }: Frame): Buffer {
  const { length } = payload;
  const head = Buffer.alloc(length < 126 ? 2 : length < 65_536 ? 4 : 10);
  head[0] = (final ? 128 : 0) | opcode;
  head[1] = length < 126 ? length : length < 65_536 ? 126 : 127;
  if (length >= 65_536) head.writeBigUInt64BE(BigInt(length), 2);
  else if (length >= 126) head.writeUInt16BE(length, 2);
  return Buffer.concat([head, payload]);
}

/** A client of a WebSocket, with what it received. */
export interface SocketClient {
  readonly socket: WebSocket;
  /** Resolves with the next message that was not taken yet; rejects when the connection closes before one. */
  next(): Promise<string | Buffer>;
  /** Resolves with the close code. */
  readonly closed: Promise<number>;
}

/** Connects; rejects when the connection is not switched. */
export function openSocket(url: string, init: WebSocketInit = {}): Promise<SocketClient> {
  const socket = new WebSocket(url.replace(/^http/, 'ws'), init);
  socket.binaryType = 'arraybuffer';
  const messages: (string | Buffer)[] = [];
  const waiting: { resolve: (message: string | Buffer) => void; reject: (error: Error) => void }[] = [];
  socket.addEventListener('message', ({ data }: { data: unknown }) => {
    const message = typeof data === 'string' ? data : Buffer.from(data as ArrayBuffer);
    const first = waiting.shift();
    if (first === undefined) messages.push(message);
    else first.resolve(message);
  });
  const closed = new Promise<number>((resolve) => {
    socket.addEventListener('close', ({ code }) => {
      for (const one of waiting.splice(0)) one.reject(new Error(`closed with ${code}`));
      resolve(code);
    });
  });
  const client: SocketClient = {
    socket,
    closed,
    next() {
      const message = messages.shift();
      if (message !== undefined) return Promise.resolve(message);
      return new Promise((resolve, reject) => waiting.push({ resolve, reject }));
    },
  };
  return new Promise((resolve, reject) => {
    socket.addEventListener('open', () => resolve(client));
    socket.addEventListener('error', () => reject(new Error('the connection was not switched')));
  });
}
