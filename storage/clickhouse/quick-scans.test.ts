import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { createClient } from '@clickhouse/client';
import { newToken } from '../../tests/conformance/analytics-probe.ts';
import { dayStart, ndjson, requestRow, storedTime } from '../../tests/conformance/analytics-rows.ts';
import { chdbMissing, recordingLog, startTestChdb } from '../embedded/chdb-fixture.ts';
import type { EmbeddedChdb } from '../embedded/start-chdb.ts';
import { createAnalytics } from './create-analytics.ts';
import { migrate, readMigrations, schemaOf } from './migrate.ts';

const window = { from: dayStart, to: dayStart + 86_400_000 };
const before0008 = 7;

describe('rows that are older than the columns that find them', { skip: chdbMissing }, () => {
  let engine: EmbeddedChdb;
  let closeEngine: () => Promise<void>;
  before(async () => {
    ({ engine, close: closeEngine } = await startTestChdb());
  });
  after(() => closeEngine());

  test('are found by their metadata, their traces and what is thought of them', async () => {
    const { url, username, password } = engine;
    const root = createClient({ url, username, password });
    await root.command({ query: 'CREATE DATABASE older' });
    await root.close();
    const store = { url, username, password, database: 'older' };
    const old = createClient(store);
    await migrate(schemaOf(old), (await readMigrations()).slice(0, before0008), recordingLog());
    const organisation_id = randomUUID();
    const row = (team: string, trace_id: string, ms: number) =>
      requestRow({
        organisation_id,
        trace_id,
        metadata: { team, empty: '' },
        created_at: storedTime(dayStart + ms),
      });
    const values = [row('search', 'one', 1000), row('shop', 'two', 2000), row('search', 'one', 3000)];
    const rated = {
      id: randomUUID(),
      feedback_id: randomUUID(),
      created_at: storedTime(dayStart + 5000),
      revision: 1,
      organisation_id,
      trace_id: 'one',
      value: 3,
      weight: 1,
    };
    await old.insert({ table: 'requests', values, format: 'JSONEachRow' });
    await old.insert({ table: 'feedback', values: [rated], format: 'JSONEachRow' });
    await old.close();

    const analytics = await createAnalytics({ ...store, log: recordingLog() });
    try {
      await analytics.insert('requests', ndjson([row('search', 'three', 4000)]), newToken());
      const asked = { window, visibility: { organisationId: organisation_id } };
      const count = (metadata: Record<string, string>) =>
        analytics.countLogs({ ...asked, filter: { metadata } });
      assert.equal(await count({ team: 'search' }), 3);
      assert.equal(await count({ team: 'shop', empty: '' }), 1);
      assert.equal(await count({ team: 'sea' }), 0);
      assert.equal(await count({ absent: '' }), 0);
      const listed = await analytics.traces({ ...asked, limit: 10, offset: 0 });
      assert.deepEqual(
        listed.rows.map(({ traceId, requests }) => [traceId, requests]),
        [
          ['three', 1],
          ['two', 1],
          ['one', 2],
        ],
      );
      const groups = await analytics.groups({
        ...asked,
        by: { metadata: 'team' },
        limit: 10,
        offset: 0,
        columns: ['avg_weighted_feedback', 'requests_with_feedback'],
      });
      assert.deepEqual(
        groups.rows.map(({ value, requests, columns }) => [value, requests, columns]),
        [
          ['search', 3, { avg_weighted_feedback: 3, requests_with_feedback: 2 }],
          ['shop', 1, { avg_weighted_feedback: null, requests_with_feedback: 0 }],
        ],
      );
    } finally {
      await analytics.close();
    }
  });
});
