import type { TProperties } from 'typebox';
import type { Scope } from '../../core/pipeline/plugin.ts';
import type {
  FeedbackPoint,
  FeedbackSeries,
  FeedbackSeriesQuery,
  Measure,
  Measures,
  RequestSeries,
  RequestSeriesQuery,
  SeriesPoint,
  SeriesWindow,
} from '../../core/ports/analytics.ts';
import { mapInTurns } from '../../core/base/in-turns.ts';
import { Timestamp } from './graph-values.ts';

/** Asks the store about the requests and the feedback that a query is about. */
export interface GraphSource {
  series(
    measures: RequestSeriesQuery['measures'],
    split?: RequestSeriesQuery['split'],
  ): Promise<RequestSeries>;
  feedback(split?: FeedbackSeriesQuery['split']): Promise<FeedbackSeries>;
}

/** What a graph answers: the window as a whole, and its points. */
export interface GraphAnswer {
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

const dayMs = 86_400_000;

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
export interface SplitCount {
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
