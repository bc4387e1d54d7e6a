import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { createClient } from '@clickhouse/client';
import fc from 'fast-check';
import type { Analytics } from '../../core/ports/analytics.ts';
import { keepsFeedback } from '../../tests/conformance/analytics-feedback.ts';
import { tellsFeedbackSeries } from '../../tests/conformance/analytics-feedback-series.ts';
import { storesExactlyOnce } from '../../tests/conformance/analytics-once.ts';
import { always, countOf, newToken } from '../../tests/conformance/analytics-probe.ts';
import { storesRows } from '../../tests/conformance/analytics-rows-back.ts';
import { bodyRow, ndjson, requestRow } from '../../tests/conformance/analytics-rows.ts';
import { groupsTraces } from '../../tests/conformance/analytics-traces.ts';
import { rowsOn, startTwoShards, type TwoShards } from '../../tests/kit/two-shards.ts';
import { chdbMissing, recordingLog, temporaryFolder } from '../embedded/chdb-fixture.ts';
import { createAnalytics, type Retention } from './create-analytics.ts';
import { readMigrations, schemaSql } from './migrate.ts';
import { schemaScript } from './schema-script.ts';
import { shardPlace, shardSql } from './shards.ts';
import { AnalyticsStartError } from './store-errors.ts';

test('a batch goes to one of the shards, always the same, and a further shard takes batches from the others alone', () => {
  const token = fc.string({ minLength: 1, maxLength: 80 });
  fc.assert(
    fc.property(token, fc.integer({ min: 1, max: 40 }), (text, count) => {
      const shard = shardPlace.of(text, count);
      assert.ok(shard >= 1 && shard <= count && Number.isInteger(shard));
      assert.equal(shardPlace.of(text, count), shard);
      const grown = shardPlace.of(text, count + 1);
      assert.ok(grown === shard || grown === count + 1);
    }),
  );
});

test('batches spread evenly over the shards', () => {
  const shards = 8;
  const counts = new Map<number, number>();
  const batches = 4000;
  for (let sequence = 0; sequence < batches; sequence += 1) {
    const shard = shardPlace.of(`requests-mihlr8k0-0badc0ffee01-${sequence}`, shards);
    counts.set(shard, (counts.get(shard) ?? 0) + 1);
  }
  assert.equal(counts.size, shards);
  // Ten standard deviations of a binomial distribution are 209.
  for (const [shard, count] of counts)
    assert.ok(Math.abs(count - batches / shards) < 209, `shard ${shard} has ${count}`);
});

test('every table of the schema has a Distributed one, without a sharding key', async () => {
  const layout = { cluster: '{cluster}', sharded: true };
  const tables = shardSql.tablesOfSchema(await readMigrations(layout));
  for (const name of ['requests', 'bodies', 'feedback', 'usage_days', 'price_batches', 'schema_versions'])
    assert.ok(tables.includes(name), name);
  assert.equal(
    shardSql.distributedTable('requests', { database: 'logs', layout }, 'replaced'),
    "CREATE OR REPLACE TABLE `logs_all`.`requests` ON CLUSTER '{cluster}' AS `logs`.`requests` ENGINE = Distributed('{cluster}', 'logs', 'requests')",
  );
});

