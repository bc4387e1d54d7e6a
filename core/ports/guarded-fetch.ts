import type { HeaderList } from './header-list.ts';

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
