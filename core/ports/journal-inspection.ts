import type { TimeWindow } from './analytics.ts';
import type { JournalRoom, JournalState, JournalTable, ShedReason } from './journal.ts';

/** Contents of the journal for one table. */
export interface TableInventory {
  readonly segments: number;
  readonly rows: number;
  readonly bytes: number;
  /** Acceptance time of the oldest row, ISO 8601; undefined for no rows. */
  readonly oldest: string | undefined;
  /** Files of rows that the store rejected. */
  readonly quarantine: { readonly files: number; readonly bytes: number };
}

/** Contents of a journal, read from its folder. */
export interface JournalInventory {
  readonly directory: string;
  readonly tables: Readonly<Record<JournalTable, TableInventory>>;
}

/** Last status report of the process that writes a journal; the counts are those of that process. */
export interface JournalStatus extends JournalRoom {
  /** Time of the report, ISO 8601. */
  readonly at: string;
  readonly pid: number;
  /** The last failure to ship; null when the last attempt succeeded. */
  readonly lastError: string | null;
  readonly tables: Readonly<
    Record<JournalTable, JournalState & { readonly shedBy: Readonly<Partial<Record<ShedReason, number>>> }>
  >;
}

/** An invalid row in a file; `offset` is its first byte. */
export interface RowFault {
  readonly file: string;
  readonly offset: number;
  readonly reason: string;
}

/** Result of a full check of a journal's rows. */
export interface JournalVerdict {
  readonly directory: string;
  readonly segments: number;
  readonly rows: number;
  readonly bytes: number;
  /** The first 1000 invalid rows. */
  readonly faults: readonly RowFault[];
  /** Number of all invalid rows. */
  readonly faultCount: number;
  /** Ends of open segments without a line break: either being written, or torn; the next start truncates torn ones. */
  readonly unfinished: readonly RowFault[];
}

/** A file whose rows go back into the journal. */
export interface ReplaySource {
  readonly path: string;
  /** Table of rows that do not name it themselves, as those of a quarantine do. */
  readonly table: JournalTable | undefined;
  /** Removed once every row of it is in the journal or in the store. */
  readonly remove: boolean;
}

/** Finds the ids that the store already has, among rows that were accepted in `window`. */
export type FindStored = (
  table: JournalTable,
  ids: readonly string[],
  window: TimeWindow,
) => Promise<ReadonlySet<string>>;

/** Result of a replay. */
export interface ReplayReport {
  /** Rows that were written to new segments. */
  readonly added: Readonly<Record<JournalTable, number>>;
  /** Rows that were left out because the store or the journal has them. */
  readonly known: number;
  readonly removedFiles: number;
  /** The first 1000 rows that cannot be replayed. */
  readonly faults: readonly RowFault[];
  readonly faultCount: number;
}
