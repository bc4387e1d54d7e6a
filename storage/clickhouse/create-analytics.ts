import {
  type ClickHouseClient,
  ClickHouseLogLevel,
  type ClickHouseSettings,
  createClient,
} from '@clickhouse/client';
import type { Analytics } from '../../core/ports/analytics.ts';
import type { Log } from '../../core/ports/log.ts';
import { ClickHouseAnalytics } from './clickhouse-analytics.ts';
import { migrate, oneServer, readMigrations, schemaOf, schemaSql, type TableLayout } from './migrate.ts';
import { shardedSchema, type Shards, shardSql } from './shards.ts';
import type { QueryBounds } from './select.ts';
import { analyticsErrors, type OpeningStep, type StorePlace } from './store-errors.ts';
import { usageQuery } from './usage-sql.ts';

/** Retention of rows, in days; 0: unlimited. */
export interface Retention {
  readonly logsDays: number;
  readonly bodiesDays: number;
  /** Roll-ups, feedback and changes of prices. */
  readonly metricsDays: number;
}

interface Table {
  readonly name: string;
  /** One, or those of the servers of the cluster that differ: a shard that was added has no rule yet. */
  readonly engines: readonly string[];
  /** Column of the row's time; in a roll-up, the start of its bucket. */
  readonly time: string;
}

/** Form in `system.tables`; any other rule belongs to the operator. */
const ownRule = / TTL (toDateTime\(\w+\) \+ toIntervalDay\((\d+)\))(?= SETTINGS |$)/;
const anyRule = / TTL /;
/**
 * Expired rows are deleted when a part is merged, at most once a day; a part of expired rows alone is dropped whole.
 * Bodies have daily partitions, so only whole parts are dropped, and nothing is rewritten. A new rule only updates the
 * expiry noted in each part.
 */
const rowByRow = ['merge_with_ttl_timeout = 86400', 'materialize_ttl_recalculate_only = 1'];
const byParts = ['ttl_only_drop_parts = 1', 'materialize_ttl_recalculate_only = 1'];

/**
 * Sets the retention of the tables in the client's database. Skips tables that have the same rule already, and tables
 * with another rule, which an operator has set.
 */
async function applyRetention(
  client: ClickHouseClient,
  retention: Retention,
  { database = 'weir', layout = oneServer, log }: ClickHouseOptions,
): Promise<void> {
  for (const table of await tablesOf(client, database, layout)) {
    const days = daysOf(table.name, retention);
    const rules = table.engines.map((engine) => ({ engine, own: ownRule.exec(engine) }));
    if (rules.some(({ engine, own }) => own === null && anyRule.test(engine))) {
      log.warn(
        'A table of the analytics store has a TTL of its own, which stays; `retention` does not hold for it',
        {
          table: table.name,
        },
      );
      continue;
    }
    if (rules.every(({ own }) => (own === null ? 0 : Number(own[2])) === days)) continue;
    await setRule(client, table, days, layout);
    log.info('Retention of a table of the analytics store is set', { table: table.name, days });
  }
}

/** The tables that Weir creates, without the inner tables of views. */
async function tablesOf(
  client: ClickHouseClient,
  database: string,
  { cluster, sharded }: TableLayout,
): Promise<Table[]> {
  const tables =
    sharded === true
      ? `clusterAllReplicas(${schemaSql.literal(cluster ?? '')}, system.tables)`
      : 'system.tables';
  const result = await client.query({
    query: `SELECT t.name AS name, groupUniqArray(t.engine_full) AS engines, any(c.name) AS time
      FROM ${tables} AS t INNER JOIN system.columns AS c ON c.database = t.database AND c.table = t.name
      WHERE t.database = {database:String} AND t.engine LIKE '%MergeTree' AND c.is_in_partition_key
        AND (t.name IN ('requests', 'bodies', 'feedback', 'price_changes') OR startsWith(t.name, 'usage_'))
      GROUP BY t.name ORDER BY t.name`,
    format: 'JSONEachRow',
    query_params: { database },
    // A server that is away gets its statements when it is back.
    ...(sharded === true && { clickhouse_settings: { skip_unavailable_shards: 1 } }),
  });
  return result.json<Table>();
}

function daysOf(table: string, { logsDays, bodiesDays, metricsDays }: Retention): number {
  if (table === 'requests') return logsDays;
  return table === 'bodies' ? bodiesDays : metricsDays;
}

