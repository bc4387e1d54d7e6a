import { countRows } from './segment.ts';

/** Rows on their way from memory to disk. */
export interface Chunk {
  readonly bytes: Buffer;
  readonly rows: number;
}

/** A chunk as it comes from memory. */
export interface TakenChunk extends Chunk {
  /** As they were counted when the rows were taken in. */
  readonly characters: number;
}

/**
 * Rows that are not on disk yet: those that came since the last flush, and the batch being flushed now. A flush
 * takes what was there when it began, so that it ends however fast new rows come.
 */
export class PendingLines {
  private arriving: string[] = [];
  private batch: string[] = [];
  private next = 0;

  /** The hot path: everything else about a row happens at the flush. */
  push(line: string): void {
    this.arriving.push(line);
  }

  /** Begins a flush, unless the last one is not done. */
  begin(): void {
    if (this.next < this.batch.length) return;
    this.batch = this.arriving;
    this.arriving = [];
    this.next = 0;
  }

  /**
   * Encodes the next rows of the flush, about `maxCharacters` of them (one at least), or returns undefined at
   * its end. Encoding in stretches keeps the event loop free for requests.
   */
  take(maxCharacters: number): TakenChunk | undefined {
    const first = this.next;
    let characters = 0;
    while (this.next < this.batch.length) {
      const length = (this.batch[this.next] as string).length + 1;
      if (characters > 0 && characters + length > maxCharacters) break;
      characters += length;
      this.next += 1;
    }
    const rows = this.next - first;
    if (rows === 0) return undefined;
    const lines = this.batch.slice(first, this.next);
    if (this.next === this.batch.length) this.clear();
    lines.push('');
    return { bytes: Buffer.from(lines.join('\n'), 'utf8'), rows, characters };
  }

  /** Forgets everything and says what it was. */
  drain(): { rows: number; characters: number } {
    const left = [...this.batch.slice(this.next), ...this.arriving];
    this.clear();
    this.arriving = [];
    return { rows: left.length, characters: left.reduce((sum, line) => sum + line.length + 1, 0) };
  }

  private clear(): void {
    this.batch = [];
    this.next = 0;
  }
}

/** The first rows of a chunk that fit into `maxBytes`, and the rest; undefined for an empty part. */
export function divide(chunk: Chunk, maxBytes: number): { fits: Chunk | undefined; rest: Chunk | undefined } {
  if (chunk.bytes.length <= maxBytes) return { fits: chunk, rest: undefined };
  const end = maxBytes > 0 ? chunk.bytes.lastIndexOf(10, maxBytes - 1) + 1 : 0;
  if (end === 0) return { fits: undefined, rest: chunk };
  const bytes = chunk.bytes.subarray(0, end);
  const rows = countRows(bytes);
  const rest = chunk.bytes.subarray(end);
  return { fits: { bytes, rows }, rest: { bytes: rest, rows: chunk.rows - rows } };
}
