import type { JournalTable } from './journal.ts';
import type { Repricing } from './prices.ts';
import type { BodyRow, FeedbackRow, RequestRow } from './request-row.ts';

/** Measures of requests over time. */
export const measures = [
  'requests',
  /** `is_success`. */
  'successes',
  /** Status 400 and above, or outcome `failed`. */
  'errors',
  /** US dollars, exact: a decimal number as text. */
  'cost',
  'prompt_tokens',
  'completion_tokens',
  'total_tokens',
  /** Milliseconds; null without requests, like the next four. */
  'avg_latency',
  'p50_latency',
  'p90_latency',
  'p95_latency',
  'p99_latency',
  /** Distinct users, within 2 %; see `RequestFilter.users`. Requests without a user do not count. */
  'users',
  /** Answers from the cache by equality, and by similarity. */
  'simple_hits',
  'semantic_hits',
  /** Milliseconds of requests that the cache answered, and of the successful others; null without any. */
  'avg_hit_latency',
  'avg_miss_latency',
  /**
   * Successful requests that needed a further attempt at the target that answered, and another target than the first.
   */
  'rescued_by_retry',
  'rescued_by_fallback',
] as const;

export type Measure = (typeof measures)[number];

/** Split of a series: a grouping, or the number of further attempts that rescued a request (`1`, `2` …). */
export type SeriesSplit = Grouping | 'retries';

/** Spans of time, aligned to the clock and the calendar of a time zone; weeks begin on Monday. */
export interface Buckets {
  readonly unit: 'minute' | 'hour' | 'day' | 'week' | 'month';
  /** Minutes of a bucket of unit `minute`: 1, 5, 10, 15 or 30. All other units: 1. */
  readonly size: 1 | 5 | 10 | 15 | 30;
  /** IANA name: `UTC`, `Asia/Kolkata`. */
  readonly timeZone: string;
}

/** Upper bound of buckets in an answer. */
export const maxBuckets = 10_000;

/** Common members of the queries over time. */
export interface SeriesWindow {
  readonly buckets: Buckets;
  readonly window: TimeWindow;
  readonly visibility: Visibility;
  readonly filter?: RequestFilter;
}

export interface RequestSeriesQuery extends SeriesWindow {
  readonly measures: readonly Measure[];
  /** Default: no split. */
  readonly split?: SeriesSplit;
}

export type Measures = Readonly<Partial<Record<Measure, number | string | null>>>;

/** One bucket, or one value of the split in it. */
export interface SeriesPoint {
  /** Beginning of the bucket, milliseconds since the epoch; may lie before the window. */
  readonly at: number;
  /** Undefined without a split. */
  readonly split: string | undefined;
  readonly values: Measures;
}

/**
 * Points in the order of time, then of requests. Without a split there is one for every bucket that the window touches,
 * even an empty one; with a split, only those that have requests. `totals`: the whole window, in the same way.
 */
export interface RequestSeries {
  readonly totals: readonly Omit<SeriesPoint, 'at'>[];
  readonly points: readonly SeriesPoint[];
}

export interface FeedbackSeriesQuery extends SeriesWindow {
  /** `score`: the value. `model`: the model that answered. Default: no split. */
  readonly split?: 'score' | 'model';
}

export interface FeedbackPoint {
  readonly at: number;
  readonly split: string | undefined;
  readonly total: number;
  /** Sum of value × weight over the sum of weights; null when that is 0. */
  readonly averageWeighted: number | null;
}

/** As `RequestSeries`. */
export interface FeedbackSeries {
  readonly totals: readonly Omit<FeedbackPoint, 'at'>[];
  readonly points: readonly FeedbackPoint[];
}

/** Query for single feedback, at most 1,000. A filter is about the requests of its trace, up to 30 days before the window. */
export interface FeedbackQuery extends Pick<LogQuery, 'window' | 'visibility' | 'filter' | 'limit'> {
  /** Of the latest revision. */
  readonly value?: Between;
  readonly offset: number;
}

