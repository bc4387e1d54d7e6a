import type { ExportField, ExportFormat } from './request-row.ts';
import type { StoredRecord } from './records.ts';
import type { LogRecord } from './analytics.ts';

/** A file of an export for download. */
interface ExportFile extends StoredBlob {
  readonly fileName: string;
  readonly contentType: string;
}

/** Rules for routes, from section `exports` of the configuration. */
interface ExportRules {
  /** Fields that no export may contain. */
  readonly deniedFields: readonly ExportField[];
  /** Upper bound of rows in one file. */
  readonly maxRows: number;
}

/** A link to the file of an export. */
export interface ExportLink {
  readonly url: string;
  /** Milliseconds since the epoch. */
  readonly expiresAt: number;
}

/** Export that a link's token grants access to. */
export interface LinkedExport {
  readonly organisationId: string;
  readonly exportId: string;
  /** Number of the run that wrote the file. */
  readonly run: number;
  /** Milliseconds since the epoch. */
  readonly expiresAt: number;
}

/** The work of exports. Their records are written by the routes. */
export interface LogExports {
  readonly rules: ExportRules;
  /**
   * Throws `scope_missing`, with a sentence, when the creator of the export may not, or no longer, read all of its rows.
   * The work repeats the check before every page.
   */
  requireRights(record: StoredRecord<'log_export'>): void;
  /** Queues the work of an export whose record says `in_progress`. Rejects like `Jobs.add`. */
  enqueue(record: StoredRecord<'log_export'>): Promise<void>;
  /** Stops the work of this process on an export and removes its files. Other processes learn it from the record. */
  discard(record: StoredRecord<'log_export'>): Promise<void>;
  /** A link that opens without a key for `exports.link_minutes`. `origin`: public address of this gateway. */
  link(record: StoredRecord<'log_export'>, origin: string): Promise<ExportLink>;
  /** Verifies a link's token. Throws `key_invalid` for one that was changed or has expired. */
  readToken(token: string): LinkedExport;
  /** The finished file; undefined when it was removed. */
  open(record: StoredRecord<'log_export'>): Promise<ExportFile | undefined>;
}

/** A stored file, to be read once. */
export interface StoredBlob {
  readonly bytes: number;
  /** Throws when the store fails on the way. An early exit from the iteration releases the file. */
  readonly content: AsyncIterable<Buffer>;
}

/** Properties of a download link. */
interface BlobLink {
  /** Lifetime of the link in seconds. */
  readonly seconds: number;
  /** File name for the download. Letters, digits, `.`, `-` and `_`. */
  readonly fileName: string;
  readonly contentType: string;
}

/**
 * Files that are written once: on a disk, or in a store that speaks S3. Names are made of letters, digits, `.`, `-` and
 * `_`, in folders with `/` between them; anything else throws a `TypeError`. Rejects with `GatewayError`
 * `store_unavailable` when the caller should retry, and with another error when an operator has to act.
 */
export interface Blobs {
  /**
   * Stores the content under this name, whole or not at all, and replaces an earlier file. Streams it: memory holds no
   * more than the part being written. Resolves to its length in bytes. Rejects with the reason of `signal` when that aborts.
   */
  write(
    name: string,
    content: AsyncIterable<Uint8Array> | Uint8Array,
    options?: { readonly signal?: AbortSignal },
  ): Promise<number>;
  /** Undefined when no file has this name. */
  read(name: string): Promise<StoredBlob | undefined>;
  /** Removes a folder with everything in it; does nothing when there is none. */
  removeFolder(folder: string): Promise<void>;
  /** A temporary public URL of the file; undefined where the gateway itself serves it. */
  link(name: string, link: BlobLink): string | undefined;
  /** Resolves when the store answers; rejects with the reason otherwise. */
  ping(): Promise<void>;
  close(): Promise<void>;
}

/** A piece of a file. */
export interface FilePiece {
  readonly bytes: Uint8Array;
  /** Data of this piece for the end of the file; plain JSON. Absent for none. */
  readonly note?: string;
}

/**
 * Encoder of rows to a file in pieces: the file is the concatenation of `head`, each `rows`, and `tail`. It keeps no
 * state between them, so that another process may continue.
 */
export interface FileFormat {
  readonly contentType: string;
  /** Preferred size of a piece, in bytes of the rows' texts: encoding it is one turn of the event loop. */
  readonly pageBytes: number;
  head(fields: readonly ExportField[]): Uint8Array;
  /** `at`: offset of the piece in the file, in bytes. */
  rows(fields: readonly ExportField[], records: readonly LogRecord[], at: number): FilePiece;
  /** `notes`: the notes of all pieces, in order. `at` as for `rows`. */
  tail(fields: readonly ExportField[], notes: AsyncIterable<string>, at: number): Promise<Uint8Array>;
}

/** Loads a format, with its dependencies at the first use. */
export type FileFormats = (name: ExportFormat) => Promise<FileFormat>;
