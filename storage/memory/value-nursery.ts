/** What is taken from the system at once, at the most. */
const largestSegment = 1024 * 1024;
/** A nursery has room for at least as many segments, so that little of it waits for the last value of one. */
const leastSegments = 64;
/** Segments that are kept for the next values; more are given back. */
const maxFree = 2;
/** A longer value than this part of a segment would leave too much of the one before it unused. */
const longestPart = 8;

interface Segment {
  readonly bytes: Uint8Array;
  /** From here on it is free. */
  used: number;
  /** Values in it that are still wanted. */
  held: number;
}

/** Where a value stands. It is good for one `take` or `drop`. */
export interface Slot {
  readonly segment: Segment;
  readonly start: number;
  readonly length: number;
}

/**
 * Memory for short values most of which leave again without having been asked for, in the order in which they came.
 * They share segments, and a segment is written over once nothing in it is wanted any more: no value costs an
 * allocation, and none has to be found dead by the garbage collector, which would otherwise mark the whole heap each
 * time 64 MB of such values have come (a limit of V8's that no flag moves).
 */
export class ValueNursery {
  readonly #segmentBytes: number;
  readonly #maxSegments: number;
  readonly #free: Segment[] = [];
  #segments = 0;
  #current: Segment | undefined;

  /** It takes `maxBytes` of memory at the most. */
  constructor(maxBytes: number) {
    this.#segmentBytes = Math.min(largestSegment, Math.floor(maxBytes / leastSegments));
    this.#maxSegments = this.#segmentBytes > 0 ? Math.floor(maxBytes / this.#segmentBytes) : 0;
  }

  /** The memory that it takes now. */
  get bytes(): number {
    return this.#segments * this.#segmentBytes;
  }

  /** Keeps a copy. Undefined for a value that is too long, and when there is no room. */
  put(bytes: Uint8Array): Slot | undefined {
    const { length } = bytes;
    if (length > this.#segmentBytes / longestPart) return undefined;
    const segment = this.#withRoom(length);
    if (segment === undefined) return undefined;
    const start = segment.used;
    segment.bytes.set(bytes, start);
    segment.used += length;
    segment.held += 1;
    return { segment, start, length };
  }

  /** The value in memory of its own; the slot is over. */
  take(slot: Slot): Uint8Array {
    const { segment, start, length } = slot;
    const bytes = segment.bytes.slice(start, start + length);
    this.drop(slot);
    return bytes;
  }

  /** The value is not wanted any more; the slot is over. */
  drop({ segment }: Slot): void {
    segment.held -= 1;
    if (segment.held > 0) return;
    segment.used = 0;
    if (segment === this.#current) return;
    if (this.#free.length < maxFree) this.#free.push(segment);
    else this.#segments -= 1;
  }

  #withRoom(length: number): Segment | undefined {
    const current = this.#current;
    if (current !== undefined && current.used + length <= current.bytes.length) return current;
    const next = this.#free.pop() ?? this.#allocate();
    if (next !== undefined) this.#current = next;
    return next;
  }

  #allocate(): Segment | undefined {
    if (this.#segments === this.#maxSegments) return undefined;
    this.#segments += 1;
    return { bytes: new Uint8Array(this.#segmentBytes), used: 0, held: 0 };
  }
}
