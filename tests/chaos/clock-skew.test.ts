// A clock that is wrong, and goes back: rows keep the time that they came with, and each is stored once.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { chdbMissing, recordingLog, testClock } from '../../storage/embedded/chdb-fixture.ts';
import { openJournal } from '../../storage/journal/journal.ts';
import { always, countOf } from '../conformance/analytics-probe.ts';
import { requestRow } from '../conformance/analytics-rows.ts';
import { openJournalStore } from '../kit/journal-store.ts';

const moments = ['1971-03-01', '2026-11-22', '2026-11-25', '2099-12-31', '2020-02-29', '2026-11-21'];

test(
  'rows of the past and of the future are stored once, in the segments in which they came',
  { skip: chdbMissing },
  async (t) => {
    const { analytics, directory } = await openJournalStore(t);
    let skewMs = 0;
    const clock = { ...testClock, now: () => testClock.now() + skewMs };
    const bounds = { flushMs: 5, shipMs: 20, maxBytes: 10_000_000 };
    const organisation_id = 'skewed';
    const ids: string[] = [];
    for (const jumpMs of [0, -400 * 86_400_000, 400 * 86_400_000]) {
      skewMs = jumpMs;
      const insert = (...post: Parameters<typeof analytics.insert>) => analytics.insert(...post);
      const journal = await openJournal({ directory, insert, clock, log: recordingLog(), ...bounds });
      for (const moment of moments) {
        const row = requestRow({ organisation_id, created_at: `${moment} 12:00:00.000` });
        ids.push(row.id);
        journal.append('requests', JSON.stringify(row));
      }
      assert.equal(await journal.settle(60_000), true);
      assert.equal(journal.state('requests').stored, moments.length);
      await journal.close(1000);
    }
    assert.equal(await countOf(analytics, organisation_id), ids.length);
    assert.equal((await analytics.storedIds('requests', ids, always)).size, ids.length);
  },
);
