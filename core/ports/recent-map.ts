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
}
