import { createHash } from 'node:crypto';
import type { Readable } from 'node:stream';

/** The most bytes of a request body that are kept; a longer one is counted and hashed, but not held. */
export const maxHeldBytes = 32 * 1024 * 1024;

/** A request body that has arrived. */
export interface ReceivedBody {
  /** The bytes, undefined when there were more than `maxHeldBytes`. */
  readonly held: Buffer | undefined;
  readonly size: number;
  /** SHA-256 of all bytes, in hex. */
  digest(): string;
}

/** Wraps a body that is already in memory. */
export function bodyFromBytes(bytes: Uint8Array): ReceivedBody {
  const held = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return { held, size: held.length, digest: () => createHash('sha256').update(held).digest('hex') };
}

/** Reads a stream to its end. Rejects when the stream fails or is destroyed before its end. */
export async function bodyFromStream(stream: Readable): Promise<ReceivedBody> {
  const hash = createHash('sha256');
  let chunks: Buffer[] = [];
  let size = 0;
  for await (const piece of stream as AsyncIterable<Uint8Array | string>) {
    const chunk = typeof piece === 'string' ? Buffer.from(piece) : Buffer.from(piece);
    size += chunk.length;
    hash.update(chunk);
    if (size <= maxHeldBytes) chunks.push(chunk);
    else chunks = [];
  }
  const digest = hash.digest('hex');
  return {
    held: size <= maxHeldBytes ? Buffer.concat(chunks) : undefined,
    size,
    digest: () => digest,
  };
}
