import type { ExportField, ExportFormat } from './export-fields.ts';
import type { StoredRecord } from './records.ts';
import type { LogRecord } from './analytics.ts';

/** A file that somebody may fetch. */
interface ExportFile extends StoredBlob {
  readonly fileName: string;
  readonly contentType: string;
}

/** Section `exports` of the configuration, as far as routes have to keep to it. */
interface ExportRules {
  /** What no export may have. */
  readonly deniedFields: readonly ExportField[];
  /** The most rows of one file. */
  readonly maxRows: number;
}

/** A link to the file of an export. */
export interface ExportLink {
  readonly url: string;
  /** Milliseconds since the epoch. */
  readonly expiresAt: number;
}

/** Who an opened link is for: the export whose file it leads to. */
export interface LinkedExport {
  readonly organisationId: string;
  readonly exportId: string;
  /** Of the runs of the export, the one whose file it is. */
  readonly run: number;
  /** Milliseconds since the epoch. */
  readonly expiresAt: number;
}

/** The work of exports: what becomes of their records is the routes' to write. */
export interface LogExports {
  readonly rules: ExportRules;
  /**
   * Throws `scope_missing`, with a sentence, when whoever made the export may not read all that it is about (any more).
   * The work asks the same before every page.
   */
  requireRights(record: StoredRecord<'log_export'>): void;
  /** Puts the work of an export, whose record says `in_progress`, into the queue. Rejects like `Jobs.add`. */
  enqueue(record: StoredRecord<'log_export'>): Promise<void>;
  /** Stops what this process does for an export, and has what is left of it removed. For others the record says it. */
  discard(record: StoredRecord<'log_export'>): Promise<void>;
  /** A link that opens without a key for `exports.link_minutes`. `origin`: where this gateway is reached. */
  link(record: StoredRecord<'log_export'>, origin: string): Promise<ExportLink>;
  /** What a link's token is for. Throws `key_invalid` for one that was changed, or has ended. */
  readToken(token: string): LinkedExport;
  /** The finished file; undefined when it is not there any more. */
  open(record: StoredRecord<'log_export'>): Promise<ExportFile | undefined>;
}

/** A stored file, to be read once. */
export interface StoredBlob {
  readonly bytes: number;
  /** Ends with an error when the store fails in between. Leaving it early releases the file. */
  readonly content: AsyncIterable<Buffer>;
}

/** How somebody who follows a link receives the file. */
interface BlobLink {
  /** How long the link opens, in seconds. */
  readonly seconds: number;
  /** Under which it is saved. Letters, digits, `.`, `-` and `_`. */
  readonly fileName: string;
  readonly contentType: string;
}

/**
 * Files that are written once: on a disk, or in a store that speaks S3. Names are made of letters, digits, `.`, `-` and
 * `_`, in folders with `/` between them; anything else throws a `TypeError`. Rejects with `GatewayError`
 * `store_unavailable` when it should be tried again, and with another error when a person has to look at it.
 */
export interface Blobs {
  /**
   * Stores what comes under this name, whole or not at all; what was there is replaced. Nothing of it is held in memory
   * for longer than it takes to write. Resolves to its length in bytes. Rejects with the reason of `signal` when that ends.
   */
  write(
    name: string,
    content: AsyncIterable<Uint8Array> | Uint8Array,
    options?: { readonly signal?: AbortSignal },
  ): Promise<number>;
  /** Undefined when there is none of this name. */
  read(name: string): Promise<StoredBlob | undefined>;
  /** Removes a folder with everything in it; does nothing when there is none. */
  removeFolder(folder: string): Promise<void>;
  /** An address from which anybody may fetch the file for a while; undefined where the gateway itself hands it out. */
  link(name: string, link: BlobLink): string | undefined;
  /** Resolves when the store answers; rejects with the reason otherwise. */
  ping(): Promise<void>;
  close(): Promise<void>;
}

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
