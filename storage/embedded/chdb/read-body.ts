import type { IncomingMessage } from 'node:http';
import { createGunzip } from 'node:zlib';
import { EngineError } from './engine-error.ts';

/** How much of request bodies may be in memory: in one body, and in all of them together (bytes). */
export interface BodyLimits {
  readonly maxBytes: number;
  readonly maxTotalBytes: number;
}

/** Reads request bodies, plain or gzip, within bounds that hold for the decoded bytes. */
export class BodyReader {
  readonly #limits: BodyLimits;
  #held = 0;

  constructor(limits: BodyLimits) {
    this.#limits = limits;
  }

  /** Reads the body and keeps its bytes counted until `use` has settled. Throws an `EngineError` over a bound. */
  async withBody<R>(request: IncomingMessage, use: (body: Buffer) => Promise<R>): Promise<R> {
    const chunks: Buffer[] = [];
    let size = 0;
    try {
      for await (const chunk of decoded(request)) {
        size += chunk.length;
        this.#held += chunk.length;
        this.#check(size);
        chunks.push(chunk);
      }
      return await use(Buffer.concat(chunks, size));
    } finally {
      this.#held -= size;
    }
  }

  /** Counts bytes that are read from elsewhere as a body of that size until `use` has settled. */
  async withRoom<R>(size: number, use: () => Promise<R>): Promise<R> {
    this.#held += size;
    try {
      this.#check(size);
      return await use();
    } finally {
      this.#held -= size;
    }
  }

  #check(size: number): void {
    if (size > this.#limits.maxBytes) {
      const message = `The request body is larger than ${this.#limits.maxBytes} bytes. Send less at once.`;
      throw new EngineError(229, 'QUERY_IS_TOO_LARGE', message);
    }
    if (this.#held > this.#limits.maxTotalBytes) {
      const message = 'Request bodies take all the memory set aside for them. Try again later.';
      throw new EngineError(202, 'TOO_MANY_SIMULTANEOUS_QUERIES', message);
    }
  }
}

function decoded(request: IncomingMessage): AsyncIterable<Buffer> {
  const encoding = request.headers['content-encoding'] ?? 'identity';
  if (encoding === 'identity') return request;
  if (encoding !== 'gzip') {
    const message = 'Only gzip is understood as content-encoding.';
    throw new EngineError(89, 'UNKNOWN_COMPRESSION_METHOD', message);
  }
  const plain = createGunzip();
  request.once('error', (error) => plain.destroy(error));
  return request.pipe(plain);
}
