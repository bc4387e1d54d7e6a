import type { StoredBlob } from './blobs.ts';
import type { ExportField } from './export-fields.ts';
import type { StoredRecord } from './records.ts';

/** A file that somebody may fetch. */
export interface ExportFile extends StoredBlob {
  readonly fileName: string;
  readonly contentType: string;
}

/** Section `exports` of the configuration, as far as routes have to keep to it. */
export interface ExportRules {
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
