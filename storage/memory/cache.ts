import type { Cache, CachedValue } from '../../core/ports/cache.ts';
import type { Clock } from '../../core/ports/clock.ts';
import { EntryTable, type KeyOwner } from './entry-table.ts';
import { nowhere, ValueNursery } from './value-nursery.ts';

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

/** A value outside the nursery. */
interface Owned {
  readonly key: string;
  readonly bytes: Uint8Array;
}

/** What an entry takes beside its bytes, roughly: its record, its share of an index that is half empty, both of which may have grown just now. */
const entryOverhead = 256;
/** Memory that may be taken, as a multiple of the bound: among values that nobody has asked for yet are places of such as have moved or gone. */
const maxTaken = 1.5;

/** A cache in the memory of this process: least recently used out first, bounded in bytes. */
export function createMemoryCache(options: MemoryCacheOptions): MemoryCache {
  return new LruCache(options);
}

class LruCache implements MemoryCache, KeyOwner {
  private readonly options: MemoryCacheOptions;
  private readonly entries: EntryTable;
  private readonly nursery: ValueNursery;
  /** By entry: values that were asked for, or were too long for the nursery. They have memory of their own, which nobody writes over. */
  private readonly own: (Owned | undefined)[] = [undefined];
  private held = 0;
  /** Of that, what stands outside the nursery, without the overhead of entries. */
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
    // Numbers come one after the other: the list has no holes.
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

  /** What was asked for once leaves the nursery, where it would keep its neighbours' memory from being used again. */
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

/** What an entry counts for. */
function sizeOf(keyLength: number, length: number): number {
  return bytesOf(keyLength, length) + entryOverhead;
}

function bytesOf(keyLength: number, length: number): number {
  return 2 * keyLength + length;
}
