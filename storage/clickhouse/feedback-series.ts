import type { FeedbackSeries, FeedbackSeriesQuery } from '../../core/ports/analytics.ts';
import { arrangeSeries, seriesStatement, type SeriesResult } from './arrange-series.ts';
import { bucketSql } from './bucket-sql.ts';
import { bucketStarts } from './bucket-starts.ts';
import { filterSql } from './filter-sql.ts';
import { latestFeedback, weightedAverage } from './latest-feedback-sql.ts';
import type { Select } from './select.ts';
import { moments, visible } from './visible.ts';

/** How long before the window the requests may lie that its feedback is about. */
const reachMs = 30 * 86_400_000;

interface Result extends SeriesResult {
  readonly point_total: number;
  readonly point_average: number | null;
}

/**
 * See `Analytics.feedbackSeries`. Filters and models look at requests of the window and of the 30 days before it;
 * feedback counts for one model, that of the latest request of its trace that succeeded (else of the latest of all), and
 * for an empty one without such a request.
 */
export async function feedbackSeries(
  select: Select,
  { buckets, window, visibility, filter, split }: FeedbackSeriesQuery,
): Promise<FeedbackSeries> {
  const { from, to } = moments(window);
  const starts = bucketStarts({ from, to }, buckets);
  const { whose, where, parameters } = visible({ from: from - reachMs, to }, visibility);
  const filtered = filterSql(filter);
  const bucket = bucketSql(starts);
  const given = `FROM feedback WHERE ${whose} AND created_at >= fromUnixTimestamp64Milli({given_from:Int64}, 'UTC')`;
  // Of the requests only those that feedback is about: sets of all would not fit into the memory of a query.
  const about = `trace_number IN (SELECT trace_number ${given} AND trace_id != '')`;
  const requests = [where, about, ...filtered.conditions].join(' AND ');
  // What was given before the window has only its later revisions within it.
  const feedback = `SELECT * FROM (${latestFeedback(given)}) WHERE given_at < fromUnixTimestamp64Milli({to:Int64}, 'UTC')`;
  const models = `LEFT JOIN (SELECT trace_number, argMax(model, (is_success, created_at, id)) AS answered_by FROM requests WHERE ${requests} GROUP BY trace_number) AS answers ON latest_trace = answers.trace_number`;
  const isFiltered = filter !== undefined && filtered.conditions.length > 0;
  const told = { none: "''", score: 'toString(latest_value)', model: 'toString(answered_by)' }[
    split ?? 'none'
  ];
  const at = bucket.of('intDiv(toUnixTimestamp64Milli(given_at), 1000)');
  const sql = seriesStatement(
    [
      `FROM (SELECT ${at} AS at, ${told} AS split, latest_value, latest_weight FROM (${feedback}) AS given`,
      split === 'model' ? models : '',
      isFiltered ? `WHERE latest_trace IN (SELECT trace_number FROM requests WHERE ${requests})` : '',
      ')',
    ].join(' '),
    ['count() AS point_total', `${weightedAverage} AS point_average`],
    { isSplit: split !== undefined, weight: 'count()' },
  );
  const bound = { ...parameters, ...filtered.parameters, ...bucket.parameters, given_from: from };
  const results = starts.length === 0 ? [] : await select<Result>(sql, bound);
  return arrangeSeries(results, starts, split !== undefined, {
    of: (result) => ({ total: result.point_total, averageWeighted: result.point_average }),
    nothing: { total: 0, averageWeighted: null },
  });
}
