import { GatewayError } from '../../core/errors/gateway-error.ts';
import type { Clock } from '../../core/ports/clock.ts';
import { headerValue, type HeaderList } from '../../core/ports/header-list.ts';
import type { McpHead, McpRequest, McpUpstream, McpHandler, McpCall } from '../../core/ports/mcp.ts';
import type { UpstreamCall, UpstreamHandler, Transport } from '../../core/ports/transport.ts';
import { SseReader } from '../framing/payload-reader.ts';
import { isEncoded } from '../guarded-fetch/guarded-fetch.ts';
import { rpc, type RpcMessage } from './json-rpc.ts';
import type { Delivery, LinkReceiver, MessageLink } from './message-session.ts';
import { MessageSessions } from './message-sessions.ts';

/** Milliseconds until a connection to a server is established. */
const connectTimeoutMs = 10_000;

/** Place of a server over Streamable HTTP. */
interface HttpUpstreamOptions {
  readonly url: URL;
  /** Connects to public addresses only. */
  readonly guarded: boolean;
  readonly transport: Transport;
}

/** A server over Streamable HTTP: each request is one call of the transport, whose connections are kept and shared. */
export class HttpUpstream implements McpUpstream {
  readonly #url: URL;
  readonly #guarded: boolean;
  readonly #transport: Transport;

  constructor({ url, guarded, transport }: HttpUpstreamOptions) {
    this.#url = url;
    this.#guarded = guarded;
    this.#transport = transport;
  }

  send(request: McpRequest, handler: McpHandler): McpCall {
    const { method, body, headTimeoutMs, idleTimeoutMs } = request;
    return this.#transport.send(
      {
        origin: this.#url.origin,
        guarded: this.#guarded,
        method,
        path: this.#url.pathname + this.#url.search,
        headers: requestHeaders(request, this.#url.host),
        body,
        connectTimeoutMs,
        headTimeoutMs,
        idleTimeoutMs,
      },
      new HeadReader(handler),
    );
  }

  /** The transport belongs to the gateway. */
  close(): Promise<void> {
    return Promise.resolve();
  }
}

/** Headers of a request, those of the protocol first. `host` of the server. */
function requestHeaders(request: McpRequest, host: string): string[] {
  const { method, body, sessionId, protocolVersion, lastEventId, headers } = request;
  const accept = method === 'GET' ? 'text/event-stream' : 'application/json, text/event-stream';
  const list = ['host', host, 'accept', accept, 'accept-encoding', 'identity'];
  if (body !== null) list.push('content-type', 'application/json', 'content-length', String(body.length));
  if (sessionId !== undefined) list.push('mcp-session-id', sessionId);
  if (protocolVersion !== undefined) list.push('mcp-protocol-version', protocolVersion);
  if (lastEventId !== undefined) list.push('last-event-id', lastEventId);
  list.push(...headers);
  return list;
}

/** What the protocol needs of an answer's head. */
function headOfAnswer(status: number, headers: HeaderList): McpHead {
  return {
    status,
    sessionId: headerValue(headers, 'mcp-session-id'),
    contentType: (headerValue(headers, 'content-type') ?? '').split(';', 1)[0]?.trim().toLowerCase() ?? '',
    wwwAuthenticate: headerValue(headers, 'www-authenticate'),
  };
}

class HeadReader implements UpstreamHandler {
  readonly #handler: McpHandler;

  constructor(handler: McpHandler) {
    this.#handler = handler;
  }

  head(status: number, headers: HeaderList): void {
    this.#handler.head(headOfAnswer(status, headers));
  }

  data(chunk: Buffer): boolean {
    return this.#handler.data(chunk);
  }

  end(): void {
    this.#handler.end();
  }

  fail(error: GatewayError): void {
    this.#handler.fail(error);
  }
}

/** Longest event of a server: 16 MiB. */
const maxEventBytes = 16_777_216;
/** Longest part of a refusal's body that is kept. */
const maxRefusalBytes = 65_536;
const maxSessions = 10_000;
/** From the handshake to the `endpoint` event, where the request has no bound. */
const openTimeoutMs = 60_000;

