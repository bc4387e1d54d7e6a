/** A part of a list: `limit` entries (0 to 100; 0 only counts) behind the first `offset`. */
export interface Page {
  readonly offset: number;
  readonly limit: number;
}

export interface Paged<T> {
  /** Of the whole list. */
  readonly total: number;
  readonly data: readonly T[];
}
