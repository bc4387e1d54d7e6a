import { whoseEver } from './visible.ts';

/** Digits after the point to which averages are compared: sums of fractions depend on their order beyond them. */
const digits = 9;

/** What some feedback says now, of all its revisions: columns of a statement that groups by `feedback_id`; a trace is its number. */
export const latestRevision = [
  'argMax((trace_number, value, weight), (revision, created_at, id)) AS latest',
  'latest.1 AS latest_trace',
  'latest.2 AS latest_value',
  'latest.3 AS latest_weight',
].join(', ');

/** The weighted average of the latest revisions, null when all weights are 0. */
export const weightedAverage =
  'if(sum(latest_weight) = 0, NULL, sum(latest_value * latest_weight) / sum(latest_weight))';

/**
 * Traces with feedback, of that which `visible` lets see at any time: `trace` is its number, `weighted` (value × weight),
 * `weights`, and `average`, null when all weights are 0. Sorts, which can go on in files; keeping each one's latest
 * revision in memory takes ten times as much.
 */
export const feedbackOfTraces = [
  'SELECT trace, sum(latest_value * latest_weight) AS weighted, sum(latest_weight) AS weights,',
  `round(${weightedAverage}, ${digits}) AS average`,
  'FROM (SELECT trace_number AS trace, trace_id AS latest_trace_id, value AS latest_value, weight AS latest_weight',
  `FROM feedback WHERE ${whoseEver} ORDER BY feedback_id, revision DESC, created_at DESC, id DESC LIMIT 1 BY feedback_id)`,
  "WHERE latest_trace_id != '' GROUP BY trace",
].join(' ');