interface SseUpstreamOptions extends HttpUpstreamOptions {
  readonly clock: Clock;
}

/**
 * A server over the older transport of two endpoints (protocol 2024-11-05): each session has a GET that stays open, whose
 * first event names the address for its POSTs. The session ends with that stream.
 */
export function createSseUpstream(options: SseUpstreamOptions): MessageSessions {
  const server = {
    peer: options.url.host,
    maxSessions,
    open: (handshake: McpRequest, receiver: LinkReceiver) => new SseLink(options, handshake, receiver),
    close: () => Promise.resolve(),
  };
  return new MessageSessions(server, options.clock);
}

/** A message that waits for the address. */
interface Waiting {
  readonly message: RpcMessage;
  readonly delivery: Delivery;
  readonly request: McpRequest;
}

class SseLink implements MessageLink, UpstreamHandler {
  readonly #options: SseUpstreamOptions;
  readonly #handshake: McpRequest;
  readonly #receiver: LinkReceiver;
  readonly #stream: UpstreamCall;
  readonly #events = new SseReader(maxEventBytes);
  readonly #posts = new Set<UpstreamCall>();
  readonly #cancelTimer: () => void;
  #waiting: Waiting[] = [];
  #endpoint: URL | undefined;
  #refusal: RefusalReader | undefined;
  #isPaused = false;
  #isClosed = false;

  constructor(options: SseUpstreamOptions, handshake: McpRequest, receiver: LinkReceiver) {
    this.#options = options;
    // The session is one of this gateway, and the version is not agreed yet.
    this.#handshake = { ...handshake, protocolVersion: undefined };
    this.#receiver = receiver;
    const timeoutMs = handshake.headTimeoutMs > 0 ? handshake.headTimeoutMs : openTimeoutMs;
    const opening: McpRequest = { ...this.#handshake, method: 'GET', headTimeoutMs: timeoutMs };
    this.#stream = this.#send(options.url, opening, this);
    this.#cancelTimer = options.clock.after(timeoutMs, () =>
      this.#fail('upstream_timeout', `sent no endpoint event within ${timeoutMs} ms`),
    );
  }

