import type { PayloadReader, StreamPayload } from './stream-payload.ts';

/** Copies, like bytes from a socket: a reader that mixes up chunks must not pass because of shared memory. */
export function chunksAt(bytes: Uint8Array, cuts: readonly number[]): Buffer[] {
  const inside = cuts.map((cut) => Math.min(cut, bytes.length));
  const edges = [0, ...[...new Set(inside)].sort((a, b) => a - b), bytes.length];
  return edges.slice(1).map((edge, i) => Buffer.from(bytes.subarray(edges[i], edge)));
}

/** Every split of the bytes in two, all bytes singly, and one chunk. */
export function* everySplit(bytes: Uint8Array): Generator<Buffer[]> {
  yield [Buffer.from(bytes)];
  yield chunksAt(bytes, [...bytes.keys()]);
  for (let at = 0; at <= bytes.length; at++) yield chunksAt(bytes, [at]);
}

/** All payloads of a reader for these chunks. */
export function readAll(reader: PayloadReader, chunks: readonly Uint8Array[]): StreamPayload[] {
  const payloads = chunks.flatMap((chunk) => [...reader.push(chunk)]);
  return [...payloads, ...reader.finish()];
}
