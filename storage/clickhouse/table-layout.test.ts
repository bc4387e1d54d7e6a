import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { createClient, type ClickHouseClient } from '@clickhouse/client';
import { chdbMissing, startTestChdb } from '../embedded/chdb-fixture.ts';
import { oneServer, readMigrations, schemaSql, type TableLayout } from './migrate.ts';
import { shardSql } from './shards.ts';

const replica = { path: '/clickhouse/tables/{shard}/{database}/{table}', name: '{replica}' };
const cluster: TableLayout = { cluster: 'c', replica };
const names = "'/clickhouse/tables/{shard}/{database}/{table}', '{replica}'";
const week = 'replicated_deduplication_window_seconds = 604800';

const filled: [what: string, template: string, layout: TableLayout, expected: string][] = [
  ['no marker', "SELECT '{x}', {a:String}", cluster, "SELECT '{x}', {a:String}"],
  ['a cluster, where there is none', 'CREATE TABLE t{{on_cluster}} (', oneServer, 'CREATE TABLE t ('],
  ['a cluster', 'CREATE TABLE t{{on_cluster}} (', cluster, "CREATE TABLE t ON CLUSTER 'c' ("],
  ['a macro as cluster', 'DROP TABLE t{{on_cluster}}', { cluster: '{c}' }, "DROP TABLE t ON CLUSTER '{c}'"],
  ['a hostile cluster', '{{on_cluster}}', { cluster: "a'\\" }, " ON CLUSTER 'a\\'\\\\'"],
  ['a cluster without replicas', '{{engine MergeTree}}', { cluster: 'c' }, 'MergeTree'],
  ['an engine on one server', '{{engine MergeTree}}', oneServer, 'MergeTree'],
  ['a replicated engine', '{{engine MergeTree}}', cluster, `ReplicatedMergeTree(${names})`],
  ['an engine with arguments', '{{engine SummingMergeTree((a, b))}}', oneServer, 'SummingMergeTree((a, b))'],
  [
    'a replicated engine with arguments',
    '{{ engine SummingMergeTree((a, b)) }}',
    cluster,
    `ReplicatedSummingMergeTree(${names}, (a, b))`,
  ],
  [
    'the servers’ own path',
    '{{engine MergeTree}}',
    { replica: { path: '', name: 'r' } },
    'ReplicatedMergeTree',
  ],
  ['a part of the rows, where all are on one shard', 'FROM t{{of_shard}}', cluster, 'FROM t'],
  [
    'a part of the rows',
    'FROM t{{of_shard}}',
    { ...cluster, sharded: true },
    'FROM t WHERE _shard_num = {shard:UInt32}',
  ],
  ['a window', '{{deduplication_window 7}}', oneServer, 'non_replicated_deduplication_window = 7'],
  [
    'a window of replicas',
    '{{deduplication_window 7}}',
    cluster,
    `replicated_deduplication_window = 7, ${week}`,
  ],
];
for (const [what, template, layout, expected] of filled) {
  test(`template: ${what}`, () => assert.equal(schemaSql.fillTemplate(template, layout), expected));
}

for (const wrong of ['{{engine Memory}}', '{{cluster}}', '{{deduplication_window}}', '{{on_cluster x}}']) {
  test(`template: ${wrong} is refused by name`, () =>
    assert.throws(
      () => schemaSql.fillTemplate(wrong, oneServer),
      (error: Error) => error.message.includes(wrong),
    ));
}

/** Rows are not sent to every server: replicas bring them to each other. */
const isSchema = (statement: string): boolean => !statement.startsWith('INSERT INTO ');

test('checksums do not depend on the layout', async () => {
  const sums = async (layout: TableLayout): Promise<string[]> =>
    (await readMigrations(layout)).map(({ checksum }) => checksum);
  assert.deepEqual(await sums(cluster), await sums(oneServer));
});

test('in a replicated layout every statement runs on the cluster and no table is left without replicas', async () => {
  for (const { name, statements } of await readMigrations(cluster)) {
    for (const statement of statements.filter(isSchema)) {
      assert.match(statement, /^[^(]* ON CLUSTER 'c'/, `${name}: put {{on_cluster}} after the name`);
      assert.doesNotMatch(statement, /ENGINE = (?!Replicated)\w*MergeTree/, `${name}: write {{engine …}}`);
      assert.doesNotMatch(statement, /non_replicated/, `${name}: write {{deduplication_window N}}`);
      if (/ENGINE = /.test(statement)) assert.match(statement, /\breplicated_deduplication_window = \d{4}/);
    }
  }
});

describe('statements for a cluster, before the engine', { skip: chdbMissing }, () => {
  let client: ClickHouseClient;
  let closeEngine: () => Promise<void>;
  before(async () => {
    const { engine, close } = await startTestChdb();
    const { url, username, password } = engine;
    client = createClient({ url, username, password, log: { level: 127 } });
    closeEngine = close;
  });
  after(async () => {
    await client.close();
    await closeEngine();
  });

  test('its parser understands every one of them', async () => {
    for (const step of await readMigrations(cluster)) {
      for (const sql of step.statements.filter(isSchema)) {
        const query = 'SELECT formatQuery({sql:String}) AS text';
        const [row] = await (
          await client.query({ query, query_params: { sql }, format: 'JSONEachRow' })
        ).json<{
          text: string;
        }>();
        assert.match(row?.text ?? '', /ON CLUSTER c\b/);
      }
    }
  });

  test('its parser understands the Distributed tables, and it knows the settings of shards and quorum', async () => {
    const sql = shardSql.distributedTable('requests', { database: 'd', layout: cluster }, 'replaced');
    const query = 'SELECT formatQuery({sql:String}) AS text';
    const parsed = await client.query({ query, query_params: { sql }, format: 'JSONEachRow' });
    const [row] = await parsed.json<{ text: string }>();
    assert.match(row?.text ?? '', /ON CLUSTER c AS `?d`?\.`?requests`?\s+ENGINE = Distributed/);
    const settings = {
      ...shardSql.allShardsSettings,
      ...shardSql.intoShard(),
      ...schemaSql.quorumSettings({ quorum: { replicas: 'auto', parallel: true } }),
    };
    const known = await client.query({
      query: 'SELECT name FROM system.settings WHERE name IN {names:Array(String)}',
      query_params: { names: Object.keys(settings) },
      format: 'JSONEachRow',
    });
    assert.equal((await known.json()).length, Object.keys(settings).length);
  });

  test('it knows the settings of both families', async () => {
    const query =
      "SELECT name FROM system.merge_tree_settings WHERE name IN ('replicated_deduplication_window', 'replicated_deduplication_window_seconds', 'non_replicated_deduplication_window')";
    const rows = await (await client.query({ query, format: 'JSONEachRow' })).json();
    assert.equal(rows.length, 3);
  });
});
