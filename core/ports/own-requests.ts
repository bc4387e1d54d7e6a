import type { KeyRecord } from './directory.ts';
import type { HeaderList } from './header-list.ts';

/** A request that the gateway sends to itself, in the name of a caller. */
export interface OwnRequest {
  /** Below the base path: `/chat/completions`. */
  readonly path: string;
  /** Flat, without credentials. */
  readonly headers: HeaderList;
  /** JSON. */
  readonly body: Buffer;
  /** Whose it is: what it uses is theirs. Undefined for nobody's. */
  readonly caller: KeyRecord | undefined;
  /** A longer answer is given up while it comes. */
  readonly maxBytes: number;
}

/** What it was answered. */
interface OwnAnswer {
  readonly status: number;
  readonly body: Buffer;
}

/**
 * Requests within this process, on the way of all others: the pipeline of their path counts, caches and logs them, each as
 * a request of its own. Nothing judges them, so that what judges may send one.
 */
export interface OwnRequests {
  /** Rejects when the answer was broken off: it was aborted, is too long, or its provider failed while it came. */
  send(request: OwnRequest): { readonly answer: Promise<OwnAnswer>; abort(): void };
}
