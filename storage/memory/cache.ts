import type { Cache, CachedValue } from '../../core/ports/cache.ts';
import type { Clock } from '../../core/ports/clock.ts';
import { EntryTable, type KeyOwner } from './entry-table.ts';

/** Largest single allocation. */
const largestSegment = 1024 * 1024;
/** Fewest segments of a nursery, so that little memory waits for the last value of one. */
const minSegments = 64;
/** Upper bound of spare segments; more are freed. */
const maxFree = 2;
/** Longest value as a fraction (1/8) of a segment: a longer one would leave too much of the previous segment unused. */
const longestPart = 8;

interface Segment {
  readonly bytes: Uint8Array;
  /** Start of the free part. */
  used: number;
  /** Live values in it. */
  held: number;
}

/** Position of an entry outside the nursery. */
export const nowhere = -1;

/**
 * Memory for short values with their keys, most of which are evicted without a hit, in order of insertion. They share
 * segments, and a segment is reused once it holds no live value: values cost no allocation and no work of the garbage
 * collector, which would otherwise mark the whole heap for each 64 MB of new values (a limit of V8 without a flag).
 */
export class ValueNursery {
  readonly #segmentBytes: number;
  readonly #maxSegments: number;
  /** By number; freed segments leave a gap. */
  readonly #segments: (Segment | undefined)[] = [];
  #count = 0;
  readonly #free: number[] = [];
  readonly #gaps: number[] = [];
  #current = nowhere;

  /** Takes at most `maxBytes` of memory. */
  constructor(maxBytes: number) {
    this.#segmentBytes = Math.min(largestSegment, Math.floor(maxBytes / minSegments));
    this.#maxSegments = this.#segmentBytes > 0 ? Math.floor(maxBytes / this.#segmentBytes) : 0;
  }

  /** Allocated memory in bytes. */
  get bytes(): number {
    return this.#count * this.#segmentBytes;
  }

