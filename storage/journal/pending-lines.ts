import type { JournalLine } from '../../core/ports/journal.ts';
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

/** What is written at a time: far less than a millisecond of copying, and large enough for few writes. */
const slabBytes = 256 * 1024;
/** Slabs kept for the next rows: the one that is filled while another is written, and one more. */
const maxSpare = 2;
const newline = 10;

/** How much a row adds to the bounds of a journal: its UTF-16 units or bytes, and the line's end. */
export function sizeOf(line: JournalLine): number {
  if (typeof line === 'string') return line.length + 1;
  let size = 1;
  for (const part of line) size += part.length;
  return size;
}

/**
 * Rows that are not on disk yet: those that came since the last flush, and the batch being flushed now. A flush
 * takes what was there when it began, so that it ends however fast new rows come.
 *
 * Rows are encoded at once: a string that waited for the flush would be copied by every garbage collection until
 * then, and be cold when it is read at last.
 */
export class PendingLines {
  private slab: Buffer | undefined;
  private used = 0;
  private rows = 0;
  private characters = 0;
  private full: TakenChunk[] = [];
  private batch: TakenChunk[] = [];
  private next = 0;
  private readonly spare: Buffer[] = [];

  /** The hot path. `characters` is what `sizeOf` said. */
  push(line: JournalLine, characters: number): void {
    // A UTF-16 unit takes three bytes at the most.
    const slab = this.roomFor(characters * 3) ?? this.retire(line, characters);
    if (typeof line === 'string') this.write(slab, line);
    else for (const part of line) this.write(slab, part);
    slab[this.used++] = newline;
    this.rows += 1;
    this.characters += characters;
  }

  /** Begins a flush, unless the last one is not done. */
  begin(): void {
    if (this.next < this.batch.length) return;
    this.closeSlab();
    this.batch = this.full;
    this.full = [];
    this.next = 0;
  }

  /** The next rows of the flush, about 256 KiB (one row at least), or undefined at its end. */
  take(): TakenChunk | undefined {
    const chunk = this.batch[this.next];
    if (chunk !== undefined) this.next += 1;
    return chunk;
  }

  /** Gives back the memory of a chunk that nobody reads any more. */
  recycle({ bytes }: Chunk): void {
    const { buffer } = bytes;
    if (buffer.byteLength === slabBytes && this.spare.length < maxSpare) this.spare.push(Buffer.from(buffer));
  }

  /** Forgets everything and says what it was. */
  drain(): { rows: number; characters: number } {
    this.closeSlab();
    const left = [...this.batch.slice(this.next), ...this.full];
    this.batch = this.full = [];
    this.next = 0;
    const sum = (of: (chunk: TakenChunk) => number): number => left.reduce((all, one) => all + of(one), 0);
    return { rows: sum(({ rows }) => rows), characters: sum(({ characters }) => characters) };
  }

  private roomFor(bytes: number): Buffer | undefined {
    return this.slab !== undefined && this.used + bytes <= this.slab.length ? this.slab : undefined;
  }

  /** Ends the slab that is too full for a row and begins one in which the row has room. */
  private retire(line: JournalLine, characters: number): Buffer {
    this.closeSlab();
    const needed = characters * 3 <= slabBytes ? slabBytes : bytesOf(line) + 1;
    const slab = needed <= slabBytes ? (this.spare.pop() ?? Buffer.allocUnsafeSlow(slabBytes)) : undefined;
    return (this.slab = slab ?? Buffer.allocUnsafeSlow(needed));
  }

  private write(slab: Buffer, part: string | Uint8Array): void {
    if (typeof part === 'string') {
      this.used += slab.write(part, this.used);
    } else {
      slab.set(part, this.used);
      this.used += part.length;
    }
  }

  private closeSlab(): void {
    const { slab, used, rows, characters } = this;
    if (slab === undefined || rows === 0) return;
    this.full.push({ bytes: slab.subarray(0, used), rows, characters });
    this.slab = undefined;
    this.used = this.rows = this.characters = 0;
  }
}

function bytesOf(line: JournalLine): number {
  const length = (part: string | Uint8Array): number =>
    typeof part === 'string' ? Buffer.byteLength(part) : part.length;
  return typeof line === 'string' ? length(line) : line.reduce((sum, part) => sum + length(part), 0);
}

/** The first rows of a chunk that fit into `maxBytes`, and the rest; undefined for an empty part. */
export function divide(chunk: Chunk, maxBytes: number): { fits: Chunk | undefined; rest: Chunk | undefined } {
  if (chunk.bytes.length <= maxBytes) return { fits: chunk, rest: undefined };
  const end = maxBytes > 0 ? chunk.bytes.lastIndexOf(newline, maxBytes - 1) + 1 : 0;
  if (end === 0) return { fits: undefined, rest: chunk };
  const bytes = chunk.bytes.subarray(0, end);
  const rows = countRows(bytes);
  const rest = chunk.bytes.subarray(end);
  return { fits: { bytes, rows }, rest: { bytes: rest, rows: chunk.rows - rows } };
}
