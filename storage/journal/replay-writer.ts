import type { Clock } from '../../core/ports/clock.ts';
import type { JournalTable } from '../../core/ports/journal.ts';
import type { SegmentFile, SegmentFolder } from './segment-folder.ts';
import { openFile, segmentNames } from './segment-name.ts';

/** Writes rows of one table into new sealed segments. */
export class ReplayWriter {
  private readonly folder: SegmentFolder;
  private readonly maxBytes: number;
  private readonly nextName: () => string;
  private open: { readonly base: string; readonly file: SegmentFile; bytes: number } | undefined;

  constructor(table: JournalTable, folder: SegmentFolder, clock: Clock, maxBytes: number) {
    this.folder = folder;
    this.maxBytes = maxBytes;
    this.nextName = segmentNames(table, clock.now());
  }

  /** Appends whole rows; a segment that would grow over its size is sealed before. */
  async write(rows: Uint8Array): Promise<void> {
    if (this.open !== undefined && this.open.bytes + rows.length > this.maxBytes) await this.seal();
    if (this.open === undefined) {
      const base = this.nextName();
      this.open = { base, file: await this.folder.create(base), bytes: 0 };
    }
    await this.open.file.write(rows, this.open.bytes);
    this.open.bytes += rows.length;
  }

  /** Makes what was written durable and ready to be shipped. */
  async seal(): Promise<void> {
    const { open } = this;
    if (open === undefined) return;
    await open.file.finish(open.bytes);
    await open.file.close();
    await this.folder.seal(open.base);
    this.open = undefined;
  }

  /** Takes back what is not sealed; for a replay that failed. */
  async discard(): Promise<void> {
    const { open } = this;
    this.open = undefined;
    if (open === undefined) return;
    await open.file.close().catch(() => undefined);
    await this.folder.remove(openFile(open.base)).catch(() => undefined);
  }
}
