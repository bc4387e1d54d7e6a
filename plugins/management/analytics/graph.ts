import type { TProperties } from 'typebox';
import { GatewayError, type Scope, Type } from '../../../core/pipeline/plugin.ts';
import {
  type Buckets,
  type FeedbackPoint,
  type FeedbackSeries,
  type FeedbackSeriesQuery,
  type Measure,
  type Measures,
  maxBuckets,
  type RequestSeries,
  type RequestSeriesQuery,
  type SeriesPoint,
  type SeriesWindow,
  type TimeWindow,
} from '../../../core/ports/analytics.ts';
import { mapInTurns } from '../../../core/base/turns.ts';

const minuteMs = 60_000;
const dayMs = 86_400_000;

/** Lengths of a graph's points, shortest first; a month counts as the shortest month. */
const granularities = {
  minute: { unit: 'minute', size: 1, ms: minuteMs },
  '5m': { unit: 'minute', size: 5, ms: 5 * minuteMs },
  hour: { unit: 'hour', size: 1, ms: 60 * minuteMs },
  day: { unit: 'day', size: 1, ms: dayMs },
  week: { unit: 'week', size: 1, ms: 7 * dayMs },
  month: { unit: 'month', size: 1, ms: 28 * dayMs },
} as const satisfies Record<string, Pick<Buckets, 'unit' | 'size'> & { ms: number }>;
type Granularity = keyof typeof granularities;

const names = Object.keys(granularities) as Granularity[];
/** Upper bound of points for a query without a granularity. */
const fewPoints = 200;

/** Query parameters for the points of a graph. */
const granularityQuery = {
  granularity: Type.Optional(
    Type.Union(
      names.map((name) => Type.Literal(name)),
      {
        description: `Interval of a point. Default: the shortest that makes at most ${fewPoints} points. At most ${maxBuckets} points in all.`,
      },
    ),
  ),
  time_zone: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 64,
      examples: ['Asia/Kolkata'],
      description: 'IANA name of the time zone whose hours, days, weeks and months count. Default: UTC.',
    }),
  ),
};

/** Validated parameters of `granularityQuery`. */
export interface GranularityQuery {
  readonly granularity?: Granularity;
  readonly time_zone?: string;
}

/** The points of a query. Throws `invalid_request` for an unknown time zone and for too many points. */
export function bucketsOf(query: GranularityQuery, { from, to }: TimeWindow): Buckets {
  const timeZone = zoneOf(query.time_zone ?? 'UTC');
  // A window that starts within a point includes one more point.
  const pointsOf = (name: Granularity): number => Math.ceil((to - from) / granularities[name].ms) + 1;
  const fitting = (most: number): Granularity => names.find((name) => pointsOf(name) <= most) ?? 'month';
  const { granularity = fitting(fewPoints) } = query;
  if (pointsOf(granularity) > maxBuckets) {
    throw new GatewayError(
      'invalid_request',
      `"granularity" of "${granularity}" makes more than ${maxBuckets} points of this window. Ask for "${fitting(maxBuckets)}", or for a shorter window.`,
      { param: 'granularity' },
    );
  }
  const { unit, size } = granularities[granularity];
  return { unit, size, timeZone };
}

/** The canonical name of a time zone, which every store knows. Throws `invalid_request` for an unknown one. */
function zoneOf(name: string): string {
  if (name === 'UTC') return name;
  try {
    // Offsets like +05:30 are not names.
    if (/^[A-Za-z]/.test(name))
      return new Intl.DateTimeFormat('en', { timeZone: name }).resolvedOptions().timeZone;
  } catch {
    // Reported below.
  }
  const message = `"time_zone" names no time zone: "${name}". Write an IANA name like Europe/Berlin, or UTC.`;
  throw new GatewayError('invalid_request', message, { param: 'time_zone' });
}

/** A whole number, present also without any event. */
const Count = (description: string) => Type.Integer({ description });
/** A number, or null without data. */
const Figure = (description: string) => Type.Union([Type.Number(), Type.Null()], { description });
/** An instant in UTC. */
const Timestamp = Type.String({
  description: 'Start of the point, ISO 8601; it may lie before the window.',
});

/** Members of the queries and replies of graphs. */
export const graphSchemas = { Count, Figure, Timestamp, granularity: granularityQuery };

/** `value` divided by `count`, without floating-point noise; null when `count` is 0 or `value` is null. */
export function per(value: number | null, count: number): number | null {
  return value === null || count === 0 ? null : plain(value / count);
}

/** Percentage from 0 to 100; null when `whole` is 0. */
export function percent(part: number, whole: number): number | null {
  return whole === 0 ? null : plain((100 * part) / whole);
}

/** US dollars as a number; the store sums decimals and returns them as text. */
export function dollars(sum: number | string | null | undefined): number {
  return Number(sum ?? 0);
}

function plain(value: number): number {
  return Number(value.toPrecision(15));
}

/** Reads requests and feedback of one query from the store. */
interface GraphSource {
  series(
    measures: RequestSeriesQuery['measures'],
    split?: RequestSeriesQuery['split'],
  ): Promise<RequestSeries>;
  feedback(split?: FeedbackSeriesQuery['split']): Promise<FeedbackSeries>;
}

