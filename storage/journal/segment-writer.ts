import type { Clock } from '../../core/ports/clock.ts';
import type { JournalLine, JournalSync, JournalTable } from '../../core/ports/journal.ts';
import type { Log } from '../../core/ports/log.ts';
import { BackOff, hasCode, sentenceOf } from './back-off.ts';
import type { Bounds } from './bounds.ts';
import { type Ledger, type Segment, segments } from './segment.ts';
import type { SegmentFile, SegmentFolder } from './segment-folder.ts';

/** Rows between memory and disk. */
interface Chunk {
  readonly bytes: Buffer;
  readonly rows: number;
}

/** A chunk taken from memory. */
interface TakenChunk extends Chunk {
  /** Count at the admission of the rows. */
  readonly characters: number;
}

/** Bytes per write: far less than a millisecond of copying, and large enough for few writes. */
const slabBytes = 256 * 1024;
/** Spare slabs: one is filled while another is written, and one more. */
const maxSpare = 2;
const newline = 10;

/** Size of a row against the journal's bounds: its UTF-16 units or bytes, and the line break. */
export function sizeOf(line: JournalLine): number {
  if (typeof line === 'string') return line.length + 1;
  let size = 1;
  for (const part of line) size += part.length;
  return size;
}

/**
 * Rows that are not on disk yet: those since the last flush, and the batch of the running flush. A flush takes the rows
 * present at its start, so that it ends at any rate of new rows.
 *
 * Rows are encoded at once: every garbage collection until the flush would copy a waiting string, which would also be
 * cold in the cache by then.
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

  /** The hot path. `characters` is the result of `sizeOf`. */
  push(line: JournalLine, characters: number): void {
    // A UTF-16 unit takes at most three bytes.
    const slab = this.roomFor(characters * 3) ?? this.retire(line, characters);
    if (typeof line === 'string') this.write(slab, line);
    else for (const part of line) this.write(slab, part);
    slab[this.used++] = newline;
    this.rows += 1;
    this.characters += characters;
  }

  /** Starts a flush, unless one is running. */
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

  /** Reuses the memory of a chunk without readers. */
  recycle({ bytes }: Chunk): void {
    const { buffer } = bytes;
    if (buffer.byteLength === slabBytes && this.spare.length < maxSpare) this.spare.push(Buffer.from(buffer));
  }

  /** Discards all rows and returns their counts. */
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

  /** Retires a slab without room for a row and starts one that has it. */
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
function divide(chunk: Chunk, maxBytes: number): { fits: Chunk | undefined; rest: Chunk | undefined } {
  if (chunk.bytes.length <= maxBytes) return { fits: chunk, rest: undefined };
  const end = maxBytes > 0 ? chunk.bytes.lastIndexOf(newline, maxBytes - 1) + 1 : 0;
  if (end === 0) return { fits: undefined, rest: chunk };
  const bytes = chunk.bytes.subarray(0, end);
  const rows = segments.countRows(bytes);
  const rest = chunk.bytes.subarray(end);
  return { fits: { bytes, rows }, rest: { bytes: rest, rows: chunk.rows - rows } };
}

const firstRetryMs = 50;
const longestRetryMs = 5000;

/** Dependencies and settings of a writer. */
interface WriterParts {
  readonly table: JournalTable;
  readonly folder: SegmentFolder;
  readonly ledger: Ledger;
  readonly bounds: Bounds;
  readonly clock: Clock;
  readonly log: Log;
  readonly maxSegmentBytes: number;
  /** Policy for syncing rows. */
  readonly sync: JournalSync;
  /** With `interval`, the longest time until the sync. */
  readonly syncMs: number;
  /** Time in the names of this run's segments, milliseconds: later than that of any existing segment. */
  readonly start: number;
  /** Called after the first rows of a new segment. */
  onOpened(): void;
  onSealed(segment: Segment): void;
}

interface OpenSegment {
  readonly base: string;
  readonly file: SegmentFile;
  bytes: number;
  rows: number;
  closed: boolean;
  /** Bytes that survive a power cut. */
  durableBytes: number;
  /** True when the file's name survives a power cut. */
  isNamed: boolean;
}

