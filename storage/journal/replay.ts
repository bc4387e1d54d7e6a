import { readdir, stat, unlink } from 'node:fs/promises';
import type { Clock } from '../../core/ports/clock.ts';
import {
  type FindStored,
  type JournalTable,
  journalTables as tables,
  type ReplayReport,
  type ReplaySource,
} from '../../core/ports/journal.ts';
import { FaultList, journalFiles } from './inventory.ts';
import { hasCode } from './back-off.ts';
import { segmentRows } from './recover.ts';
import { type SegmentFile, SegmentFolder } from './segment-folder.ts';
import { basename, join } from 'node:path';
import { segments } from './segment.ts';

/** Writes rows of one table into new sealed segments. */
class ReplayWriter {
  private readonly folder: SegmentFolder;
  private readonly maxBytes: number;
  private readonly nextName: () => string;
  private open: { readonly base: string; readonly file: SegmentFile; bytes: number } | undefined;

  constructor(table: JournalTable, folder: SegmentFolder, clock: Clock, maxBytes: number) {
    this.folder = folder;
    this.maxBytes = maxBytes;
    this.nextName = segments.names(table, clock.now());
  }

  /** Appends whole rows; a segment that would exceed its size is sealed first. */
  async write(rows: Uint8Array): Promise<void> {
    if (this.open !== undefined && this.open.bytes + rows.length > this.maxBytes) await this.seal();
    if (this.open === undefined) {
      const base = this.nextName();
      this.open = { base, file: await this.folder.create(base), bytes: 0 };
    }
    await this.open.file.write(rows, this.open.bytes);
    this.open.bytes += rows.length;
  }

  /** Syncs the written rows and makes them ready for shipping. */
  async seal(): Promise<void> {
    const { open } = this;
    if (open === undefined) return;
    await open.file.finish(open.bytes);
    await open.file.close();
    await this.folder.seal(open.base);
    this.open = undefined;
  }

  /** Removes unsealed rows; for a failed replay. */
  async discard(): Promise<void> {
    const { open } = this;
    this.open = undefined;
    if (open === undefined) return;
    await open.file.close().catch(() => undefined);
    await this.folder.remove(segments.openFile(open.base)).catch(() => undefined);
  }
}

/** A row to be replayed. */
interface ReplayRow {
  readonly table: JournalTable;
  readonly id: string;
  /** Acceptance time, milliseconds. */
  readonly time: number;
  /** Bytes in the segment, including the line break. */
  readonly bytes: Buffer;
}

/** A line of a file: its row, or its fault. */
type ReplayLine = { readonly row: ReplayRow } | { readonly offset: number; readonly fault: string };

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** All quarantine files of a journal; each file is removed when all of its rows are replayed. */
export async function quarantineSources(directory: string): Promise<ReplaySource[]> {
  const folder = join(directory, 'quarantine');
  const files = (await journalFiles.ifPresent(() => readdir(folder))) ?? [];
  return files.sort().map((file) => ({ path: join(folder, file), table: undefined, remove: true }));
}

/**
 * Reads the rows of a file, in order. A line is a row, or a quarantine record (`{"name", "at", "reason", "row"}`, the
 * row as text). Rejects with the system's error.
 */
async function* replayLines(source: ReplaySource, maxBytes: number): AsyncGenerator<ReplayLine> {
  for await (const line of segmentRows.lines(source.path)) {
    const { offset, bytes, isTooLong } = line;
    if (bytes.length === 0 && !isTooLong) continue;
    const kept = isTooLong ? undefined : readKept(bytes);
    const text = kept === undefined ? bytes : Buffer.from(kept.row);
    const table =
      journalFiles.table(kept?.name ?? '') ?? source.table ?? journalFiles.table(basename(source.path));
    const row = rowOf(text, isTooLong, table);
    if (typeof row === 'string') yield { offset, fault: row };
    else if (row.bytes.length > maxBytes) yield { offset, fault: `is longer than ${maxBytes} bytes` };
    else yield { row };
  }
}

function rowOf(bytes: Buffer, isTooLong: boolean, table: JournalTable | undefined): ReplayRow | string {
  const head = segmentRows.read({ bytes, isTooLong });
  if ('fault' in head) return head.fault;
  const { id, value } = head;
  if (!uuid.test(id)) return 'has an id that is no UUID';
  const time = journalFiles.acceptance(value);
  if (time === undefined) return 'has no created_at of the form 2026-01-31 12:34:56.789';
  if (table === undefined) return 'does not say its table: name it with --table';
  // Written on one line, regardless of the line breaks of an edited file.
  const line = bytes.includes('\n') ? Buffer.from(JSON.stringify(value)) : bytes;
  return { table, id: id.toLowerCase(), time, bytes: Buffer.concat([line, Buffer.from('\n')]) };
}

function readKept(bytes: Buffer): { name: string; row: string } | undefined {
  // Rows are long and none starts like this, so most are parsed only once.
  if (!bytes.subarray(0, 200).includes('"name"')) return undefined;
  try {
    const kept = JSON.parse(bytes.toString('utf8')) as Record<string, unknown>;
    const { name, row, reason } = kept;
    return typeof name === 'string' && typeof row === 'string' && typeof reason === 'string'
      ? { name, row }
      : undefined;
  } catch {
    return undefined;
  }
}

/** Options of `replayRows`. */
export interface ReplayOptions {
  /** The journal's folder. No other process may use it: take the lock of the data folder first. */
  readonly directory: string;
  readonly sources: readonly ReplaySource[];
  readonly stored: FindStored;
  readonly clock: Clock;
  /** The journal's bound on disk; a replay that could exceed it is refused entirely. */
  readonly maxBytes: number;
}

