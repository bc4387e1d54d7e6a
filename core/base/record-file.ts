import { copyFile, type FileHandle, mkdir, open, rename } from 'node:fs/promises';
import path from 'node:path';
import type { Log } from '../ports/log.ts';
import { syncFolder } from './durable-file.ts';

/** The file is rewritten once it exceeds twice its needed size plus this. */
const slackBytes = 1_048_576;

/** Options of `RecordFile`. */
interface RecordFileOptions<R> {
  /** Created when absent. */
  readonly directory: string;
  /** Name of the file within it: `jobs.jsonl`. */
  readonly name: string;
  readonly log: Log;
  /** Parses the record of a line; undefined for a damaged line. */
  read(line: string): R | undefined;
  /** All records to keep when the file is rewritten. */
  snapshot(): Iterable<R>;
}

/**
 * Records on disk, in one append-only file that is rewritten from time to time. Resolved `append` calls survive a kill.
 * One process at a time.
 */
export class RecordFile<R> {
  private readonly options: RecordFileOptions<R>;
  private readonly name: string;
  private handle: FileHandle | undefined;
  private bytes = 0;
  private kept = 0;
  private pending: string[] = [];
  private queued: Promise<void> | undefined;
  private tail: Promise<void> = Promise.resolve();

  constructor(options: RecordFileOptions<R>) {
    this.options = options;
    this.name = path.join(options.directory, options.name);
  }

  /**
   * The stored records, in order. Leaves out a truncated last line: its storage was never confirmed. Other damage makes
   * a copy of the file, and the log reports the extent.
   */
  async read(): Promise<readonly R[]> {
    await mkdir(this.options.directory, { recursive: true, mode: 0o700 });
    const text = await readText(this.name);
    const lines = text.split('\n');
    lines.pop();
    const records = lines.map((line) => this.options.read(line)).filter((record) => record !== undefined);
    const damaged = lines.length - records.length;
    if (damaged > 0) {
      await copyFile(this.name, `${this.name}.damaged`);
      this.options.log.error(
        `${damaged} of ${lines.length} lines of ${this.name} are damaged and were left out; a copy is kept beside it (.damaged)`,
      );
    }
    return records;
  }

  /** Resolves when the record is on disk, batched with concurrent ones. Rejects when the disk refuses it. */
  append(record: R): Promise<void> {
    this.pending.push(`${JSON.stringify(record)}\n`);
    this.queued ??= this.enqueue();
    return this.queued;
  }

  /** Rewrites the file from the snapshot. */
  rewrite(): Promise<void> {
    const done = this.tail.then(() => this.replace());
    this.tail = done.catch(() => undefined);
    return done;
  }

  /** Waits for pending writes and closes the file. */
  async close(): Promise<void> {
    await this.tail;
    await this.handle?.close();
    this.handle = undefined;
  }

  private enqueue(): Promise<void> {
    const done = this.tail.then(() => this.write());
    this.tail = done.catch(() => undefined);
    return done;
  }

  private async write(): Promise<void> {
    const { handle, pending } = this;
    this.pending = [];
    this.queued = undefined;
    // The snapshot contains these records. After a failure the end of the file is unknown.
    if (handle === undefined || this.bytes > 2 * this.kept + slackBytes) return this.replace();
    try {
      const text = pending.join('');
      await handle.appendFile(text);
      await handle.datasync();
      this.bytes += Buffer.byteLength(text);
    } catch (error) {
      this.handle = undefined;
      await handle.close().catch(() => undefined);
      throw error;
    }
  }

  private async replace(): Promise<void> {
    const temporary = `${this.name}.tmp`;
    const handle = await open(temporary, 'w', 0o600);
    let bytes = 0;
    try {
      let text = '';
      for (const record of this.options.snapshot()) {
        text += `${JSON.stringify(record)}\n`;
        if (text.length < slackBytes) continue;
        bytes += Buffer.byteLength(text);
        await handle.appendFile(text);
        text = '';
      }
      bytes += Buffer.byteLength(text);
      await handle.appendFile(text);
      await handle.sync();
      await rename(temporary, this.name);
      await syncFolder(this.options.directory);
    } catch (error) {
      await handle.close().catch(() => undefined);
      throw error;
    }
    await this.handle?.close().catch(() => undefined);
    this.handle = handle;
    this.bytes = bytes;
    this.kept = bytes;
  }
}

async function readText(name: string): Promise<string> {
  let handle: FileHandle;
  try {
    handle = await open(name, 'r');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return '';
    throw error;
  }
  try {
    return await handle.readFile('utf8');
  } finally {
    await handle.close();
  }
}
