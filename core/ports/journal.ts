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

/**
 * Accept a row now, deliver it exactly once later. `accepted === stored + pending + shed` holds at any moment,
 * per table, for this process; rows found on disk at start count as accepted.
 */
export interface Journal {
  /** Takes one row; its bytes are copied. Never waits and never throws: over the disk bound it sheds and counts. */
  append(table: JournalTable, line: JournalLine): void;
  /** Resolves when everything accepted before the call is on disk. */
  flush(): Promise<void>;
  /** Resolves true when everything accepted before the call is in the analytics store, false after `timeoutMs`. */
  settle(timeoutMs: number): Promise<boolean>;
  state(table: JournalTable): JournalState;
  /** The last failure to ship, or undefined when the last attempt succeeded. */
  readonly lastError: string | undefined;
  /** Flushes, ships what it can within the deadline, releases the folder. */
  close(deadlineMs: number): Promise<void>;
}
