import type { FeedbackRow, RequestRow } from '../../core/ports/request-row.ts';

/** What each feedback says now: its row with the highest revision. */
export function latestFeedback(rows: readonly FeedbackRow[]): FeedbackRow[] {
  const latest = new Map<string, FeedbackRow>();
  for (const row of rows) {
    const other = latest.get(row.feedback_id);
    if (other === undefined || other.revision < row.revision) latest.set(row.feedback_id, row);
  }
  return [...latest.values()];
}

/** Of some feedback that about the trace of a request. */
export function feedbackOf(row: RequestRow, feedback: readonly FeedbackRow[]): FeedbackRow[] {
  return row.trace_id === '' ? [] : feedback.filter((one) => one.trace_id === row.trace_id);
}

/** Values by their weights; null when these are 0. */
export function weightedAverage(feedback: readonly FeedbackRow[]): number | null {
  const weights = feedback.reduce((total, { weight }) => total + weight, 0);
  return weights === 0
    ? null
    : feedback.reduce((total, { value, weight }) => total + value * weight, 0) / weights;
}
