import { copyFile, type FileHandle, mkdir, open, rename } from 'node:fs/promises';
import path from 'node:path';
import type { Log } from '../ports/log.ts';
import { syncFolder } from './durable-file.ts';

/** Grown by so much, and to twice of what it needs, the file is written anew. */
const slackBytes = 1_048_576;

/** Options of `RecordFile`. */
interface RecordFileOptions<R> {
  /** Made when it is missing. */
  readonly directory: string;
  /** Of the file within it: `jobs.jsonl`. */
  readonly name: string;
  readonly log: Log;
  /** The record that a line holds; undefined for a line that is damaged. */
  read(line: string): R | undefined;
  /** Everything that is to be kept, when the file is written anew. */
  snapshot(): Iterable<R>;
}

/**
 * Records on disk, in one file that is appended to and now and then written anew. What `append` has resolved for
 * survives a kill. One process at a time.
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
   * What is stored, in order. A last line that was cut off is left out: nobody was told that it is stored. Of a file
   * damaged elsewhere a copy is kept, and the log says how much could not be read.
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

  /** Resolves when the record is on disk, together with others of the moment. Rejects when the disk refuses it. */
  append(record: R): Promise<void> {
    this.pending.push(`${JSON.stringify(record)}\n`);
    this.queued ??= this.enqueue();
    return this.queued;
  }

  /** Writes the file anew, from the snapshot alone. */
  rewrite(): Promise<void> {
    const done = this.tail.then(() => this.replace());
    this.tail = done.catch(() => undefined);
    return done;
  }

  /** Ends what is under way and closes the file. */
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
    // The snapshot holds what these records say. After a failure nobody knows where the file ends.
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
