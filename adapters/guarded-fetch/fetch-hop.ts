import type { Dispatcher } from 'undici';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import { headerValue, type HeaderList } from '../../core/ports/header-list.ts';
import type { GuardedAnswer } from '../../core/ports/guarded-fetch.ts';
import type { UpstreamCall } from '../../core/ports/transport.ts';
import type { AddressGuard } from '../addresses/address-guard.ts';
import { Connection, type SocketObserver } from '../transport/connection.ts';
import { fetchFailed, networkFailure } from './fetch-errors.ts';
import { isEncoded, redirectOf, wireHeaders, type FetchStep } from './fetch-step.ts';

/** What one hop may do and whom it tells. */
export interface HopLimits {
  readonly guard: AddressGuard;
  readonly observer: SocketObserver;
  readonly maxBytes: number;
  /** Asks for room in memory; false when there is none. */
  take(bytes: number): boolean;
  accept?(status: number, headers: HeaderList): void;
}

/** An answer, or where it redirects. */
export type HopResult = GuardedAnswer & { readonly location: string | undefined };

/**
 * One request on a connection of its own, which ends with it: nothing that was checked is ever used for another
 * host. `result` rejects with a `GatewayError`.
 */
export class FetchHop implements UpstreamCall, Dispatcher.DispatchHandler {
  readonly result: Promise<HopResult>;
  readonly #step: FetchStep;
  readonly #limits: HopLimits;
  readonly #connection: Connection;
  #resolve: (result: HopResult) => void = () => undefined;
  #reject: (error: GatewayError) => void = () => undefined;
  #status = 0;
  #headers: HeaderList = [];
  #chunks: Buffer[] = [];
  #size = 0;
  #over = false;

  constructor(step: FetchStep, limits: HopLimits) {
    this.#step = step;
    this.#limits = limits;
    this.result = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    const owner = { connectionIdle: () => undefined, connectionGone: () => undefined };
    const guard = step.trusted ? undefined : limits.guard;
    this.#connection = new Connection(step.url.origin, owner, limits.observer, guard);
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
    if (this.#over || status < 200) return true;
    this.#status = status;
    this.#headers = rawHeaders.map((one) => one.toString('latin1'));
    const location = redirectOf(status, this.#headers);
    if (location !== undefined) this.#succeed(Buffer.alloc(0), location);
    else this.#judgeHead();
    return true;
  }

  onData(chunk: Buffer): boolean {
    if (this.#over) return true;
    this.#size += chunk.length;
    if (this.#size > this.#limits.maxBytes) this.#fail(this.#tooLarge());
    else if (!this.#limits.take(chunk.length)) this.#fail(this.#noRoom());
    else this.#chunks.push(chunk);
    return true;
  }

  onComplete(): void {
    if (!this.#over) this.#succeed(Buffer.concat(this.#chunks), undefined);
  }

  onError(cause: unknown): void {
    this.#fail(networkFailure(this.#host, cause));
  }

  get #host(): string {
    return this.#step.url.host;
  }

  #judgeHead(): void {
    if (isEncoded(this.#headers)) {
      this.#fail(fetchFailed(this.#host, 'it sends compressed bytes where plain ones were asked for'));
      return;
    }
    const announced = Number(headerValue(this.#headers, 'content-length') ?? 0);
    if (announced > this.#limits.maxBytes && this.#step.method !== 'HEAD') {
      this.#fail(this.#tooLarge());
      return;
    }
    try {
      this.#limits.accept?.(this.#status, this.#headers);
    } catch (error) {
      this.#fail(
        GatewayError.is(error) ? error : fetchFailed(this.#host, 'its answer was not accepted', error),
      );
    }
  }

  #tooLarge(): GatewayError {
    return fetchFailed(this.#host, `it is larger than ${this.#limits.maxBytes} bytes`);
  }

  #noRoom(): GatewayError {
    return fetchFailed(this.#host, 'the gateway holds as many fetched bytes as it may; try again shortly');
  }

  #succeed(body: Buffer, location: string | undefined): void {
    this.#close();
    this.#resolve({ status: this.#status, headers: this.#headers, body, location });
  }

  #fail(error: GatewayError): void {
    if (this.#over) return;
    this.#close();
    this.#reject(error);
  }

  #close(): void {
    // First, because closing the connection makes undici report an end.
    this.#over = true;
    this.#chunks = [];
    this.#connection.call = null;
    this.#connection.destroy();
  }
}
