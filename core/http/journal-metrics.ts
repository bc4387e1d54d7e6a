import { journalTables, shedReasons, type Journal, type JournalState } from '../ports/journal.ts';
import type { Metrics } from '../ports/metrics.ts';

const counted: Readonly<Record<Exclude<keyof JournalState, 'pending'>, string>> = {
  accepted: 'Log rows taken in, with those that an earlier run left on disk.',
  stored: 'Log rows that are in the analytics store.',
  shed: 'Log rows that were given up: the disk bound was reached, or the row could not be stored.',
};

/**
 * Reports the state of log rows at every scrape: `weir_rows_accepted_total`, `weir_rows_stored_total` and
 * `weir_rows_shed_total` by table, and `weir_rows_pending`, so that accepted = stored + pending + shed; the reasons,
 * `weir_journal_shed_rows_total` by table and reason; the fill level, `weir_journal_bytes` and
 * `weir_journal_max_bytes`; and the blocked requests, `weir_journal_blocked_requests_total` by result.
 */
export function reportJournal(metrics: Metrics, journal: Pick<Journal, 'state' | 'shedBy' | 'room'>): void {
  reportRows(metrics, journal);
  reportShed(metrics, journal);
  reportRoom(metrics, journal);
}

function reportRows(metrics: Metrics, journal: Pick<Journal, 'state'>): void {
  const labels = ['table'] as const;
  const pending = metrics.gauge({
    name: 'weir_rows_pending',
    help: 'Log rows waiting for insertion into the analytics store.',
    labels,
  });
  for (const table of journalTables) {
    const waiting = pending({ table });
    const series = Object.entries(counted).map(([name, help]) => ({
      name: name as keyof typeof counted,
      follow: following(metrics.counter({ name: `weir_rows_${name}_total`, help, labels })({ table })),
    }));
    metrics.onScrape(() => {
      const state = journal.state(table);
      waiting.set(state.pending);
      for (const { name, follow } of series) follow(state[name]);
    });
  }
}

function reportShed(metrics: Metrics, journal: Pick<Journal, 'shedBy'>): void {
  const shed = metrics.counter({
    name: 'weir_journal_shed_rows_total',
    help: 'Log rows dropped, by reason; the sum equals weir_rows_shed_total.',
    labels: ['table', 'reason'],
  });
  for (const table of journalTables) {
    const series = shedReasons.map((reason) => ({ reason, follow: following(shed({ table, reason })) }));
    metrics.onScrape(() => {
      const reasons = journal.shedBy(table);
      for (const { reason, follow } of series) follow(reasons[reason]);
    });
  }
}

function reportRoom(metrics: Metrics, journal: Pick<Journal, 'room'>): void {
  const gauge = (name: string, help: string) => metrics.gauge({ name, help, labels: [] })({});
  const bytes = gauge('weir_journal_bytes', 'Bytes of log rows that wait on disk or on the way there.');
  const most = gauge('weir_journal_max_bytes', 'The bound of weir_journal_bytes now.');
  const waiting = gauge('weir_journal_waiting_requests', 'Requests that wait for room in the journal.');
  const blocked = metrics.counter({
    name: 'weir_journal_blocked_requests_total',
    help: 'Requests that waited for room in the journal (storage.journal.when_full: block), by result.',
    labels: ['result'],
  });
  const admitted = following(blocked({ result: 'admitted' }));
  const refused = following(blocked({ result: 'refused' }));
  metrics.onScrape(() => {
    const room = journal.room();
    bytes.set(room.bytes);
    most.set(room.maxBytes);
    waiting.set(room.waiting);
    admitted(room.waited);
    refused(room.refused);
  });
}

/** Updates a counter from a number that only grows. */
function following(counter: { inc(by: number): void }): (now: number) => void {
  let seen = 0;
  return (now) => {
    counter.inc(now - seen);
    seen = now;
  };
}
