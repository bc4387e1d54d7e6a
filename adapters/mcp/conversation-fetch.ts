import { GatewayError } from '../../core/errors/gateway-error.ts';
import { type HeaderList, headerValue } from '../../core/ports/header-list.ts';
import type { TrustedHosts } from '../../core/base/host-rules.ts';
import type { McpAddress } from '../../core/ports/mcp.ts';
import type { AddressGuard } from '../addresses/address-guard.ts';
import {
  admitUrl,
  type FetchStep,
  GuardedHop,
  type HopSurroundings,
  isEncoded,
  networkReason,
} from '../guarded-fetch/guarded-fetch.ts';
import type { SocketObserver } from '../transport/connection.ts';

/** Errors of a conversation with a server. */
export const mcpErrors = { failed: mcpFailed, refused: mcpRefused };

/** Bounds of clients of the Model Context Protocol. */
export interface McpLimits {
  /** Of a whole conversation, including its end. */
  readonly timeoutMs: number;
  /** Longest part of it for ending the session. */
  readonly goodbyeMs: number;
  /** Waiting time of a conversation after a stream has ended without an answer. */
  readonly graceMs: number;
  /** Bodies of all answers of a conversation together. */
  readonly maxBytes: number;
  /** Lines of event streams in a conversation: a line costs more to read than its bytes. */
  readonly maxLines: number;
  /** Requests of a conversation, and its concurrent requests. */
  readonly maxRequests: number;
  readonly maxRequestsAtOnce: number;
  /** Concurrent conversations; one more fails. */
  readonly maxConversations: number;
  /** Kept offers of one type. */
  readonly maxOffers: number;
  /** Pages of one list. */
  readonly maxPages: number;
  /** JSON bytes kept per offer in addition to its name. */
  readonly maxDescribedBytes: number;
  /** Characters of an offer's name, and of a server's own name. */
  readonly maxNameLength: number;
}

/** Bounds promised by `core/ports/mcp.ts`, and bounds that it leaves to the adapter. */
export const mcpLimits: McpLimits = {
  timeoutMs: 15_000,
  goodbyeMs: 2_000,
  graceMs: 250,
  maxBytes: 8_388_608,
  maxLines: 100_000,
  maxRequests: 500,
  maxRequestsAtOnce: 8,
  maxConversations: 16,
  maxOffers: 1_000,
  maxPages: 100,
  maxDescribedBytes: 65_536,
  maxNameLength: 1_024,
};

/** Receiver of a hop's events. */
interface StreamHopOwner extends HopSurroundings {
  /** Bytes of a body have arrived; an error ends the hop. */
  received(chunk: Buffer, isEvents: boolean): GatewayError | undefined;
  /** An event stream ended; with the error, when it was cut. */
  streamEnded(error: GatewayError | undefined): void;
  /** The hop has released its connection. */
  closed(hop: StreamHop): void;
}

/** Answer headers that the protocol reads. */
const readHeaders = ['content-type', 'mcp-session-id', 'location'];

/**
 * One request that forwards its answer as it arrives. An answer without success status has no body: it is never read.
 * `response` rejects with a `GatewayError`.
 */
class StreamHop extends GuardedHop {
  readonly response: Promise<Response>;
  readonly #owner: StreamHopOwner;
  #resolve: (response: Response) => void = () => undefined;
  #reject: (error: GatewayError) => void = () => undefined;
  #body: ReadableStreamDefaultController<Uint8Array> | undefined;
  #isEvents = false;

