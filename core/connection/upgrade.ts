import http, { type IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { GatewayError } from '../errors/gateway-error.ts';
import type { HeaderList } from '../ports/header-list.ts';
import type { GatewayConfig } from '../config/schema.ts';

const protocolHeader = 'sec-websocket-protocol';
/** How OpenAI's clients in browsers, which cannot set headers, send their key. */
const keyItem = 'openai-insecure-api-key.';

/**
 * Moves what browsers can only say as subprotocols to the headers that they stand for: `openai-insecure-api-key.KEY`
 * to `Authorization: Bearer KEY`, and `x-service-provider.NAME` (any header under our prefixes) to `x-service-provider`.
 * Those items never go on to the provider. A header that the request has wins over an item.
 */
export function readUpgradeProtocols(
  message: IncomingMessage,
  config: Pick<GatewayConfig['server'], 'header_prefix' | 'header_aliases'>,
): void {
  const offered = message.headers[protocolHeader];
  if (offered === undefined) return;
  const prefixes = [config.header_prefix, ...config.header_aliases].map((prefix) => `${prefix}-`);
  const kept: string[] = [];
  let moved = false;
  for (const item of offered.split(',').map((one) => one.trim())) {
    const header = headerOf(item, prefixes);
    if (header === undefined) {
      if (item !== '') kept.push(item);
      continue;
    }
    moved = true;
    if (message.headers[header.name] !== undefined) continue;
    message.headers[header.name] = header.value;
    message.rawHeaders.push(header.name, header.value);
  }
  if (moved) replaceProtocols(message, kept);
}

function headerOf(item: string, prefixes: readonly string[]): { name: string; value: string } | undefined {
  if (item.startsWith(keyItem))
    return { name: 'authorization', value: `Bearer ${item.slice(keyItem.length)}` };
  const lower = item.toLowerCase();
  if (!prefixes.some((prefix) => lower.startsWith(prefix))) return undefined;
  const dot = item.indexOf('.');
  return dot === -1 ? undefined : { name: lower.slice(0, dot), value: item.slice(dot + 1) };
}

/** One header with the items that are left, in place of all that there were. */
function replaceProtocols(message: IncomingMessage, kept: readonly string[]): void {
  const { rawHeaders } = message;
  for (let i = rawHeaders.length - 2; i >= 0; i -= 2) {
    if ((rawHeaders[i] as string).toLowerCase() === protocolHeader) rawHeaders.splice(i, 2);
  }
  delete message.headers[protocolHeader];
  if (kept.length === 0) return;
  message.headers[protocolHeader] = kept.join(', ');
  rawHeaders.push('Sec-WebSocket-Protocol', kept.join(', '));
}

/** Bytes that a client may send before it has its answer; it has nothing to say before. */
const maxEarlyBytes = 65_536;

/** The client's connection, once it has left HTTP. */
interface SwitchedClient {
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

/** What a request with `Upgrade` gets. */
type UpgradeWish =
  /** WebSocket, or an answer in HTTP. */
  | { readonly kind: 'websocket' }
  /** The upgrade is an offer that may be left alone (`h2c`, as some clients send with every request): served as plain HTTP. */
  | { readonly kind: 'ignorable' }
  | { readonly kind: 'refused'; readonly error: GatewayError };

/** Decides from the request's head alone. */
export function upgradeWish(request: IncomingMessage): UpgradeWish {
  const { headers, method } = request;
  const protocols = (headers.upgrade ?? '').split(',').map((protocol) => protocol.trim().toLowerCase());
  if (!protocols.includes('websocket')) {
    if (protocols.includes('h2c')) return { kind: 'ignorable' };
    return refusal(
      'not_supported',
      'The gateway upgrades connections to WebSocket only. Leave the Upgrade header out.',
    );
  }
  if (method !== 'GET')
    return refusal('invalid_request', 'A WebSocket is asked for with GET (RFC 6455, section 4.1).');
  const length = headers['content-length'];
  if ((length !== undefined && length !== '0') || headers['transfer-encoding'] !== undefined) {
    // What follows the head would be a body to one server and WebSocket frames to another.
    return refusal('invalid_request', 'A request for WebSocket has no body. Send none.');
  }
  return { kind: 'websocket' };
}

function refusal(code: 'not_supported' | 'invalid_request', message: string): UpgradeWish {
  return { kind: 'refused', error: new GatewayError(code, message, { param: 'upgrade' }) };
}