async function setRule(
  client: ClickHouseClient,
  { name, time }: Table,
  days: number,
  layout: TableLayout,
): Promise<void> {
  const table = `ALTER TABLE {table:Identifier}${schemaSql.onCluster(layout)}`;
  const run = (query: string): Promise<unknown> =>
    client.command({
      query: `${table} ${query}`,
      query_params: { table: name, time },
      clickhouse_settings: { ...schemaSql.settings, materialize_ttl_after_modify: 1, mutations_sync: '0' },
    });
  if (days === 0) return void (await run('REMOVE TTL'));
  await run(`MODIFY SETTING ${(name === 'bodies' ? byParts : rowByRow).join(', ')}`);
  await run(`MODIFY TTL toDateTime({time:Identifier}) + toIntervalDay(${days})`);
}

/**
 * Adds the index of the search of bodies, or drops it. Rows that were stored without it are found by reading them, until
 * a merge gives them one.
 */
async function applyTextIndex(
  client: ClickHouseClient,
  { textIndex, database = 'weir', layout = oneServer, log }: ClickHouseOptions,
): Promise<void> {
  if (textIndex === undefined) return;
  const result = await client.query({
    query:
      "SELECT toUInt8(count()) AS present FROM system.data_skipping_indices WHERE database = {database:String} AND table = 'bodies' AND name = 'text_filter'",
    format: 'JSONEachRow',
    query_params: { database },
  });
  const [row] = await result.json<{ present: number }>();
  if ((row?.present === 1) === textIndex) return;
  const change = textIndex
    ? 'ADD INDEX IF NOT EXISTS text_filter (lowerUTF8(request), lowerUTF8(response)) TYPE ngrambf_v1(4, 65536, 2, 0) GRANULARITY 1'
    : 'DROP INDEX IF EXISTS text_filter';
  await client.command({
    query: `ALTER TABLE bodies${schemaSql.onCluster(layout)} ${change}`,
    clickhouse_settings: { ...schemaSql.settings, mutations_sync: '0' },
  });
  log.info(`The index of the search of bodies is ${textIndex ? 'added' : 'dropped'}`);
}

/** Address and settings of a ClickHouse server. */
export interface ClickHouseOptions {
  /** `http://host:8123` or `https://…`, without a path. */
  readonly url: string;
  readonly username: string;
  readonly password: string;
  /** Created when it does not exist. Default `weir`. */
  readonly database?: string;
  /** Certificates (PEM) of authorities trusted instead of the default ones. For `https://` only. */
  readonly certificateAuthority?: Buffer | undefined;
  /** Default: one server. */
  readonly layout?: TableLayout;
  readonly log: Log;
  /**
   * True for the embedded engine, never a server: it reads the files of `StoredRows` itself, and serves this process
   * alone. Default false.
   */
  readonly isEmbedded?: boolean;
  /** Limits of one query. */
  readonly queryBounds?: QueryBounds | undefined;
  /** Retention of rows. Default: existing tables keep theirs, new ones have no limit. */
  readonly retention?: Retention | undefined;
  /** Whether the search of bodies has an index. Default: existing tables keep theirs, new ones have it. */
  readonly textIndex?: boolean | undefined;
}

const dayMs = 86_400_000;
const requestTimeoutMs = 60_000;
/** A version query costs a server nothing: a server that needs longer than this counts as unreachable. */
const firstAnswerTimeoutMs = 5000;

/**
 * Opens the analytics store on a ClickHouse server or on the embedded engine and migrates its schema. Throws an
 * `AnalyticsStartError`, whose `lasting` is false when a retry may succeed.
 */
export async function createAnalytics(options: ClickHouseOptions): Promise<Analytics> {
  const { database = 'weir', layout = oneServer } = options;
  const { url, username } = options;
  const { cluster, sharded } = layout;
  const place: StorePlace = { url, username, database, cluster, sharded };
  const shards = await step(
    'connect',
    place,
    connectClickHouse(options, 'default', firstAnswerTimeoutMs),
    async (client) => {
      analyticsErrors.checkVersion(await versionOf(client), place);
      return sharded === true ? shardedSchema.readShards(client, database, layout) : undefined;
    },
  );
  await step('database', place, connectClickHouse(options, 'default'), async (client) => {
    await createDatabase(client, database, layout);
    if (shards !== undefined) await createDatabase(client, shardSql.databaseOfAll(database), layout);
  });
  const client =
    shards === undefined
      ? connectClickHouse(options, database)
      : connectClickHouse(
          options,
          shardSql.databaseOfAll(database),
          requestTimeoutMs,
          shardSql.allShardsSettings,
        );
  let rolledUpFrom: number;
  try {
    if (shards === undefined) await prepare(client, options);
    else
      await step('schema', place, connectClickHouse(options, database), (own) =>
        prepareShards({ own, all: client }, shards, options),
      );
    rolledUpFrom = await usageQuery.start(client, shards?.count);
  } catch (error) {
    await client.close();
    throw analyticsErrors.explainStart(error, 'schema', place);
  }
  const { logsDays = 0 } = options.retention ?? {};
  const rawKeptMs = logsDays === 0 ? Infinity : logsDays * dayMs;
  return new ClickHouseAnalytics(client, { ...options, rawKeptMs, rolledUpFrom, layout, shards });
}

