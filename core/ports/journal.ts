/** Tables that the journal ships to; each has its own stream of segments. */
export const journalTables = ['requests', 'bodies', 'feedback'] as const;
/** One of them. */
export type JournalTable = (typeof journalTables)[number];

/** One JSON object without line breaks: as text, or in pieces of text and UTF-8 bytes. */
export type JournalLine = string | readonly (string | Uint8Array)[];

export interface JournalState {
  readonly accepted: number;
  readonly stored: number;
  readonly pending: number;
  readonly shed: number;
}

/** Behaviour near the disk bound: `shed` drops rows by a rule, `block` makes requests wait. */
export type JournalPolicy = 'shed' | 'block';

/**
 * When written rows are made durable against a power cut: never by the gateway, within an interval, or with each write.
 */
export type JournalSync = 'none' | 'interval' | 'each';

/**
 * Reasons for dropped rows. `share`: near the bound, their workspace had more than its share; `bodies`: the rest of the
 * room is reserved for request rows; `disk`: the bound is reached; `memory`: too much waits for a failing disk;
 * `length`: the row is too long; `closed`: the row came after `close`; `refused`: the store accepts all rows but this
 * one; `age`: the store was unreachable for too long; `lost`: the disk failed permanently, or another program removed
 * the rows.
 */
export const shedReasons = [
  'share',
  'bodies',
  'disk',
  'memory',
  'length',
  'closed',
  'refused',
  'age',
  'lost',
] as const;
/** One of them. */
export type ShedReason = (typeof shedReasons)[number];

/** Fill level of a journal, and its effects on requests since this process began. */
export interface JournalRoom {
  readonly policy: JournalPolicy;
  readonly maxBytes: number;
  /** On disk and waiting for the disk. */
  readonly bytes: number;
  /** Requests that now wait for room (`block`). */
  readonly waiting: number;
  /** Requests that were admitted after a wait. */
  readonly waited: number;
  /** Requests that were refused because there was no room in time. */
  readonly refused: number;
}

/**
 * Accept a row now, deliver it exactly once later. `accepted === stored + pending + shed` holds at any moment,
 * per table, for this process; rows found on disk at start count as accepted.
 */
export interface Journal {
  /**
   * Accepts one row and copies its bytes. Never waits and never throws: over the disk bound it sheds and counts.
   * `owner` is the row's workspace, for the fair shares near the bound. Default: no workspace.
   */
  append(table: JournalTable, line: JournalLine, owner?: string): void;
  /**
   * Checks for room before any work on a request. Undefined: proceed. With the policy `block` and near the bound: a
   * promise that resolves when there is room, and rejects with `journal_full` when that takes too long.
   */
  admit(): Promise<void> | undefined;
  /** Resolves when everything accepted before the call is on disk. */
  flush(): Promise<void>;
  /** Resolves true when everything accepted before the call is in the analytics store, false after `timeoutMs`. */
  settle(timeoutMs: number): Promise<boolean>;
  state(table: JournalTable): JournalState;
  /** `shed` of a table's state, split by reason. */
  shedBy(table: JournalTable): Readonly<Record<ShedReason, number>>;
  room(): JournalRoom;
  /** The last failure to ship, or undefined when the last attempt succeeded. */
  readonly lastError: string | undefined;
  /** Flushes, ships as many rows as the deadline allows, releases the folder. */
  close(deadlineMs: number): Promise<void>;
}

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
  window: { readonly from: number; readonly to: number },
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
