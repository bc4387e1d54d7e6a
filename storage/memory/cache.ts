import type { Cache, CachedValue } from '../../core/ports/cache.ts';
import type { Clock } from '../../core/ports/clock.ts';

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
}

interface Entry extends CachedValue {
  readonly size: number;
}

/** What an entry takes beside its bytes, roughly. */
const entryOverhead = 256;

/** A cache in the memory of this process: least recently used out first, bounded in bytes. */
export function createMemoryCache(options: MemoryCacheOptions): MemoryCache {
  return new LruCache(options);
}

class LruCache implements MemoryCache {
  private readonly options: MemoryCacheOptions;
  /** A Map keeps the order of insertion: the first is the one used longest ago. */
  private readonly entries = new Map<string, Entry>();
  private held = 0;

  constructor(options: MemoryCacheOptions) {
    this.options = options;
  }

  get bytes(): number {
    return this.held;
  }

  get(key: string): CachedValue | undefined {
    const entry = this.entries.get(key);
    if (entry === undefined) return undefined;
    this.entries.delete(key);
    if (entry.expiresAt <= this.options.clock.now()) {
      this.held -= entry.size;
      return undefined;
    }
    this.entries.set(key, entry);
    return entry;
  }

  set(key: string, bytes: Uint8Array, ttlMs: number): void {
    this.delete(key);
    const { clock, maxBytes, maxValueBytes } = this.options;
    const size = bytes.length + 2 * key.length + entryOverhead;
    if (!(ttlMs > 0) || bytes.length > maxValueBytes || size > maxBytes) return;
    const storedAt = clock.now();
    this.entries.set(key, { bytes: new Uint8Array(bytes), storedAt, expiresAt: storedAt + ttlMs, size });
    this.held += size;
    for (const oldest of this.entries.keys()) {
      if (this.held <= maxBytes) break;
      this.delete(oldest);
    }
  }

  delete(key: string): void {
    const entry = this.entries.get(key);
    if (entry === undefined) return;
    this.entries.delete(key);
    this.held -= entry.size;
  }
}