  /** Stores a copy; its position is valid until it is dropped. `nowhere` when it is too long, or there is no room. */
  put(key: string, value: Uint8Array): number {
    // An empty entry takes one byte, so that its position differs from the start of the next segment.
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

  /** True when the key at this position, of this length, is the given one. */
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

  /** A copy of the value at this position. */
  copy(place: number, keyLength: number, length: number): Uint8Array {
    const start = (place % this.#segmentBytes) + 2 * keyLength;
    return this.#segmentOf(place).bytes.slice(start, start + length);
  }

  /** Marks the value at this position as dropped. */
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

  /** Makes room for so many bytes in the current segment; false when there is none. */
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

/** Bounds of a cache in memory, in bytes. */
interface MemoryCacheOptions {
  readonly clock: Clock;
  /** All values with their keys; the least recently used are evicted first. */
  readonly maxBytes: number;
  /** Longer values are not stored. */
  readonly maxValueBytes: number;
}

/** A cache in this process; it answers at once. */
interface MemoryCache extends Cache {
  get(key: string): CachedValue | undefined;
  set(key: string, bytes: Uint8Array, ttlMs: number): void;
  delete(key: string): void;
  /** Bytes of all stored values, including expired ones that were not accessed since. */
  readonly bytes: number;
  /** Allocated memory in bytes: at most one and a half times the bound. */
  readonly taken: number;
}

/** A value outside the nursery. */
interface Owned {
  readonly key: string;
  readonly bytes: Uint8Array;
}

/**
 * Approximate overhead of an entry: its record and its share of a half-empty index, both of which may have just grown.
 */
const entryOverhead = 256;
/**
 * Upper bound of allocated memory, as a multiple of the bound: values without a hit share segments with the gaps of
 * moved or dropped ones.
 */
const maxTaken = 1.5;

/** A cache in the memory of this process: least recently used out first, bounded in bytes. */
export function createMemoryCache(options: MemoryCacheOptions): MemoryCache {
  return new LruCache(options);
}

class LruCache implements MemoryCache, KeyOwner {
  private readonly options: MemoryCacheOptions;
  private readonly entries: EntryTable;
  private readonly nursery: ValueNursery;
  /**
   * By entry: values with a hit, and values too long for the nursery. They have memory of their own, which is never
   * overwritten.
   */
  private readonly own: (Owned | undefined)[] = [undefined];
  private held = 0;
  /** Bytes of values outside the nursery, without the overhead of entries. */
  private apart = 0;

  constructor(options: MemoryCacheOptions) {
    this.options = options;
    this.entries = new EntryTable(this);
    this.nursery = new ValueNursery(options.maxBytes);
  }

  get bytes(): number {
    return this.held;
  }

  get taken(): number {
    const { count, bytes } = this.entries;
    return this.apart + Math.max(count * entryOverhead, bytes) + this.nursery.bytes;
  }

  get(key: string): CachedValue | undefined {
    const { entries } = this;
    const entry = entries.find(key);
    if (entry === 0) return undefined;
    const expiresAt = entries.expiresAt(entry);
    if (expiresAt <= this.options.clock.now()) {
      this.remove(entry);
      return undefined;
    }
    entries.touch(entry);
    const storedAt = entries.storedAt(entry);
    const { bytes } = this.own[entry] ?? this.moveOut(entry, key);
    return { bytes, storedAt, expiresAt };
  }

  set(key: string, bytes: Uint8Array, ttlMs: number): void {
    this.delete(key);
    const { clock, maxBytes, maxValueBytes } = this.options;
    const { length } = bytes;
    const size = sizeOf(key.length, length);
    if (!(ttlMs > 0) || length > maxValueBytes || size > maxBytes) return;
    const storedAt = clock.now();
    const place = this.nursery.put(key, bytes);
    const entry = this.entries.add(key, length, place, storedAt, storedAt + ttlMs);
    this.held += size;
    // Entry numbers are consecutive: the list has no holes.
    if (entry === this.own.length) this.own.push(undefined);
    if (place === nowhere) this.keepApart(entry, key, new Uint8Array(bytes));
    this.makeRoom();
  }

  delete(key: string): void {
    const entry = this.entries.find(key);
    if (entry !== 0) this.remove(entry);
  }

  isKey(entry: number, key: string): boolean {
    const { entries } = this;
    const place = entries.place(entry);
    if (place === nowhere) return this.own[entry]?.key === key;
    return this.nursery.isKey(place, entries.keyLength(entry), key);
  }

  /** A value leaves the nursery at its first hit; there it would block the reuse of its segment. */
  private moveOut(entry: number, key: string): Owned {
    const { entries, nursery } = this;
    const place = entries.place(entry);
    const bytes = nursery.copy(place, key.length, entries.length(entry));
    nursery.drop(place);
    entries.setPlace(entry, nowhere);
    const owned = this.keepApart(entry, key, bytes);
    this.makeRoom();
    return owned;
  }

  private keepApart(entry: number, key: string, bytes: Uint8Array): Owned {
    const owned = { key, bytes };
    this.own[entry] = owned;
    this.apart += bytesOf(key.length, bytes.length);
    return owned;
  }

  private makeRoom(): void {
    const { maxBytes } = this.options;
    while (this.held > maxBytes || this.taken > maxTaken * maxBytes) {
      const { oldest } = this.entries;
      if (oldest === 0) return;
      this.remove(oldest);
    }
  }

  private remove(entry: number): void {
    const { entries } = this;
    const place = entries.place(entry);
    const keyLength = entries.keyLength(entry);
    const length = entries.length(entry);
    entries.remove(entry);
    this.held -= sizeOf(keyLength, length);
    if (place !== nowhere) return this.nursery.drop(place);
    this.own[entry] = undefined;
    this.apart -= bytesOf(keyLength, length);
  }
}

/** Counted size of an entry. */
function sizeOf(keyLength: number, length: number): number {
  return bytesOf(keyLength, length) + entryOverhead;
}

function bytesOf(keyLength: number, length: number): number {
  return 2 * keyLength + length;
}
