import type { TProperties } from 'typebox';
import { GatewayError, type Scope, Type } from '../../../core/pipeline/plugin.ts';
import {
  type Buckets,
  type FeedbackPoint,
  type FeedbackSeries,
  type FeedbackSeriesQuery,
  type Measure,
  type Measures,
  mostBuckets,
  type RequestSeries,
  type RequestSeriesQuery,
  type SeriesPoint,
  type SeriesWindow,
  type TimeWindow,
} from '../../../core/ports/analytics.ts';
import { mapInTurns } from '../../../core/base/turns.ts';

const minuteMs = 60_000;
const dayMs = 86_400_000;

/** How long the points of a graph are, shortest first; months count as their shortest. */
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
/** Points of a graph whose query does not say how long they are. */
const fewPoints = 200;

/** The part of a graph's query that says what its points are. */
export const granularityQuery = {
  granularity: Type.Optional(
    Type.Union(
      names.map((name) => Type.Literal(name)),
      {
        description: `Length of a point. Default: the shortest that makes at most ${fewPoints} points. At most ${mostBuckets} points in all.`,
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

/** What `granularityQuery` lets through. */
export interface GranularityQuery {
  readonly granularity?: Granularity;
  readonly time_zone?: string;
}

/** The points that a query asks for. Throws `invalid_request` for a zone that is not known and for too many points. */
export function bucketsOf(query: GranularityQuery, { from, to }: TimeWindow): Buckets {
  const timeZone = zoneOf(query.time_zone ?? 'UTC');
  // A window that begins within a point touches one more.
  const pointsOf = (name: Granularity): number => Math.ceil((to - from) / granularities[name].ms) + 1;
  const fitting = (most: number): Granularity => names.find((name) => pointsOf(name) <= most) ?? 'month';
  const { granularity = fitting(fewPoints) } = query;
  if (pointsOf(granularity) > mostBuckets) {
    throw new GatewayError(
      'invalid_request',
      `"granularity" of "${granularity}" makes more than ${mostBuckets} points of this window. Ask for "${fitting(mostBuckets)}", or for a shorter window.`,
      { param: 'granularity' },
    );
  }
  const { unit, size } = granularities[granularity];
  return { unit, size, timeZone };
}

/** The name that every store knows: the one that the zone has in the database of zones. */
function zoneOf(name: string): string {
  if (name === 'UTC') return name;
  try {
    // Offsets like +05:30 are no names.
    if (/^[A-Za-z]/.test(name))
      return new Intl.DateTimeFormat('en', { timeZone: name }).resolvedOptions().timeZone;
  } catch {
    // Said below.
  }
  const message = `"time_zone" names no time zone: "${name}". Write an IANA name like Europe/Berlin, or UTC.`;
  throw new GatewayError('invalid_request', message, { param: 'time_zone' });
}

/** A whole number that is there also where nothing happened. */
export const Count = (description: string) => Type.Integer({ description });
/** A number, or null where there is nothing to make it of. */
export const Figure = (description: string) => Type.Union([Type.Number(), Type.Null()], { description });
/** An instant in UTC. */
export const Timestamp = Type.String({
  description: 'Beginning of the point, ISO 8601; it may lie before the window.',
});

/** One number of the measures; counts that are not there are 0. */
export function counted(values: Measures, measure: Measure): number {
  return measured(values, measure) ?? 0;
}

/** One number of the measures; null where there is none. Sums come as text from the store. */
export function measured(values: Measures, measure: Measure): number | null {
  const value = values[measure] ?? null;
  return value === null ? null : Number(value);
}

/** The one over the other, without the digits that binary fractions make up; null over nothing. */
export function per(value: number | null, count: number): number | null {
  return value === null || count === 0 ? null : plain(value / count);
}

/** Percent of a number: from 0 to 100, null of nothing. */
export function percent(part: number, whole: number): number | null {
  return whole === 0 ? null : plain((100 * part) / whole);
}

/** US dollars as a number; the store sums them as decimals and says them as text. */
export function dollars(sum: number | string | null | undefined): number {
  return Number(sum ?? 0);
}

function plain(value: number): number {
  return Number(value.toPrecision(15));
}

/** Asks the store about the requests and the feedback that a query is about. */
interface GraphSource {
  series(
    measures: RequestSeriesQuery['measures'],
    split?: RequestSeriesQuery['split'],
  ): Promise<RequestSeries>;
  feedback(split?: FeedbackSeriesQuery['split']): Promise<FeedbackSeries>;
}

/** What a graph answers: the window as a whole, and its points. */
interface GraphAnswer {
  readonly summary: Readonly<Record<string, unknown>>;
  readonly data_points: Readonly<Record<string, unknown>>[];
}

/** One graph: where it is, what it answers with, and how the answer is made. */
export interface Graph {
  /** Behind `/analytics/graphs/`. */
  readonly path: string;
  /** The path under which some clients look for it. */
  readonly alias?: string;
  readonly title: string;
  readonly summary: TProperties;
  readonly point: TProperties;
  read(source: GraphSource): Promise<GraphAnswer>;
}

type Reading = Pick<Graph, 'summary' | 'point' | 'read'>;
type Show<T> = (values: T) => Readonly<Record<string, unknown>>;

/** The source of one question. */
export function graphSource({ analytics }: Pick<Scope, 'analytics'>, question: SeriesWindow): GraphSource {
  return {
    series: (measures, split) =>
      analytics.series({ ...question, measures, ...(split !== undefined && { split }) }),
    feedback: (split) => analytics.feedbackSeries({ ...question, ...(split !== undefined && { split }) }),
  };
}

/** A graph whose points and summary hold the same fields, made of the same measures. */
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

/** The same of feedback. */
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

/** A graph with one list in every point: how often each value of a split came, those that never came left out. */
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
      // Only the first one has points where nothing happened.
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

/** How often a value of a split that is a number came. */
interface SplitCount {
  readonly value: number;
  readonly count: number;
}

/** The values that came at least once, in their order. */
export function splitCounts(
  measure: Measure,
  points: readonly Omit<SeriesPoint, 'at'>[],
): readonly SplitCount[] {
  return points
    .map(({ split, values }) => ({ value: Number(split), count: Number(values[measure] ?? 0) }))
    .filter(({ count }) => count > 0)
    .sort((one, other) => one.value - other.value);
}

/** The points of an answer: when each begins, and what `show` says of it. Requests have their turns in between. */
export function dataPoints<Point extends { readonly at: number }>(
  points: readonly Point[],
  show: Show<Point>,
): Promise<GraphAnswer['data_points']> {
  const timestamp = timestamps();
  return mapInTurns(points, (point) => ({ timestamp: timestamp(point.at), ...show(point) }));
}

/** ISO 8601, of many instants that share their days and times of day: a date takes longer to write than all else of a point. */
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
