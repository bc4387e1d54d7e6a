import type { HeaderList } from '../../core/ports/header-list.ts';
import type { Faults } from './faults.ts';
import type { FileStore, JobStore, NewId } from './stores.ts';
import type { JsonObject } from './json-value.ts';
import { createHash } from 'node:crypto';
import type { Readable } from 'node:stream';

/** Upper bound of stored bytes of a request body; a longer one is counted and hashed, but not stored. */
const maxHeldBytes = 32 * 1024 * 1024;

/** A received request body. */
export interface ReceivedBody {
  /** The bytes, undefined when there are more than `maxHeldBytes`. */
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

/** State that the endpoints of one mock provider share. */
export interface MockContext {
  readonly newId: NewId;
  /** Wall clock in whole seconds since the epoch. */
  nowSeconds(): number;
  readonly files: FileStore;
  readonly jobs: JobStore;
}

/** One request in the form for endpoints. */
export interface MockRequest {
  readonly method: string;
  /** Raw path, without the query. */
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: HeaderList;
  readonly body: ReceivedBody;
  /** The JSON body; empty for endpoints that read none. */
  readonly json: JsonObject;
  /** The variable segments of the path, decoded, in order. */
  readonly params: readonly string[];
  readonly faults: Faults;
}

const secretName = /key|token|secret|password|credential|cookie|signature|(^|[-_.])auth/i;

/** True for the name of a header or query parameter that may carry a credential. */
export function carriesSecret(name: string): boolean {
  return secretName.test(name);
}

/** Headers by lower-case name, in order; values that may be credentials are `***`. */
export function maskedHeaders(headers: HeaderList): [string, string][] {
  const masked: [string, string][] = [];
  for (let i = 0; i + 1 < headers.length; i += 2) {
    const name = (headers[i] as string).toLowerCase();
    masked.push([name, carriesSecret(name) ? '***' : (headers[i + 1] as string)]);
  }
  return masked;
}
