import type { PayloadReader, StreamPayload } from './stream-payload.ts';

/** Copies, as bytes from a socket are: a reader that mixes chunks up must not get away with shared memory. */
export function chunksAt(bytes: Uint8Array, cuts: readonly number[]): Buffer[] {
  const inside = cuts.map((cut) => Math.min(cut, bytes.length));
  const edges = [0, ...[...new Set(inside)].sort((a, b) => a - b), bytes.length];
  return edges.slice(1).map((edge, i) => Buffer.from(bytes.subarray(edges[i], edge)));
}

/** Every way to part the bytes in two, all of them singly, and as one. */
export function* everySplit(bytes: Uint8Array): Generator<Buffer[]> {
  yield [Buffer.from(bytes)];
  yield chunksAt(bytes, [...bytes.keys()]);
  for (let at = 0; at <= bytes.length; at++) yield chunksAt(bytes, [at]);
}

/** All that a reader gives for these chunks. */
export function readAll(reader: PayloadReader, chunks: readonly Uint8Array[]): StreamPayload[] {
  const payloads = chunks.flatMap((chunk) => [...reader.push(chunk)]);
  return [...payloads, ...reader.finish()];
}
