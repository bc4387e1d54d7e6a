import { createReadStream } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import {
  type JournalInventory,
  type JournalTable,
  journalTables,
  type JournalVerdict,
  type RowFault,
  type TableInventory,
} from '../../core/ports/journal.ts';
import { hasCode } from './back-off.ts';
import { segmentRows } from './recover.ts';
import { type SegmentName, segments } from './segment.ts';

/** Reads and verifies the files of a journal. */
export const journalFiles = {
  readInventory,
  standing: standingSegments,
  ifPresent,
  acceptance: acceptanceOf,
  table: tableOf,
  verify: verifyJournal,
};

const maxListed = 1000;

/** Faults in order of discovery: the first 1000 with their positions, all of them counted. */
export class FaultList {
  readonly listed: RowFault[] = [];
  count = 0;

  /** Adds a fault of the row at this byte. */
  add(file: string, offset: number, reason: string): void {
    this.count += 1;
    if (this.listed.length < maxListed) this.listed.push({ file, offset, reason });
  }
}

/** A segment in the folder: the bytes from `from` to `end` of the file at `path`. */
interface StandingSegment {
  readonly name: SegmentName;
  readonly path: string;
  readonly from: number;
  readonly end: number;
  /** Size of the file; less than `end` when it was truncated from outside. */
  readonly size: number;
  readonly modified: Date;
}

type Counts = { -readonly [Key in Exclude<keyof TableInventory, 'quarantine'>]: TableInventory[Key] };

/** Thrown when a folder has no journal. */
export class NoJournal extends Error {
  constructor(directory: string) {
    super(`There is no journal in ${directory}. Name the data folder of the gateway (--data, WEIR_DATA).`);
    this.name = 'NoJournal';
  }
}

/**
 * Contents of the journal's folder. Changes nothing, so that it works beside a running gateway: segments that are
 * shipped meanwhile are left out. Throws `NoJournal`.
 */
async function readInventory(directory: string): Promise<JournalInventory> {
  const counts: Record<JournalTable, Counts> = {
    requests: noCounts(),
    bodies: noCounts(),
    feedback: noCounts(),
  };
  for (const segment of await standingSegments(directory)) {
    await ifPresent(async () => {
      const rows = await countLines(segment);
      const count = counts[segment.name.table];
      count.oldest ??= rows === 0 ? undefined : await acceptedAt(segment);
      count.segments += 1;
      count.rows += rows;
      count.bytes += Math.max(0, segment.end - segment.from);
    });
  }
  const quarantine = await readQuarantine(directory);
  const tables = {
    requests: { ...counts.requests, quarantine: quarantine.requests },
    bodies: { ...counts.bodies, quarantine: quarantine.bodies },
    feedback: { ...counts.feedback, quarantine: quarantine.feedback },
  };
  return { directory, tables };
}

/** The segments with pending rows, oldest first: of an unfinished split, the one that the next start keeps. */
async function standingSegments(directory: string): Promise<StandingSegment[]> {
  const names = (await listFolder(directory))
    .flatMap((file) => segments.parseName(file) ?? [])
    .sort(segments.byAge);
  const found: StandingSegment[] = [];
  let last: SegmentName | undefined;
  for (const name of names) {
    if (name.kind === 'piece' && last?.base === name.base && name.from < last.end) continue;
    last = name;
    const segment = await ifPresent(() => inspectSegment(directory, name));
    if (segment !== undefined) found.push(segment);
  }
  return found;
}

/** Runs a step that reads a segment; undefined when the file is gone, because its rows have been shipped. */
async function ifPresent<T>(step: () => Promise<T>): Promise<T | undefined> {
  try {
    return await step();
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return undefined;
    throw error;
  }
}

async function listFolder(directory: string): Promise<string[]> {
  const files = await ifPresent(() => readdir(directory));
  if (files === undefined) throw new NoJournal(directory);
  return files;
}

async function inspectSegment(directory: string, name: SegmentName): Promise<StandingSegment> {
  let path = join(directory, name.file);
  let status = await ifPresent(() => stat(path));
  if (status === undefined && name.kind === 'open') path = join(directory, segments.sealedFile(name.base));
  status ??= await stat(path);
  const { size, mtime: modified } = status;
  const end = name.kind === 'piece' ? name.end : size;
  return { name, path, from: name.from, end, size, modified };
}

