import { whoseEver } from './visible.ts';

/** Digits after the point to which averages are compared: sums of fractions depend on their order beyond them. */
const digits = 9;

/** What some feedback says now, of all its revisions: columns of a statement that groups by `feedback_id`. */
export const latestRevision = ['trace_id', 'value', 'weight']
  .map((column) => `argMax(${column}, (revision, created_at, id)) AS latest_${column}`)
  .join(', ');

/** The weighted average of the latest revisions, null when all weights are 0. */
export const weightedAverage =
  'if(sum(latest_weight) = 0, NULL, sum(latest_value * latest_weight) / sum(latest_weight))';

/**
 * Traces with feedback, of that which `visible` lets see at any time: `trace`, `weighted` (value × weight), `weights`, and
 * `average`, null when all weights are 0.
 */
export const feedbackOfTraces = [
  'SELECT latest_trace_id AS trace, sum(latest_value * latest_weight) AS weighted, sum(latest_weight) AS weights,',
  `round(${weightedAverage}, ${digits}) AS average`,
  `FROM (SELECT feedback_id, ${latestRevision} FROM feedback WHERE ${whoseEver} GROUP BY feedback_id)`,
  "WHERE trace != '' GROUP BY trace",
].join(' ');
