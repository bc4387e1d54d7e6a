import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { createClient, type ClickHouseClient } from '@clickhouse/client';
import type { Analytics, TimeWindow } from '../../core/ports/analytics.ts';
import { dayStart, ndjson, requestRow, storedTime } from '../../tests/conformance/analytics-rows.ts';
import { chdbMissing, recordingLog, startTestChdb } from '../embedded/chdb-fixture.ts';
import type { EmbeddedChdb } from '../embedded/start-chdb.ts';
import { ClickHouseAnalytics } from './clickhouse-analytics.ts';
import { createAnalytics } from './create-analytics.ts';
import { migrate, readMigrations, schemaOf } from './migrate.ts';
import { usageQuery } from './usage-sql.ts';

const hourMs = 3_600_000;
const visibility = { organisationId: 'organisation' };
const row = (at: number): object => requestRow({ created_at: storedTime(at) });

describe('a store that is older than its roll-ups', { skip: chdbMissing }, () => {
  let engine: EmbeddedChdb;
  let closeEngine: () => Promise<void>;
  let serial = 0;
  const opened: { close(): Promise<void> }[] = [];
  before(async () => {
    ({ engine, close: closeEngine } = await startTestChdb());
  });
  after(async () => {
    for (const one of opened) await one.close();
    await closeEngine();
  });

  async function database(): Promise<{ client: ClickHouseClient; name: string }> {
    const name = `old_${(serial += 1)}`;
    const { url, username, password } = engine;
    const client = createClient({ url, username, password, database: name });
    opened.push(client);
    const root = createClient({ url, username, password });
    await root.command({ query: `CREATE DATABASE ${name}` });
    await root.close();
    return { client, name };
  }
  async function open(name: string): Promise<Analytics> {
    const { url, username, password } = engine;
    const analytics = await createAnalytics({ url, username, password, database: name, log: recordingLog() });
    opened.push(analytics);
    return analytics;
  }
  async function count(analytics: Analytics, window: TimeWindow): Promise<number> {
    const query = { window, visibility, buckets: { unit: 'day', size: 1, timeZone: 'UTC' } } as const;
    const { totals } = await analytics.series({ ...query, measures: ['requests'] });
    const groups = await analytics.groups({
      by: 'model',
      columns: [],
      window,
      visibility,
      limit: 9,
      offset: 0,
    });
    const requests = totals[0]?.values.requests;
    assert.equal(groups.rows[0]?.requests ?? 0, requests);
    return requests as number;
  }

  test('rows from before them are counted, and each of those that come later once', async () => {
    const { client, name } = await database();
    await migrate(schemaOf(client), (await readMigrations()).slice(0, 5), recordingLog());
    const now = Date.now();
    const old = [row(dayStart), row(now - 5 * hourMs), row(now - 1)];
    await new ClickHouseAnalytics(client).insert('requests', ndjson(old), randomUUID());
    const analytics = await open(name);
    const start = await usageQuery.start(client);
    assert.ok(start > now && start < Date.now() + 1000, String(start));
    const late = [row(dayStart + 1), row(now + 1), row(start + 3 * hourMs), row(start + 50 * hourMs)];
    await analytics.insert('requests', ndjson(late), randomUUID());
    for (const store of [analytics, await open(name)]) {
      assert.equal(await count(store, { from: dayStart, to: now + 100 * hourMs }), 7);
      assert.equal(await count(store, { from: now - 6 * hourMs, to: start + 4 * hourMs }), 4);
    }
    assert.equal(await usageQuery.start(client), start);
    const [reads] = await (
      await client.query({
        query: "SELECT sum(requests) AS sum FROM usage_days WHERE dimension = '*'",
        format: 'JSONEachRow',
      })
    ).json<{ sum: string }>();
    assert.equal(Number(reads?.sum), 4);
  });

  test('a store that begins with them has them from the beginning, however many gateways start at once', async () => {
    const { client, name } = await database();
    const [first] = await Promise.all([open(name), open(name)]);
    await first?.insert('requests', ndjson([row(dayStart)]), randomUUID());
    await open(name);
    assert.equal(await usageQuery.start(client), 0);
    for (const step of await readMigrations())
      for (const query of step.statements) await client.command({ query });
    assert.equal(await usageQuery.start(client), 0);
  });

  test('what is older than rows are kept is told by roll-ups, to the hour', async () => {
    const { client, name } = await database();
    const analytics = await open(name);
    const rows = [0, 30, 90, 24 * 60].map((minutes) => row(dayStart + minutes * 60_000));
    await analytics.insert('requests', ndjson(rows), randomUUID());
    await client.command({ query: 'ALTER TABLE requests DELETE WHERE 1 SETTINGS mutations_sync = 1' });
    const store = new ClickHouseAnalytics(client, { rolledUpFrom: 0, rawKeptMs: hourMs });
    const models = async (from: number, to: number): Promise<number> => {
      const window = { from: dayStart + from, to: dayStart + to };
      const query = { by: 'model', columns: [], window, visibility, limit: 9, offset: 0 } as const;
      return (await store.groups(query)).rows[0]?.requests ?? 0;
    };
    assert.equal(await models(0, 48 * hourMs), 4);
    assert.equal(await models(60_000, 2 * hourMs - 60_000), 3);
    assert.equal(await models(hourMs, 2 * hourMs), 1);
    // Graphs of everything know the minutes.
    const window = { from: dayStart + 60_000, to: dayStart + 2 * hourMs };
    const buckets = { unit: 'minute', size: 30, timeZone: 'UTC' } as const;
    const { points } = await store.series({ measures: ['requests'], window, visibility, buckets });
    assert.deepEqual(
      points.map(({ values }) => values.requests),
      [0, 1, 0, 1],
    );
  });
});
