import { GatewayError } from '../../core/errors/gateway-error.ts';
import { mapInTurns } from '../../core/base/in-turns.ts';

/** Points of a split series that an answer holds at the most. */
const mostPoints = 100_000;

/** One row of a statement that ends with `seriesEnd`: a point, or the total of a value of the split. */
export interface SeriesResult {
  /** Seconds since the epoch. */
  readonly point_at: number;
  readonly point_split?: string;
  readonly is_total: number;
}

/** Where and of what a point is. */
export interface Placed {
  readonly at: number;
  readonly split: string | undefined;
}

/**
 * The first and the last part of a statement over rows with `at` and `split`, which gives points and totals. `weight`:
 * of the points of a bucket the one with most of it comes first.
 */
export function seriesStatement(
  from: string,
  computed: readonly string[],
  { isSplit, weight }: { readonly isSplit: boolean; readonly weight: string },
): string {
  const keys = isSplit ? 'split, at' : 'at';
  const columns = [
    'at AS point_at',
    'grouping(at) AS is_total',
    ...(isSplit ? ['split AS point_split'] : []),
  ];
  return [
    `SELECT ${[...columns, ...computed].join(', ')}`,
    from,
    `GROUP BY ${keys} WITH ROLLUP`,
    // The last step of the roll-up, over all values of the split, is nobody's.
    `HAVING ${weight} > 0${isSplit ? ' AND grouping(split) = 0' : ''}`,
    `ORDER BY is_total, at, ${weight} DESC${isSplit ? ', split' : ''}`,
    `LIMIT ${mostPoints + 1}`,
  ].join('\n');
}

/**
 * Brings the rows of such a statement into the order of a series and fills its gaps. Throws `invalid_request` for too
 * many points.
 */
export async function arrangeSeries<Result extends SeriesResult, Values extends object>(
  results: readonly Result[],
  starts: readonly number[],
  isSplit: boolean,
  { of, nothing }: { readonly of: (result: Result) => Values; readonly nothing: Values },
): Promise<{ totals: (Omit<Placed, 'at'> & Values)[]; points: (Placed & Values)[] }> {
  if (results.length > mostPoints) throw tooManyPoints();
  const splitOf = (result: Result): string | undefined => (isSplit ? result.point_split : undefined);
  const totals = results
    .filter((result) => result.is_total === 1)
    .map((result) => ({ split: splitOf(result), ...of(result) }));
  const points = await mapInTurns(
    results.filter((result) => result.is_total === 0),
    (result) => ({ at: result.point_at * 1000, split: splitOf(result), ...of(result) }),
  );
  if (isSplit) return { totals, points };
  const found = new Map(points.map((point) => [point.at, point]));
  const none = { split: undefined, ...nothing };
  return {
    totals: totals.length > 0 ? totals : [none],
    points: await mapInTurns(starts, (at) => found.get(at) ?? { at, ...none }),
  };
}

function tooManyPoints(): GatewayError {
  const message = `The series has more than ${mostPoints} points. Choose a coarser granularity, a shorter window or a filter.`;
  return new GatewayError('invalid_request', message, { param: 'granularity' });
}
