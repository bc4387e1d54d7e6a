import { GatewayError } from '../../core/errors/gateway-error.ts';
import { headerValue, type HeaderList } from '../../core/ports/header-list.ts';
import { networkReason } from '../guarded-fetch/fetch-errors.ts';
import { isEncoded, type FetchStep } from '../guarded-fetch/fetch-step.ts';
import { GuardedHop, type HopSurroundings } from '../guarded-fetch/guarded-hop.ts';
import { mcpFailed } from './mcp-errors.ts';

/** Who hears of a hop. */
export interface StreamHopOwner extends HopSurroundings {
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
 * One request whose answer is handed on while it comes. An answer that is no success has no body: nobody reads it.
 * `response` rejects with a `GatewayError`.
 */
export class StreamHop extends GuardedHop {
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
