import type { Dispatcher } from 'undici';
import type { GatewayError } from '../../core/errors/gateway-error.ts';
import type { UpstreamCall } from '../../core/ports/transport.ts';
import type { AddressGuard } from '../addresses/address-guard.ts';
import { Connection, type SocketObserver } from '../transport/connection.ts';
import { wireHeaders, type FetchStep } from './fetch-step.ts';

/** What the hops of one gateway share. */
export interface HopSurroundings {
  readonly guard: AddressGuard;
  readonly observer: SocketObserver;
}

const pool = { connectionIdle: () => undefined, connectionGone: () => undefined };

/**
 * One request on a connection of its own, which ends with it: nothing that was checked is ever used for another host.
 * What becomes of the answer is for who extends it to say.
 */
export abstract class GuardedHop implements UpstreamCall, Dispatcher.DispatchHandler {
  protected readonly step: FetchStep;
  /** Nothing is heard of the request any more. */
  protected over = false;
  readonly #connection: Connection;

  constructor(step: FetchStep, { guard, observer }: HopSurroundings) {
    this.step = step;
    this.#connection = new Connection(step.url.origin, pool, observer, step.trusted ? undefined : guard);
    this.#connection.call = this;
  }

  /** Sends the request. */
  start(): void {
    const { url, method, headers, body } = this.step;
    const path = url.pathname + url.search;
    this.#connection.dispatch({ method, path, headers: wireHeaders(headers), body, reset: true }, this);
  }

  resume(): void {
    // Never paused: its bound is the size.
  }

  abort(error: GatewayError): void {
    this.fail(error);
  }

  onConnect(): void {
    this.#connection.requestStarts();
  }

  abstract onHeaders(status: number, rawHeaders: Buffer[]): boolean;
  abstract onData(chunk: Buffer): boolean;
  abstract onComplete(): void;
  abstract onError(cause: unknown): void;
  /** Ends it with this error, unless it is over. */
  protected abstract fail(error: GatewayError): void;

  protected get host(): string {
    return this.step.url.host;
  }

  /** Lets go of the connection. */
  protected close(): void {
    // First, because closing the connection makes undici report an end.
    this.over = true;
    this.#connection.call = null;
    this.#connection.destroy();
  }
}
