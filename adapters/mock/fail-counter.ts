const maxKeys = 256;

/**
 * Decides by counting, never by chance, which requests of a series fail: with a rate of 0.25 the 4th, 8th, 12th …
 * Keeps a count for the 256 series used last.
 */
export class FailCounter {
  readonly #counts = new Map<string, number>();

  /** True when the next request of the series `key` is one that fails. */
  next(key: string, rate: number): boolean {
    const count = this.#counts.get(key) ?? 0;
    this.#counts.delete(key);
    this.#counts.set(key, count + 1);
    if (this.#counts.size > maxKeys) {
      const oldest = this.#counts.keys().next();
      if (!oldest.done) this.#counts.delete(oldest.value);
    }
    return share(count + 1, rate) > share(count, rate);
  }
}

/** How many of `count` requests fail; the tiny addend keeps 10 × 0.1 from being less than 1. */
function share(count: number, rate: number): number {
  return Math.floor(count * rate + 1e-9);
}
