/** The tables that the journal ships to; each has its own stream of segments. */
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

/** What happens when the disk bound comes near: rows are given up by a rule, or requests have to wait. */
export type JournalPolicy = 'shed' | 'block';

/**
 * When rows that are written are made durable, so that a power cut leaves them: never by us, within an interval, or with
 * each write.
 */
export type JournalSync = 'none' | 'interval' | 'each';

/**
 * Why rows were given up. `share`: near the bound, their workspace had more than its share; `bodies`: what is left there
 * is kept for request rows; `disk`: the bound is reached; `memory`: too much waits for a disk that fails; `length`: one
 * row was too long; `closed`: it came after the end; `refused`: the store takes everything but this row; `age`: the
 * store was away for too long; `lost`: the disk
 * failed for good, or another program removed them.
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

/** How full a journal is, and what came of it since this process began. */
export interface JournalRoom {
  readonly policy: JournalPolicy;
  readonly maxBytes: number;
  /** On disk and on the way there. */
  readonly bytes: number;
  /** Requests that wait for room now (`block`). */
  readonly waiting: number;
  /** Requests that waited and were let in. */
  readonly waited: number;
  /** Requests that were refused, because there was no room in time. */
  readonly refused: number;
}

/**
 * Accept a row now, deliver it exactly once later. `accepted === stored + pending + shed` holds at any moment,
 * per table, for this process; rows found on disk at start count as accepted.
 */
export interface Journal {
  /**
   * Takes one row; its bytes are copied. Never waits and never throws: over the disk bound it sheds and counts.
   * `owner` is who shares that room with others, near the bound: the row's workspace. Default: nobody in particular.
   */
  append(table: JournalTable, line: JournalLine, owner?: string): void;
  /**
   * Asks for the room of what a request will leave, before anything is done for it. Nothing: go on. With the policy
   * `block` and near the bound: a promise that resolves when there is room, and rejects with `journal_full` when that
   * takes too long.
   */
  admit(): Promise<void> | undefined;
  /** Resolves when everything accepted before the call is on disk. */
  flush(): Promise<void>;
  /** Resolves true when everything accepted before the call is in the analytics store, false after `timeoutMs`. */
  settle(timeoutMs: number): Promise<boolean>;
  state(table: JournalTable): JournalState;
  /** What `shed` of a table's state is made of. */
  shedBy(table: JournalTable): Readonly<Record<ShedReason, number>>;
  room(): JournalRoom;
  /** The last failure to ship, or undefined when the last attempt succeeded. */
  readonly lastError: string | undefined;
  /** Flushes, ships what it can within the deadline, releases the folder. */
  close(deadlineMs: number): Promise<void>;
}