describe('a cluster of two shards', { skip: chdbMissing }, () => {
  const database = 'logs';
  let cluster: TwoShards;
  let analytics: Analytics;
  const open = (more: {
    database?: string;
    retention?: Retention;
    log?: ReturnType<typeof recordingLog>;
  }) => {
    const { url, username, password } = cluster;
    const layout = { cluster: '{cluster}', sharded: true };
    return createAnalytics({ url, username, password, database, layout, log: recordingLog(), ...more });
  };
  /** A token of a batch that goes to this shard. */
  const tokenOf = (shard: number): string => {
    for (;;) {
      const token = newToken();
      if (shardPlace.of(token, 2) === shard) return token;
    }
  };
  const counts = async (table: string, where: string, sum = 'count()'): Promise<number[]> => {
    const found = [];
    for (const shard of [1, 2]) {
      const query = `SELECT toUInt32(${sum}) AS n FROM ${database}_${shard}.${table} WHERE ${where}`;
      found.push((await rowsOn<{ n: number }>(cluster, query))[0]?.n ?? -1);
    }
    return found;
  };
  before(async () => {
    cluster = await startTwoShards();
    analytics = await open({});
  });
  after(async () => {
    await analytics.close();
    await cluster.close();
  });

  const current = (): Analytics => analytics;
  storesRows(current);
  storesExactlyOnce(current);
  groupsTraces(current);
  keepsFeedback(current);
  tellsFeedbackSeries(current);

  test('stores a batch and its roll-ups once, on its shard, however often it is sent', async () => {
    const organisation_id = randomUUID();
    const batches = [1, 2, 2].map((shard) => ({ shard, token: tokenOf(shard), rows: [] as unknown[] }));
    for (let round = 0; round < 3; round += 1) {
      for (const batch of batches) {
        if (round === 0) batch.rows.push(requestRow({ organisation_id }), requestRow({ organisation_id }));
        await analytics.insert('requests', ndjson(batch.rows as object[]), batch.token);
      }
    }
    const own = `organisation_id = '${organisation_id}'`;
    assert.deepEqual(await counts('requests', own), [2, 4]);
    for (const table of ['usage_hours', 'usage_days'])
      assert.deepEqual(await counts(table, `${own} AND dimension = '*'`, 'sum(requests)'), [2, 4], table);
    assert.deepEqual(await counts('usage_minutes', own, 'sum(requests)'), [2, 4]);
    assert.equal(await countOf(analytics, organisation_id), 6);
  });

  test('keeps a batch of an earlier process where it is, though its token names another shard now', async () => {
    const folder = await temporaryFolder();
    const lookUps = () =>
      cluster.statements.filter((sql) => sql.includes('parseDateTime64BestEffortOrZero')).length;
    const { url, username, password } = cluster;
    const client = createClient({ url, username, password, database: `${database}_all` });
    const file = join(folder.path, 'rows');
    for (const [start, expected] of [
      [Date.UTC(2026, 0, 1), [0, 2]],
      [Date.now(), [2, 2]],
    ] as const) {
      const organisation_id = randomUUID();
      const values = [requestRow({ organisation_id }), requestRow({ organisation_id })];
      const run = `requests-${start.toString(36)}-${randomUUID().slice(-12)}`;
      const token = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
        .map((sequence) => `${run}-${sequence}`)
        .find((one) => shardPlace.of(one, 2) === 1);
      if (token === undefined) continue;
      const clickhouse_settings = { insert_shard_id: '2', insert_deduplication_token: token };
      const before = { table: 'requests', values, format: 'JSONEachRow', clickhouse_settings } as const;
      await client.insert({ ...before, clickhouse_settings: { ...clickhouse_settings, async_insert: 0 } });
      const from = lookUps();
      const rows = ndjson(values);
      await writeFile(file, rows);
      await analytics.insert('requests', rows, token);
      await analytics.insert('requests', { path: file, from: 0, end: rows.length }, token);
      assert.deepEqual(await counts('requests', `organisation_id = '${organisation_id}'`), expected);
      // What this process has begun has its shard for as long as it lives: nothing is looked up.
      assert.equal(lookUps() - from, expected[0] === 0 ? 2 : 0);
    }
    await client.close();
    await folder.remove();
  });

  test('shows a request with its body where they are on different shards', async () => {
    const row = requestRow({ organisation_id: randomUUID() });
    await analytics.insert('requests', ndjson([row]), tokenOf(1));
    await analytics.insert('bodies', ndjson([bodyRow(row, { request: '{"said":"needle"}' })]), tokenOf(2));
    const visibility = { organisationId: row.organisation_id };
    const found = await analytics.requestById(row.id, always, visibility);
    assert.equal(found?.body?.request, '{"said":"needle"}');
    const query = { window: always, visibility, order: 'newest', limit: 10, bodies: true } as const;
    const [listed] = await analytics.logs({ ...query, filter: { text: 'needle' } });
    assert.equal(listed?.body?.id, row.id);
  });

  test('gives prices to requests of all shards, in rows and roll-ups, once', async () => {
    const organisation_id = randomUUID();
    for (const shard of [1, 2, 2]) {
      const row = requestRow({ organisation_id, cost: '0', pricing: 'unpriced', model: 'later' });
      await analytics.insert('requests', ndjson([row]), tokenOf(shard));
    }
    const repricing = await analytics.repricing();
    const turn = await repricing.turn();
    const found = await repricing.unpriced({ window: always, models: ['later'], limit: 100 });
    assert.equal(found.length, 3);
    const changes = found.map(({ createdAt, id }) => ({
      createdAt,
      id,
      cost: '1.000000000001',
      version: 'v',
    }));
    assert.equal(await turn.change(changes), true);
    const own = `organisation_id = '${organisation_id}'`;
    assert.deepEqual(await counts('requests', `${own} AND pricing = 'priced' AND cost > 1`), [1, 2]);
    const query = { by: 'model', columns: ['cost'], window: always, limit: 9, offset: 0 } as const;
    const { rows } = await analytics.groups({ ...query, visibility: { organisationId: organisation_id } });
    assert.equal(rows[0]?.columns.cost, '3.000000000003');
    const again = await (await analytics.repricing()).turn();
    assert.equal(again.completed, false);
  });

  test('needs nothing more than retention on a server with the printed schema', async () => {
    const layout = { cluster: 'two', sharded: true };
    const printed = await schemaScript({ database: 'printed', layout, oneServer: true });
    assert.doesNotMatch(printed, /ON CLUSTER/);
    const statements = schemaSql.splitStatements(printed);
    const { engineUrl: url, username, password } = cluster;
    for (let round = 0; round < 2; round += 1) {
      for (const query of statements.filter((sql) => !sql.startsWith('USE '))) {
        const database = query.startsWith('CREATE DATABASE') ? 'default' : 'printed';
        const client = createClient({ url, username, password, database });
        await client.command({ query });
        await client.close();
      }
    }
    const log = recordingLog();
    await (await createAnalytics({ url, username, password, database: 'printed', log })).close();
    assert.deepEqual(log.lines, []);
    const [all] = await rowsOn<{ n: number }>(
      cluster,
      "SELECT toUInt32(count()) AS n FROM system.tables WHERE database = 'printed_all' AND engine = 'Distributed'",
    );
    assert.equal(all?.n, shardSql.tablesOfSchema(await readMigrations(layout)).length);
  });

  test('is made by the printed schema on the whole cluster, in the words of the parser', async () => {
    const layout = { cluster: 'two', sharded: true, replica: { path: '', name: '' } };
    const statements = schemaSql.splitStatements(
      await schemaScript({ database: 'printed', layout, oneServer: false }),
    );
    for (const sql of statements.filter((one) => /^(CREATE|ALTER)/.test(one))) {
      const quotedSql = sql.replaceAll('\\', '\\\\').replaceAll("'", "\\'");
      const [row] = await rowsOn<{ text: string }>(cluster, `SELECT formatQuery('${quotedSql}') AS text`);
      assert.match(row?.text ?? '', /ON CLUSTER two\b/);
    }
  });

  test('takes nothing for done that only one of its shards has', async () => {
    const log = recordingLog();
    await (await open({ log })).close();
    assert.deepEqual(log.lines, [], 'a second start changes nothing');
    const last = (await readMigrations()).length;
    const { statements } = cluster;
    await deleteOn(cluster, `${database}_2.schema_versions`, `version = ${last}`);
    const from = statements.length;
    await (await open({ log })).close();
    assert.equal(log.lines.length, 1);
    assert.ok(statements.slice(from).some((sql) => /^ALTER TABLE requests ON CLUSTER/.test(sql)));
  });

  test('that has a shard without tables says how to make them', async () => {
    await deleteOn(cluster, `${database}_2.schema_versions`, 'true');
    await assert.rejects(open({}), (error) => {
      assert.ok(error instanceof AnalyticsStartError && error.lasting);
      assert.match(
        error.message,
        /shard 2 of the cluster has no tables.*weir clickhouse schema --one-server/,
      );
      return true;
    });
  });

  test('sets retention in the tables of every shard', async () => {
    const retention = { logsDays: 90, bodiesDays: 30, metricsDays: 365 };
    await (await open({ database: 'kept', retention })).close();
    const found = await rowsOn<{ database: string }>(
      cluster,
      "SELECT database FROM system.tables WHERE name = 'requests' AND engine_full LIKE '%TTL toDateTime(created_at) + toIntervalDay(90)%' ORDER BY database",
    );
    assert.deepEqual(
      found.map((row) => row.database),
      ['kept_1', 'kept_2'],
    );
  });
});

async function deleteOn(cluster: TwoShards, table: string, where: string): Promise<void> {
  const client = createClient({
    url: cluster.engineUrl,
    username: cluster.username,
    password: cluster.password,
  });
  await client.command({
    query: `ALTER TABLE ${table} DELETE WHERE ${where}`,
    clickhouse_settings: { mutations_sync: '2' },
  });
  await client.close();
}