/** Feedback as its latest revision says. */
export interface GivenFeedback {
  readonly row: FeedbackRow;
  /** Time of its first revision, milliseconds since the epoch. */
  readonly givenAt: number;
}

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
  'virtual_key',
  /** Of calls of tools alone, like the next one. */
  'mcp_server',
  'mcp_tool',
  /** Names of metadata: a request counts once for each name that it has, and not without any. */
  'metadata_key',
] as const;

export type Grouping = (typeof groupings)[number];

/** A grouping, the user (as `RequestFilter.users`), or the values of one metadata key. */
export type GroupBy = Grouping | 'user' | { readonly metadata: string };

/** Columns that are known before feedback is read. */
const countedColumns = [
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

export const groupColumns = [
  ...countedColumns,
  /** Weighted average of the feedback of their traces, or null; and the number of requests with feedback. */
  'avg_weighted_feedback',
  'requests_with_feedback',
] as const;

export type GroupColumn = (typeof groupColumns)[number];

/** What groups are ordered by. */
export const groupOrders = ['requests', ...countedColumns] as const;

export type GroupOrder = (typeof groupOrders)[number];

/** Rows that the caller may read. Applies to every query, in addition to its filters. */
export interface Visibility {
  readonly organisationId: string;
  /** Undefined: every workspace of the organisation. */
  readonly workspaceId?: string;
  /** Only requests that were sent with keys of this user. */
  readonly userId?: string;
  /** Only requests that were sent with this key. */
  readonly apiKeyId?: string;
  /** Id of the calling key, so that keys take turns. It does not restrict the rows. */
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
  /** Default: `requests`. Groups that are equal follow by their value; groups without the figure come last. */
  readonly orderBy?: GroupOrder;
  /** Default: the highest first. */
  readonly ascending?: boolean;
}

/** One group: its value, the request count, and the columns that were asked for. */
export interface GroupRow {
  readonly value: string;
  readonly requests: number;
  readonly columns: Readonly<Partial<Record<GroupColumn, number | string | null>>>;
}

/** Cost of the requests of one day (UTC) and one model, over all organisations. */
export interface RecordedCost {
  /** `YYYY-MM-DD`. */
  readonly day: string;
  /** The kind of provider. */
  readonly service: string;
  /** As answered. */
  readonly model: string;
  readonly requests: number;
  /** Requests that used tokens without a known price; they add 0 to `cost`. */
  readonly unpriced: number;
  /** Tokens of these. */
  readonly unpricedTokens: number;
  /** US dollars, a decimal number. */
  readonly cost: string;
}

/** Property by which a budget selects requests. `workspace_id` and `organisation_id` are those of their key. */
export type CountedBy =
  | 'api_key'
  | 'workspace_id'
  | 'organisation_id'
  | 'endpoint_type'
  | 'provider'
  | { readonly metadata: string };

/** Matches requests whose value is in `whole` or begins with one of `beginnings`; not requests without a value. */
export interface CountedValues {
  readonly by: CountedBy;
  readonly whole: readonly string[];
  readonly beginnings: readonly string[];
  /** Excludes these values, and values that begin with one of `notBeginnings`. */
  readonly notWhole: readonly string[];
  readonly notBeginnings: readonly string[];
}

/** Query for the usage that budgets of one kind have counted. */
export interface CountedUsageQuery {
  readonly organisationId: string;
  /** Undefined: in every workspace. */
  readonly workspaceId: string | undefined;
  /** A request must match all of them. */
  readonly conditions: readonly CountedValues[];
  /** Properties that form the groups. A group's name is the text and value of each of them, joined by `,`. */
  readonly groupBy: readonly { readonly text: string; readonly by: CountedBy }[];
  /** Start of the count (milliseconds since the epoch) by group; at most 1,000 groups. */
  readonly groups: ReadonlyMap<string, number>;
  /** Only requests that ended at this time or before. */
  readonly endedBy: number;
}

/** Usage of the requests of one group, as usage limits count it. */
export interface CountedUsage {
  readonly group: string;
  /** Billionths of a US dollar, including attempts that were aborted. */
  readonly cost: number;
  readonly tokens: number;
  /** Requests with at least one attempt or a cache hit. */
  readonly requests: number;
  /** The same without cache hits. */
  readonly attempted: number;
}

export interface LogRecord {
  readonly request: RequestRow;
  readonly body: BodyRow | undefined;
  /** With `LogQuery.preview`: the first words of the last message of a user; empty where there is none. */
  readonly preview?: string;
}

/** Position of the last entry of a page of log entries. */
export interface LogCursor {
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
  readonly id: string;
}

/** Query for log entries in the order of their acceptance, then of ids. */
export interface LogQuery {
  readonly window: TimeWindow;
  readonly visibility: Visibility;
  readonly filter?: RequestFilter;
  readonly order: 'newest' | 'oldest';
  /** 1 to 10,000. */
  readonly limit: number;
  /** Begin after this entry. */
  readonly after?: LogCursor;
  /** Also the bodies of requests and answers, without `provider_call`. Default false, which is much cheaper. */
  readonly bodies?: boolean;
  /** Also the preview, of at most so many characters, 1,000 at the most; not together with `bodies`. Default: none. */
  readonly preview?: number;
}

/** A place in the log: as text the time of the newest entry; in the process also what is known of the last seconds. */
export type LogPlace = string | { readonly newest: number };

/** Query for log entries that arrived in the store since the last answer, for a live view. */
export interface NewLogsQuery {
  /** `since` of an answer, also to another visibility, or a `resume`; undefined for the first query, without entries. */
  readonly since: LogPlace | undefined;
  readonly visibility: Visibility;
  readonly filter?: RequestFilter;
  /** 1 to 1,000; beyond it the oldest entries are left out. */
  readonly limit: number;
  /** Also the preview, as in `LogQuery`. An entry whose body has not arrived waits for it for two seconds. */
  readonly preview?: number;
  /** No query goes on from this one: no entry waits for its body. Default false. */
  readonly isLast?: boolean;
}

/** Entries that a live view did not get: `Analytics.logs` has them in this window. */
export interface LeftOut {
  readonly count: number;
  readonly window: TimeWindow;
}

/** New log entries, each of them once, oldest first. */
export interface NewLogs {
  readonly records: readonly LogRecord[];
  /** For the next query. */
  readonly since: LogPlace;
  /** A text of `since` to resume later; entries of the last seconds before it may come again. */
  readonly resume: string;
  /** Entries that were left out because of `limit`. */
  readonly left: LeftOut | undefined;
}

/** Totals of the requests that share a trace id. */
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
 * Rows in a file on this machine: newline-delimited JSON from byte `from` to `end` (exclusive) of the file at the
 * absolute `path`. Those bytes do not change while they are being stored.
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
   * Throws a `GatewayError` `store_unavailable` when the caller should retry (also when the file of `StoredRows` is
   * gone or too short), another error when the rows are invalid.
   */
  insert(table: JournalTable, rows: Uint8Array | StoredRows, deduplicationToken: string): Promise<void>;
  /**
   * The subset of these ids (UUIDs, in lower case) that a table has in a window, over all organisations: for the replay
   * of rows, never for a caller. Throws like a query.
   */
  storedIds(table: JournalTable, ids: readonly string[], window: TimeWindow): Promise<ReadonlySet<string>>;
  /**
   * Cost by day, kind of provider and model, over all organisations: for operators, never for a caller. Reads the rows
   * of requests, as far back as they are kept. `services` are kinds of providers (default: all).
   */
  costsByDay(query: {
    readonly window: TimeWindow;
    readonly services?: readonly string[];
  }): Promise<readonly RecordedCost[]>;
  /**
   * Usage by group, from the rows of requests, as far back as they are kept: for comparison with the counts of budgets,
   * never for a caller. Groups without requests are left out.
   */
  countedUsage(query: CountedUsageQuery): Promise<readonly CountedUsage[]>;
  /** Changes of prices, over all organisations: for operators, never for a caller. Rejects while the store is not open. */
  repricing(): Promise<Repricing>;
  groups(query: GroupQuery): Promise<{ total: number; rows: readonly GroupRow[] }>;
  /** Measures over time, and of the whole window. */
  series(query: RequestSeriesQuery): Promise<RequestSeries>;
  /**
   * Feedback over time, and of the whole window: the latest revision of each feedback, at the time of its first
   * revision.
   */
  feedbackSeries(query: FeedbackSeriesQuery): Promise<FeedbackSeries>;
  /** One page of log entries. */
  logs(query: LogQuery): Promise<readonly LogRecord[]>;
  /** Number of log entries that match. */
  countLogs(query: Pick<LogQuery, 'window' | 'visibility' | 'filter'>): Promise<number>;
  /** Log entries in the order in which they arrive in the store. */
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
  /** One request by its id, or undefined. */
  requestById(id: string, window: TimeWindow, visibility: Visibility): Promise<LogRecord | undefined>;
  /** A page of the feedback that was given in a window, the newest first; `total` counts all of it. */
  feedback(query: FeedbackQuery): Promise<{ total: number; rows: readonly GivenFeedback[] }>;
  /** The row with the highest revision of a `feedback_id`, or undefined. */
  feedbackById(id: string, window: TimeWindow, visibility: Visibility): Promise<FeedbackRow | undefined>;
  /** Resolves when the store answers; rejects with the reason otherwise. */
  ping(): Promise<void>;
  close(): Promise<void>;
}

