import { pieceFile, pieceToken, sealedFile } from './segment-name.ts';

/** Rows that are on disk for good and wait to be stored: a sealed segment, or a piece of one that was split. */
export interface Segment {
  readonly file: string;
  /** Name of the sealed segment that the rows were written to. */
  readonly base: string;
  /** What the store deduplicates by. */
  readonly token: string;
  /** Byte range within that segment; a piece's file holds the whole segment, or a copy of it. */
  readonly from: number;
  readonly end: number;
  readonly rows: number;
}

/** A whole segment of so many bytes. */
export function wholeSegment(base: string, bytes: number, rows: number): Segment {
  return { file: sealedFile(base), base, token: base, from: 0, end: bytes, rows };
}

/** The rows of a segment that stand in a byte range. */
export function pieceOf(base: string, from: number, end: number, rows: number): Segment {
  return { file: pieceFile(base, from, end), base, token: pieceToken(base, from, end), from, end, rows };
}

const newline = 10;

/** Rows in a stretch of a segment; a last one without its line break counts. */
export function countRows(bytes: Uint8Array): number {
  let rows = 0;
  for (let at = bytes.indexOf(newline); at !== -1; at = bytes.indexOf(newline, at + 1)) rows += 1;
  return bytes.length > 0 && bytes[bytes.length - 1] !== newline ? rows + 1 : rows;
}

/** The row boundary next to the middle, or undefined when there is only one row. */
export function middleOf(bytes: Uint8Array): number | undefined {
  const after = bytes.indexOf(newline, Math.floor(bytes.length / 2)) + 1;
  if (after > 0 && after < bytes.length) return after;
  const before = bytes.lastIndexOf(newline, bytes.length - 2) + 1;
  return before > 0 ? before : undefined;
}
