/** Bytes that are kept free for the end of the document. */
const endBytes = 32;

/** Writes one JSON object that stays within a bound: lists end early, and the object then says `truncated`. */
export class BoundedJson {
  private readonly members: string[] = [];
  private left: number;
  private truncated = false;

  /** `maxBytes` of UTF-8. */
  constructor(maxBytes: number) {
    this.left = maxBytes - endBytes;
  }

  /** Adds a member; one that finds no room is left out. */
  member(name: string, value: unknown): void {
    const text = `${JSON.stringify(name)}:${JSON.stringify(value)}`;
    if (this.takes(text)) this.members.push(text);
  }

  /** Adds a list, with as many of its first items as find room. */
  list(name: string, items: readonly unknown[]): void {
    const start = `${JSON.stringify(name)}:[]`;
    if (!this.takes(start)) return;
    const kept: string[] = [];
    for (const item of items) {
      const text = JSON.stringify(item);
      if (!this.takes(text)) break;
      kept.push(text);
    }
    this.members.push(`${start.slice(0, -1)}${kept.join(',')}]`);
  }

  /** The document. `truncated`: something had been left out before. */
  end(truncated: boolean): string {
    if (truncated || this.truncated) this.members.push('"truncated":true');
    return `{${this.members.join(',')}}`;
  }

  private takes(text: string): boolean {
    const bytes = Buffer.byteLength(text) + 1;
    if (bytes > this.left) {
      this.truncated = true;
      return false;
    }
    this.left -= bytes;
    return true;
  }
}
