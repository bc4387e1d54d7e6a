import { copyFile, type FileHandle, mkdir, open, rename } from 'node:fs/promises';
import path from 'node:path';
import { syncFolder } from '../../core/base/durable-file.ts';
import type { Log } from '../../core/ports/log.ts';

/** Grown by so much, and to twice of what it needs, the file is written anew. */
const slackBytes = 1_048_576;

/** What `JobFile` needs. */
interface JobFileOptions {
  /** Made when it is missing. */
  readonly directory: string;
  readonly log: Log;
  /** Everything that is to be kept, when the file is written anew. */
  snapshot(): Iterable<JobRecord>;
}

/**
 * Records on disk, in one file that is appended to and now and then written anew. What `append` has resolved for
 * survives a kill. One process at a time.
 */
export class JobFile {
  private readonly options: JobFileOptions;
  private readonly name: string;
  private handle: FileHandle | undefined;
  private bytes = 0;
  private kept = 0;
  private pending: string[] = [];
  private queued: Promise<void> | undefined;
  private tail: Promise<void> = Promise.resolve();

  constructor(options: JobFileOptions) {
    this.options = options;
    this.name = path.join(options.directory, 'jobs.jsonl');
  }

  /**
   * What is stored, in order. A last line that was cut off is left out: nobody was told that it is stored. Of a file
   * damaged elsewhere a copy is kept, and the log says how much could not be read.
   */
  async read(): Promise<readonly JobRecord[]> {
    await mkdir(this.options.directory, { recursive: true, mode: 0o700 });
    const text = await readText(this.name);
    const lines = text.split('\n');
    lines.pop();
    const records = lines.map(readRecord).filter((record) => record !== undefined);
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
  append(record: JobRecord): Promise<void> {
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

/** A job as it is stored. Times are milliseconds since the epoch. */
export interface StoredJob {
  /** What it is known by: `job:` and its id, or `repeat:` and its name. */
  readonly key: string;
  readonly name: string;
  /** For `JobRun.id`. */
  readonly id: string;
  /** JSON. */
  readonly data: string;
  /** When it begins at the earliest. */
  readonly due: number;
  /** Attempts that have failed. */
  readonly failed: number;
  /** For a repeated job: its period, and when this one was to begin. */
  readonly every?: { readonly ms: number; readonly slot: number };
}

/**
 * One line of the file: a job as it is now, or that there is none any more; `givenUp` when it failed for good, `done` when
 * its key is remembered until then (milliseconds since the epoch).
 */
export type JobRecord =
  | { readonly put: StoredJob }
  | { readonly done: string; readonly until: number }
  | { readonly drop: string }
  | { readonly givenUp: string; readonly name: string };

/** The record that a line holds; undefined for a line that is damaged. */
function readRecord(line: string): JobRecord | undefined {
  const value = parse(line);
  if (!isObject(value)) return undefined;
  const { put, drop, givenUp, name, done, until } = value;
  if (typeof drop === 'string') return { drop };
  if (typeof done === 'string' && typeof until === 'number') return { done, until };
  if (typeof givenUp === 'string' && typeof name === 'string') return { givenUp, name };
  return isStoredJob(put) && parse(put.data) !== undefined ? { put } : undefined;
}

/** Undefined for what is no JSON. */
function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function isStoredJob(value: unknown): value is StoredJob {
  if (!isObject(value)) return false;
  const { key, name, id, data, due, failed, every } = value;
  const texts = [key, name, id, data].every((text) => typeof text === 'string');
  const repeats = isObject(every) && Number.isFinite(every['ms']) && Number.isFinite(every['slot']);
  return texts && Number.isFinite(due) && Number.isInteger(failed) && (every === undefined || repeats);
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null;
}
