import { GatewayError, Type } from '../../core/pipeline/plugin.ts';
import { type Buckets, mostBuckets, type TimeWindow } from '../../core/ports/analytics.ts';

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
