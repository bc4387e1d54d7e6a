import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { recordingLog } from '../embedded/chdb-fixture.ts';
import { createAnalytics, type ClickHouseOptions } from './create-analytics.ts';
import { AnalyticsStartError } from './store-errors.ts';

/** Some tables as a server lists them. */
const tables = [
  {
    name: 'bodies',
    engine_full: 'MergeTree ORDER BY id SETTINGS index_granularity = 512',
    time: 'created_at',
  },
  {
    name: 'requests',
    engine_full: 'MergeTree ORDER BY id TTL toDateTime(created_at) + toIntervalDay(90) SETTINGS a = 1',
    time: 'created_at',
  },
  { name: 'usage_days', engine_full: 'MergeTree ORDER BY id TTL bucket + toIntervalDay(9)', time: 'bucket' },
];

/** A server that notes the statements it gets and answers as one of this version with an empty store. */
async function withServer(
  version: string,
  run: (options: ClickHouseOptions, seen: { sql: string; settings: URLSearchParams }[]) => Promise<void>,
): Promise<void> {
  const seen: { sql: string; settings: URLSearchParams }[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const settings = new URL(request.url ?? '/', 'http://x').searchParams;
      const sql = settings.get('query') ?? Buffer.concat(chunks).toString();
      seen.push({ sql, settings });
      response.end(
        sql.startsWith('SELECT version()')
          ? `${version}\n`
          : sql.startsWith('EXISTS')
            ? '[0]\n'
            : sql.includes('system.tables')
              ? tables.map((table) => `${JSON.stringify(table)}\n`).join('')
              : '',
      );
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  try {
    await run({ url, username: 'u', password: 'SECRET', database: 'logs', log: recordingLog() }, seen);
  } finally {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
}

test('on a cluster, the database and every table are made on all of its servers', async () => {
  const replica = { path: '/k/{shard}/{table}', name: '{replica}' };
  await withServer('25.3.1.1', async (options, seen) => {
    await (await createAnalytics({ ...options, layout: { cluster: 'main', replica } })).close();
    const created = seen.filter(({ sql }) => sql.startsWith('CREATE'));
    const names = created.map(
      ({ sql }) => /^CREATE ([A-Z ]+ IF NOT EXISTS \S+)( ON CLUSTER 'main'| \{)/.exec(sql)?.[1],
    );
    for (const name of ['schema_versions', 'requests', 'bodies', 'feedback', 'usage_hours'])
      assert.ok(names.includes(`TABLE IF NOT EXISTS ${name}`), name);
    assert.ok(names.includes('MATERIALIZED VIEW IF NOT EXISTS usage_hours_view'));
    assert.match(
      created[0]?.sql ?? '',
      /^CREATE DATABASE IF NOT EXISTS \{database:Identifier\} ON CLUSTER 'main'$/,
    );
    for (const { sql } of seen.filter((one) => /^(CREATE|ALTER)/.test(one.sql)))
      assert.match(sql.split('\n')[0] ?? '', / ON CLUSTER 'main'/);
    for (const { sql, settings } of created) {
      assert.equal(settings.get('distributed_ddl_output_mode'), 'null_status_on_timeout');
      if (sql.startsWith('CREATE TABLE'))
        assert.match(sql, /ENGINE = Replicated\w*MergeTree\('\/k\/\{shard\}/);
    }
  });
});

test('on one server, nothing is said of clusters and replicas', async () => {
  await withServer('25.3.1.1', async (options, seen) => {
    await (await createAnalytics(options)).close();
    assert.ok(seen.filter(({ sql }) => sql.startsWith('CREATE')).length > 5);
    for (const { sql } of seen) assert.doesNotMatch(sql, /ON CLUSTER|ENGINE = Replicated|\{\{/);
  });
});

test('on a cluster, retention is set on all of its servers, and only where it is another one', async () => {
  await withServer('25.3.1.1', async (options, seen) => {
    const retention = { logsDays: 90, bodiesDays: 30, metricsDays: 365 };
    const layout = { cluster: 'main' };
    await (await createAnalytics({ ...options, layout, retention })).close();
    const from = seen.findIndex(({ sql }) => sql.includes('system.tables'));
    const changes = seen.slice(from + 1).filter(({ sql }) => sql.startsWith('ALTER'));
    assert.deepEqual(
      changes.map(
        ({ sql, settings }) => `${settings.get('param_table')} ${settings.get('param_time')}: ${sql}`,
      ),
      [
        "bodies created_at: ALTER TABLE {table:Identifier} ON CLUSTER 'main' MODIFY SETTING ttl_only_drop_parts = 1, materialize_ttl_recalculate_only = 1",
        "bodies created_at: ALTER TABLE {table:Identifier} ON CLUSTER 'main' MODIFY TTL toDateTime({time:Identifier}) + toIntervalDay(30)",
      ],
    );
    for (const { settings } of changes)
      assert.equal(settings.get('distributed_ddl_output_mode'), 'null_status_on_timeout');
  });
});

test('a server that is too old is refused before anything is made', async () => {
  await withServer('23.8.1.1', async (options, seen) => {
    await assert.rejects(createAnalytics(options), (error) => {
      assert.ok(error instanceof AnalyticsStartError && error.lasting);
      assert.match(error.message, /runs ClickHouse 23\.8, and 24\.8 or newer is needed/);
      assert.doesNotMatch(error.message, /SECRET/);
      return true;
    });
    assert.equal(seen.length, 1);
  });
});