  constructor(step: FetchStep, owner: StreamHopOwner) {
    super(step, owner);
    this.#owner = owner;
    this.response = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  onHeaders(status: number, rawHeaders: Buffer[]): boolean {
    if (this.over || this.#body !== undefined || status < 200) return true;
    const headers = rawHeaders.map((one) => one.toString('latin1'));
    if (status > 599) this.fail(mcpFailed(this.host, `it answered with status ${status}, which is none`));
    else if (isEncoded(headers)) {
      this.fail(mcpFailed(this.host, 'it sends compressed bytes where plain ones were asked for'));
    } else this.#answer(status, headers);
    return true;
  }

  onData(chunk: Buffer): boolean {
    if (this.over) return true;
    const error = this.#owner.received(chunk, this.#isEvents);
    if (error === undefined) this.#body?.enqueue(chunk);
    else this.fail(error);
    return true;
  }

  onComplete(): void {
    if (this.over) return;
    this.close();
    this.#body?.close();
    if (this.#isEvents) this.#owner.streamEnded(undefined);
  }

  onError(cause: unknown): void {
    this.fail(GatewayError.is(cause) ? cause : mcpFailed(this.host, reasonOf(cause), { cause }));
  }

  #answer(status: number, headers: HeaderList): void {
    const head = { status, headers: readableHeaders(headers) };
    if (status >= 300 || status === 204 || status === 205) {
      this.close();
      this.#resolve(new Response(null, head));
      return;
    }
    this.#isEvents = (head.headers.get('content-type') ?? '').toLowerCase().startsWith('text/event-stream');
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => void (this.#body = controller),
      cancel: () => this.close(),
    });
    this.#resolve(new Response(body, head));
  }

  protected fail(error: GatewayError): void {
    if (this.over) return;
    this.close();
    this.#reject(error);
    this.#body?.error(error);
    if (this.#isEvents) this.#owner.streamEnded(error);
  }

  protected override close(): void {
    if (this.over) return;
    super.close();
    this.#owner.closed(this);
  }
}

/** The headers that the protocol reads; without those whose value is invalid. */
function readableHeaders(headers: HeaderList): Headers {
  const readable = new Headers();
  for (const name of readHeaders) {
    const value = headerValue(headers, name);
    if (value !== undefined && /^[\t\x20-\x7e\x80-\xff]*$/.test(value)) readable.set(name, value);
  }
  return readable;
}

function reasonOf(cause: unknown): string {
  const isUnsendable =
    typeof cause === 'object' && cause !== null && 'code' in cause && cause.code === 'UND_ERR_INVALID_ARG';
  return isUnsendable
    ? 'a header cannot be sent; correct the names and values of the headers'
    : networkReason(cause);
}

/** State that the conversations of one gateway share. */
export interface Surroundings {
  readonly trusted: TrustedHosts;
  readonly guard: AddressGuard;
  readonly observer: SocketObserver;
  readonly limits: McpLimits;
}

/** Receives the events that end a conversation. */
interface ConversationListener {
  /** The server ended an event stream; with the error, when it was cut. */
  streamEnded(error: GatewayError | undefined): void;
  /** The server exceeded a bound. */
  exceeded(error: GatewayError): void;
}

/** Set by the protocol, not by the owner of the address. */
const protocolHeaders = new Set([
  ...['accept', 'content-type', 'last-event-id', 'mcp-session-id', 'mcp-protocol-version'],
]);

/**
 * `fetch` for one conversation: only to the origin of its address, on sockets that pass the address rules, and within
 * the bounds of the conversation. Follows no redirect itself; its caller may, and the new address is checked again. It
 * adds the headers of the address, so that the library, which writes errors of its own, never holds them.
 */
export class ConversationFetch implements StreamHopOwner {
  readonly guard: AddressGuard;
  readonly observer: SocketObserver;
  /** The last status without success. */
  refusal: number | undefined;
  /** The last failure of a request. */
  failure: GatewayError | undefined;
  /** Requests so far. */
  sent = 0;
  readonly #address: McpAddress;
  readonly #origin: URL;
  readonly #around: Surroundings;
  readonly #listener: ConversationListener;
  readonly #hops = new Set<StreamHop>();
  #bytes = 0;
  #lines = 0;
  #hasListened = false;
  #closed = false;

  /** Throws `address_refused`. */
  constructor(address: McpAddress, around: Surroundings, listener: ConversationListener) {
    this.#address = address;
    this.#origin = admitUrl(address.url, around.trusted).url;
    this.#around = around;
    this.#listener = listener;
    this.guard = around.guard;
    this.observer = around.observer;
  }

  /** URL of the conversation. */
  get url(): URL {
    return this.#origin;
  }

  /** The `fetch` for the library. Rejects with a `GatewayError`. */
  readonly fetch = async (url: string | URL, init: RequestInit = {}): Promise<Response> => {
    const method = init.method ?? 'GET';
    const isListening = method === 'GET';
    // A stream beside the answers may be declined, and carries nothing that a handshake needs.
    if (isListening && this.#address.transport === 'http') return new Response(null, { status: 405 });
    // An ended stream is not reopened: its pending messages are lost. 204 tells the library so.
    if (isListening && this.#hasListened) return new Response(null, { status: 204 });
    try {
      const response = await this.#send(url, method, init);
      this.refusal = response.status >= 300 ? response.status : undefined;
      if (isListening && response.ok) this.#hasListened = true;
      return response;
    } catch (error) {
      this.failure = error as GatewayError;
      throw error;
    }
  };

  /** Closes every connection, and opens no more. */
  close(): void {
    this.#closed = true;
    for (const hop of this.#hops) hop.abort(this.#failed('it is over'));
  }

  received(chunk: Buffer, isEvents: boolean): GatewayError | undefined {
    const { maxBytes, maxLines } = this.#around.limits;
    this.#bytes += chunk.length;
    if (isEvents) this.#lines += linesIn(chunk);
    if (this.#bytes > maxBytes) return this.#exceeded(`it sends more than ${maxBytes} bytes`);
    return this.#lines > maxLines ? this.#exceeded(`it sends more than ${maxLines} lines`) : undefined;
  }

  streamEnded(error: GatewayError | undefined): void {
    if (!this.#closed) this.#listener.streamEnded(error);
  }

  closed(hop: StreamHop): void {
    this.#hops.delete(hop);
  }

  async #send(target: string | URL, method: string, init: RequestInit): Promise<Response> {
    const { trusted, limits } = this.#around;
    if (this.#closed) throw this.#failed('it is over');
    const admitted = admitUrl(String(target), trusted);
    if (admitted.url.origin !== this.#origin.origin) {
      throw this.#failed('it leads to another origin; name the address to which it leads');
    }
    this.sent += 1;
    if (this.sent > limits.maxRequests || this.#hops.size >= limits.maxRequestsAtOnce) {
      throw this.#exceeded('it wants more requests than are allowed');
    }
    const body = typeof init.body === 'string' ? Buffer.from(init.body) : null;
    const hop = new StreamHop({ ...admitted, method, headers: this.#headers(init), body }, this);
    this.#hops.add(hop);
    hop.start();
    return await hop.response;
  }

  #headers(init: RequestInit): HeaderList {
    const { headers } = this.#address;
    const list = headerValue(headers, 'user-agent') === undefined ? ['user-agent', 'weir'] : [];
    new Headers(init.headers).forEach((value, name) => void list.push(name, value));
    for (let i = 0; i < headers.length; i += 2) {
      const name = headers[i] as string;
      if (!protocolHeaders.has(name.toLowerCase())) list.push(name, headers[i + 1] as string);
    }
    return list;
  }

  #exceeded(what: string): GatewayError {
    const error = this.#failed(`${what}; it offers too much or is no MCP server`);
    if (!this.#closed) this.#listener.exceeded(error);
    return error;
  }

  #failed(why: string): GatewayError {
    return mcpFailed(this.#origin.host, why);
  }
}

/** Ends of lines: LF, CR, or both. */
function linesIn(chunk: Buffer): number {
  let lines = 0;
  for (let i = 0; i < chunk.length; i++) {
    const byte = chunk[i];
    if (byte === 10 || (byte === 13 && chunk[i + 1] !== 10)) lines += 1;
  }
  return lines;
}

/** Members of a failure in addition to its sentence. */
interface McpFailureDetails {
  /** HTTP status of the server's answer; shown as `status` in the body of the error. */
  readonly status?: number;
  readonly cause?: unknown;
}

/**
 * Error for a failed handshake. `host` in the caller's spelling; `why` ends the sentence in general terms, with the
 * remedy: never the server's own text, and never a header's value.
 */
function mcpFailed(host: string, why: string, details: McpFailureDetails = {}): GatewayError {
  const { status, cause } = details;
  return new GatewayError('mcp_failed', `The handshake with "${host.slice(0, 255)}" failed: ${why}.`, {
    cause,
    ...(status === undefined ? {} : { extra: { status } }),
  });
}

/** Error for an HTTP status without success. */
function mcpRefused(host: string, status: number): GatewayError {
  return mcpFailed(host, `it answered with status ${status}; ${remedyOf(status)}`, { status });
}

function remedyOf(status: number): string {
  if (status < 400) return 'name the address to which it redirects';
  if (status === 401) return 'it wants credentials: set the headers that it expects (OAuth is not spoken)';
  if (status === 403) return 'it does not allow this: check the headers that are sent';
  if (status === 404) return 'check the path of the URL, and whether its transport is http or sse';
  if (status === 405) return 'it does not speak this transport: try the other one, http or sse';
  if (status === 429) return 'it had too many requests: try again later';
  return status < 500 ? 'check the URL, its transport and the headers that are sent' : "see the server's log";
}
