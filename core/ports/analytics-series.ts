import type { Grouping, TimeWindow, Visibility } from './analytics.ts';
import type { RequestFilter } from './request-filter.ts';

/** What can be measured of requests over time. */
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
  /** Different users, within 2 %; see `RequestFilter.users`. Requests without one do not count. */
  'users',
  /** Answered from the cache by equality, and by meaning. */
  'simple_hits',
  'semantic_hits',
  /** Milliseconds of requests that the cache answered, and of the successful others; null without any. */
  'avg_hit_latency',
  'avg_miss_latency',
  /** Successful requests that needed a further try at the target that answered, and another target than the first. */
  'rescued_by_retry',
  'rescued_by_fallback',
] as const;
export type Measure = (typeof measures)[number];

/** What a series can be split by: a grouping, or how many further tries rescued a request (`1`, `2` …). */
export type SeriesSplit = Grouping | 'retries';

/** Spans of time, aligned to the clock and the calendar of a time zone; weeks begin on Monday. */
export interface Buckets {
  readonly unit: 'minute' | 'hour' | 'day' | 'week' | 'month';
  /** Minutes of a bucket of unit `minute`: 1, 5, 10, 15 or 30. All other units: 1. */
  readonly size: 1 | 5 | 10 | 15 | 30;
  /** IANA name: `UTC`, `Asia/Kolkata`. */
  readonly timeZone: string;
}

/** Buckets that an answer holds at the most. */
export const mostBuckets = 10_000;

/** What every question about time is made of. */
export interface SeriesWindow {
  readonly buckets: Buckets;
  readonly window: TimeWindow;
  readonly visibility: Visibility;
  readonly filter?: RequestFilter;
}

export interface RequestSeriesQuery extends SeriesWindow {
  readonly measures: readonly Measure[];
  /** Default: requests are not told apart. */
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
 * also where nothing happened; with one, only those that have requests. `totals`: the whole window, in the same way.
 */
export interface RequestSeries {
  readonly totals: readonly Omit<SeriesPoint, 'at'>[];
  readonly points: readonly SeriesPoint[];
}

export interface FeedbackSeriesQuery extends SeriesWindow {
  /** `score`: the value. `model`: the model that answered. Default: feedback is not told apart. */
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
