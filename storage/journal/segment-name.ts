import { randomBytes } from 'node:crypto';
import { journalTables, type JournalTable } from '../../core/ports/journal.ts';

/**
 * The names of segments. `<table>-<start in ms, base 36>-<random>-<sequence>` is unique for ever, and it is the
 * deduplication token. `.open` is being written, `.sealed` never changes, and `<segment>.<from>-<end>.piece` is
 * a byte range of a segment that was split; its token is `<segment>:<from>-<end>`.
 */
export interface SegmentName {
  readonly file: string;
  readonly kind: 'open' | 'sealed' | 'piece';
  readonly table: JournalTable;
  /** The name without its suffix. */
  readonly base: string;
  readonly start: number;
  readonly sequence: number;
  /** The byte range of a piece; from 0 without an end for a whole segment. */
  readonly from: number;
  readonly end: number;
}

const pattern =
  /^((requests|bodies|feedback)-([0-9a-z]{1,11})-[0-9a-f]+-(\d{1,15}))\.(?:(open|sealed)|(\d{1,15})-(\d{1,15})\.piece)$/;

/** Reads a file name; undefined for a file that is no segment. */
export function parseSegmentName(file: string): SegmentName | undefined {
  const match = pattern.exec(file);
  if (match === null) return undefined;
  const [, base = '', table, start = '', sequence, whole, from, end] = match;
  return {
    file,
    kind: whole === 'open' || whole === 'sealed' ? whole : 'piece',
    table: journalTables.find((one) => one === table) ?? 'bodies',
    base,
    start: Number.parseInt(start, 36),
    sequence: Number(sequence),
    from: Number(from ?? 0),
    end: Number(end ?? Number.MAX_SAFE_INTEGER),
  };
}

/** Sorts names by age; what belongs to one segment by its place in it, the longer first. */
export function byAge(a: SegmentName, b: SegmentName): number {
  return (
    a.start - b.start ||
    a.sequence - b.sequence ||
    (a.base < b.base ? -1 : a.base > b.base ? 1 : a.from - b.from || b.end - a.end)
  );
}

/** Makes the base names of one table for this run of the process: `start` is its time in milliseconds. */
export function segmentNames(table: JournalTable, start: number): () => string {
  const run = `${table}-${Math.floor(start).toString(36)}-${randomBytes(6).toString('hex')}`;
  let sequence = 0;
  return () => `${run}-${sequence++}`;
}

/** File of a segment that is being written. */
export const openFile = (base: string): string => `${base}.open`;
/** File of a segment that never changes any more. */
export const sealedFile = (base: string): string => `${base}.sealed`;
/** File of a byte range of a segment that was split. */
export const pieceFile = (base: string, from: number, end: number): string => `${base}.${from}-${end}.piece`;
/** What the store deduplicates such a range by. */
export const pieceToken = (base: string, from: number, end: number): string => `${base}:${from}-${end}`;
