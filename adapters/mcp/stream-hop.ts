import type { Dispatcher } from 'undici';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import { headerValue, type HeaderList } from '../../core/ports/header-list.ts';
import type { UpstreamCall } from '../../core/ports/transport.ts';
import type { AddressGuard } from '../addresses/address-guard.ts';
import { networkReason } from '../guarded-fetch/fetch-errors.ts';
import { isEncoded, wireHeaders, type FetchStep } from '../guarded-fetch/fetch-step.ts';
import { Connection, type SocketObserver } from '../transport/connection.ts';
import { mcpFailed } from './mcp-errors.ts';

/** Who hears of a hop. */
export interface StreamHopOwner {
  readonly guard: AddressGuard;
  readonly observer: SocketObserver;
  /** Bytes of a body have come; an error ends the hop. */
  received(chunk: Buffer, isEvents: boolean): GatewayError | undefined;
  /** An event stream came to its end; with the error, when it was cut. */
  streamEnded(error: GatewayError | undefined): void;
  /** It has let go of its connection. */
  closed(hop: StreamHop): void;
}

/** Of an answer's headers, what the protocol reads. */
const readHeaders = ['content-type', 'mcp-session-id', 'location'];

/**
 * One request on a connection of its own, its answer handed on while it comes. An answer that is no success has no
 * body: nobody reads it. `response` rejects with a `GatewayError`.
 */
export class StreamHop implements UpstreamCall, Dispatcher.DispatchHandler {
  readonly response: Promise<Response>;
  readonly #step: FetchStep;
  readonly #owner: StreamHopOwner;
  readonly #connection: Connection;
  #resolve: (response: Response) => void = () => undefined;
  #reject: (error: GatewayError) => void = () => undefined;
  #body: ReadableStreamDefaultController<Uint8Array> | undefined;
  #isEvents = false;
  #over = false;

  constructor(step: FetchStep, owner: StreamHopOwner) {
    this.#step = step;
    this.#owner = owner;
    this.response = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    const pool = { connectionIdle: () => undefined, connectionGone: () => undefined };
    const guard = step.trusted ? undefined : owner.guard;
    this.#connection = new Connection(step.url.origin, pool, owner.observer, guard);
    this.#connection.call = this;
  }

  start(): void {
    const { url, method, headers, body } = this.#step;
    const path = url.pathname + url.search;
    this.#connection.dispatch({ method, path, headers: wireHeaders(headers), body, reset: true }, this);
  }

  resume(): void {
    // Never paused: its bound is the size.
  }

  abort(error: GatewayError): void {
    this.#fail(error);
  }

  onConnect(): void {
    this.#connection.requestStarts();
  }

  onHeaders(status: number, rawHeaders: Buffer[]): boolean {
    if (this.#over || this.#body !== undefined || status < 200) return true;
    const headers = rawHeaders.map((one) => one.toString('latin1'));
    if (status > 599) this.#fail(mcpFailed(this.#host, `it answered with status ${status}, which is none`));
    else if (isEncoded(headers)) {
      this.#fail(mcpFailed(this.#host, 'it sends compressed bytes where plain ones were asked for'));
    } else this.#answer(status, headers);
    return true;
  }

  onData(chunk: Buffer): boolean {
    if (this.#over) return true;
    const error = this.#owner.received(chunk, this.#isEvents);
    if (error === undefined) this.#body?.enqueue(chunk);
    else this.#fail(error);
    return true;
  }

  onComplete(): void {
    if (this.#over) return;
    this.#close();
    this.#body?.close();
    if (this.#isEvents) this.#owner.streamEnded(undefined);
  }

  onError(cause: unknown): void {
    this.#fail(GatewayError.is(cause) ? cause : mcpFailed(this.#host, reasonOf(cause), { cause }));
  }

  get #host(): string {
    return this.#step.url.host;
  }

  #answer(status: number, headers: HeaderList): void {
    const head = { status, headers: readableHeaders(headers) };
    if (status >= 300 || status === 204 || status === 205) {
      this.#close();
      this.#resolve(new Response(null, head));
      return;
    }
    this.#isEvents = (head.headers.get('content-type') ?? '').toLowerCase().startsWith('text/event-stream');
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => void (this.#body = controller),
      cancel: () => this.#close(),
    });
    this.#resolve(new Response(body, head));
  }

  #fail(error: GatewayError): void {
    if (this.#over) return;
    this.#close();
    this.#reject(error);
    this.#body?.error(error);
    if (this.#isEvents) this.#owner.streamEnded(error);
  }

  #close(): void {
    if (this.#over) return;
    // First, because closing the connection makes undici report an end.
    this.#over = true;
    this.#connection.call = null;
    this.#connection.destroy();
    this.#owner.closed(this);
  }
}

/** Of the headers, those that the protocol reads; without one whose value is none. */
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