/** Inclusive bounds; an absent one does not restrict. */
export interface Between {
  readonly min?: number;
  readonly max?: number;
}

/**
 * Conditions on requests. A request must match all of them; of a list, any one of its values, compared whole and
 * case-sensitively. An absent condition matches every request, an empty list none.
 */
export interface RequestFilter {
  readonly aiServices?: readonly string[];
  /** As answered. */
  readonly models?: readonly string[];
  /** A model of one kind of provider. */
  readonly serviceModels?: readonly { readonly service: string; readonly model: string }[];
  readonly providers?: readonly string[];
  readonly virtualKeys?: readonly string[];
  /** MCP servers by slug. */
  readonly mcpServers?: readonly string[];
  readonly mcpTools?: readonly string[];
  readonly configs?: readonly string[];
  readonly prompts?: readonly string[];
  readonly apiKeys?: readonly string[];
  readonly workspaces?: readonly string[];
  /** The user: the metadata `_user`, else the user of the key. */
  readonly users?: readonly string[];
  readonly traceIds?: readonly string[];
  readonly spanIds?: readonly string[];
  readonly endpoints?: readonly string[];
  readonly cacheStatuses?: readonly string[];
  readonly statusCodes?: readonly number[];
  readonly isSuccess?: boolean;
  /** Every one of these pairs; at most 20. */
  readonly metadata?: Readonly<Record<string, string>>;
  readonly promptTokens?: Between;
  readonly completionTokens?: Between;
  readonly totalTokens?: Between;
  /** US dollars. */
  readonly cost?: Between;
  readonly latencyMs?: Between;
  /**
   * The weighted average (value × weight over the weights) of the feedback of its trace; requests without feedback do
   * not match.
   */
  readonly weightedFeedback?: Between;
  /** Part of a logged body, of the request or the answer, case-insensitive; at most 256 characters. */
  readonly text?: string;
}

/** Address of the server and layout of its tables, from section `storage.analytics`. */
export interface AnalyticsServerSettings {
  /** For a server `http://HOST:8123/DATABASE` or `https://…`; the database is `weir` when none is named. */
  readonly url: string;
  readonly username?: string;
  readonly password?: string;
  readonly ca_file?: string;
  readonly cluster?: string;
  readonly replicated: boolean;
  readonly replica_path: string;
  readonly replica_name: string;
  /** Every shard of the cluster has the tables. */
  readonly sharded: boolean;
  /** Replicas that have a batch before it counts as stored; `auto`: the majority. Default: one. */
  readonly insert_quorum?: number | 'auto';
  readonly insert_quorum_parallel: boolean;
}
