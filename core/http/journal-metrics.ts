import { journalTables, type Journal, type JournalState } from '../ports/journal.ts';
import type { Metrics } from '../ports/metrics.ts';

const counted: Readonly<Record<Exclude<keyof JournalState, 'pending'>, string>> = {
  accepted: 'Log rows taken in, with those that an earlier run left on disk.',
  stored: 'Log rows that are in the analytics store.',
  shed: 'Log rows that were given up: the disk bound was reached, or the row could not be stored.',
};

/**
 * Shows where log rows are, at every scrape: `weir_rows_accepted_total`, `weir_rows_stored_total` and
 * `weir_rows_shed_total` by table, and `weir_rows_pending`, so that accepted = stored + pending + shed.
 */
export function reportJournal(metrics: Metrics, journal: Pick<Journal, 'state'>): void {
  const labels = ['table'] as const;
  const pending = metrics.gauge({
    name: 'weir_rows_pending',
    help: 'Log rows on their way to the analytics store.',
    labels,
  });
  for (const table of journalTables) {
    const waiting = pending({ table });
    const series = Object.entries(counted).map(([name, help]) => ({
      name: name as keyof typeof counted,
      counter: metrics.counter({ name: `weir_rows_${name}_total`, help, labels })({ table }),
      seen: 0,
    }));
    metrics.onScrape(() => {
      const state = journal.state(table);
      waiting.set(state.pending);
      for (const one of series) {
        one.counter.inc(state[one.name] - one.seen);
        one.seen = state[one.name];
      }
    });
  }
}