const segmentBytes = 8 * 1024 * 1024;
const batchRows = 1000;
const batchBytes = 4 * 1024 * 1024;

/**
 * Puts rows of files back into the journal, as new segments that the next start ships. A row whose id is in the store
 * or the journal already is skipped: tokens are kept for a limited number of blocks, ids without limit. Sources are
 * removed last, so that an interrupted replay can be repeated without duplicates. Rejects when a file cannot be read,
 * the store is unreachable, or the journal has no room.
 */
export async function replayRows(options: ReplayOptions): Promise<ReplayReport> {
  const folder = new SegmentFolder(options.directory);
  await folder.prepare();
  await checkRoom(options);
  const replay = new Replay(options, folder, await waitingIds(options.directory));
  return replay.run();
}

class Replay {
  private readonly options: ReplayOptions;
  private readonly folder: SegmentFolder;
  private readonly known: Readonly<Record<JournalTable, Set<string>>>;
  private readonly writers: Readonly<Record<JournalTable, ReplayWriter>>;
  private readonly faults = new FaultList();
  private readonly added: Record<JournalTable, number> = { requests: 0, bodies: 0, feedback: 0 };
  private knownRows = 0;

  constructor(options: ReplayOptions, folder: SegmentFolder, known: Replay['known']) {
    const { clock } = options;
    this.options = options;
    this.folder = folder;
    this.known = known;
    this.writers = {
      requests: new ReplayWriter('requests', folder, clock, segmentBytes),
      bodies: new ReplayWriter('bodies', folder, clock, segmentBytes),
      feedback: new ReplayWriter('feedback', folder, clock, segmentBytes),
    };
  }

  async run(): Promise<ReplayReport> {
    const done: ReplaySource[] = [];
    try {
      for (const source of this.options.sources) {
        const { count } = this.faults;
        await this.take(source);
        if (this.faults.count === count) done.push(source);
      }
      for (const table of tables) await this.writers[table].seal();
    } catch (error) {
      for (const table of tables) await this.writers[table].discard();
      throw error;
    }
    const removable = done.filter((source) => source.remove);
    for (const { path } of removable) await unlink(path);
    await this.folder.sync();
    const { added, knownRows: known, faults } = this;
    return { added, known, removedFiles: removable.length, faults: faults.listed, faultCount: faults.count };
  }

  private async take(source: ReplaySource): Promise<void> {
    let batch: ReplayRow[] = [];
    let bytes = 0;
    for await (const line of replayLines(source, segmentBytes)) {
      if ('fault' in line) {
        this.faults.add(source.path, line.offset, line.fault);
        continue;
      }
      batch.push(line.row);
      bytes += line.row.bytes.length;
      if (batch.length < batchRows && bytes < batchBytes) continue;
      await this.admit(batch);
      batch = [];
      bytes = 0;
    }
    await this.admit(batch);
  }

  private async admit(batch: readonly ReplayRow[]): Promise<void> {
    for (const table of tables) {
      const rows = batch.filter((row) => row.table === table);
      const fresh = await this.withoutKnown(table, rows);
      this.knownRows += rows.length - fresh.length;
      this.added[table] += fresh.length;
      if (fresh.length > 0) await this.writers[table].write(Buffer.concat(fresh.map(({ bytes }) => bytes)));
    }
  }

  private async withoutKnown(table: JournalTable, rows: readonly ReplayRow[]): Promise<ReplayRow[]> {
    const known = this.known[table];
    const news = rows.filter(({ id }) => {
      if (known.has(id)) return false;
      known.add(id);
      return true;
    });
    if (news.length === 0) return [];
    const times = news.map(({ time }) => time);
    const window = { from: Math.min(...times), to: Math.max(...times) + 1 };
    const stored = await this.options.stored(
      table,
      news.map(({ id }) => id),
      window,
    );
    return news.filter(({ id }) => !stored.has(id));
  }
}

/** Ids of the pending rows in the journal, including those of an earlier replay. */
async function waitingIds(directory: string): Promise<Record<JournalTable, Set<string>>> {
  const ids = {
    requests: new Set<string>(),
    bodies: new Set<string>(),
    feedback: new Set<string>(),
  };
  for (const { name, path, from, end } of await journalFiles.standing(directory)) {
    for await (const line of segmentRows.lines(path, from, end)) {
      const row = segmentRows.read(line);
      if ('id' in row) ids[name.table].add(row.id.toLowerCase());
    }
  }
  return ids;
}

async function checkRoom({ directory, sources, maxBytes }: ReplayOptions): Promise<void> {
  let held = 0;
  for (const { from, end } of await journalFiles.standing(directory)) held += Math.max(0, end - from);
  let asked = 0;
  for (const { path } of sources) asked += (await statusOf(path)).size;
  if (held + asked <= maxBytes) return;
  throw new Error(
    `The journal holds ${held} of its ${maxBytes} bytes and has no room for ${asked} more. Let the gateway ship what waits, replay fewer files at once, or raise storage.journal.max_bytes.`,
  );
}

async function statusOf(path: string): Promise<{ size: number }> {
  try {
    const status = await stat(path);
    if (status.isFile()) return status;
  } catch (error) {
    if (!hasCode(error, 'ENOENT')) throw error;
    throw new Error(`There is no file ${path}.`, { cause: error });
  }
  throw new Error(`${path} is no file. Name files with one JSON row in each line.`);
}
