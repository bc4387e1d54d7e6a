import type { Duplex, Readable } from 'node:stream';
import type { GatewayError } from '../errors/gateway-error.ts';
import type { HeaderList } from './header-list.ts';

export interface UpstreamRequest {
  /** Scheme, host and port: `https://api.openai.com`. */
  readonly origin: string;
  /** A caller named the host: it is connected to only at public addresses, else `address_refused`. */
  readonly guarded?: boolean;
  readonly method: string;
  /** Path and query, as they go on the wire. */
  readonly path: string;
  readonly headers: HeaderList;
  /** Bytes can be sent again, a stream cannot. Null for no body. */
  readonly body: Uint8Array | Readable | null;
  /** Milliseconds until the connection stands. */
  readonly connectTimeoutMs: number;
  /** Milliseconds until the head of the answer has come; 0 for no bound. */
  readonly headTimeoutMs: number;
  /** Milliseconds between two chunks of the answer; 0 for no bound. */
  readonly idleTimeoutMs: number;
}

/** Receives one answer. Exactly one of `end` and `fail` is called, once, and nothing after it. */
export interface UpstreamHandler {
  head(status: number, headers: HeaderList): void;
  /** Return false to pause; call `resume` on the call when there is room. */
  data(chunk: Buffer): boolean;
  end(): void;
  /** `upstream_unreachable`, `upstream_reset`, `upstream_timeout`, `upstream_busy` or the reason of `abort`. */
  fail(error: GatewayError, facts: FailureFacts): void;
}

export interface FailureFacts {
  /** The connection had served an answer before, and this request got not one byte: it may be stale. */
  readonly stale: boolean;
}

export interface UpstreamCall {
  resume(): void;
  /** Ends the call and its connection; `fail` is called with this error unless the answer has ended. */
  abort(error: GatewayError): void;
}

/** Carries requests to providers. */
export interface Transport {
  send(request: UpstreamRequest, handler: UpstreamHandler): UpstreamCall;
  /** Asks the provider to switch to WebSocket, on a connection of its own. A transport without it has no such connections. */
  upgrade?(request: UpstreamRequest): UpgradeCall;
  close(): Promise<void>;
}

/** What a provider says to a request that wants to leave HTTP for another protocol. */
export type UpgradeAnswer = SwitchedAnswer | DeclinedAnswer;

/** It switched (101). The connection belongs to the receiver from now on; bytes that came with the head are still to be read from it. */
export interface SwitchedAnswer {
  readonly kind: 'switched';
  readonly headers: HeaderList;
  readonly connection: Duplex;
}

/** It answered in HTTP instead. */
interface DeclinedAnswer {
  readonly kind: 'declined';
  readonly status: number;
  readonly headers: HeaderList;
  readonly body: Buffer;
}

export interface UpgradeCall {
  /**
   * Rejects with `upstream_unreachable`, `upstream_reset`, `upstream_timeout`, `upstream_busy`, `upstream_too_large`
   * (an answer in HTTP of more than 1 MiB) or the reason of `abort`.
   */
  readonly answer: Promise<UpgradeAnswer>;
  /** Ends the call, or destroys the connection to which it switched. */
  abort(error: GatewayError): void;
}

/** One request to an address that a caller named. */
export interface GuardedRequest {
  /** `http` or `https`, without credentials. */
  readonly url: string;
  /** Default GET. */
  readonly method?: string;
  readonly headers?: HeaderList;
  readonly body?: Uint8Array;
  /** From the first step to the last byte, redirects included. Milliseconds. */
  readonly timeoutMs: number;
  /** A longer answer is given up while it comes. */
  readonly maxBytes: number;
  /** Redirects that are followed, each checked like the first address. Default 3. */
  readonly maxRedirects?: number;
  /** Looks at the head of the final answer before its body is read; throwing refuses it. */
  accept?(status: number, headers: HeaderList): void;
}

export interface GuardedAnswer {
  readonly status: number;
  readonly headers: HeaderList;
  readonly body: Buffer;
}

/**
 * Fetches what a request or an API call names: public addresses and `security.trusted_hosts` only, in every spelling,
 * checked again at the moment of connecting. Throws `address_refused` when the address is not one of those, and
 * `fetch_failed` when no whole answer comes within the bounds; neither tells what an internal host answered.
 */
export interface GuardedFetch {
  fetch(request: GuardedRequest): { readonly answer: Promise<GuardedAnswer>; abort(): void };
}
