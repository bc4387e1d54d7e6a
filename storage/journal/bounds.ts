import type { Log } from '../../core/ports/log.ts';

/** The room of a journal. */
export interface Room {
  /** All segments together, on disk. */
  readonly maxBytes: number;
  /** Rows that are not on disk yet, in characters. */
  readonly maxUnflushed: number;
  /** One row, in characters. */
  readonly maxRow: number;
}

type Shortage = 'disk' | 'memory' | 'row';

/** What a journal holds, over all tables, against its bounds; tells the log once per shortage. */
export class Bounds {
  private room: Room;
  private closed = false;
  private readonly log: Log;
  private onDisk = 0;
  private unflushed = 0;
  private readonly reported = new Set<Shortage>();

  constructor(room: Room, log: Log) {
    this.room = room;
    this.log = log;
  }

  /** Takes one row of so many characters into memory, or says that there is no room. */
  admit(characters: number): boolean {
    const { room } = this;
    const unflushed = this.unflushed + characters;
    if (
      unflushed > room.maxUnflushed ||
      this.onDisk + unflushed > room.maxBytes ||
      characters > room.maxRow
    ) {
      this.explain(characters, unflushed);
      return false;
    }
    this.unflushed = unflushed;
    return true;
  }

  /** Bytes that may still be written. */
  get free(): number {
    return this.room.maxBytes - this.onDisk;
  }

  /** Admits nothing from now on; what was admitted keeps its room. */
  close(): void {
    this.closed = true;
    // No row is this short: closing costs the hot path nothing.
    this.room = { ...this.room, maxRow: -1 };
  }

  /** Rows that have left memory, for the disk or for good. */
  flushed(characters: number): void {
    this.unflushed -= characters;
    if (this.unflushed < this.room.maxUnflushed / 2) this.reported.delete('memory');
  }

  /** Bytes that are on disk now. */
  occupy(bytes: number): void {
    this.onDisk += bytes;
  }

  /** Bytes that have left the disk. */
  release(bytes: number): void {
    this.onDisk -= bytes;
    // Well below the bound, so that a journal that hovers at it does not fill the log.
    if (this.onDisk < this.room.maxBytes * 0.9) this.reported.delete('disk');
  }

  /** Says once that rows are shed because of this shortage. */
  report(shortage: Shortage): void {
    if (this.reported.has(shortage)) return;
    this.reported.add(shortage);
    this.log.error(sentence(shortage, this.room), { onDiskBytes: this.onDisk, unflushed: this.unflushed });
  }

  private explain(characters: number, unflushed: number): void {
    if (this.closed) return;
    if (characters > this.room.maxRow) this.report('row');
    else this.report(unflushed > this.room.maxUnflushed ? 'memory' : 'disk');
  }
}

function sentence(shortage: Shortage, room: Room): string {
  switch (shortage) {
    case 'disk':
      return `journal: the disk bound of ${room.maxBytes} bytes is reached, log rows are shed; bring the analytics store back or raise storage.journal.max_bytes`;
    case 'memory':
      return `journal: ${room.maxUnflushed} characters wait for the disk, log rows are shed; look for a full or slow disk under the data folder`;
    case 'row':
      return `journal: a log row is longer than ${room.maxRow} characters and is shed; log less of the bodies`;
  }
}