/** Counts whole rows: bytes after the last line break of an open segment are not a row yet. */
async function countLines({ path, from, end, size, name }: StandingSegment): Promise<number> {
  if (Math.min(end, size) <= from) return 0;
  let rows = 0;
  let last = 10;
  const stream = createReadStream(path, { start: from, end: end - 1, highWaterMark: 1024 * 1024 });
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    for (let at = chunk.indexOf(10); at !== -1; at = chunk.indexOf(10, at + 1)) rows += 1;
    last = chunk[chunk.length - 1] ?? last;
  }
  return last === 10 || name.kind === 'open' ? rows : rows + 1;
}

async function acceptedAt({ path, from, end, modified }: StandingSegment): Promise<string> {
  for await (const line of segmentRows.lines(path, from, end)) {
    const row = segmentRows.read(line);
    const time = 'value' in row ? acceptanceOf(row.value) : undefined;
    return new Date(time ?? modified).toISOString();
  }
  return modified.toISOString();
}

/** The acceptance time of a row in milliseconds; undefined without one. */
function acceptanceOf({ created_at: time }: Readonly<Record<string, unknown>>): number | undefined {
  if (typeof time !== 'string' || !/^\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}\.\d{3}$/.test(time))
    return undefined;
  const ms = Date.parse(`${time.replace(' ', 'T')}Z`);
  return Number.isNaN(ms) ? undefined : ms;
}

async function readQuarantine(
  directory: string,
): Promise<Record<JournalTable, { files: number; bytes: number }>> {
  const kept = {
    requests: { files: 0, bytes: 0 },
    bodies: { files: 0, bytes: 0 },
    feedback: { files: 0, bytes: 0 },
  };
  const folder = join(directory, 'quarantine');
  for (const file of (await ifPresent(() => readdir(folder))) ?? []) {
    const table = tableOf(file);
    const status = await ifPresent(() => stat(join(folder, file)));
    if (status === undefined || table === undefined) continue;
    kept[table].files += 1;
    kept[table].bytes += status.size;
  }
  return kept;
}

/** The table in the prefix of a journal file name. */
function tableOf(file: string): JournalTable | undefined {
  return journalTables.find((table) => file.startsWith(`${table}-`));
}

function noCounts(): Counts {
  return { segments: 0, rows: 0, bytes: 0, oldest: undefined };
}

/**
 * Reads every row of the journal in a folder and reports faults. Changes nothing; beside a running gateway, segments
 * that are shipped meanwhile are left out. Throws `NoJournal`.
 */
async function verifyJournal(directory: string): Promise<JournalVerdict> {
  const faults = new FaultList();
  const unfinished: RowFault[] = [];
  const total = { segments: 0, rows: 0, bytes: 0 };
  for (const segment of await standingSegments(directory)) {
    await ifPresent(async () => {
      const found = await verifySegment(segment, faults);
      total.segments += 1;
      total.rows += found.rows;
      total.bytes += Math.max(0, Math.min(segment.end, segment.size) - segment.from);
      if (found.unfinished !== undefined) unfinished.push(found.unfinished);
    });
  }
  return { directory, ...total, faults: faults.listed, faultCount: faults.count, unfinished };
}

async function verifySegment(
  segment: StandingSegment,
  faults: FaultList,
): Promise<{ rows: number; unfinished: RowFault | undefined }> {
  const { name, path, from, end, size } = segment;
  const isOpen = name.kind === 'open';
  if (size < end) faults.add(path, size, `ends here, with ${end - size} of its bytes missing`);
  if (size === 0 && !isOpen) faults.add(path, 0, 'is empty');
  if (end <= from && !isOpen && size > 0) faults.add(path, from, 'is a range without bytes');
  if (from > 0 && !(await isRowBoundary(path, from))) faults.add(path, from, 'begins inside of a row');
  let rows = 0;
  let unfinished: RowFault | undefined;
  for await (const line of segmentRows.lines(path, from, end)) {
    if (!line.isEnded && isOpen) {
      unfinished = { file: path, offset: line.offset, reason: 'is not finished' };
      continue;
    }
    const row = segmentRows.read(line);
    if ('fault' in row) faults.add(path, line.offset, row.fault);
    else if (line.isEnded) rows += 1;
    else faults.add(path, line.offset, 'has no line break');
  }
  return { rows, unfinished };
}

async function isRowBoundary(path: string, at: number): Promise<boolean> {
  for await (const line of segmentRows.lines(path, at - 1, at)) return line.isEnded;
  return false;
}
