import type { JournalTable } from './journal.ts';
import type { BodyRow, FeedbackRow, RequestRow } from './request-row.ts';

/** Required on every query: no query runs over all of time. Milliseconds since the epoch, `to` is exclusive. */
export interface TimeWindow {
  readonly from: number;
  readonly to: number;
}

export const groupings = [
  'ai_service',
  'model',
  'status_code',
  'api_key',
  'config',
  'workspace',
  'provider',
  'prompt',
] as const;
export type Grouping = (typeof groupings)[number];

export const groupColumns = [
  'cost',
  'total_tokens',
  'avg_tokens',
  'avg_input_tokens',
  'avg_output_tokens',
  'avg_latency',
  'p95_latency',
  'p99_latency',
  'success_rate',
  'error_count',
  'cache_hit_rate',
  'last_seen',
  'first_seen',
] as const;
export type GroupColumn = (typeof groupColumns)[number];

/** Whose rows may be read. Always applied, whatever the filters say. */
export interface Visibility {
  readonly organisationId: string;
  /** Undefined: every workspace of the organisation. */
  readonly workspaceId?: string;
  /** Only requests that were sent with keys of this user. */
  readonly userId?: string;
  /** Only requests that were sent with this key. */
  readonly apiKeyId?: string;
}

export interface GroupQuery {
  readonly by: Grouping;
  readonly columns: readonly GroupColumn[];
  readonly window: TimeWindow;
  readonly visibility: Visibility;
  readonly limit: number;
  readonly offset: number;
}

/** One group: its value, the request count, and the columns that were asked for. */
export interface GroupRow {
  readonly value: string;
  readonly requests: number;
  readonly columns: Readonly<Partial<Record<GroupColumn, number | string | null>>>;
}

/** What to count for each of some keys. */
export interface KeyUsageQuery {
  /** At most 100, each once. `since`: from when on, milliseconds since the epoch, itself included. */
  readonly keys: readonly { readonly id: string; readonly since: number }[];
  /** Until when, itself excluded. */
  readonly to: number;
  readonly visibility: Visibility;
}

/** What requests of a key used. */
export interface KeyUsage {
  /** US dollars, a decimal number. */
  readonly cost: string;
  readonly tokens: number;
}

export interface LogRecord {
  readonly request: RequestRow;
  readonly body: BodyRow | undefined;
}

/**
 * Rows that stand in a file on this machine: newline-delimited JSON from byte `from` to `end` (exclusive) of the file
 * at the absolute `path`. Those bytes do not change while they are being stored.
 */
export interface StoredRows {
  readonly path: string;
  readonly from: number;
  readonly end: number;
}

/** The analytics store: batches in, bounded and parameterised queries out. */
export interface Analytics {
  /**
   * Stores newline-delimited JSON rows as one block, all of them or none. The same token never stores twice.
   * Throws a `GatewayError` `store_unavailable` when it should be tried again (also when the file of `StoredRows` is
   * gone or too short), another error when the rows are at fault.
   */
  insert(table: JournalTable, rows: Uint8Array | StoredRows, deduplicationToken: string): Promise<void>;
  /**
   * Which of these ids (UUIDs, in lower case) a table has in a window, of every organisation: for putting rows back,
   * never for a caller. Throws like a query.
   */
  storedIds(table: JournalTable, ids: readonly string[], window: TimeWindow): Promise<ReadonlySet<string>>;
  groups(query: GroupQuery): Promise<{ total: number; rows: readonly GroupRow[] }>;
  /**
   * What each of these keys has used, by its id; nothing for keys that sent no request. Ends by itself after five
   * seconds, with `query_timeout`.
   */
  usageOfKeys(query: KeyUsageQuery): Promise<ReadonlyMap<string, KeyUsage>>;
  /** One request by its id, or undefined. */
  requestById(id: string, window: TimeWindow, visibility: Visibility): Promise<LogRecord | undefined>;
  /** What some feedback says now, by its `feedback_id`, or undefined: the row with the highest revision. */
  feedbackById(id: string, window: TimeWindow, visibility: Visibility): Promise<FeedbackRow | undefined>;
  /** Resolves when the store answers; rejects with the reason otherwise. */
  ping(): Promise<void>;
  close(): Promise<void>;
}
