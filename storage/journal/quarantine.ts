import { readdir, rename, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '../../core/ports/clock.ts';
import { makeFolderDurably, syncFolder, writeDurably } from '../../core/base/durable-file.ts';
import type { Log } from '../../core/ports/log.ts';
import { sentenceOf } from './failure.ts';

const maxFiles = 10_000;

/**
 * The folder `quarantine/` in the journal: what could not be stored, one file each, for somebody to look at.
 * What is kept is durable before the segment that it stood in is removed. It is bounded; beyond the bound, or when the disk refuses, nothing more is kept, and the log says so once.
 */
export class Quarantine {
  private readonly folder: string;
  private readonly journal: string;
  private readonly maxBytes: number;
  private readonly clock: Clock;
  private readonly log: Log;
  private files = 0;
  private bytes = 0;
  private reported = false;

  constructor(options: { journal: string; maxBytes: number; clock: Clock; log: Log }) {
    this.journal = options.journal;
    this.folder = join(options.journal, 'quarantine');
    this.maxBytes = options.maxBytes;
    this.clock = options.clock;
    this.log = options.log;
  }

  /** Counts what is there already. */
  async prepare(): Promise<void> {
    await makeFolderDurably(this.folder);
    for (const file of await readdir(this.folder)) {
      this.files += 1;
      this.bytes += (await stat(join(this.folder, file))).size;
    }
  }

  /** Keeps one row that the store refused, with the reason. The same name twice is one file. */
  async keepRow(name: string, row: Uint8Array, reason: string): Promise<void> {
    const at = new Date(this.clock.now()).toISOString();
    const text = Buffer.from(row).toString('utf8').replace(/\n$/, '');
    await this.keep(`${name}.json`, Buffer.from(`${JSON.stringify({ name, at, reason, row: text })}\n`));
  }

  /** Keeps bytes as they are. */
  async keepBytes(name: string, bytes: Uint8Array): Promise<void> {
    await this.keep(name, bytes);
  }

  /** Moves a whole file of the journal here. */
  async keepFile(file: string, bytes: number): Promise<void> {
    await this.attempt(bytes, async () => {
      await rename(join(this.journal, file), join(this.folder, `${file}.damaged`));
      await syncFolder(this.folder);
    });
  }

  private keep(file: string, bytes: Uint8Array): Promise<void> {
    return this.attempt(bytes.length, () => writeDurably(join(this.folder, file), bytes));
  }

  private async attempt(bytes: number, save: () => Promise<void>): Promise<void> {
    if (this.files >= maxFiles || this.bytes + bytes > this.maxBytes) {
      return this.report(`it holds ${this.files} files, ${this.bytes} bytes`);
    }
    try {
      await save();
      this.files += 1;
      this.bytes += bytes;
    } catch (error) {
      this.report(sentenceOf(error));
    }
  }

  private report(reason: string): void {
    if (this.reported) return;
    this.reported = true;
    this.log.error(
      `journal: what cannot be stored is not kept any more in ${this.folder} (${reason}); look at what is there, then empty it and restart`,
    );
  }
}