/** Answer of a graph: a summary of the window, and its points. */
interface GraphAnswer {
  readonly summary: Readonly<Record<string, unknown>>;
  readonly data_points: Readonly<Record<string, unknown>>[];
}

/** One graph: its path, its answer's schema, and the function that makes the answer. */
export interface Graph {
  /** Path after `/analytics/graphs/`. */
  readonly path: string;
  /** Second path, which some clients use. */
  readonly alias?: string;
  readonly title: string;
  readonly summary: TProperties;
  readonly point: TProperties;
  read(source: GraphSource): Promise<GraphAnswer>;
}

type Reading = Pick<Graph, 'summary' | 'point' | 'read'>;
type Show<T> = (values: T) => Readonly<Record<string, unknown>>;

/** The source for one query. */
export function graphSource({ analytics }: Pick<Scope, 'analytics'>, question: SeriesWindow): GraphSource {
  return {
    series: (measures, split) =>
      analytics.series({ ...question, measures, ...(split !== undefined && { split }) }),
    feedback: (split) => analytics.feedbackSeries({ ...question, ...(split !== undefined && { split }) }),
  };
}

/** A graph whose points and summary have the same fields, made from the same measures. */
export function overTime(measures: readonly Measure[], fields: TProperties, show: Show<Measures>): Reading {
  return {
    summary: fields,
    point: { timestamp: Timestamp, ...fields },
    async read(source) {
      const { totals, points } = await source.series(measures);
      return {
        summary: show(totals[0]?.values ?? {}),
        data_points: await dataPoints(points, ({ values }) => show(values)),
      };
    },
  };
}

type Feedback = Pick<FeedbackPoint, 'total' | 'averageWeighted'>;
const noFeedback: Feedback = { total: 0, averageWeighted: null };

/** The same for feedback. */
export function feedbackOverTime(fields: TProperties, show: Show<Feedback>): Reading {
  return {
    summary: fields,
    point: { timestamp: Timestamp, ...fields },
    async read(source) {
      const { totals, points } = await source.feedback();
      return {
        summary: show(totals[0] ?? noFeedback),
        data_points: await dataPoints(points, show),
      };
    },
  };
}

/** A graph with one list in every point: the count of each value of a split, without zero counts. */
export function stacked(
  measure: Measure,
  split: NonNullable<RequestSeriesQuery['split']>,
  more: readonly Measure[],
  shape: {
    readonly summary: TProperties;
    readonly point: TProperties;
    total(values: Measures, sum: number): Readonly<Record<string, unknown>>;
    at(values: Measures, counts: readonly SplitCount[]): Readonly<Record<string, unknown>>;
  },
): Reading {
  return {
    summary: shape.summary,
    point: { timestamp: Timestamp, ...shape.point },
    async read(source) {
      // Only the first series has points without requests.
      const [whole, apart] = await Promise.all([
        source.series([measure, ...more]),
        source.series([measure], split),
      ]);
      const byTime = pointsByTime(apart.points);
      const sum = splitCounts(measure, apart.totals).reduce((all, { count }) => all + count, 0);
      return {
        summary: shape.total(whole.totals[0]?.values ?? {}, sum),
        data_points: await dataPoints(whole.points, ({ at, values }) =>
          shape.at(values, splitCounts(measure, byTime.get(at) ?? [])),
        ),
      };
    },
  };
}

function pointsByTime(points: readonly SeriesPoint[]): ReadonlyMap<number, readonly SeriesPoint[]> {
  const byTime = new Map<number, SeriesPoint[]>();
  for (const point of points) {
    const others = byTime.get(point.at);
    if (others === undefined) byTime.set(point.at, [point]);
    else others.push(point);
  }
  return byTime;
}

/** Count of one value of a numeric split. */
interface SplitCount {
  readonly value: number;
  readonly count: number;
}

/** Counts above zero, ordered by value. */
export function splitCounts(
  measure: Measure,
  points: readonly Omit<SeriesPoint, 'at'>[],
): readonly SplitCount[] {
  return points
    .map(({ split, values }) => ({ value: Number(split), count: Number(values[measure] ?? 0) }))
    .filter(({ count }) => count > 0)
    .sort((one, other) => one.value - other.value);
}

/** The points of an answer: each with its timestamp and the fields of `show`. Yields to other requests in between. */
export function dataPoints<Point extends { readonly at: number }>(
  points: readonly Point[],
  show: Show<Point>,
): Promise<GraphAnswer['data_points']> {
  const timestamp = timestamps();
  return mapInTurns(points, (point) => ({ timestamp: timestamp(point.at), ...show(point) }));
}

/** Formats instants as ISO 8601 with cached days and times of day: a date costs more than the rest of a point. */
function timestamps(): (at: number) => string {
  const dates = new Map<number, string>();
  const times = new Map<number, string>();
  return (at) => {
    const day = Math.floor(at / dayMs) * dayMs;
    const time = at - day;
    let date = dates.get(day);
    if (date === undefined) dates.set(day, (date = new Date(day).toISOString().slice(0, 11)));
    let text = times.get(time);
    if (text === undefined) times.set(time, (text = new Date(time).toISOString().slice(11)));
    return date + text;
  };
}
