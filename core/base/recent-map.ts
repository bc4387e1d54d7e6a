/** The map is copied after so many entries have left it, or as many as it holds where those are more. */
const leastBetween = 256;

/**
 * A map of what is under way: entries come with a request or a connection, and go with it.
 *
 * When V8 replaces the table of a `Map` (each time its places have been used up), the old table goes on referring to
 * the new one and to what it held itself. Once one of them has come into the old generation, all that follow are kept
 * alive with it, and are copied there by each scavenge, until the next full collection: on a busy gateway nearly every
 * request. A copy of the map now and then begins a new chain, which dies young.
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

  /** False when there was none. */
  delete(key: Key): boolean {
    if (!this.#entries.delete(key)) return false;
    if (++this.#left > leastBetween && this.#left > this.#entries.size) {
      this.#entries = new Map(this.#entries);
      this.#left = 0;
    }
    return true;
  }

  /** Those that are there now; what comes or goes meanwhile changes nothing about that. */
  keys(): Key[] {
    return [...this.#entries.keys()];
  }

  /** The same for what they lead to. */
  values(): Value[] {
    return [...this.#entries.values()];
  }
}

/** A map of bounded size: what was not touched for the longest time makes room. */
export class RecentMap<Value, Key = string> {
  readonly #maxEntries: number;
  readonly #entries = new Map<Key, Value>();

  constructor(maxEntries: number) {
    this.#maxEntries = maxEntries;
  }

  get size(): number {
    return this.#entries.size;
  }

  /** The value, without making it younger. */
  get(key: Key): Value | undefined {
    return this.#entries.get(key);
  }

  /** The value, which is then the youngest one. */
  touch(key: Key): Value | undefined {
    const value = this.#entries.get(key);
    if (value === undefined) return undefined;
    // A map keeps the order of insertion.
    this.#entries.delete(key);
    this.#entries.set(key, value);
    return value;
  }

  /** Adds a value as the youngest one, or replaces it where it stands. */
  set(key: Key, value: Value): void {
    this.#entries.set(key, value);
    if (this.#entries.size <= this.#maxEntries) return;
    const oldest = this.#entries.keys().next();
    if (oldest.done !== true) this.#entries.delete(oldest.value);
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
