import type { TimeWindow } from './analytics.ts';
import type { JournalRoom, JournalState, JournalTable, ShedReason } from './journal.ts';

/** What one table has in the journal. */
export interface TableInventory {
  readonly segments: number;
  readonly rows: number;
  readonly bytes: number;
  /** When the oldest row was accepted, ISO 8601; undefined when there is none. */
  readonly oldest: string | undefined;
  /** What could not be stored and was put aside. */
  readonly quarantine: { readonly files: number; readonly bytes: number };
}

/** What a journal holds, read from its folder. */
export interface JournalInventory {
  readonly directory: string;
  readonly tables: Readonly<Record<JournalTable, TableInventory>>;
}

/** What the process that writes a journal last told of it; its counts are those of this process. */
export interface JournalStatus extends JournalRoom {
  /** When it told it, ISO 8601. */
  readonly at: string;
  readonly pid: number;
  /** The last failure to ship; null when the last attempt succeeded. */
  readonly lastError: string | null;
  readonly tables: Readonly<
    Record<JournalTable, JournalState & { readonly shedBy: Readonly<Partial<Record<ShedReason, number>>> }>
  >;
}

/** A place in a file that is not as it should be; `offset` is the byte at which the row begins. */
export interface RowFault {
  readonly file: string;
  readonly offset: number;
  readonly reason: string;
}

/** What reading every row of a journal found. */
export interface JournalVerdict {
  readonly directory: string;
  readonly segments: number;
  readonly rows: number;
  readonly bytes: number;
  /** The first 1000 of them. */
  readonly faults: readonly RowFault[];
  /** All of them, also those that are not listed. */
  readonly faultCount: number;
  /** Ends of open segments without a line break: being written, or torn, which the next start cuts. */
  readonly unfinished: readonly RowFault[];
}

/** A file whose rows go back into the journal. */
export interface ReplaySource {
  readonly path: string;
  /** Of rows that do not say it themselves, as those of a quarantine do. */
  readonly table: JournalTable | undefined;
  /** Removed once every row of it is in the journal or in the store. */
  readonly remove: boolean;
}

/** Which rows a store has already: ids and the time in which they were accepted. */
export type FindStored = (
  table: JournalTable,
  ids: readonly string[],
  window: TimeWindow,
) => Promise<ReadonlySet<string>>;

/** What putting rows back did. */
export interface ReplayReport {
  /** Rows that are in new segments now. */
  readonly added: Readonly<Record<JournalTable, number>>;
  /** Rows that were left out, because the store or the journal has them. */
  readonly known: number;
  readonly removedFiles: number;
  /** The first 1000 of the rows that cannot be put back. */
  readonly faults: readonly RowFault[];
  readonly faultCount: number;
}
