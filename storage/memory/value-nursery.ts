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

/** The place of what has none in a nursery. */
export const nowhere = -1;

/**
 * Memory for short values, each with its key, most of which leave again without having been asked for, in the order in
 * which they came. They share segments, and a segment is written over once nothing in it is wanted any more: no value
 * costs an allocation, and none has to be found dead by the garbage collector, which would otherwise mark the whole heap
 * each time 64 MB of such values have come (a limit of V8's that no flag moves).
 */
export class ValueNursery {
  readonly #segmentBytes: number;
  readonly #maxSegments: number;
  /** By number; those that have been given back leave a gap. */
  readonly #segments: (Segment | undefined)[] = [];
  #count = 0;
  readonly #free: number[] = [];
  readonly #gaps: number[] = [];
  #current = nowhere;

  /** It takes `maxBytes` of memory at the most. */
  constructor(maxBytes: number) {
    this.#segmentBytes = Math.min(largestSegment, Math.floor(maxBytes / leastSegments));
    this.#maxSegments = this.#segmentBytes > 0 ? Math.floor(maxBytes / this.#segmentBytes) : 0;
  }

  /** The memory that it takes now. */
  get bytes(): number {
    return this.#count * this.#segmentBytes;
  }

  /** Keeps a copy; where it stands is good until it is dropped. `nowhere` when it is too long, or there is no room. */
  put(key: string, value: Uint8Array): number {
    // Nothing at all takes a byte, so that it does not stand where the next segment begins.
    const length = Math.max(1, 2 * key.length + value.length);
    if (length > this.#segmentBytes / longestPart || !this.#makeRoom(length)) return nowhere;
    const segment = this.#segments[this.#current] as Segment;
    const { bytes, used } = segment;
    for (let i = 0; i < key.length; i++) {
      const unit = key.charCodeAt(i);
      bytes[used + 2 * i] = unit;
      bytes[used + 2 * i + 1] = unit >> 8;
    }
    bytes.set(value, used + 2 * key.length);
    segment.used += length;
    segment.held += 1;
    return this.#current * this.#segmentBytes + used;
  }

  /** The key there, of which the length is known, is this one. */
  isKey(place: number, keyLength: number, key: string): boolean {
    if (key.length !== keyLength) return false;
    const { bytes } = this.#segmentOf(place);
    const start = place % this.#segmentBytes;
    for (let i = 0; i < keyLength; i++) {
      const unit = (bytes[start + 2 * i] as number) | ((bytes[start + 2 * i + 1] as number) << 8);
      if (unit !== key.charCodeAt(i)) return false;
    }
    return true;
  }

  /** The value there, in memory of its own. */
  copy(place: number, keyLength: number, length: number): Uint8Array {
    const start = (place % this.#segmentBytes) + 2 * keyLength;
    return this.#segmentOf(place).bytes.slice(start, start + length);
  }

  /** What stands there is not wanted any more. */
  drop(place: number): void {
    const number = Math.floor(place / this.#segmentBytes);
    const segment = this.#segments[number] as Segment;
    segment.held -= 1;
    if (segment.held > 0) return;
    segment.used = 0;
    if (number === this.#current) return;
    if (this.#free.length < maxFree) {
      this.#free.push(number);
      return;
    }
    this.#segments[number] = undefined;
    this.#gaps.push(number);
    this.#count -= 1;
  }

  #segmentOf(place: number): Segment {
    return this.#segments[Math.floor(place / this.#segmentBytes)] as Segment;
  }

  /** The current segment has room for so many bytes. False: none has. */
  #makeRoom(length: number): boolean {
    const current = this.#segments[this.#current];
    if (current !== undefined && current.used + length <= current.bytes.length) return true;
    const next = this.#free.pop() ?? this.#allocate();
    if (next === nowhere) return false;
    this.#current = next;
    return true;
  }

  #allocate(): number {
    if (this.#count === this.#maxSegments) return nowhere;
    const number = this.#gaps.pop() ?? this.#segments.length;
    this.#segments[number] = { bytes: new Uint8Array(this.#segmentBytes), used: 0, held: 0 };
    this.#count += 1;
    return number;
  }
}
