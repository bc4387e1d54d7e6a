import type { KeyRecord } from './directory.ts';
import type { HeaderList } from './header-list.ts';

/** A request that the gateway sends to itself on behalf of a caller. */
export interface OwnRequest {
  /** Below the base path: `/chat/completions`. */
  readonly path: string;
  /** Flat, without credentials. */
  readonly headers: HeaderList;
  /** JSON. */
  readonly body: Buffer;
  /** Key that the usage is charged to. Undefined: no key. */
  readonly caller: KeyRecord | undefined;
  /** Upper bound of the answer; a longer one is aborted while it arrives. */
  readonly maxBytes: number;
}

/** Answer to an own request. */
interface OwnAnswer {
  readonly status: number;
  readonly body: Buffer;
}

/**
 * Requests within this process that take the normal path: its pipeline counts, caches and logs each of them as a request
 * of its own. No guardrail judges them, so that a guardrail may send one.
 */
export interface OwnRequests {
  /** `answer` rejects when the answer is incomplete: aborted, too long, or its provider failed on the way. */
  send(request: OwnRequest): { readonly answer: Promise<OwnAnswer>; abort(): void };
}
