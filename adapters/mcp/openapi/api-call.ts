import { joinChunks } from '../../../core/base/bytes.ts';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import type { Clock } from '../../../core/ports/clock.ts';
import { type HeaderList, headerValue } from '../../../core/ports/header-list.ts';
import type { Transport, UpstreamCall, UpstreamHandler } from '../../../core/ports/transport.ts';

const connectTimeoutMs = 10_000;

/** Origin that calls go to. */
export interface ApiPlace {
  readonly url: URL;
  /** Connects to public addresses only. */
  readonly guarded: boolean;
}

/** One request below an origin. */
interface ApiCallRequest {
  readonly place: ApiPlace;
  readonly method: string;
  readonly path: string;
  /** Without `host`, the length and `accept-encoding`. */
  readonly headers: HeaderList;
  readonly body: Buffer | null;
  /** Milliseconds until the head of the answer, between its chunks (0 for no bound each), and until its last byte. */
  readonly headTimeoutMs: number;
  readonly idleTimeoutMs: number;
  readonly timeoutMs: number;
  readonly maxBytes: number;
}

/** A whole answer. */
export interface ApiAnswer {
  readonly status: number;
  readonly headers: HeaderList;
  readonly body: Buffer;
}

/** Parts of the gateway that calls need. */
export interface CallSurroundings {
  readonly transport: Transport;
  readonly clock: Clock;
}

/** A request whose whole answer is awaited. Redirects are answers. */
export class ApiCall implements UpstreamHandler {
  /** Rejects with `upstream_…` (`upstream_too_large` beyond the bound), `address_refused` or the reason of `abort`. */
  readonly answer: Promise<ApiAnswer>;
  readonly #maxBytes: number;
  /** Announces a length and has no body. */
  readonly #isHead: boolean;
  readonly #call: UpstreamCall | undefined;
  readonly #cancelTimer: () => void;
  #resolve: (answer: ApiAnswer) => void = () => undefined;
  #reject: (error: GatewayError) => void = () => undefined;
  #status = 0;
  #headers: HeaderList = [];
  #chunks: Buffer[] = [];
  #size = 0;
  #refused: GatewayError | undefined;

  constructor(request: ApiCallRequest, { transport, clock }: CallSurroundings) {
    const { place, method, path, headers, body, timeoutMs } = request;
    this.#maxBytes = request.maxBytes;
    this.#isHead = method === 'HEAD';
    this.answer = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    const own = ['host', place.url.host, ...headers, 'accept-encoding', 'identity'];
    if (body !== null || method === 'POST' || method === 'PUT' || method === 'PATCH')
      own.push('content-length', String(body?.length ?? 0));
    this.#cancelTimer = clock.after(timeoutMs, () => this.abort(tooSlow(place, timeoutMs)));
    this.#call = transport.send(
      {
        origin: place.url.origin,
        guarded: place.guarded,
        method,
        path,
        headers: own,
        body,
        connectTimeoutMs: Math.min(connectTimeoutMs, timeoutMs),
        headTimeoutMs: request.headTimeoutMs,
        idleTimeoutMs: request.idleTimeoutMs,
      },
      this,
    );
    // The transport may have answered before it returned.
    if (this.#refused !== undefined) this.#call.abort(this.#refused);
  }

  abort(error: GatewayError): void {
    this.#call?.abort(error);
  }

  head(status: number, headers: HeaderList): void {
    this.#status = status;
    this.#headers = headers;
    const announced = Number(headerValue(headers, 'content-length') ?? 0);
    if (announced > this.#maxBytes && !this.#isHead) this.#refuse();
  }

  data(chunk: Buffer): boolean {
    this.#size += chunk.length;
    if (this.#size > this.#maxBytes) this.#refuse();
    else this.#chunks.push(chunk);
    return true;
  }

  end(): void {
    if (this.#refused !== undefined) {
      this.fail(this.#refused);
      return;
    }
    this.#cancelTimer();
    const body = this.#chunks.length === 0 ? Buffer.alloc(0) : joinChunks(this.#chunks);
    this.#resolve({ status: this.#status, headers: this.#headers, body });
  }

  fail(error: GatewayError): void {
    this.#cancelTimer();
    this.#chunks = [];
    this.#reject(error);
  }

  #refuse(): void {
    if (this.#refused !== undefined) return;
    const message = `the answer is larger than ${this.#maxBytes} bytes; ask for less of it`;
    this.#refused = new GatewayError('upstream_too_large', message);
    this.abort(this.#refused);
  }
}

function tooSlow({ url }: ApiPlace, timeoutMs: number): GatewayError {
  return new GatewayError('upstream_timeout', `${url.host} sent no whole answer within ${timeoutMs} ms`);
}
