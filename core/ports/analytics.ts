import type { JournalTable } from './journal.ts';
import type {
  FeedbackSeries,
  FeedbackSeriesQuery,
  RequestSeries,
  RequestSeriesQuery,
} from './analytics-series.ts';
import type { RequestFilter } from './request-filter.ts';
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
/** A grouping, who sent it (as `RequestFilter.users`), or the values of one metadata key. */
export type GroupBy = Grouping | 'user' | { readonly metadata: string };

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
  /** Weighted average of the feedback of their traces, or null; and how many of them have feedback. */
  'avg_weighted_feedback',
  'requests_with_feedback',
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
  /** Id of the key that asks, so that keys take turns. It decides nothing of what is seen. */
  readonly asker?: string;
}

export interface GroupQuery {
  readonly by: GroupBy;
  readonly columns: readonly GroupColumn[];
  readonly window: TimeWindow;
  readonly visibility: Visibility;
  readonly filter?: RequestFilter;
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

/** Where a page of log entries ended: the last entry on it. */
export interface LogCursor {
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
  readonly id: string;
}

/** Log entries in the order of their acceptance, ids deciding between equal times. */
export interface LogQuery {
  readonly window: TimeWindow;
  readonly visibility: Visibility;
  readonly filter?: RequestFilter;
  readonly order: 'newest' | 'oldest';
  /** 1 to 10,000. */
  readonly limit: number;
  /** Begin behind this entry. */
  readonly after?: LogCursor;
  /** Also what was sent and answered; default false, which is much cheaper. */
  readonly bodies?: boolean;
}

/** Log entries that have come into the store, for whoever follows them live. */
export interface NewLogsQuery {
  /** What the last answer said; undefined for the first one, which brings no entry. */
  readonly since: string | undefined;
  readonly visibility: Visibility;
  readonly filter?: RequestFilter;
  /** 1 to 1,000; the newest of them are kept. */
  readonly limit: number;
}

/** What has come since, each entry once, oldest first. */
export interface NewLogs {
  readonly records: readonly LogRecord[];
  /** For the next question. */
  readonly since: string;
  /** The same in a few characters, for going on later: entries of the last seconds before it may come again. */
  readonly resume: string;
  /** Entries that were left out because of `limit`. */
  readonly left: number;
}

/** The requests that share a trace id, in numbers. */
export interface TraceSummary {
  readonly traceId: string;
  /** Milliseconds since the epoch: the first acceptance and the last end. */
  readonly from: number;
  readonly to: number;
  readonly requests: number;
  readonly errors: number;
  readonly totalTokens: number;
  /** US dollars, a decimal number. */
  readonly cost: string;
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
  /** Measures over time, and of the whole window. */
  series(query: RequestSeriesQuery): Promise<RequestSeries>;
  /** Feedback over time, and of the whole window: of each feedback what it says now, at the time when it was first given. */
  feedbackSeries(query: FeedbackSeriesQuery): Promise<FeedbackSeries>;
  /** One page of log entries. */
  logs(query: LogQuery): Promise<readonly LogRecord[]>;
  /** How many log entries there are. */
  countLogs(query: Pick<LogQuery, 'window' | 'visibility' | 'filter'>): Promise<number>;
  /** Log entries in the order in which they come into the store. */
  newLogs(query: NewLogsQuery): Promise<NewLogs>;
  /** The requests of a trace, oldest first, 1,000 at the most. */
  trace(traceId: string, window: TimeWindow, visibility: Visibility): Promise<readonly RequestRow[]>;
  /**
   * Traces of a window, the one that began last first; `limit` from 1 to 500. `total` is exact up to 100,000, and
   * beyond that within one percent.
   */
  traces(
    query: Pick<LogQuery, 'window' | 'visibility' | 'filter' | 'limit'> & { readonly offset: number },
  ): Promise<{ total: number; rows: readonly TraceSummary[] }>;
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
