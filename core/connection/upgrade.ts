import http, { ServerResponse, type IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { GatewayError } from '../errors/gateway-error.ts';
import type { HeaderList } from '../ports/header-list.ts';

/** What a client may send before it has its answer; it has nothing to say before. */
const maxEarlyBytes = 65_536;

/** The client's connection, once it has left HTTP. */
export interface SwitchedClient {
  readonly socket: Duplex;
  /** What it sent before it had its answer. */
  readonly early: Buffer;
}

/**
 * The client's side of a request for WebSocket. Until it is switched the connection answers in HTTP like any other,
 * once, and is closed then. A client that leaves meanwhile is noticed.
 */
export class ClientUpgrade {
  /** Why the gateway does not upgrade, whatever the pipeline says. */
  readonly refusal: GatewayError | undefined;
  /** The answer in HTTP. */
  readonly response: ServerResponse;
  switched = false;
  /** Of the client; the log asks for it when the connection has closed. */
  readonly remoteAddress: string;
  private readonly socket: Socket;
  private readonly early: Buffer[];
  private earlyBytes: number;

  constructor(request: IncomingMessage, head: Buffer, refusal: GatewayError | undefined) {
    this.refusal = refusal;
    this.socket = request.socket;
    this.remoteAddress = request.socket.remoteAddress ?? '';
    this.early = [head];
    this.earlyBytes = head.length;
    this.response = answerOf(request);
    this.socket.on('error', () => undefined);
    // A limit between requests, as Node may have set one, is none for this.
    this.socket.setTimeout(0);
    this.socket.on('data', this.hear).on('end', this.leave).resume();
  }

  /** Answers 101 with these headers and gives the connection away. Throws, before a byte is sent, for a header that is none. */
  switch(headers: HeaderList): SwitchedClient {
    const head = switchingHead(headers);
    const { socket } = this;
    this.switched = true;
    socket.off('data', this.hear).off('end', this.leave);
    this.response.detachSocket(socket);
    socket.write(head, 'latin1');
    return { socket, early: Buffer.concat(this.early) };
  }

  private readonly hear = (chunk: Buffer): void => {
    this.early.push(chunk);
    this.earlyBytes += chunk.length;
    if (this.earlyBytes > maxEarlyBytes) this.socket.pause();
  };

  private readonly leave = (): void => {
    this.socket.destroy();
  };
}

/** An answer in HTTP on a connection that Node has given away. It ends the connection. */
function answerOf(request: IncomingMessage): ServerResponse {
  const { socket } = request;
  const response = new ServerResponse(request);
  response.shouldKeepAlive = false;
  response.assignSocket(socket);
  response.once('finish', () => socket.destroySoon());
  // Node tells answers of their socket's timeouts only while the connection is its own.
  socket.on('timeout', () => response.emit('timeout'));
  return response;
}

function switchingHead(headers: HeaderList): string {
  const lines = ['HTTP/1.1 101 Switching Protocols', 'Connection: Upgrade', 'Upgrade: websocket'];
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i] as string;
    const value = headers[i + 1] as string;
    http.validateHeaderName(name);
    http.validateHeaderValue(name, value);
    lines.push(`${name}: ${value}`);
  }
  return `${lines.join('\r\n')}\r\n\r\n`;
}

const offered = new Set(['connection', 'upgrade', 'http2-settings']);

/**
 * Hands a request back to its server as if it had not asked for an upgrade: what was read of it is put back, without
 * the offer. (A server that hears of upgrades at all hears of every one.)
 */
export function serveWithoutUpgrade(server: http.Server, request: IncomingMessage, head: Buffer): void {
  const { socket, rawHeaders } = request;
  const lines = [`${request.method ?? 'GET'} ${request.url ?? '/'} HTTP/1.1`];
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] as string;
    if (!offered.has(name.toLowerCase())) lines.push(`${name}: ${rawHeaders[i + 1] as string}`);
  }
  const ignore = (): void => undefined;
  socket.on('error', ignore);
  // Deno hands what came of the body to the request, a moment after it has said that there is an upgrade.
  setImmediate(() => {
    socket.off('error', ignore);
    if (socket.destroyed) return;
    const begun = (request.read() as Buffer | null) ?? Buffer.alloc(0);
    const text = `${lines.join('\r\n')}\r\n\r\n`;
    socket.unshift(Buffer.concat([Buffer.from(text, 'latin1'), head, begun]));
    server.emit('connection', socket);
  });
}
