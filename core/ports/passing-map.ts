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
