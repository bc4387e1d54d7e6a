import http, { type IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { DeadlineWheel, type Deadline } from '../base/deadline.ts';
import { GatewayError } from '../errors/gateway-error.ts';
import type { HeaderList } from '../ports/header-list.ts';
import type { GatewayConfig } from '../config/schema.ts';

const protocolHeader = 'sec-websocket-protocol';

/** Subprotocol in which OpenAI's clients in browsers, which cannot set headers, send their key. */
const keyItem = 'openai-insecure-api-key.';

/**
 * Converts subprotocols, the only field that browsers can set, to headers: `openai-insecure-api-key.KEY` to
 * `Authorization: Bearer KEY`, and `x-service-provider.NAME` (any header with our prefixes) to `x-service-provider`.
 * These items are not forwarded to the provider. An existing header overrides an item.
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

/** Replaces all such headers by one with the remaining items. */
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

/** Bound of bytes that a client may send before its answer; it has no reason to send any. */
const maxEarlyBytes = 65_536;

/** The client's connection after the switch from HTTP. */
interface SwitchedClient {
  readonly socket: Duplex;
  /** Bytes that it sent before its answer. */
  readonly early: Buffer;
}

/**
 * Client side of a request for WebSocket. Until the switch the connection answers in HTTP once and then closes. Notices
 * a client that leaves.
 */
export class ClientUpgrade {
  /** Reason for refusing the upgrade, independent of the pipeline. */
  readonly refusal: GatewayError | undefined;
  /** The answer in HTTP. */
  readonly response: ServerResponse;
  switched = false;
  /** Of the client; the log reads it after the connection has closed. */
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
    // A timeout between requests, possibly set by Node, does not apply here.
    this.socket.setTimeout(0);
    this.socket.on('data', this.hear).on('end', this.leave).resume();
  }

  /**
   * Answers 101 with these headers and gives the connection away. Throws, before a byte is sent, for an invalid header.
   */
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
  // Node forwards socket timeouts to answers only on connections of its own.
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
 * Returns a request to its server without its upgrade offer: puts the bytes read so far back. (A server with an upgrade
 * listener receives every upgrade.)
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
  // Deno passes the received part of the body to the request slightly after the upgrade event.
  setImmediate(() => {
    socket.off('error', ignore);
    if (socket.destroyed) return;
    const begun = (request.read() as Buffer | null) ?? Buffer.alloc(0);
    const text = `${lines.join('\r\n')}\r\n\r\n`;
    socket.unshift(Buffer.concat([Buffer.from(text, 'latin1'), head, begun]));
    server.emit('connection', socket);
  });
}

/** Treatment of a request with `Upgrade`. */
type UpgradeWish =
  /** WebSocket, or an answer in HTTP. */
  | { readonly kind: 'websocket' }
  /** The upgrade is an optional offer (`h2c`, which some clients send with every request): served as plain HTTP. */
  | { readonly kind: 'ignorable' }
  | { readonly kind: 'refused'; readonly error: GatewayError };

/** Decides from the request's head only. */
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
    // Bytes after the head would be a body to one server and WebSocket frames to another.
    return refusal('invalid_request', 'A request for WebSocket has no body. Send none.');
  }
  return { kind: 'websocket' };
}

function refusal(code: 'not_supported' | 'invalid_request', message: string): UpgradeWish {
  return { kind: 'refused', error: new GatewayError(code, message, { param: 'upgrade' }) };
}

/** How a relay ended. */
export type RelayEnd =
  /** One side ended in order, and the other followed or was ended. */
  | 'closed'
  /** The client's connection broke. */
  | 'client-lost'
  /** The provider's connection broke. */
  | 'provider-lost'
  /** No byte came from either side for the idle timeout. */
  | 'idle'
  /** The client took no byte for the stall timeout. */
  | 'stalled';

