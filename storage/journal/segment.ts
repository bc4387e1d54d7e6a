import { randomBytes } from 'node:crypto';
import {
  type JournalState,
  type JournalTable,
  journalTables,
  type ShedReason,
  shedReasons,
} from '../../core/ports/journal.ts';

/**
 * Row counts of one table by state. Rows only ever move from one state to another, so that accepted = stored + pending
 * + shed holds at any moment.
 */
export class Ledger {
  private accepted = 0;
  private stored = 0;
  private pending = 0;
  private shed = 0;
  private readonly reasons = Object.fromEntries(shedReasons.map((reason) => [reason, 0])) as Record<
    ShedReason,
    number
  >;
  /** Rows that were pending and then dropped, as opposed to refused at once. */
  dropped = 0;

  /** Admitted rows, pending delivery. */
  accept(rows: number): void {
    this.accepted += rows;
    this.pending += rows;
  }

  /** One row without room. */
  refuse(reason: ShedReason): void {
    this.accepted += 1;
    this.shed += 1;
    this.reasons[reason] += 1;
  }

  /** Pending rows that are now in the store. */
  store(rows: number): void {
    this.pending -= rows;
    this.stored += rows;
  }

  /** Pending rows that are dropped. */
  drop(rows: number, reason: ShedReason): void {
    this.pending -= rows;
    this.shed += rows;
    this.dropped += rows;
    this.reasons[reason] += rows;
  }

  /** A snapshot for the port. */
  state(): JournalState {
    const { accepted, stored, pending, shed } = this;
    return { accepted, stored, pending, shed };
  }

  /** Shed rows by reason. */
  shedBy(): Readonly<Record<ShedReason, number>> {
    return { ...this.reasons };
  }
}

/**
 * The names of segments. `<table>-<start in ms, base 36>-<random>-<sequence>` is globally unique, and serves as the
 * deduplication token. `.open` is being written, `.sealed` never changes, and `<segment>.<from>-<end>.piece` is a byte
 * range of a split segment; its token is `<segment>:<from>-<end>`.
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

/** Reads a file name; undefined for a file that is not a segment. */
function parseSegmentName(file: string): SegmentName | undefined {
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

/** Sorts names by age; within one segment by position, the longer first. */
function byAge(a: SegmentName, b: SegmentName): number {
  return (
    a.start - b.start ||
    a.sequence - b.sequence ||
    (a.base < b.base ? -1 : a.base > b.base ? 1 : a.from - b.from || b.end - a.end)
  );
}

/** Creates the base names of one table for this run of the process: `start` is its time in milliseconds. */
function segmentNames(table: JournalTable, start: number): () => string {
  const run = `${table}-${Math.floor(start).toString(36)}-${randomBytes(6).toString('hex')}`;
  let sequence = 0;
  return () => `${run}-${sequence++}`;
}

/** File of a segment that is being written. */
const openFile = (base: string): string => `${base}.open`;
/** File of an immutable segment. */
const sealedFile = (base: string): string => `${base}.sealed`;

/** Segments of a journal, and their names. */
export const segments = {
  parseName: parseSegmentName,
  byAge,
  names: segmentNames,
  openFile,
  sealedFile,
  whole: wholeSegment,
  pieceOf,
  countRows,
  middleOf,
};

/** File of a byte range of a split segment. */
const pieceFile = (base: string, from: number, end: number): string => `${base}.${from}-${end}.piece`;
/** Deduplication token of such a range. */
const pieceToken = (base: string, from: number, end: number): string => `${base}:${from}-${end}`;

/** Durable rows that wait to be stored: a sealed segment, or a piece of a split one. */
export interface Segment {
  readonly file: string;
  /** Name of the sealed segment that the rows were written to. */
  readonly base: string;
  /** Deduplication token. */
  readonly token: string;
  /** Byte range within that segment; a piece's file holds the whole segment, or a copy of it. */
  readonly from: number;
  readonly end: number;
  readonly rows: number;
}

/** A whole segment of so many bytes. */
function wholeSegment(base: string, bytes: number, rows: number): Segment {
  return { file: sealedFile(base), base, token: base, from: 0, end: bytes, rows };
}

/** The rows of a segment in a byte range. */
function pieceOf(base: string, from: number, end: number, rows: number): Segment {
  return { file: pieceFile(base, from, end), base, token: pieceToken(base, from, end), from, end, rows };
}

const newline = 10;

/** Rows in a byte range of a segment; a last one without its line break counts. */
function countRows(bytes: Uint8Array): number {
  let rows = 0;
  for (let at = bytes.indexOf(newline); at !== -1; at = bytes.indexOf(newline, at + 1)) rows += 1;
  return bytes.length > 0 && bytes[bytes.length - 1] !== newline ? rows + 1 : rows;
}

/** The row boundary next to the middle, or undefined when there is only one row. */
function middleOf(bytes: Uint8Array): number | undefined {
  const after = bytes.indexOf(newline, Math.floor(bytes.length / 2)) + 1;
  if (after > 0 && after < bytes.length) return after;
  const before = bytes.lastIndexOf(newline, bytes.length - 2) + 1;
  return before > 0 ? before : undefined;
}
