import type { GatewayError } from '../../core/errors/gateway-error.ts';
import { headerValue, type HeaderList } from '../../core/ports/header-list.ts';
import type { TrustedHosts } from '../../core/base/host-rules.ts';
import type { McpAddress } from '../../core/ports/mcp.ts';
import type { AddressGuard } from '../addresses/address-guard.ts';
import { admitUrl } from '../guarded-fetch/admit-url.ts';
import type { SocketObserver } from '../transport/connection.ts';
import { mcpFailed } from './mcp-errors.ts';
import type { McpLimits } from './mcp-limits.ts';
import { StreamHop, type StreamHopOwner } from './stream-hop.ts';

/** What the conversations of one gateway share. */
export interface Surroundings {
  readonly trusted: TrustedHosts;
  readonly guard: AddressGuard;
  readonly observer: SocketObserver;
  readonly limits: McpLimits;
}

/** Hears what a conversation cannot go on from. */
export interface ConversationListener {
  /** The server ended an event stream; with the error, when it was cut. */
  streamEnded(error: GatewayError | undefined): void;
  /** The server went beyond a bound. */
  exceeded(error: GatewayError): void;
}

/** Written by the protocol, not by who keeps the address. */
const protocolHeaders = new Set([
  ...['accept', 'content-type', 'last-event-id', 'mcp-session-id', 'mcp-protocol-version'],
]);

/**
 * `fetch` for one conversation: to the origin of its address only, on sockets that the address rules let through, and
 * within the bounds of the conversation. Follows no redirect itself; its caller may, and is judged anew. It adds the
 * headers of the address, so that the library, which writes errors of its own, never holds them.
 */
export class ConversationFetch implements StreamHopOwner {
  readonly guard: AddressGuard;
  readonly observer: SocketObserver;
  /** The last status, when it was no success. */
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

  /** Where the conversation takes place. */
  get url(): URL {
    return this.#origin;
  }

  /** To be given to the library. Rejects with a `GatewayError`. */
  readonly fetch = async (url: string | URL, init: RequestInit = {}): Promise<Response> => {
    const method = init.method ?? 'GET';
    const isListening = method === 'GET';
    // A stream beside the answers may be declined, and brings nothing that a handshake needs.
    if (isListening && this.#address.transport === 'http') return new Response(null, { status: 405 });
    // One that has ended is not opened again: what it was to bring is lost. 204 says so to the library.
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

  /** Closes every connection, and makes no more. */
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
