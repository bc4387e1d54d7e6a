const firstRows = 200;

/** How many rows the next page asks for: as many as fit, going by the last one. */
export class PageSize {
  readonly #most: number;
  readonly #wantedBytes: number;
  #rows = firstRows;

  /** Bodies may be long, and how long the next ones are is not known. `wantedBytes`: of the texts of a page. */
  constructor(withBodies: boolean, wantedBytes: number) {
    this.#wantedBytes = wantedBytes;
    this.#most = withBodies ? 500 : 2000;
    this.#rows = Math.min(firstRows, this.#most);
  }

  get rows(): number {
    return this.#rows;
  }

  /** At most twice as many as before, for rows are not all alike. */
  learn(rows: number, bytes: number): void {
    if (rows === 0) return;
    const fitting = Math.floor((this.#wantedBytes * rows) / Math.max(1, bytes));
    this.#rows = Math.max(1, Math.min(this.#most, this.#rows * 2, fitting));
  }

  /** After a page that the store could not make. */
  halve(): void {
    this.#rows = Math.max(1, Math.floor(this.#rows / 2));
  }
}
