import { stat, unlink } from 'node:fs/promises';
import type { Clock } from '../../core/ports/clock.ts';
import type { FindStored, ReplayReport, ReplaySource } from '../../core/ports/journal-inspection.ts';
import { journalTables as tables, type JournalTable } from '../../core/ports/journal.ts';
import { FaultList } from './fault-list.ts';
import { hasCode } from './failure.ts';
import { standingSegments } from './inventory.ts';
import { ReplayWriter } from './replay-writer.ts';
import { replayLines, type ReplayRow } from './replay-source.ts';
import { linesOf, readRow } from './row-lines.ts';
import { SegmentFolder } from './segment-folder.ts';

/** What `replayRows` needs. */
export interface ReplayOptions {
  /** The journal's folder. Nobody else may use it: take the lock of the data folder first. */
  readonly directory: string;
  readonly sources: readonly ReplaySource[];
  readonly stored: FindStored;
  readonly clock: Clock;
  /** The journal's bound on disk; a replay that could exceed it is refused as a whole. */
  readonly maxBytes: number;
}

const segmentBytes = 8 * 1024 * 1024;
const batchRows = 1000;
const batchBytes = 4 * 1024 * 1024;

/**
 * Puts rows of files back into the journal, as new segments that the next start ships. A row whose id the store or the
 * journal has already is left out: tokens are remembered for so many blocks only, ids for ever. Sources are removed
 * last, so that whoever is interrupted repeats all of it and doubles nothing. Rejects when a file cannot be read, the
 * store cannot be asked, or the journal has no room.
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
    return {
      ...{ added, known, removedFiles: removable.length },
      ...{ faults: faults.listed, faultCount: faults.count },
    };
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

/** Ids of the rows that wait in the journal already, those of an earlier replay among them. */
async function waitingIds(directory: string): Promise<Record<JournalTable, Set<string>>> {
  const ids = {
    requests: new Set<string>(),
    bodies: new Set<string>(),
    feedback: new Set<string>(),
  };
  for (const { name, path, from, end } of await standingSegments(directory)) {
    for await (const line of linesOf(path, from, end)) {
      const row = readRow(line);
      if ('id' in row) ids[name.table].add(row.id.toLowerCase());
    }
  }
  return ids;
}

async function checkRoom({ directory, sources, maxBytes }: ReplayOptions): Promise<void> {
  let held = 0;
  for (const { from, end } of await standingSegments(directory)) held += Math.max(0, end - from);
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
