import type { LogRecord } from './analytics.ts';
import type { ExportField, ExportFormat } from './export-fields.ts';

/** A piece of a file. */
export interface FilePiece {
  readonly bytes: Uint8Array;
  /** What the end of the file has to say of this piece; plain JSON. Absent when there is nothing. */
  readonly note?: string;
}

/**
 * How rows become a file, piece by piece: `head`, one `rows` after the other, and `tail` make the file when they are put
 * together. Nothing is remembered between them, so that another process may go on.
 */
export interface FileFormat {
  readonly contentType: string;
  /** What a piece is best made of, in bytes of the rows' texts: encoding it is one turn of the event loop. */
  readonly pageBytes: number;
  head(fields: readonly ExportField[]): Uint8Array;
  /** `at`: where in the file the piece begins, in bytes. */
  rows(fields: readonly ExportField[], records: readonly LogRecord[], at: number): FilePiece;
  /** `notes`: those of all pieces, in order. `at` as for `rows`. */
  tail(fields: readonly ExportField[], notes: AsyncIterable<string>, at: number): Promise<Uint8Array>;
}

/** Loads a format; what it needs is loaded when it is asked for first. */
export type FileFormats = (name: ExportFormat) => Promise<FileFormat>;