/** Connections and limits of a relay. Timeouts are milliseconds, 0 for none. */
interface RelaySetup {
  readonly client: Duplex;
  /** Bytes that the client sent before the switch. */
  readonly early: Buffer;
  readonly provider: Duplex;
  readonly idleTimeoutMs: number;
  readonly stallTimeoutMs: number;
  /** Called once, when both connections have closed. */
  over(end: RelayEnd, bytes: { readonly sent: number; readonly received: number }): void;
}

/** After one side has ended, the longest pause between two bytes of the other, and its time to end. */
const lingerMs = 10_000;

const deadlines = new DeadlineWheel();

/**
 * Relays bytes between two connections, unread, until both have closed. A full side pauses the other: only the
 * connections' own buffers hold data.
 */
export class UpgradeRelay {
  private readonly setup: RelaySetup;
  private readonly idle: Deadline;
  private readonly stall: Deadline;
  private end: RelayEnd | undefined;
  private open = 2;
  private sent = 0;
  private received = 0;

  constructor(setup: RelaySetup) {
    this.setup = setup;
    this.idle = deadlines.create(() => this.cut(this.end ?? 'idle'));
    this.stall = deadlines.create(() => this.cut('stalled'));
  }

  start(): void {
    const { client, provider, early, idleTimeoutMs } = this.setup;
    client.on('data', this.fromClient).on('drain', this.clientDrained);
    provider.on('data', this.fromProvider).on('drain', this.providerDrained);
    this.watch(client, provider, 'client-lost');
    this.watch(provider, client, 'provider-lost');
    this.idle.set(idleTimeoutMs);
    client.resume();
    provider.resume();
    if (early.length > 0) this.fromClient(early);
    // A connection that closed earlier emits no further event.
    if (client.closed) this.closed(provider, 'client-lost');
    if (provider.closed) this.closed(client, 'provider-lost');
  }

  private watch(side: Duplex, other: Duplex, lost: RelayEnd): void {
    // Each side may end alone: the other may still send.
    side.allowHalfOpen = true;
    side.on('error', () => (this.end ??= lost));
    side.once('end', () => {
      this.end ??= 'closed';
      this.linger();
      if (other.writable) other.end();
    });
    side.once('close', () => this.closed(other, lost));
  }

  private readonly fromClient = (chunk: Buffer): void => {
    const { client, provider } = this.setup;
    this.sent += chunk.length;
    this.idle.refresh();
    if (provider.writable && !provider.write(chunk)) client.pause();
  };

  private readonly fromProvider = (chunk: Buffer): void => {
    const { client, provider, stallTimeoutMs } = this.setup;
    this.received += chunk.length;
    this.idle.refresh();
    if (!client.writable || client.write(chunk)) return;
    provider.pause();
    this.stall.set(stallTimeoutMs);
  };

  private readonly clientDrained = (): void => {
    this.stall.clear();
    this.idle.refresh();
    this.setup.provider.resume();
  };

  private readonly providerDrained = (): void => {
    this.idle.refresh();
    this.setup.client.resume();
  };

  /** A side that closed without an end was lost; its earlier bytes still reach the other. */
  private closed(other: Duplex, lost: RelayEnd): void {
    this.end ??= lost;
    this.open -= 1;
    if (this.open === 0) {
      this.finish();
      return;
    }
    this.linger();
    // The other side has gone: the rest has no receiver.
    other.resume();
    if (other.writableFinished) other.destroy();
    else other.end(() => other.destroy());
  }

  private linger(): void {
    const { idleTimeoutMs } = this.setup;
    this.idle.set(idleTimeoutMs === 0 ? lingerMs : Math.min(idleTimeoutMs, lingerMs));
  }

  private cut(reason: RelayEnd): void {
    this.end = this.end === undefined || this.end === 'closed' ? reason : this.end;
    this.setup.client.destroy();
    this.setup.provider.destroy();
  }

  private finish(): void {
    this.idle.clear();
    this.stall.clear();
    this.setup.over(this.end ?? 'closed', { sent: this.sent, received: this.received });
  }
}
