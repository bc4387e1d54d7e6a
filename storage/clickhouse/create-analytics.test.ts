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
    engines: ['MergeTree ORDER BY id SETTINGS index_granularity = 512'],
    time: 'created_at',
  },
  {
    name: 'requests',
    engines: ['MergeTree ORDER BY id TTL toDateTime(created_at) + toIntervalDay(90) SETTINGS a = 1'],
    time: 'created_at',
  },
  { name: 'usage_days', engines: ['MergeTree ORDER BY id TTL bucket + toIntervalDay(9)'], time: 'bucket' },
];

/** The shards of a cluster as a server tells them. */
const twoShards = { shards: 2, fewest_replicas: 2, most_replicas: 3, written_twice: 0 };

/** A server that notes the statements it gets and answers as one of this version with an empty store. */
async function withServer(
  version: string,
  run: (options: ClickHouseOptions, seen: { sql: string; settings: URLSearchParams }[]) => Promise<void>,
  shape: Readonly<Record<string, number>> = twoShards,
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
              : sql.includes('system.clusters')
                ? `${JSON.stringify(shape)}\n`
                : sql.includes('groupArrayIf')
                  ? '{"name":"bodies"}\n{"name":"requests"}\n'
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

const sharded = {
  cluster: 'main',
  replica: { path: '', name: '' },
  sharded: true,
  quorum: { replicas: 'auto', parallel: true },
} as const;

test('on shards, tables are made on the cluster, read through Distributed ones, and each shard notes the schema', async () => {
  await withServer('25.3.1.1', async (options, seen) => {
    const analytics = await createAnalytics({ ...options, layout: sharded });
    const made = seen.filter(({ sql }) => /^(CREATE|ALTER)/.test(sql));
    for (const { sql } of made) assert.match(sql.split('\n')[0] ?? '', / ON CLUSTER 'main'/);
    const databases = made.filter(({ sql }) => sql.startsWith('CREATE DATABASE'));
    assert.deepEqual(
      databases.map(({ settings }) => settings.get('param_database')),
      ['logs', 'logs_all'],
    );
    const own = made.find(({ sql }) => sql.startsWith('CREATE TABLE IF NOT EXISTS requests'));
    assert.equal(own?.settings.get('database'), 'logs');
    const through = made.filter(({ sql }) => sql.includes('ENGINE = Distributed'));
    for (const name of ['schema_versions', 'bodies', 'requests'])
      assert.ok(
        through.some(
          ({ sql }) =>
            sql.includes(`\`logs_all\`.\`${name}\``) &&
            sql.endsWith(`Distributed('main', 'logs', '${name}')`),
        ),
        name,
      );
    const noted = seen.filter(({ sql }) => sql.startsWith('INSERT INTO schema_versions'));
    assert.deepEqual(
      noted
        .slice(0, 3)
        .map(({ settings }) =>
          ['insert_shard_id', 'insert_deduplication_token'].map((name) => settings.get(name)),
        ),
      [
        ['1', 'schema-version-1'],
        ['2', 'schema-version-1'],
        ['1', 'schema-version-2'],
      ],
    );
    const starts = seen.filter(({ sql }) => sql.startsWith('INSERT INTO usage_starts'));
    for (const [index, { sql, settings }] of starts.entries()) {
      assert.match(
        sql,
        /FROM requests WHERE _shard_num = \{shard:UInt32\}\s+HAVING \(SELECT count\(\) FROM usage_starts WHERE _shard_num = \{shard:UInt32\}\)/,
      );
      assert.equal(settings.get('param_shard'), String(index + 1));
      assert.equal(settings.get('database'), 'logs_all');
    }
    assert.equal(starts.length, 2);
    await analytics.close();
  });
});

test('a batch for shards names its shard, waits for the quorum, and is never queued on the way', async () => {
  await withServer('25.3.1.1', async (options, seen) => {
    const analytics = await createAnalytics({ ...options, layout: sharded });
    const from = seen.length;
    for (const token of ['a', 'a', 'b']) await analytics.insert('requests', Buffer.from('{}\n'), token);
    await analytics.logs({
      window: { from: 0, to: 9 },
      visibility: { organisationId: 'o' },
      order: 'newest',
      limit: 1,
    });
    const [first, again, other, read] = seen.slice(from).map(({ settings }) => settings);
    for (const settings of [first, again, other]) {
      assert.equal(settings?.get('database'), 'logs_all');
      assert.equal(settings?.get('insert_quorum'), 'auto');
      assert.equal(settings?.get('insert_quorum_parallel'), '1');
      assert.equal(settings?.get('insert_quorum_timeout'), '30000');
      assert.equal(settings?.get('insert_distributed_sync'), '1');
      assert.match(settings?.get('insert_shard_id') ?? '', /^[12]$/);
    }
    assert.equal(first?.get('insert_shard_id'), again?.get('insert_shard_id'));
    assert.equal(read?.get('distributed_product_mode'), 'global');
    assert.equal(read?.get('skip_unavailable_shards'), '0');
    assert.equal(read?.has('insert_shard_id'), false);
    await analytics.close();
  });
});

test('replicas without shards have the quorum too, and nothing of shards', async () => {
  await withServer('25.3.1.1', async (options, seen) => {
    const layout = { ...sharded, sharded: false, quorum: { replicas: 2, parallel: false } } as const;
    const analytics = await createAnalytics({ ...options, layout });
    await analytics.insert('requests', Buffer.from('{}\n'), 'a');
    const settings = seen.at(-1)?.settings;
    assert.equal(settings?.get('database'), 'logs');
    assert.equal(settings?.get('insert_quorum'), '2');
    assert.equal(settings?.get('insert_quorum_parallel'), '0');
    const window = { from: 0, to: 9 };
    await analytics.logs({ window, visibility: { organisationId: 'o' }, order: 'newest', limit: 1 });
    assert.equal(seen.at(-1)?.settings.has('select_sequential_consistency'), false);
    await (await analytics.repricing()).unpriced({ window, limit: 1 });
    assert.equal(seen.at(-1)?.settings.get('select_sequential_consistency'), '1');
    for (const { sql, settings: one } of seen) {
      assert.doesNotMatch(sql, /Distributed|_shard_num|_all\b/);
      assert.equal(one.has('insert_shard_id'), false);
    }
    await analytics.close();
  });
});

const unfit: [what: string, shape: Partial<typeof twoShards>, message: RegExp][] = [
  ['that the server does not know', { shards: 0 }, /knows no such cluster\. .*"main"; SHOW CLUSTERS/],
  ['that writes to every replica itself', { written_twice: 1 }, /<internal_replication>true</],
  [
    'with fewer replicas than the quorum',
    { fewest_replicas: 1 },
    /has 1 replicas, and .*insert_quorum is 2\. .*"auto"/,
  ],
];
for (const [what, shape, message] of unfit) {
  test(`a cluster of shards ${what} is refused before anything is made`, async () => {
    const layout = { ...sharded, quorum: { replicas: 2, parallel: true } };
    await withServer(
      '25.3.1.1',
      async (options, seen) => {
        await assert.rejects(createAnalytics({ ...options, layout }), (error) => {
          assert.ok(error instanceof AnalyticsStartError && error.lasting);
          assert.match(error.message, message);
          return true;
        });
        assert.ok(seen.every(({ sql }) => sql.startsWith('SELECT')));
      },
      { ...twoShards, ...shape },
    );
  });
}

test('shards with replicas need replicated tables', async () => {
  await withServer('25.3.1.1', async (options) => {
    await assert.rejects(
      createAnalytics({ ...options, layout: { cluster: 'main', sharded: true } }),
      /a shard of the cluster has 3 replicas\. Set storage\.analytics\.replicated: true/,
    );
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
