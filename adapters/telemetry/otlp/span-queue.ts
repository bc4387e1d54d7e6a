const maxBytes = 33_554_432;

/** Spans that wait, as JSON: bounded in number, and to 32 MiB. */
export class SpanQueue {
  readonly #most: number;
  #spans: string[] = [];
  /** Where the oldest stands: taking from the front one by one would move all others. */
  #first = 0;
  #bytes = 0;

  constructor(most: number) {
    this.#most = most;
  }

  get size(): number {
    return this.#spans.length - this.#first;
  }

  /** False when there is no room. */
  push(span: string): boolean {
    if (this.size >= this.#most || this.#bytes + span.length > maxBytes) return false;
    this.#spans.push(span);
    this.#bytes += span.length;
    return true;
  }

  /** The oldest ones, up to that many and that many characters together; one at least. */
  take(most: number, mostBytes: number): string[] {
    let bytes = 0;
    let end = this.#first;
    while (end < this.#spans.length && end - this.#first < most) {
      const { length } = this.#spans[end] as string;
      if (end > this.#first && bytes + length > mostBytes) break;
      bytes += length;
      end++;
    }
    const taken = this.#spans.slice(this.#first, end);
    this.#first = end;
    this.#bytes -= bytes;
    if (this.#first * 2 >= this.#spans.length) {
      this.#spans = this.#spans.slice(this.#first);
      this.#first = 0;
    }
    return taken;
  }

  /** Forgets all of them; how many there were. */
  clear(): number {
    const { size } = this;
    this.#spans = [];
    this.#first = this.#bytes = 0;
    return size;
  }
}
