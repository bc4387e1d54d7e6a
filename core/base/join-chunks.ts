/** Concatenates the chunks. A single chunk is not copied. */
export function joinChunks(chunks: readonly Buffer[]): Buffer {
  return chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks);
}