/** Migrates one database and sets its retention. */
async function prepare(client: ClickHouseClient, options: ClickHouseOptions): Promise<void> {
  const { database = 'weir', layout = oneServer, log, retention } = options;
  await migrate(schemaOf(client, layout), await readMigrations(layout), log);
  if (retention !== undefined) await applyRetention(client, retention, options);
  await applyTextIndex(client, options);
  if (options.isEmbedded === true) await warnOfBrokenParts(client, database, log);
}

/** The same for the tables of all shards, and the Distributed tables on them. */
async function prepareShards(
  clients: Parameters<typeof shardedSchema.of>[0],
  shards: Shards,
  options: ClickHouseOptions,
): Promise<void> {
  const migrations = await readMigrations(shards.layout);
  await migrate(shardedSchema.of(clients, shards, migrations), migrations, options.log);
  await shardedSchema.distribute(clients.all, shards, migrations);
  if (options.retention !== undefined) await applyRetention(clients.own, options.retention, options);
  await applyTextIndex(clients.own, options);
}

/** A client for one server, which connects with its first statement. */
export function connectClickHouse(
  options: ClickHouseOptions,
  database: string,
  timeoutMs = requestTimeoutMs,
  settings: ClickHouseSettings = {},
): ClickHouseClient {
  const { certificateAuthority } = options;
  return createClient({
    url: options.url,
    username: options.username,
    password: options.password,
    database,
    application: 'weir',
    request_timeout: timeoutMs,
    compression: { request: false, response: false },
    clickhouse_settings: settings,
    ...(certificateAuthority !== undefined && { tls: { ca_cert: certificateAuthority } }),
    // Its log lines quote statements and rows; its errors carry everything that the gateway's log needs.
    log: { level: ClickHouseLogLevel.OFF },
  });
}

async function step<T>(
  name: OpeningStep,
  place: StorePlace,
  client: ClickHouseClient,
  run: (client: ClickHouseClient) => Promise<T>,
): Promise<T> {
  try {
    return await run(client);
  } catch (error) {
    throw analyticsErrors.explainStart(error, name, place);
  } finally {
    await client.close();
  }
}

/** The engine skips unreadable parts without an error. */
async function warnOfBrokenParts(client: ClickHouseClient, database: string, log: Log): Promise<void> {
  const result = await client.query({
    query: `SELECT table, toUInt32(count()) FROM system.detached_parts
      WHERE database = {database:String} AND reason LIKE 'broken%' GROUP BY table ORDER BY table`,
    query_params: { database },
    format: 'JSONCompactEachRow',
  });
  for (const [table, parts] of await result.json<readonly [string, number]>())
    log.error(
      'Rows of the analytics store are damaged on disk and are left out: their parts lie in folders named detached. Put a copy of the analytics folder in its place, or delete them',
      { table, parts },
    );
}

/** In a format that every version supports. */
async function versionOf(client: ClickHouseClient): Promise<string> {
  const result = await client.query({ query: 'SELECT version()', format: 'TabSeparated' });
  return (await result.text()).trim();
}

/** A user without the right to create databases may use an existing one, hence the check before. */
async function createDatabase(
  client: ClickHouseClient,
  database: string,
  layout: TableLayout,
): Promise<void> {
  const query_params = { database };
  const result = await client.query({
    query: 'EXISTS DATABASE {database:Identifier}',
    query_params,
    format: 'JSONCompactEachRow',
  });
  const [[exists] = [0]] = await result.json<[number]>();
  if (exists === 1) return;
  const query = `CREATE DATABASE IF NOT EXISTS {database:Identifier}${schemaSql.onCluster(layout)}`;
  await client.command({ query, query_params, clickhouse_settings: schemaSql.settings });
}
