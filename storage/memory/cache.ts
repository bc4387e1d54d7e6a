import type { Cache, CachedValue } from '../../core/ports/cache.ts';
import type { Clock } from '../../core/ports/clock.ts';
import { ValueNursery, type Slot } from './value-nursery.ts';

/** Bounds of a cache in memory, in bytes. */
export interface MemoryCacheOptions {
  readonly clock: Clock;
  /** All values with their keys together; the ones used longest ago leave first. */
  readonly maxBytes: number;
  /** A longer value is not taken. */
  readonly maxValueBytes: number;
}

/** A cache in this process; it answers at once. */
export interface MemoryCache extends Cache {
  get(key: string): CachedValue | undefined;
  set(key: string, bytes: Uint8Array, ttlMs: number): void;
  delete(key: string): void;
  /** What the values held now take, expired ones that nobody has asked for included. */
  readonly bytes: number;
  /** Memory that is taken for them: half as much again as the bound at the most. */
  readonly taken: number;
}

interface Entry {
  readonly key: string;
  /** Where the value stands until it is asked for; then it has memory of its own, which nobody writes over. */
  value: Slot | Uint8Array;
  readonly storedAt: number;
  readonly expiresAt: number;
  readonly size: number;
  /** Neighbours by when they were used last. */
  newer: Entry | undefined;
  older: Entry | undefined;
}

/** What an entry takes beside its bytes, roughly. */
const entryOverhead = 256;
/** Memory that may be taken, as a multiple of the bound: among values that nobody has asked for yet are places of such as have moved or gone. */
const maxTaken = 1.5;

/** A cache in the memory of this process: least recently used out first, bounded in bytes. */
export function createMemoryCache(options: MemoryCacheOptions): MemoryCache {
  return new LruCache(options);
}

class LruCache implements MemoryCache {
  private readonly options: MemoryCacheOptions;
  private readonly entries = new Map<string, Entry>();
  private readonly nursery: ValueNursery;
  /**
   * The ends of the list. (A Map alone knows the order of insertion, too, but to find its first key it walks over all
   * places of keys that have left: with many small values that costs more than everything else.)
   */
  private newest: Entry | undefined;
  private oldest: Entry | undefined;
  private held = 0;
  /** Of that, what stands outside the nursery. */
  private apart = 0;

  constructor(options: MemoryCacheOptions) {
    this.options = options;
    this.nursery = new ValueNursery(options.maxBytes);
  }

  get bytes(): number {
    return this.held;
  }

  get taken(): number {
    return this.apart + this.nursery.bytes;
  }

  get(key: string): CachedValue | undefined {
    const entry = this.entries.get(key);
    if (entry === undefined) return undefined;
    if (entry.expiresAt <= this.options.clock.now()) {
      this.remove(entry);
      return undefined;
    }
    if (entry !== this.newest) {
      this.unlink(entry);
      this.link(entry);
    }
    let { value } = entry;
    if (!(value instanceof Uint8Array)) {
      entry.value = value = this.nursery.take(value);
      this.apart += value.length;
      this.makeRoom();
    }
    return { bytes: value, storedAt: entry.storedAt, expiresAt: entry.expiresAt };
  }

  set(key: string, bytes: Uint8Array, ttlMs: number): void {
    this.delete(key);
    const { clock, maxBytes, maxValueBytes } = this.options;
    const size = bytes.length + 2 * key.length + entryOverhead;
    if (!(ttlMs > 0) || bytes.length > maxValueBytes || size > maxBytes) return;
    const storedAt = clock.now();
    const value = this.nursery.put(bytes) ?? new Uint8Array(bytes);
    const entry: Entry = {
      key,
      value,
      storedAt,
      expiresAt: storedAt + ttlMs,
      size,
      newer: undefined,
      older: undefined,
    };
    this.entries.set(key, entry);
    this.link(entry);
    this.held += size;
    this.apart += apartOf(entry);
    this.makeRoom();
  }

  delete(key: string): void {
    const entry = this.entries.get(key);
    if (entry !== undefined) this.remove(entry);
  }

  private makeRoom(): void {
    const { maxBytes } = this.options;
    while (this.held > maxBytes || this.taken > maxTaken * maxBytes) {
      if (this.oldest === undefined) return;
      this.remove(this.oldest);
    }
  }

  private remove(entry: Entry): void {
    this.entries.delete(entry.key);
    this.unlink(entry);
    this.held -= entry.size;
    this.apart -= apartOf(entry);
    if (!(entry.value instanceof Uint8Array)) this.nursery.drop(entry.value);
  }

  private link(entry: Entry): void {
    entry.older = this.newest;
    if (this.newest === undefined) this.oldest = entry;
    else this.newest.newer = entry;
    this.newest = entry;
  }

  private unlink(entry: Entry): void {
    const { newer, older } = entry;
    if (newer === undefined) this.newest = older;
    else newer.older = older;
    if (older === undefined) this.oldest = newer;
    else older.newer = newer;
    entry.newer = entry.older = undefined;
  }
}

/** What an entry takes outside the nursery. */
function apartOf({ value, size }: Entry): number {
  return value instanceof Uint8Array ? size : size - value.length;
}
