/** A table is replaced after so many entries, or as many as it holds where those are more. */
const leastBetween = 256;

/**
 * A map of what is under way: entries come with a request and go with it.
 *
 * When V8 replaces the table of a `Map` (each time its places have been used up), the old table goes on referring to
 * the new one and to what it held itself. Once one of them has come into the old generation, all that follow are kept
 * alive with it, and are copied there by each scavenge, until the next full collection: on a busy gateway nearly every
 * request. A copy of the map now and then begins a new chain, which dies young.
 */
export class PassingMap<Key, Value> {
  #entries = new Map<Key, Value>();
  #added = 0;

  get size(): number {
    return this.#entries.size;
  }

  get(key: Key): Value | undefined {
    return this.#entries.get(key);
  }

  set(key: Key, value: Value): void {
    if (++this.#added > leastBetween && this.#added > this.#entries.size) {
      this.#entries = new Map(this.#entries);
      this.#added = 1;
    }
    this.#entries.set(key, value);
  }

  /** False when there was none. */
  delete(key: Key): boolean {
    return this.#entries.delete(key);
  }

  /** Those that are there now; what comes or goes meanwhile changes nothing about that. */
  values(): Value[] {
    return [...this.#entries.values()];
  }
}
