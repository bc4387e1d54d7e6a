import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { ClickHouseLogLevel, createClient, type ClickHouseClient } from '@clickhouse/client';
import { chdbMissing, recordingLog, startTestChdb } from '../embedded/chdb-fixture.ts';
import type { EmbeddedChdb } from '../embedded/start-chdb.ts';
import { createAnalytics } from './create-analytics.ts';
import { migrate, migration, readMigrations, SchemaChanged, schemaOf } from './migrate.ts';
import { rowColumns } from './row-columns.ts';

const good = 'CREATE TABLE IF NOT EXISTS a (x UInt8) ENGINE = MergeTree ORDER BY x;';

describe('the schema of the analytics store', { skip: chdbMissing }, () => {
  let engine: EmbeddedChdb;
  let close: () => Promise<void>;
  let serial = 0;
  const clients: ClickHouseClient[] = [];
  before(async () => {
    ({ engine, close } = await startTestChdb());
  });
  after(async () => {
    for (const client of clients) await client.close();
    await close();
  });

  async function freshDatabase(): Promise<{ client: ClickHouseClient; database: string }> {
    const { url, username, password } = engine;
    const database = `fresh_${(serial += 1)}`;
    const client = createClient({
      url,
      username,
      password,
      database,
      log: { level: ClickHouseLogLevel.OFF },
    });
    clients.push(client);
    const root = createClient({ url, username, password });
    await root.command({ query: `CREATE DATABASE ${database}` });
    await root.close();
    return { client, database };
  }
  async function migrated(): Promise<ClickHouseClient> {
    const { client, database } = await freshDatabase();
    const { url, username, password } = engine;
    await (await createAnalytics({ url, username, password, database, log: recordingLog() })).close();
    return client;
  }
  async function rows<T>(client: ClickHouseClient, query: string): Promise<T[]> {
    return (await client.query({ query, format: 'JSONEachRow' })).json<T>();
  }
  async function recorded(client: ClickHouseClient): Promise<unknown[]> {
    return rows(client, 'SELECT version, name FROM schema_versions ORDER BY version');
  }

  test('a step runs once and is recorded once', async () => {
    const { client } = await freshDatabase();
    const log = recordingLog();
    const steps = [migration(1, '0001-a.sql', good)];
    await migrate(schemaOf(client), steps, log);
    await migrate(schemaOf(client), steps, log);
    assert.deepEqual(await recorded(client), [{ version: 1, name: '0001-a.sql' }]);
    assert.equal(log.lines.length, 1);
    await migrate(schemaOf(client), [...steps, migration(2, '0002-b.sql', good.replace(' a ', ' b '))], log);
    assert.equal((await recorded(client)).length, 2);
  });

  test('several gateways may start at once, also on a database that does not exist', async () => {
    const { url, username, password } = engine;
    const options = { url, username, password, database: 'made by "many"', log: recordingLog() };
    const stores = await Promise.all(Array.from({ length: 4 }, () => createAnalytics(options)));
    await Promise.all(stores.map((store) => store.ping()));
    await Promise.all(stores.map((store) => store.close()));
    const client = createClient({ url, username, password, database: options.database });
    clients.push(client);
    assert.equal((await recorded(client)).length, (await readMigrations()).length);
  });

  test('a step that was changed after it ran is refused by name', async () => {
    const { client } = await freshDatabase();
    await migrate(schemaOf(client), [migration(1, '0001-a.sql', good)], recordingLog());
    const changed = [migration(1, '0001-a.sql', `${good} -- changed`)];
    await assert.rejects(migrate(schemaOf(client), changed, recordingLog()), (error) => {
      assert.ok(error instanceof SchemaChanged);
      assert.match(
        error.message,
        /^migration 0001-a\.sql was applied .* with other contents .*: restore the file/,
      );
      return true;
    });
  });

  test('a step that fails half-way is not recorded, and runs again', async () => {
    const { client } = await freshDatabase();
    const half = [migration(1, '0001-a.sql', `${good} CREATE TABLE broken`)];
    await assert.rejects(migrate(schemaOf(client), half, recordingLog()));
    assert.deepEqual(await recorded(client), []);
    await migrate(schemaOf(client), [migration(1, '0001-a.sql', good)], recordingLog());
    assert.equal((await recorded(client)).length, 1);
  });

  test('a schema from a later version is used, with a warning', async () => {
    const { client } = await freshDatabase();
    const steps = [migration(1, '0001-a.sql', good), migration(2, '0002-b.sql', good)];
    await migrate(schemaOf(client), steps, recordingLog());
    const log = recordingLog();
    await migrate(schemaOf(client), steps.slice(0, 1), log);
    assert.match(log.lines.join(), /newer schema/);
  });

  test('the tables have exactly the columns of the rows, and those that they compute themselves', async () => {
    const client = await migrated();
    for (const [table, columns] of [
      ['requests', rowColumns.request] as const,
      ['bodies', rowColumns.body] as const,
    ]) {
      const found = await rows<{ name: string }>(
        client,
        `SELECT name FROM system.columns WHERE database = currentDatabase() AND table = '${table}' AND default_kind = '' ORDER BY position`,
      );
      assert.deepEqual(
        found.map((column) => column.name),
        columns,
      );
    }
  });

  /** Tables, inner tables of views included, in which a retried insert could be stored twice. */
  async function forgetful(client: ClickHouseClient): Promise<string[]> {
    const tables = await rows<{ name: string; engine_full: string }>(
      client,
      "SELECT name, engine_full FROM system.tables WHERE database = currentDatabase() AND engine LIKE '%MergeTree'",
    );
    const window = (full: string): number =>
      Number(/\bnon_replicated_deduplication_window = (\d+)/.exec(full)?.[1] ?? 0);
    return tables.filter((table) => window(table.engine_full) < 1000).map((table) => table.name);
  }

  test('every table remembers the tokens of its last 1000 blocks or more', async () => {
    const client = await migrated();
    assert.deepEqual(await forgetful(client), []);
  });

  test('a table, a view’s target or a view’s inner table without that memory is found', async () => {
    const client = await migrated();
    const create = async (query: string): Promise<unknown> => client.command({ query });
    await create('CREATE TABLE plain (n UInt64) ENGINE = MergeTree ORDER BY n');
    await create(
      'CREATE TABLE target (n UInt64) ENGINE = SummingMergeTree ORDER BY n SETTINGS non_replicated_deduplication_window = 999',
    );
    await create('CREATE MATERIALIZED VIEW to_target TO target AS SELECT count() AS n FROM requests');
    await create(
      'CREATE MATERIALIZED VIEW inside ENGINE = MergeTree ORDER BY n AS SELECT count() AS n FROM requests',
    );
    const found = await forgetful(client);
    assert.equal(found.length, 3, found.join());
    assert.deepEqual(found.filter((name) => !name.startsWith('.inner')).sort(), ['plain', 'target']);
  });

  test('partitions depend on the time of acceptance alone', async () => {
    const client = await migrated();
    const keys = await rows<{ partition_key: string }>(
      client,
      "SELECT DISTINCT partition_key FROM system.tables WHERE database = currentDatabase() AND partition_key != ''",
    );
    // The buckets of roll-ups are that time too, cut off.
    for (const { partition_key } of keys)
      assert.match(partition_key, /^(toYYYYMM(DD)?\(created_at\)|to(YYYYMM|Year)\(bucket\))$/);
    assert.ok(keys.length > 0);
  });

  test('a look-up by id uses the index on it', async () => {
    const client = await migrated();
    for (const table of ['requests', 'bodies']) {
      const id = '018f0000-0000-7000-8000-000000000001';
      await client.command({
        query: `INSERT INTO ${table} (id, created_at) VALUES ('${id}', '2026-01-01 00:00:00')`,
      });
      const result = await client.query({
        query: `EXPLAIN indexes = 1 SELECT * FROM ${table} WHERE id = {id:UUID} AND organisation_id = 'o'`,
        query_params: { id },
        format: 'TabSeparated',
      });
      assert.match(await result.text(), /Skip[^]*Name: id_filter/);
    }
  });
});
