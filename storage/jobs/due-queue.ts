/** What waits for its time. */
export interface Due {
  /** Milliseconds since the epoch. */
  readonly due: number;
}

/** Entries by their time; of the same time, the one added first comes first. Adding and taking cost O(log n). */
export class DueQueue<T extends Due> {
  private readonly heap: { readonly entry: T; readonly number: number }[] = [];
  private added = 0;

  /** Entries that wait. */
  get size(): number {
    return this.heap.length;
  }

  /** When the first one is due; undefined when none waits. */
  get firstDue(): number | undefined {
    return this.heap[0]?.entry.due;
  }

  add(entry: T): void {
    const { heap } = this;
    heap.push({ entry, number: this.added++ });
    let at = heap.length - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!this.before(at, parent)) return;
      this.swap(at, parent);
      at = parent;
    }
  }

  /** Takes the first one out. */
  take(): T | undefined {
    const { heap } = this;
    const first = heap[0];
    const last = heap.pop();
    if (first === undefined || last === undefined || heap.length === 0) return first?.entry;
    heap[0] = last;
    let at = 0;
    for (;;) {
      const left = 2 * at + 1;
      const right = left + 1;
      let least = at;
      if (left < heap.length && this.before(left, least)) least = left;
      if (right < heap.length && this.before(right, least)) least = right;
      if (least === at) return first.entry;
      this.swap(at, least);
      at = least;
    }
  }

  private before(a: number, b: number): boolean {
    const one = this.at(a);
    const other = this.at(b);
    return one.entry.due === other.entry.due ? one.number < other.number : one.entry.due < other.entry.due;
  }

  private swap(a: number, b: number): void {
    const kept = this.at(a);
    this.heap[a] = this.at(b);
    this.heap[b] = kept;
  }

  private at(index: number): { readonly entry: T; readonly number: number } {
    const item = this.heap[index];
    if (item === undefined) throw new RangeError(`there is no entry ${index}`);
    return item;
  }
}
