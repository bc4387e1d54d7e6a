import type { Duplex, Readable } from 'node:stream';
import type { GatewayError } from '../errors/gateway-error.ts';
import type { HeaderList } from './header-list.ts';

export interface UpstreamRequest {
  /** Scheme, host and port: `https://api.openai.com`. */
  readonly origin: string;
  /** A caller named the host: the transport connects to public addresses only, else `address_refused`. */
  readonly guarded?: boolean;
  readonly method: string;
  /** Path and query, as they go on the wire. */
  readonly path: string;
  readonly headers: HeaderList;
  /** Bytes can be retried, a stream cannot. Null for no body. */
  readonly body: Uint8Array | Readable | null;
  /** Milliseconds until the connection is established. */
  readonly connectTimeoutMs: number;
  /** Milliseconds until the head of the answer arrives; 0 for no bound. */
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
  /** The connection was reused and this request received no byte: the pooled connection may be stale. */
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
  /** Asks the provider to switch to WebSocket, on a connection of its own. Absent: no support for WebSockets. */
  upgrade?(request: UpstreamRequest): UpgradeCall;
  close(): Promise<void>;
}

/** A provider's answer to a request with `Upgrade`. */
export type UpgradeAnswer = SwitchedAnswer | DeclinedAnswer;

/** It switched (101). The receiver owns the connection, which still yields the bytes that arrived with the head. */
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
  /** From the name look-up to the last byte, redirects included. Milliseconds. */
  readonly timeoutMs: number;
  /** Upper bound of the answer; a longer one is aborted while it arrives. */
  readonly maxBytes: number;
  /** Redirects to follow, each checked like the first address. Default 3. */
  readonly maxRedirects?: number;
  /** Checks the head of the final answer before its body is read; throws to refuse it. */
  accept?(status: number, headers: HeaderList): void;
}

export interface GuardedAnswer {
  readonly status: number;
  readonly headers: HeaderList;
  readonly body: Buffer;
}

/**
 * Fetches a URL of a request or an API call: public addresses and `security.trusted_hosts` only, in every spelling,
 * checked again when it connects. Throws `address_refused` for any other address, and `fetch_failed` when no complete
 * answer arrives within the bounds; neither reveals the answer of an internal host.
 */
export interface GuardedFetch {
  fetch(request: GuardedRequest): { readonly answer: Promise<GuardedAnswer>; abort(): void };
}
