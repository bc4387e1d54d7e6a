/** Enough for the first event of a stream, behind which it may stay silent for long. */
const firstBytes = 512;
/** One that goes on grows to this at once. */
const secondBytes = 4096;

/**
 * A bounded copy of what flows by, in one buffer that doubles. A list of the chunks themselves would keep thousands of
 * small buffers alive over several collections of the young generation, which costs more than copying them.
 */
export class GrowingBytes {
  private readonly maxBytes: number;
  private store: Buffer | undefined;
  private length = 0;

  /** `maxBytes`: what is beyond it is left out. */
  constructor(maxBytes: number) {
    this.maxBytes = maxBytes;
  }

  /** What was appended so far; undefined for nothing. */
  get bytes(): Buffer | undefined {
    return this.length === 0 ? undefined : this.store?.subarray(0, this.length);
  }

  /** False when the chunk did not fit whole. */
  append(chunk: Buffer): boolean {
    const taken = Math.min(this.maxBytes - this.length, chunk.length);
    if (taken <= 0) return chunk.length === 0;
    const needed = this.length + taken;
    if (this.store === undefined || needed > this.store.length) this.grow(needed);
    (this.store as Buffer).set(taken === chunk.length ? chunk : chunk.subarray(0, taken), this.length);
    this.length = needed;
    return taken === chunk.length;
  }

  private grow(needed: number): void {
    const wanted =
      this.store === undefined
        ? Math.max(needed, firstBytes)
        : Math.max(needed, secondBytes, this.store.length * 2);
    const grown = Buffer.allocUnsafeSlow(Math.min(wanted, this.maxBytes));
    this.store?.copy(grown, 0, 0, this.length);
    this.store = grown;
  }
}
