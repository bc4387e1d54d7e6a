import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import { chdbMissing, recordingLog, testClock } from '../../storage/embedded/chdb-fixture.ts';
import { openJournal } from '../../storage/journal/journal.ts';
import type { Insert } from '../../storage/journal/segment-shipper.ts';
import { countOf } from '../conformance/analytics-probe.ts';
import { requestRow } from '../conformance/analytics-rows.ts';
import { openJournalStore } from '../kit/journal-store.ts';

const rows = 100;
const bad = new Map([
  [0, (row: string) => row.replace(/"created_at":"[^"]*"/, '"created_at":"CONFIDENTIAL"')],
  [41, (row: string) => row.replace(/"total_tokens":\d+/, '"total_tokens":-1')],
  [42, (row: string) => row.replace(/"id":"[^"]*"/, '"id":"CONFIDENTIAL"')],
  [99, (row: string) => row.replace(/"status":\d+/, '"status":"many"')],
]);

test(
  'bad rows go to quarantine with the engine’s reason, all others are stored once, whatever goes wrong between',
  { skip: chdbMissing },
  async (t) => {
    const { analytics, directory } = await openJournalStore(t);
    let calls = 0;
    // Every third post never arrives, and the answer to every third is lost.
    const insert: Insert = async (...post) => {
      calls += 1;
      if (calls % 3 === 1) throw new GatewayError('store_unavailable', 'It is away.');
      await analytics.insert(...post);
      if (calls % 3 === 2) throw new GatewayError('store_unavailable', 'Its answer was lost.');
    };
    const log = recordingLog();
    const bounds = { flushMs: 5, shipMs: 20, maxBytes: 10_000_000 };
    const journal = await openJournal({ directory, insert, clock: testClock, log, ...bounds });
    const organisation_id = 'poisoned';
    const lines = Array.from({ length: rows }, (_, n) => {
      const line = JSON.stringify(requestRow({ organisation_id }));
      return bad.get(n)?.(line) ?? line;
    });
    for (const line of lines) journal.append('requests', line);
    let settled = false;
    const settling = journal.settle(60_000).then((all) => {
      settled = true;
      return all;
    });
    // Asking again ends the pauses between attempts.
    while (!settled) {
      void journal.settle(1);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    assert.equal(await settling, false, 'not every row could be stored');
    assert.deepEqual(journal.state('requests'), {
      accepted: rows,
      stored: rows - bad.size,
      pending: 0,
      shed: bad.size,
    });
    assert.equal(await countOf(analytics, organisation_id), rows - bad.size);
    await journal.close(1000);

    const folder = join(directory, 'quarantine');
    const kept = await Promise.all(
      (await readdir(folder)).map(async (file) => JSON.parse(await readFile(join(folder, file), 'utf8'))),
    );
    assert.deepEqual(kept.map(({ row }) => row).sort(), [...bad.keys()].map((n) => lines[n]).sort());
    for (const { reason } of kept) {
      assert.match(reason, /^the analytics store rejected rows for requests: error \d+ [A-Z_]+/);
      assert.doesNotMatch(reason, /CONFIDENTIAL/);
    }
    assert.doesNotMatch(log.lines.join('\n'), /CONFIDENTIAL/);
  },
);
