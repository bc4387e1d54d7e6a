import { copyFile, type FileHandle, link, open, readdir, rename, stat, unlink } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import type { StoredRows } from '../../core/ports/analytics.ts';
import { makeFolderDurably, syncFolder, writeDurably } from '../../core/base/durable-file.ts';
import { type Segment, segments } from './segment.ts';
import { hasCode, sentenceOf } from './back-off.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { Log } from '../../core/ports/log.ts';

const maxFiles = 10_000;

/**
 * The folder `quarantine/` in the journal: rows that could not be stored, one file each, for inspection. Each kept row
 * is synced before its segment is removed. The folder is bounded; beyond the bound, or when the disk refuses, nothing
 * more is kept, which is logged once.
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

  /** Counts the existing files. */
  async prepare(): Promise<void> {
    await makeFolderDurably(this.folder);
    for (const file of await readdir(this.folder)) {
      this.files += 1;
      this.bytes += (await stat(join(this.folder, file))).size;
    }
  }

  /** Keeps one row that the store refused, with the reason. A repeated name replaces the file. */
  async keepRow(name: string, row: Uint8Array, reason: string): Promise<void> {
    const at = new Date(this.clock.now()).toISOString();
    const text = Buffer.from(row).toString('utf8').replace(/\n$/, '');
    await this.keep(`${name}.json`, Buffer.from(`${JSON.stringify({ name, at, reason, row: text })}\n`));
  }

  /** Keeps bytes unchanged. */
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

/** Suffix of unfinished files; a start removes them. */
export const unfinished = '.tmp';

/** The segment that is being written. Writes carry their position, so that a failed one can be repeated. */
export interface SegmentFile {
  write(bytes: Uint8Array, position: number): Promise<void>;
  /** Syncs the bytes written so far without blocking further writes. The folder syncs the name. */
  sync(): Promise<void>;
  /** Truncates remnants of a failed write after `bytes`, and syncs the rest. */
  finish(bytes: number): Promise<void>;
  close(): Promise<void>;
}

/** The journal's folder: every step that touches the disk. All of them reject with the system's error. */
export class SegmentFolder {
  readonly path: string;
  private readonly syncsRows: boolean;

  /** Without `syncsRows` the system alone decides when segments reach the disk. Default true. */
  constructor(path: string, { syncsRows = true }: { readonly syncsRows?: boolean } = {}) {
    this.path = path;
    this.syncsRows = syncsRows;
  }

  /** Creates the folder when it is missing, for this user alone: rows hold prompts and answers. */
  async prepare(): Promise<void> {
    await makeFolderDurably(this.path);
  }

  list(): Promise<string[]> {
    return readdir(this.path);
  }

  async size(file: string): Promise<number> {
    return (await stat(this.at(file))).size;
  }

  /** Time of a file's last write, milliseconds. */
  async writtenAt(file: string): Promise<number> {
    return (await stat(this.at(file))).mtimeMs;
  }

  /** Creates a segment. Rejects when it exists. */
  async create(base: string): Promise<SegmentFile> {
    await this.prepare();
    return new HandleFile(await open(this.at(segments.openFile(base)), 'wx', 0o600), this.syncsRows);
  }

  /** Turns an open segment, finished and closed, into a sealed one, durably. May be repeated after a failure. */
  async seal(base: string): Promise<void> {
    try {
      await rename(this.at(segments.openFile(base)), this.at(segments.sealedFile(base)));
    } catch (error) {
      if (!hasCode(error, 'ENOENT')) throw error;
      await stat(this.at(segments.sealedFile(base)));
    }
    if (this.syncsRows) await this.sync();
  }

  /** All bytes of an open segment of an earlier run. */
  async readAll(file: string): Promise<Buffer> {
    const handle = await open(this.at(file), 'r');
    try {
      return await handle.readFile();
    } finally {
      await handle.close();
    }
  }

  /** Truncates an open segment of an earlier run and syncs the rest. */
  async cut(file: string, bytes: number): Promise<void> {
    const handle = new HandleFile(await open(this.at(file), 'r+'), this.syncsRows);
    try {
      await handle.finish(bytes);
    } finally {
      await handle.close();
    }
  }

  /** Location of a segment's rows, for a reader of its own. */
  rowsOf({ file, from, end }: Segment): StoredRows {
    return { path: resolve(this.at(file)), from, end };
  }

  /** The rows of a segment. May be shorter than expected when the file was damaged from outside. */
  async read({ file, from, end }: Segment): Promise<Buffer> {
    const handle = await open(this.at(file), 'r');
    try {
      const bytes = Buffer.allocUnsafe(end - from);
      let length = 0;
      while (length < bytes.length) {
        const { bytesRead } = await handle.read(bytes, length, bytes.length - length, from + length);
        if (bytesRead === 0) break;
        length += bytesRead;
      }
      return bytes.subarray(0, length);
    } finally {
      await handle.close();
    }
  }

  /**
   * Replaces a segment by pieces of it: first every piece exists, then the segment is removed, both durably, and only
   * then may a piece be posted. A process that finds the segment after a crash knows that no piece was posted. A piece
   * is a hard link to the same bytes and takes no space. May be repeated after a failure.
   */
  async replace(file: string, pieces: readonly Segment[]): Promise<void> {
    for (const piece of pieces) await this.name(file, piece.file);
    await this.sync();
    await this.remove(file);
    await this.sync();
  }

  /** Removes a file; it may be missing. */
  async remove(file: string): Promise<void> {
    try {
      await unlink(this.at(file));
    } catch (error) {
      if (!hasCode(error, 'ENOENT')) throw error;
    }
  }

  /** Syncs creations, renames and removals. */
  async sync(): Promise<void> {
    await syncFolder(this.path);
  }

  /** Adds a name to a file. */
  protected link(file: string, name: string): Promise<void> {
    return link(this.at(file), this.at(name));
  }

  protected at(file: string): string {
    return join(this.path, file);
  }

  private async name(file: string, name: string): Promise<void> {
    try {
      await this.link(file, name);
    } catch (error) {
      if (hasCode(error, 'EEXIST')) return;
      if (!hasCode(error, 'EPERM', 'ENOTSUP', 'ENOSYS', 'EOPNOTSUPP', 'EMLINK', 'EXDEV')) throw error;
      await this.copy(file, name);
    }
  }

  private async copy(file: string, name: string): Promise<void> {
    const temporary = this.at(`${name}${unfinished}`);
    await copyFile(this.at(file), temporary);
    const handle = await open(temporary, 'r+');
    try {
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(temporary, this.at(name));
  }
}

class HandleFile implements SegmentFile {
  private readonly handle: FileHandle;
  private readonly syncs: boolean;

  constructor(handle: FileHandle, syncs: boolean) {
    this.handle = handle;
    this.syncs = syncs;
  }

  async write(bytes: Uint8Array, position: number): Promise<void> {
    let written = 0;
    while (written < bytes.length) {
      const left = bytes.length - written;
      written += (await this.handle.write(bytes, written, left, position + written)).bytesWritten;
    }
  }

  sync(): Promise<void> {
    return this.handle.datasync();
  }

  async finish(bytes: number): Promise<void> {
    await this.handle.truncate(bytes);
    if (this.syncs) await this.handle.sync();
  }

  close(): Promise<void> {
    return this.handle.close();
  }
}