/**
 * Writes the rows of one table to disk, in order, one write at a time. A failed write is retried without limit: the
 * rows wait in memory, within the bound.
 */
export class SegmentWriter {
  private readonly parts: WriterParts;
  private readonly lines = new PendingLines();
  private readonly nextName: () => string;
  private readonly backOff: BackOff;
  private tail: Promise<void> = Promise.resolve();
  private queuedFlush: Promise<void> | undefined;
  private chunk: Chunk | undefined;
  private open: OpenSegment | undefined;
  private abandoned = false;
  /** The next scheduled sync, and the running one, parallel to the writes. */
  private cancelSync: (() => void) | undefined;
  private syncing: Promise<void> | undefined;
  private syncFails = false;

  constructor(parts: WriterParts) {
    this.parts = parts;
    this.nextName = segments.names(parts.table, parts.start);
    this.backOff = new BackOff(parts.clock, firstRetryMs, longestRetryMs);
  }

  /** Admits a row, or sheds and counts it when there is no room. */
  append(line: JournalLine, owner = ''): void {
    const { bounds, ledger, table } = this.parts;
    const size = sizeOf(line);
    const reason = bounds.admit(size, table, owner);
    if (reason === undefined) {
      ledger.accept(1);
      this.lines.push(line, size);
    } else {
      ledger.refuse(reason);
    }
  }

  /** Resolves when earlier rows are on disk (or dropped by `abandon`). */
  flush(): Promise<void> {
    this.queuedFlush ??= this.enqueue(() => {
      this.queuedFlush = undefined;
      return this.write();
    });
    return this.queuedFlush;
  }

  /** Flushes, then ends the open segment, if any. */
  seal(): Promise<void> {
    return this.enqueue(async () => {
      await this.write();
      const done = await this.untilDone(() => this.sealOpen());
      if (!done) await this.leaveOpen();
    });
  }

  /** Ends retries: from now on, rows that the disk refuses are dropped. For closing. */
  abandon(): void {
    this.abandoned = true;
    this.backOff.interrupt();
  }

  private enqueue(work: () => Promise<void>): Promise<void> {
    this.tail = this.tail.then(work);
    return this.tail;
  }

  private async write(): Promise<void> {
    this.lines.begin();
    const done = await this.untilDone(async () => {
      for (;;) {
        if (this.chunk === undefined) {
          const taken = this.lines.take();
          if (taken === undefined) break;
          this.chunk = this.reserve(taken);
        }
        if (this.chunk !== undefined) await this.writeChunk(this.chunk);
      }
      if (this.parts.sync === 'each') await this.makeDurable();
    });
    if (!done) this.giveUp();
  }

  /** Retries a step until it succeeds; false when it failed after `abandon`. Never rejects. */
  private async untilDone(step: () => Promise<void>): Promise<boolean> {
    const { log, table } = this.parts;
    for (;;) {
      try {
        await step();
        if (this.backOff.failures > 0) log.info('journal: the disk takes rows again', { table });
        this.backOff.reset();
        return true;
      } catch (error) {
        if (this.backOff.failures === 0) {
          log.error(
            `journal: rows cannot be written to ${this.parts.folder.path} (${sentenceOf(error)}); they wait in memory, free the disk or repair it`,
            { table },
          );
        }
        if (this.abandoned) return false;
        await this.backOff.wait();
      }
    }
  }

  /** Reserves disk space for a chunk, once for all its attempts; rows without space are shed. */
  private reserve(chunk: TakenChunk): Chunk | undefined {
    const { bounds, ledger } = this.parts;
    const { fits, rest } = divide(chunk, bounds.free);
    // In this order, so that the room never appears larger for a moment.
    if (fits !== undefined) bounds.occupy(fits.bytes.length);
    bounds.flushed(chunk.characters);
    if (rest !== undefined) {
      bounds.report('disk');
      ledger.drop(rest.rows, 'disk');
    }
    return fits;
  }

