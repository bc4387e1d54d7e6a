import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createMetrics } from '../../adapters/telemetry/prometheus.ts';
import type { JournalRoom, JournalTable } from '../ports/journal.ts';
import { reportJournal } from './journal-metrics.ts';

test('each scrape shows where the rows of each table are now', async () => {
  const metrics = createMetrics();
  const rows = {
    requests: { accepted: 5, stored: 2, pending: 2, shed: 1 },
    bodies: { accepted: 3, stored: 0, pending: 3, shed: 0 },
    feedback: { accepted: 1, stored: 1, pending: 0, shed: 0 },
  };
  const shed = { requests: noneShed, bodies: noneShed, feedback: noneShed };
  let room: JournalRoom = { policy: 'block', maxBytes: 100, bytes: 7, waiting: 1, waited: 2, refused: 3 };
  reportJournal(metrics, {
    state: (table: JournalTable) => rows[table],
    shedBy: (table: JournalTable) => shed[table],
    room: () => room,
  });
  const shown = async (prefix = 'weir_rows_'): Promise<string[]> =>
    (await metrics.render()).text
      .split('\n')
      .filter((line) => line.startsWith(prefix))
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
  shed.bodies = { ...noneShed, share: 2, bodies: 1 };
  room = { ...room, bytes: 9, waiting: 0, waited: 4 };
  assert.deepEqual(
    (await shown('weir_journal_')).filter((line) => !line.endsWith(' 0')),
    [
      'weir_journal_blocked_requests_total{result="admitted"} 4',
      'weir_journal_blocked_requests_total{result="refused"} 3',
      'weir_journal_bytes 9',
      'weir_journal_max_bytes 100',
      'weir_journal_shed_rows_total{table="bodies",reason="bodies"} 1',
      'weir_journal_shed_rows_total{table="bodies",reason="share"} 2',
    ],
  );
});

const noneShed = {
  share: 0,
  bodies: 0,
  disk: 0,
  memory: 0,
  length: 0,
  closed: 0,
  refused: 0,
  age: 0,
  lost: 0,
};
