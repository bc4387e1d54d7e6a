import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, test } from 'node:test';
import { type ClickHouseClient, createClient } from '@clickhouse/client';
import { bodyRow, ndjson, requestRow, storedTime } from '../../tests/conformance/analytics-rows.ts';
import { chdbMissing, recordingLog, startTestChdb } from '../embedded/chdb-fixture.ts';
import type { EmbeddedChdb } from '../embedded/start-chdb.ts';
import { createAnalytics, type Retention } from './create-analytics.ts';

const dayMs = 86_400_000;
const forEver: Retention = { logsDays: 0, bodiesDays: 0, metricsDays: 0 };

describe('retention', { skip: chdbMissing }, () => {
  let engine: EmbeddedChdb;
  let close: () => Promise<void>;
  before(async () => {
    ({ engine, close } = await startTestChdb());
  });
  after(() => close());

  /** A database of its own, opened as often as is wanted, as a gateway that starts again does. */
  function place() {
    const { url, username, password } = engine;
    const database = `retention_${randomUUID().replaceAll('-', '')}`;
    const client = createClient({ url, username, password, database });
    const log = recordingLog();
    const open = (retention: Retention) =>
      createAnalytics({ url, username, password, database, log, retention });
    /** Opens the store, does what is to be done, and closes it; what was said of tables meanwhile. */
    const opened = async (
      retention: Retention,
      work: (store: Awaited<ReturnType<typeof open>>) => Promise<void> = async () => undefined,
    ): Promise<string[]> => {
      const from = log.lines.length;
      const store = await open(retention);
      try {
        await work(store);
      } finally {
        await store.close();
      }
      return log.lines.slice(from).filter((line) => /TTL|Retention/.test(line));
    };
    return { client, opened };
  }

  async function rules(client: ClickHouseClient): Promise<Record<string, string | undefined>> {
    const result = await client.query({
      query: `SELECT name, extract(engine_full, 'TTL (.*?)(?: SETTINGS|$)') AS rule FROM system.tables
        WHERE database = currentDatabase() AND engine LIKE '%MergeTree' AND partition_key != ''`,
      format: 'JSONEachRow',
    });
    const rows = await result.json<{ name: string; rule: string }>();
    return Object.fromEntries(rows.map(({ name, rule }) => [name, rule]));
  }

  /** Days before now of what a table holds, once everything that is due is gone. */
  async function daysLeft(client: ClickHouseClient, table: string): Promise<number[]> {
    await client.command({
      query: `OPTIMIZE TABLE ${table} FINAL`,
      clickhouse_settings: { mutations_sync: '2' },
    });
    const result = await client.query({
      query: `SELECT DISTINCT toUInt32(round((toUnixTimestamp(now()) - toUnixTimestamp(toDateTime(created_at))) / 86400)) AS days FROM ${table} ORDER BY days`,
      format: 'JSONEachRow',
    });
    return (await result.json<{ days: number }>()).map(({ days }) => days);
  }

  test('every table is told its days, roll-ups those of metrics, and nothing is changed a second time', async () => {
    const { client, opened } = place();
    const retention = { logsDays: 90, bodiesDays: 30, metricsDays: 365 };
    const told = await opened(retention);
    const { requests, bodies, ...others } = await rules(client);
    assert.equal(requests, 'toDateTime(created_at) + toIntervalDay(90)');
    assert.equal(bodies, 'toDateTime(created_at) + toIntervalDay(30)');
    assert.ok(
      Object.keys(others).some((name) => name.startsWith('usage_')),
      'no roll-up was found',
    );
    for (const [table, rule] of Object.entries(others))
      assert.match(rule ?? '', /^toDateTime\((created_at|bucket)\) \+ toIntervalDay\(365\)$/, table);
    assert.equal(told.length, Object.keys(others).length + 2);
    assert.deepEqual(await opened(retention), []);
    await client.close();
  });

  test('rows beyond go, rows within stay, and they may stay longer, shorter or for ever later', async () => {
    const { client, opened } = place();
    const now = Date.now();
    const rows = [1, 20, 40, 80, 120].map((days) =>
      requestRow({ created_at: storedTime(now - days * dayMs) }),
    );
    await opened(forEver, async (store) => {
      await store.insert('requests', ndjson(rows), randomUUID());
      await store.insert('bodies', ndjson(rows.map((row) => bodyRow(row))), randomUUID());
    });
    assert.deepEqual(await daysLeft(client, 'requests'), [1, 20, 40, 80, 120]);
    await opened({ ...forEver, logsDays: 100, bodiesDays: 30 });
    assert.deepEqual(await daysLeft(client, 'requests'), [1, 20, 40, 80]);
    assert.deepEqual(await daysLeft(client, 'bodies'), [1, 20]);
    await opened({ ...forEver, logsDays: 300, bodiesDays: 0 });
    const old = requestRow({ created_at: storedTime(now - 200 * dayMs) });
    await opened({ ...forEver, logsDays: 300 }, async (store) => {
      await store.insert('requests', ndjson([old]), randomUUID());
      await store.insert('bodies', ndjson([bodyRow(old)]), randomUUID());
    });
    assert.deepEqual(await daysLeft(client, 'requests'), [1, 20, 40, 80, 200]);
    assert.deepEqual(await daysLeft(client, 'bodies'), [1, 20, 200]);
    await opened({ ...forEver, logsDays: 30, bodiesDays: 10 });
    assert.deepEqual(await daysLeft(client, 'requests'), [1, 20]);
    assert.deepEqual(await daysLeft(client, 'bodies'), [1]);
    await client.close();
  });

  test('a rule of the operator’s own stays, and is named', async () => {
    const { client, opened } = place();
    await opened(forEver);
    const own = 'toDateTime(created_at) + toIntervalDay(7) WHERE status = 200';
    await client.command({
      query: `ALTER TABLE requests MODIFY TTL toDateTime(created_at) + toIntervalDay(7) DELETE WHERE status = 200`,
    });
    const told = await opened({ ...forEver, logsDays: 90 });
    assert.equal(told.length, 1);
    assert.match(told[0] ?? '', /TTL of its own, which stays.*"table":"requests"/);
    assert.equal((await rules(client))['requests']?.replace(' DELETE', ''), own);
    await client.close();
  });

  test('the index of the search of bodies is dropped and added again; a search finds the same rows either way', async () => {
    const { url, username, password } = engine;
    const database = `text_${randomUUID().replaceAll('-', '')}`;
    const organisation_id = randomUUID();
    const rows = [1, 2, 3].map(() => requestRow({ organisation_id }));
    const visibility = { organisationId: organisation_id };
    const window = { from: Date.parse(`${rows[0]?.created_at}Z`) - dayMs, to: Date.now() + dayMs };
    const told: string[] = [];
    for (const [index, textIndex] of [true, false, true].entries()) {
      const log = recordingLog();
      const store = await createAnalytics({ url, username, password, database, log, textIndex });
      const client = createClient({ url, username, password, database });
      try {
        const row = rows[index] as (typeof rows)[number];
        await store.insert('requests', ndjson([row]), randomUUID());
        const body = bodyRow(row, { request: JSON.stringify({ said: `A Zanzibar of ${index}` }) });
        await store.insert('bodies', ndjson([body]), randomUUID());
        const found = await store.logs({
          ...{ visibility, window, order: 'newest', limit: 10 },
          filter: { text: 'zanzibar' },
        });
        assert.equal(found.length, index + 1);
        const result = await client.query({
          query:
            'SELECT toUInt8(count()) AS present FROM system.data_skipping_indices WHERE database = currentDatabase() AND name = {name:String}',
          query_params: { name: 'text_filter' },
          format: 'JSONEachRow',
        });
        assert.deepEqual(await result.json(), [{ present: textIndex ? 1 : 0 }]);
      } finally {
        await client.close();
        await store.close();
      }
      told.push(...log.lines.filter((line) => line.includes('search of bodies')));
    }
    assert.equal(told.length, 2, told.join());
  });

  test('an insert of bodies leaves the index of the search out, a merge builds it, and both find the same rows', async () => {
    const { url, username, password } = engine;
    const database = `merged_${randomUUID().replaceAll('-', '')}`;
    const client = createClient({ url, username, password, database });
    const store = await createAnalytics({ url, username, password, database, log: recordingLog() });
    try {
      const organisation_id = randomUUID();
      const rows = [1, 2, 3].map(() => requestRow({ organisation_id }));
      const window = { from: Date.parse(`${rows[0]?.created_at}Z`) - dayMs, to: Date.now() + dayMs };
      await client.command({ query: 'SYSTEM STOP MERGES bodies' });
      for (const [index, row] of rows.entries()) {
        await store.insert('requests', ndjson([row]), randomUUID());
        const body = bodyRow(row, { request: JSON.stringify({ said: `Zanzibar ${index % 2}` }) });
        await store.insert('bodies', ndjson([body]), randomUUID());
      }
      const found = async (text: string): Promise<string[]> => {
        const query = { visibility: { organisationId: organisation_id }, window, order: 'newest' as const };
        const logs = await store.logs({ ...query, limit: 10, filter: { text } });
        return logs.map(({ request }) => request.id).sort();
      };
      const indexBytes = async (): Promise<number> => {
        const query =
          "SELECT toFloat64(data_compressed_bytes) AS bytes FROM system.data_skipping_indices WHERE database = currentDatabase() AND table = 'bodies' AND name = 'text_filter'";
        const result = await client.query({ query, format: 'JSONEachRow' });
        return (await result.json<{ bytes: number }>())[0]?.bytes ?? NaN;
      };
      const ids = (some: readonly { readonly id: string }[]): string[] => some.map(({ id }) => id).sort();
      const right = async (): Promise<void> => {
        assert.deepEqual(await found('zanzibar'), ids(rows));
        assert.deepEqual(await found('Zanzibar 1'), ids(rows.slice(1, 2)));
        assert.deepEqual(await found('Zanzibar 2'), []);
      };
      assert.equal(await indexBytes(), 0);
      await right();
      await client.command({ query: 'SYSTEM START MERGES bodies' });
      await client.command({ query: 'OPTIMIZE TABLE bodies FINAL' });
      assert.ok((await indexBytes()) > 0);
      await right();
    } finally {
      await client.close();
      await store.close();
    }
  });
});