  private async writeChunk(chunk: Chunk): Promise<void> {
    const { folder, maxSegmentBytes, onOpened } = this.parts;
    const size = chunk.bytes.length;
    if (this.open !== undefined && this.open.bytes + size > maxSegmentBytes) await this.sealOpen();
    if (this.open === undefined) {
      const base = this.nextName();
      const file = await folder.create(base);
      this.open = { base, file, bytes: 0, rows: 0, closed: false, durableBytes: 0, isNamed: false };
    }
    await this.open.file.write(chunk.bytes, this.open.bytes);
    const isFirst = this.open.rows === 0;
    this.open.bytes += size;
    this.open.rows += chunk.rows;
    this.chunk = undefined;
    this.lines.recycle(chunk);
    if (isFirst) onOpened();
    if (this.open.bytes >= maxSegmentBytes) await this.sealOpen();
    else if (this.parts.sync === 'interval') this.syncLater();
  }

  /** Syncs the written rows, unless they are synced already. */
  private async makeDurable(): Promise<void> {
    const { open } = this;
    if (open === undefined || open.closed || open.durableBytes === open.bytes) return;
    const { bytes } = open;
    await open.file.sync();
    if (!open.isNamed) await this.parts.folder.sync();
    open.isNamed = true;
    open.durableBytes = bytes;
  }

  /** Parallel to the writes, so that new rows do not wait in memory for the sync of a slow disk. */
  private syncLater(): void {
    if (this.cancelSync !== undefined || this.syncing !== undefined) return;
    const { clock, syncMs } = this.parts;
    this.cancelSync = clock.after(syncMs, () => {
      this.cancelSync = undefined;
      this.syncing = this.syncBeside().then(() => {
        this.syncing = undefined;
        if (this.open !== undefined && this.open.durableBytes < this.open.bytes) this.syncLater();
      });
    });
  }

  private async syncBeside(): Promise<void> {
    const { log, table, folder } = this.parts;
    try {
      await this.makeDurable();
      if (this.syncFails) log.info('journal: rows are durable again', { table });
      this.syncFails = false;
    } catch (error) {
      if (!this.syncFails) {
        log.error(
          `journal: rows were written to ${folder.path} and cannot be made durable (${sentenceOf(error)}); a power cut may lose them, repair the disk`,
          { table },
        );
      }
      this.syncFails = true;
    }
  }

  /** For the end of a segment, which syncs all of it. */
  private async endSync(): Promise<void> {
    this.cancelSync?.();
    this.cancelSync = undefined;
    await this.syncing;
  }

  private async sealOpen(): Promise<void> {
    const { open } = this;
    const { folder, onSealed } = this.parts;
    if (open === undefined) return;
    await this.endSync();
    if (!open.closed) {
      await open.file.finish(open.bytes);
      open.closed = true;
      await open.file.close();
    }
    if (open.rows === 0) {
      await folder.remove(segments.openFile(open.base));
      this.open = undefined;
      return;
    }
    try {
      await folder.seal(open.base);
    } catch (error) {
      if (!hasCode(error, 'ENOENT')) throw error;
      return this.loseOpen(open);
    }
    this.open = undefined;
    onSealed(segments.whole(open.base, open.bytes, open.rows));
  }

  /** The segment stays open; the next run finds it. */
  private async leaveOpen(): Promise<void> {
    const { open } = this;
    this.open = undefined;
    await this.endSync();
    if (open?.closed === false) await open.file.close().catch(() => undefined);
  }

  private loseOpen(open: OpenSegment): void {
    const { bounds, ledger, log, table } = this.parts;
    this.open = undefined;
    bounds.release(open.bytes);
    ledger.drop(open.rows, 'lost');
    log.error(
      `journal: segment ${open.base} was removed while it was being written, its rows are lost; keep other programs out of the data folder`,
      { table, rows: open.rows },
    );
  }

  private giveUp(): void {
    const { bounds, ledger, log, table } = this.parts;
    const left = this.lines.drain();
    const rows = left.rows + (this.chunk?.rows ?? 0);
    bounds.flushed(left.characters);
    if (this.chunk !== undefined) bounds.release(this.chunk.bytes.length);
    this.chunk = undefined;
    ledger.drop(rows, 'lost');
    if (rows > 0)
      log.error('journal: rows were lost, because the disk refused them until the end', { table, rows });
  }
}
