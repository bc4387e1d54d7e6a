import { whoseEver } from './visible.ts';

/** Digits after the point to which averages are compared: sums of fractions depend on their order beyond them. */
const digits = 9;

/** The latest revision comes first. */
const latestFirst = 'revision DESC, created_at DESC, id DESC';

/**
 * What each feedback says now and since when there is some: `latest_trace` (a number), `latest_value`, `latest_weight` and
 * `given_at`. `from` begins with FROM; feedback of which it holds later revisions only is left out. Sorts, which can go on
 * in files; keeping each one's latest revision in memory takes ten times as much.
 */
export function latestFeedback(from: string): string {
  const all = 'ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING';
  return [
    'SELECT trace_number AS latest_trace, value AS latest_value, weight AS latest_weight, given_at',
    'FROM (SELECT trace_number, value, weight, row_number() OVER revisions AS place,',
    'last_value(revision) OVER revisions AS oldest, last_value(created_at) OVER revisions AS given_at',
    `${from} WINDOW revisions AS (PARTITION BY feedback_id ORDER BY ${latestFirst} ${all}))`,
    'WHERE place = 1 AND oldest = 1',
  ].join(' ');
}

/** The weighted average of the latest revisions, null when all weights are 0. */
export const weightedAverage =
  'if(sum(latest_weight) = 0, NULL, sum(latest_value * latest_weight) / sum(latest_weight))';

/**
 * Traces with feedback, of that which `visible` lets see at any time: `trace` is its number, `weighted` (value × weight),
 * `weights`, and `average`, null when all weights are 0. Sorts as `latestFeedback` does.
 */
export const feedbackOfTraces = [
  'SELECT trace, sum(latest_value * latest_weight) AS weighted, sum(latest_weight) AS weights,',
  `round(${weightedAverage}, ${digits}) AS average`,
  'FROM (SELECT trace_number AS trace, trace_id AS latest_trace_id, value AS latest_value, weight AS latest_weight',
  `FROM feedback WHERE ${whoseEver} ORDER BY feedback_id, ${latestFirst} LIMIT 1 BY feedback_id)`,
  "WHERE latest_trace_id != '' GROUP BY trace",
].join(' ');
