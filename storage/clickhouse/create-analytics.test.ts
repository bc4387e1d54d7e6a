import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { test } from 'node:test';
import { recordingLog } from '../embedded/chdb-fixture.ts';
import { createAnalytics, type ClickHouseOptions } from './create-analytics.ts';
import { AnalyticsStartError } from './start-error.ts';

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
        sql.startsWith('SELECT version()') ? `${version}\n` : sql.startsWith('EXISTS') ? '[0]\n' : '',
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
    assert.deepEqual(
      created.map(({ sql }) => sql.split('\n')[0]),
      [
        "CREATE DATABASE IF NOT EXISTS {database:Identifier} ON CLUSTER 'main'",
        "CREATE TABLE IF NOT EXISTS schema_versions ON CLUSTER 'main'",
        "CREATE TABLE IF NOT EXISTS requests ON CLUSTER 'main'",
        "CREATE TABLE IF NOT EXISTS bodies ON CLUSTER 'main'",
        "CREATE TABLE IF NOT EXISTS feedback ON CLUSTER 'main'",
      ],
    );
    for (const { sql, settings } of created) {
      assert.equal(settings.get('distributed_ddl_output_mode'), 'null_status_on_timeout');
      if (sql.startsWith('CREATE TABLE')) assert.match(sql, /ENGINE = ReplicatedMergeTree\('\/k\/\{shard\}/);
    }
  });
});

test('on one server, nothing is said of clusters and replicas', async () => {
  await withServer('25.3.1.1', async (options, seen) => {
    await (await createAnalytics(options)).close();
    assert.equal(seen.filter(({ sql }) => sql.startsWith('CREATE')).length, 5);
    for (const { sql } of seen) assert.doesNotMatch(sql, /ON CLUSTER|ENGINE = Replicated|\{\{/);
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
