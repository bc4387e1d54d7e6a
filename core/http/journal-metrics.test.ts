import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createMetrics } from '../../adapters/telemetry/prometheus.ts';
import type { JournalTable } from '../ports/journal.ts';
import { reportJournal } from './journal-metrics.ts';

test('each scrape shows where the rows of each table are now', async () => {
  const metrics = createMetrics();
  const rows = {
    requests: { accepted: 5, stored: 2, pending: 2, shed: 1 },
    bodies: { accepted: 3, stored: 0, pending: 3, shed: 0 },
    feedback: { accepted: 1, stored: 1, pending: 0, shed: 0 },
  };
  reportJournal(metrics, { state: (table: JournalTable) => rows[table] });
  const shown = async (): Promise<string[]> =>
    (await metrics.render()).text
      .split('\n')
      .filter((line) => line.startsWith('weir_rows_'))
      .sort();
  assert.deepEqual(await shown(), [
    'weir_rows_accepted_total{table="bodies"} 3',
    'weir_rows_accepted_total{table="feedback"} 1',
    'weir_rows_accepted_total{table="requests"} 5',
    'weir_rows_pending{table="bodies"} 3',
    'weir_rows_pending{table="feedback"} 0',
    'weir_rows_pending{table="requests"} 2',
    'weir_rows_shed_total{table="bodies"} 0',
    'weir_rows_shed_total{table="feedback"} 0',
    'weir_rows_shed_total{table="requests"} 1',
    'weir_rows_stored_total{table="bodies"} 0',
    'weir_rows_stored_total{table="feedback"} 1',
    'weir_rows_stored_total{table="requests"} 2',
  ]);
  rows.requests = { accepted: 6, stored: 5, pending: 0, shed: 1 };
  assert.deepEqual(
    (await shown()).filter((line) => line.includes('requests')),
    [
      'weir_rows_accepted_total{table="requests"} 6',
      'weir_rows_pending{table="requests"} 0',
      'weir_rows_shed_total{table="requests"} 1',
      'weir_rows_stored_total{table="requests"} 5',
    ],
  );
});
