import type { Log } from '../../core/ports/log.ts';
import { type Quarantine, type SegmentFolder, unfinished } from './segment-folder.ts';
import { type Segment, type SegmentName, segments } from './segment.ts';
import { createReadStream } from 'node:fs';

/** Rows of a segment. */
export const segmentRows = { lines: linesOf, read: readRow };

/** One line of a file. */
interface RowLine {
  /** Byte position of its start in the file. */
  readonly offset: number;
  /** Without its line break; empty for a line that is too long. */
  readonly bytes: Buffer;
  /** False for the last line of a range without a line break. */
  readonly isEnded: boolean;
  readonly isTooLong: boolean;
}

/** Id and value of a row, or its fault. */
type RowHead = { readonly id: string; readonly value: Record<string, unknown> } | { readonly fault: string };

const readBytes = 256 * 1024;
/** A row has at most 8 Mi characters of at most three bytes. */
const longestLine = 32 * 1024 * 1024;
const newline = 10;

/** The lines of a byte range, in order, with little memory. Rejects with the system's error. */
async function* linesOf(path: string, from = 0, end = Infinity): AsyncGenerator<RowLine> {
  if (end <= from) return;
  const stream = createReadStream(path, { start: from, end: end - 1, highWaterMark: readBytes });
  let held: Buffer[] = [];
  let length = 0;
  let offset = from;
  const line = (isEnded: boolean): RowLine => {
    const isTooLong = length > longestLine;
    const found = { offset, bytes: isTooLong ? Buffer.alloc(0) : Buffer.concat(held), isEnded, isTooLong };
    offset += length + 1;
    held = [];
    length = 0;
    return found;
  };
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    let start = 0;
    for (let at = chunk.indexOf(newline); at !== -1; at = chunk.indexOf(newline, start)) {
      if (length <= longestLine) held.push(chunk.subarray(start, at));
      length += at - start;
      yield line(true);
      start = at + 1;
    }
    if (start === chunk.length) continue;
    if (length <= longestLine) held.push(chunk.subarray(start));
    length += chunk.length - start;
  }
  if (length > 0) yield line(false);
}

/** Parses a row as far as the journal needs it: one JSON object with an id. */
function readRow(line: Pick<RowLine, 'bytes' | 'isTooLong'>): RowHead {
  if (line.isTooLong) return { fault: `is longer than ${longestLine} bytes` };
  let value: unknown;
  try {
    value = JSON.parse(line.bytes.toString('utf8'));
  } catch {
    return { fault: 'is no JSON' };
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return { fault: 'is no JSON object' };
  const row = value as Record<string, unknown>;
  const { id } = row;
  return typeof id === 'string' && id !== '' ? { id, value: row } : { fault: 'has no id' };
}

/** A segment of an earlier run with its table. */
interface RecoveredSegment {
  readonly table: SegmentName['table'];
  readonly segment: Segment;
  /** Time of its last write, milliseconds. */
  readonly writtenAt: number;
}

/**
 * Finds segments of earlier runs in the folder, oldest first: open ones are truncated after their last whole row and
 * sealed, unfinished splits are undone. May be interrupted at any point and repeated.
 */
export async function recoverSegments(
  folder: SegmentFolder,
  quarantine: Quarantine,
  log: Log,
): Promise<RecoveredSegment[]> {
  const names: SegmentName[] = [];
  for (const file of await folder.list()) {
    const name = segments.parseName(file);
    if (name !== undefined) names.push(name);
    else if (file.endsWith(unfinished)) await folder.remove(file);
  }
  names.sort(segments.byAge);
  const found: RecoveredSegment[] = [];
  let last: { readonly base: string; readonly end: number } | undefined;
  for (const name of names) {
    if (name.kind === 'piece' && last?.base === name.base && name.from < last.end) {
      // Its parent segment still exists, so the piece was never posted: the split will be repeated.
      await folder.remove(name.file);
      continue;
    }
    const writtenAt = await folder.writtenAt(name.file);
    const segment = await recoverOne(name, { folder, quarantine, log });
    if (segment === undefined) continue;
    found.push({ table: name.table, segment, writtenAt });
    last = { base: name.base, end: segment.end };
  }
  await folder.sync();
  return found;
}

interface Place {
  readonly folder: SegmentFolder;
  readonly quarantine: Quarantine;
  readonly log: Log;
}

async function recoverOne(name: SegmentName, place: Place): Promise<Segment | undefined> {
  const { folder, quarantine, log } = place;
  if (name.kind === 'open') return recoverOpen(name, place);
  const size = await folder.size(name.file);
  const isPiece = name.kind === 'piece';
  if (size === 0 || (isPiece && (size < name.end || name.end <= name.from))) {
    await quarantine.keepFile(name.file, size);
    log.error(`journal: the file ${name.file} is damaged (${size} bytes) and was moved to quarantine`);
    return undefined;
  }
  const extent = isPiece
    ? segments.pieceOf(name.base, name.from, name.end, 0)
    : segments.whole(name.base, size, 0);
  return { ...extent, rows: segments.countRows(await folder.read(extent)) };
}

async function recoverOpen({ base, file, table }: SegmentName, place: Place): Promise<Segment | undefined> {
  const { folder, quarantine, log } = place;
  const bytes = await folder.readAll(file);
  const end = endOfWholeRows(bytes);
  if (end < bytes.length) {
    await quarantine.keepBytes(`${base}.${end}-${bytes.length}.torn`, bytes.subarray(end));
    log.warn(
      'journal: the end of a segment was torn when the last run stopped; it was cut and put into quarantine',
      {
        table,
        segment: base,
        bytes: bytes.length - end,
      },
    );
  }
  if (end === 0) {
    await folder.remove(file);
    return undefined;
  }
  await folder.cut(file, end);
  await folder.seal(base);
  return segments.whole(base, end, segments.countRows(bytes.subarray(0, end)));
}

/** End of the last line that is complete and JSON; remnants of a power cut are neither. */
function endOfWholeRows(bytes: Buffer): number {
  let end = bytes.lastIndexOf(10) + 1;
  while (end > 0) {
    const start = end >= 2 ? bytes.lastIndexOf(10, end - 2) + 1 : 0;
    if (isJson(bytes.subarray(start, end - 1))) return end;
    end = start;
  }
  return 0;
}

function isJson(line: Buffer): boolean {
  try {
    JSON.parse(line.toString('utf8'));
    return true;
  } catch {
    return false;
  }
}
