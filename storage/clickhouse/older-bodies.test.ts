import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { createClient } from '@clickhouse/client';
import { newToken } from '../../tests/conformance/analytics-probe.ts';
import { bodyRow, dayStart, ndjson, requestRow } from '../../tests/conformance/analytics-rows.ts';
import { chdbMissing, recordingLog, startTestChdb } from '../embedded/chdb-fixture.ts';
import type { EmbeddedChdb } from '../embedded/start-chdb.ts';
import { createAnalytics } from './create-analytics.ts';
import { migrate, readMigrations, schemaOf } from './migrate.ts';
import { rowColumns } from './row-columns.ts';

const window = { from: dayStart, to: dayStart + 86_400_000 };
/** Without the headers of requests, which came first, and without the calls to providers. */
const versions = [
  { known: 8, without: ['request_headers', 'provider_call'] },
  { known: 9, without: ['provider_call'] },
] as const;

describe('bodies that are older than what is kept beside them', { skip: chdbMissing }, () => {
  let engine: EmbeddedChdb;
  let closeEngine: () => Promise<void>;
  before(async () => {
    ({ engine, close: closeEngine } = await startTestChdb());
  });
  after(() => closeEngine());

  for (const { known: count, without } of versions) {
    test(`are read without ${without.join(' and ')}, and an older replica goes on beside a newer one`, async () => {
      const { url, username, password } = engine;
      const root = createClient({ url, username, password });
      const database = `older${count}`;
      await root.command({ query: `CREATE DATABASE ${database}` });
      await root.close();
      const store = { url, username, password, database };
      const older = createClient(store);
      const known = (await readMigrations()).slice(0, count);
      await migrate(schemaOf(older), known, recordingLog());
      const organisation_id = randomUUID();
      const rows = [1, 2, 3].map(() => requestRow({ organisation_id }));
      const [stored, shippedLater, fresh] = rows.map((row) => bodyRow(row));
      assert.ok(stored && shippedLater && fresh);
      // What an older version writes, to the store and into the files of its journal.
      for (const row of [stored, shippedLater]) for (const name of without) delete row[name];
      await older.insert({ table: 'requests', values: rows, format: 'JSONEachRow' });
      await older.insert({ table: 'bodies', values: [stored], format: 'JSONEachRow' });

      const analytics = await createAnalytics({ ...store, log: recordingLog() });
      try {
        await analytics.insert('bodies', ndjson([shippedLater]), newToken());
        await analytics.insert('bodies', ndjson([fresh]), newToken());
        const visibility = { organisationId: organisation_id };
        const read = async (id: string) => (await analytics.requestById(id, window, visibility))?.body;
        const empty = Object.fromEntries(without.map((name) => [name, '']));
        for (const row of [stored, shippedLater]) assert.deepEqual(await read(row.id), { ...row, ...empty });
        assert.deepEqual(await read(fresh.id), fresh);

        const log = recordingLog();
        await migrate(schemaOf(older), known, log);
        assert.match(log.lines.join(), /newer schema/);
        const after = bodyRow(requestRow({ organisation_id }));
        for (const name of without) delete after[name];
        await older.insert({ table: 'bodies', values: [after], format: 'JSONEachRow' });
        const asked = rowColumns.body.filter((name) => !without.some((one) => one === name)).join(', ');
        const found = await older.query({ query: `SELECT ${asked} FROM bodies`, format: 'JSONEachRow' });
        assert.equal((await found.json()).length, 4);
      } finally {
        await analytics.close();
        await older.close();
      }
    });
  }
});
