/** The map is copied after this number of deletions, or its size if that is larger. */
const minDeletesPerRebuild = 256;

/**
 * A map of entries in flight: they come with a request or a connection, and go with it.
 *
 * When V8 replaces the table of a `Map` (each time its slots have been used up), the old table keeps referring to the
 * new one and to its former contents. Once one table is in the old generation, all its successors are kept alive with
 * it, and each scavenge copies them there, until the next full collection: on a busy gateway nearly every request.
 * Copying the map from time to time begins a new chain, which dies young.
 */
export class PassingMap<Key, Value> {
  #entries = new Map<Key, Value>();
  #left = 0;

  get size(): number {
    return this.#entries.size;
  }

  get(key: Key): Value | undefined {
    return this.#entries.get(key);
  }

  has(key: Key): boolean {
    return this.#entries.has(key);
  }

  set(key: Key, value: Value): void {
    this.#entries.set(key, value);
  }

  /** False when the key was absent. */
  delete(key: Key): boolean {
    if (!this.#entries.delete(key)) return false;
    if (++this.#left > minDeletesPerRebuild && this.#left > this.#entries.size) {
      this.#entries = new Map(this.#entries);
      this.#left = 0;
    }
    return true;
  }

  /** Snapshot of the keys; later changes do not affect it. */
  keys(): Key[] {
    return [...this.#entries.keys()];
  }

  /** Snapshot of the values. */
  values(): Value[] {
    return [...this.#entries.values()];
  }
}

/** A map of bounded size: evicts the least recently touched entry. */
export class RecentMap<Value, Key = string> {
  readonly #maxEntries: number;
  readonly #entries = new Map<Key, Value>();
  readonly #evicted: ((value: Value) => void) | undefined;

  /** `evicted` is called with each value that had to make room. */
  constructor(maxEntries: number, evicted?: (value: Value) => void) {
    this.#maxEntries = maxEntries;
    this.#evicted = evicted;
  }

  get size(): number {
    return this.#entries.size;
  }

  /** The value, without touching it. */
  get(key: Key): Value | undefined {
    return this.#entries.get(key);
  }

  /** The value, marked as the most recent. */
  touch(key: Key): Value | undefined {
    const value = this.#entries.get(key);
    if (value === undefined) return undefined;
    // A map keeps the order of insertion.
    this.#entries.delete(key);
    this.#entries.set(key, value);
    return value;
  }

  /** Adds a value as the most recent one, or replaces it in place. */
  set(key: Key, value: Value): void {
    this.#entries.set(key, value);
    if (this.#entries.size <= this.#maxEntries) return;
    const oldest = this.#entries.entries().next();
    if (oldest.done === true) return;
    const [first, evicted] = oldest.value;
    this.#entries.delete(first);
    this.#evicted?.(evicted);
  }

  delete(key: Key): void {
    this.#entries.delete(key);
  }

  clear(): void {
    this.#entries.clear();
  }

  /** Oldest first. */
  entries(): Iterable<[Key, Value]> {
    return this.#entries.entries();
  }
}
