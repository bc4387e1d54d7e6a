import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import { createClient, type ClickHouseClient } from '@clickhouse/client';
import { chdbMissing, startTestChdb } from '../chdb-fixture.ts';
import type { EmbeddedChdb } from '../start-chdb.ts';

describe('the embedded engine under load', { skip: chdbMissing }, () => {
  let engine: EmbeddedChdb;
  let client: ClickHouseClient;
  let close: () => Promise<void>;
  before(async () => {
    ({ engine, close } = await startTestChdb());
    const { url, username, password } = engine;
    client = createClient({ url, username, password, max_open_connections: 20 });
    await client.command({ query: 'CREATE TABLE t (n UInt64, s String) ENGINE = MergeTree ORDER BY n' });
  });
  after(async () => {
    await client.close();
    await close();
  });

  const value = async (query: string): Promise<unknown> => {
    const result = await client.query({ query, format: 'JSONCompactEachRow' });
    return ((await result.json<[unknown]>())[0] as [unknown])[0];
  };

  test('an insert is stored while every session for queries is taken', async () => {
    const stop = new AbortController();
    let ended = 0;
    const slow = Array.from({ length: 8 }, () =>
      client
        .query({
          query: 'SELECT sleepEachRow(1) FROM numbers(100) SETTINGS max_block_size = 1',
          abort_signal: stop.signal,
        })
        .catch(() => undefined)
        .finally(() => (ended += 1)),
    );
    for (let row = 0; row < 20; row += 1)
      await client.insert({ table: 't', values: [{ n: row, s: 'x' }], format: 'JSONEachRow' });
    assert.equal(ended, 0, 'a query ended before the inserts: they may have waited for it');
    stop.abort();
    await Promise.all(slow);
    assert.equal(Number(await value('SELECT count() FROM t')), 20);
  });

  test('it was given its share of memory, small caches and parts that are written with little of it', async () => {
    const setting = (table: string, name: string) =>
      value(`SELECT value FROM system.${table} WHERE name = '${name}'`);
    assert.ok(Number(await setting('server_settings', 'max_server_memory_usage')) < 800_000_000);
    for (const cache of ['mark', 'primary_index', 'index_mark', 'query_condition', 'text_index_postings']) {
      const bytes = Number(await setting('server_settings', `${cache}_cache_size`));
      assert.ok(bytes > 0 && bytes < 64 * 1024 * 1024, `${cache}: ${bytes}`);
    }
    assert.equal(await setting('merge_tree_settings', 'fsync_after_insert'), '1');
    assert.equal(await setting('merge_tree_settings', 'min_columns_to_activate_adaptive_write_buffer'), '1');
    assert.equal(await setting('merge_tree_settings', 'merge_max_block_size'), '2048');
  });

  test('rows that were merged are on disk before the parts that they came from are taken away', async () => {
    const synced = async () =>
      Number(await value("SELECT sum(value) FROM system.events WHERE event = 'FileSync'"));
    await client.command({ query: 'CREATE TABLE merged (n UInt64) ENGINE = MergeTree ORDER BY n' });
    for (const n of [1, 2]) await client.insert({ table: 'merged', values: [{ n }], format: 'JSONEachRow' });
    const before = await synced();
    await client.command({ query: 'OPTIMIZE TABLE merged FINAL' });
    assert.ok((await synced()) > before, 'a merge ended without its part being synced');
  });

  test('parts that were merged are looked for every few seconds', async () => {
    const query = `SELECT value FROM system.merge_tree_settings WHERE name = 'max_cleanup_delay_period'`;
    assert.ok(Number(await value(query)) <= 10);
  });

  test('many parts are taken away by a few threads', async () => {
    const parts = 100;
    await client.command({
      query: `CREATE TABLE gone (n UInt64) ENGINE = MergeTree PARTITION BY n ORDER BY n
        SETTINGS concurrent_part_removal_threshold = 1`,
    });
    await client.command({ query: `INSERT INTO gone SELECT number FROM numbers(${parts})` });
    const before = await threadsOf(engine);
    await client.command({ query: 'DROP TABLE gone SYNC' });
    const added = (await threadsOf(engine)) - before;
    assert.ok(added <= 16, `${added} threads were started to take ${parts} parts away`);
  });
});

/** Linux only; elsewhere none can be counted. */
async function threadsOf({ pid }: EmbeddedChdb): Promise<number> {
  return (await readdir(`/proc/${pid}/task`).catch(() => [])).length;
}