  send(message: RpcMessage, delivery: Delivery, request: McpRequest = this.#handshake): void {
    if (this.#endpoint === undefined) this.#waiting.push({ message, delivery, request });
    else this.#post(this.#endpoint, message, delivery, request);
  }

  pause(): void {
    this.#isPaused = true;
  }

  resume(): void {
    this.#isPaused = false;
    this.#stream.resume();
  }

  close(): Promise<void> {
    if (this.#isClosed) return Promise.resolve();
    this.#isClosed = true;
    this.#cancelTimer();
    this.#waiting = [];
    const over = new GatewayError('client_closed', 'the session has ended');
    this.#stream.abort(over);
    for (const post of this.#posts) post.abort(over);
    return Promise.resolve();
  }

  head(status: number, headers: HeaderList): void {
    if (this.#isClosed) return;
    if (status < 200 || status > 299) {
      this.#refusal = new RefusalReader(status, headers);
    } else if (headOfAnswer(status, headers).contentType !== 'text/event-stream') {
      this.#fail('upstream_invalid', 'opened no stream of events; is it a server of the SSE transport?');
    } else if (isEncoded(headers)) {
      this.#fail('upstream_invalid', 'sends compressed bytes where plain ones were asked for');
    }
  }

  data(chunk: Buffer): boolean {
    if (this.#isClosed) return true;
    if (this.#refusal !== undefined) {
      this.#refusal.push(chunk);
      return true;
    }
    for (const { event, data, error } of this.#events.push(chunk)) {
      if (this.#isClosed) break;
      if (error !== undefined) this.#fail('upstream_too_large', `sent an event that is too long (${error})`);
      else if (event === 'endpoint') this.#admit(data);
      else if (event === 'message' || event === '') this.#receive(data);
    }
    return !this.#isPaused;
  }

  end(): void {
    if (this.#isClosed) return;
    const refusal = this.#refusal;
    if (refusal === undefined) this.#fail('upstream_reset', 'ended the stream of the session');
    else for (const { delivery } of this.#waiting) delivery.refused(refusal.head, refusal.body());
  }

  fail(error: GatewayError): void {
    if (!this.#isClosed) this.#receiver.ended(error);
  }

  /** The first address counts; it is on the origin that the credentials are for. */
  #admit(text: string): void {
    const { url } = this.#options;
    if (this.#endpoint !== undefined) return;
    const endpoint = URL.canParse(text, url.href) ? new URL(text, url.href) : undefined;
    if (endpoint?.origin !== url.origin || endpoint.username !== '' || endpoint.password !== '') {
      this.#fail('upstream_invalid', 'names another origin for what it is to be sent, which is refused');
      return;
    }
    this.#endpoint = endpoint;
    this.#cancelTimer();
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const { message, delivery, request } of waiting) this.#post(endpoint, message, delivery, request);
  }

  #receive(data: string): void {
    const message = rpc.readMessage(data);
    if (message !== undefined) this.#receiver.receive(message);
  }

  #post(endpoint: URL, message: RpcMessage, delivery: Delivery, request: McpRequest): void {
    const posted: McpRequest = { ...request, method: 'POST', body: Buffer.from(message.text) };
    const reader = new DeliveryReader(delivery, () => this.#posts.delete(call));
    const call = this.#send(endpoint, posted, reader);
    this.#posts.add(call);
  }

  #send(url: URL, request: McpRequest, handler: UpstreamHandler): UpstreamCall {
    const { guarded, transport } = this.#options;
    const { method, body, headTimeoutMs } = request;
    return transport.send(
      {
        origin: url.origin,
        guarded,
        method,
        path: url.pathname + url.search,
        headers: requestHeaders({ ...request, sessionId: undefined, lastEventId: undefined }, url.host),
        body,
        connectTimeoutMs,
        headTimeoutMs,
        // Of a POST nothing but the head is waited for; the stream may be silent.
        idleTimeoutMs: method === 'GET' ? 0 : headTimeoutMs,
      },
      handler,
    );
  }

  #fail(code: GatewayError['code'], what: string): void {
    if (!this.#isClosed)
      this.#receiver.ended(new GatewayError(code, `${this.#options.url.host} ${what}; begin a new session`));
  }
}

/** Reads the beginning of an answer that refuses. */
class RefusalReader {
  readonly head: McpHead;
  readonly #chunks: Buffer[] = [];
  #room = maxRefusalBytes;

  constructor(status: number, headers: HeaderList) {
    // A session of the server is none of this gateway.
    this.head = { ...headOfAnswer(status, headers), sessionId: undefined };
  }

  push(chunk: Buffer): void {
    if (this.#room > 0) this.#chunks.push(chunk.subarray(0, this.#room));
    this.#room -= chunk.length;
  }

  body(): Buffer {
    return Buffer.concat(this.#chunks);
  }
}

/** The answer to a POST: what it says matters where it refuses. */
class DeliveryReader implements UpstreamHandler {
  readonly #delivery: Delivery;
  readonly #over: () => void;
  #refusal: RefusalReader | undefined;
  #isDelivered = false;

  constructor(delivery: Delivery, over: () => void) {
    this.#delivery = delivery;
    this.#over = over;
  }

  head(status: number, headers: HeaderList): void {
    this.#isDelivered = status >= 200 && status < 300;
    if (this.#isDelivered) this.#delivery.delivered();
    else this.#refusal = new RefusalReader(status, headers);
  }

  data(chunk: Buffer): boolean {
    this.#refusal?.push(chunk);
    return true;
  }

  end(): void {
    this.#over();
    if (this.#refusal !== undefined) this.#delivery.refused(this.#refusal.head, this.#refusal.body());
  }

  fail(error: GatewayError): void {
    this.#over();
    if (!this.#isDelivered) this.#delivery.failed(error);
  }
}
