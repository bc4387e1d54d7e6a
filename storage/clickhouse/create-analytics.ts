import { type ClickHouseClient, ClickHouseLogLevel, createClient } from '@clickhouse/client';
import type { Analytics } from '../../core/ports/analytics.ts';
import type { Log } from '../../core/ports/log.ts';
import { ClickHouseAnalytics } from './clickhouse-analytics.ts';
import {
  migrate,
  onCluster,
  oneServer,
  readMigrations,
  schemaSettings,
  type TableLayout,
} from './migrate.ts';
import type { QueryBounds } from './select.ts';
import { checkVersion, explainStart, type OpeningStep, type StorePlace } from './store-errors.ts';
import { usageStart } from './usage-plan.ts';

/** How long rows are kept, in days; 0 for ever. */
export interface Retention {
  readonly logsDays: number;
  readonly bodiesDays: number;
  /** Roll-ups, feedback and changes of prices. */
  readonly metricsDays: number;
}

interface Table {
  readonly name: string;
  readonly engine_full: string;
  /** The column that says when: of a roll-up the beginning of its bucket. */
  readonly time: string;
}

/** As `system.tables` shows it; anything else is a rule of the operator's own. */
const ownRule = / TTL (toDateTime\(\w+\) \+ toIntervalDay\((\d+)\))(?= SETTINGS |$)/;
const anyRule = / TTL /;
/**
 * Rows that are due go while a part is merged, once a day at the most; a part of which all rows are due is dropped
 * whole. Bodies stand in partitions of a day, so only that is done with them, and nothing is ever rewritten. A new rule
 * makes a note in each part of when it is due, and rewrites none.
 */
const rowByRow = ['merge_with_ttl_timeout = 86400', 'materialize_ttl_recalculate_only = 1'];
const byParts = ['ttl_only_drop_parts = 1', 'materialize_ttl_recalculate_only = 1'];

/**
 * Makes the tables of the client's database delete rows by themselves when these days have passed. Changes nothing
 * where a table does so already, and leaves a table alone that has another rule, which an operator has made.
 */
async function applyRetention(
  client: ClickHouseClient,
  retention: Retention,
  layout: TableLayout,
  log: Log,
): Promise<void> {
  for (const table of await tablesOf(client)) {
    const days = daysOf(table.name, retention);
    const now = ownRule.exec(table.engine_full);
    if (now === null && anyRule.test(table.engine_full)) {
      log.warn(
        'A table of the analytics store has a TTL of its own, which stays; `retention` does not hold for it',
        {
          table: table.name,
        },
      );
      continue;
    }
    if ((now === null ? 0 : Number(now[2])) === days) continue;
    await setRule(client, table, days, layout);
    log.info('Retention of a table of the analytics store is set', { table: table.name, days });
  }
}

/** Those that Weir makes; a view's own table is not one of them. */
async function tablesOf(client: ClickHouseClient): Promise<Table[]> {
  const result = await client.query({
    query: `SELECT t.name AS name, t.engine_full AS engine_full, any(c.name) AS time
      FROM system.tables AS t INNER JOIN system.columns AS c ON c.database = t.database AND c.table = t.name
      WHERE t.database = currentDatabase() AND t.engine LIKE '%MergeTree' AND c.is_in_partition_key
        AND (t.name IN ('requests', 'bodies', 'feedback', 'price_changes') OR startsWith(t.name, 'usage_'))
      GROUP BY t.name, t.engine_full ORDER BY t.name`,
    format: 'JSONEachRow',
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
  const table = `ALTER TABLE {table:Identifier}${onCluster(layout)}`;
  const run = (query: string): Promise<unknown> =>
    client.command({
      query: `${table} ${query}`,
      query_params: { table: name, time },
      clickhouse_settings: { ...schemaSettings, materialize_ttl_after_modify: 1, mutations_sync: '0' },
    });
  if (days === 0) return void (await run('REMOVE TTL'));
  await run(`MODIFY SETTING ${(name === 'bodies' ? byParts : rowByRow).join(', ')}`);
  await run(`MODIFY TTL toDateTime({time:Identifier}) + toIntervalDay(${days})`);
}

/** Which ClickHouse server to use. */
export interface ClickHouseOptions {
  /** `http://host:8123` or `https://…`, without a path. */
  readonly url: string;
  readonly username: string;
  readonly password: string;
  /** Created when it does not exist. Default `weir`. */
  readonly database?: string;
  /** Certificates (PEM) of the authorities that are trusted instead of the usual ones. For `https://` only. */
  readonly certificateAuthority?: Buffer | undefined;
  /** Default: one server. */
  readonly layout?: TableLayout;
  readonly log: Log;
  /** The other side reads the files of `StoredRows` itself: the embedded engine, never a server. Default false. */
  readonly readsFiles?: boolean;
  /** What one query may take. */
  readonly queryBounds?: QueryBounds | undefined;
  /** How long rows are kept. Default: as the tables are, and new ones keep them for ever. */
  readonly retention?: Retention | undefined;
}

const dayMs = 86_400_000;
const requestTimeoutMs = 60_000;
/** Asking for the version costs a server nothing: one that needs longer than this cannot be reached. */
const firstAnswerTimeoutMs = 5000;

/**
 * Opens the analytics store on a ClickHouse server or on the embedded engine and brings its schema up to date.
 * Throws an `AnalyticsStartError`, whose `lasting` says whether it is worth another attempt.
 */
export async function createAnalytics(options: ClickHouseOptions): Promise<Analytics> {
  const { database = 'weir', layout = oneServer, log } = options;
  const { url, username } = options;
  const place: StorePlace = { url, username, database, cluster: layout.cluster };
  const migrations = await readMigrations(layout);
  await step('connect', place, connect(options, 'default', firstAnswerTimeoutMs), async (client) => {
    checkVersion(await versionOf(client), place);
  });
  await step('database', place, connect(options, 'default'), (client) =>
    createDatabase(client, database, layout),
  );
  const client = connect(options, database);
  let rolledUpFrom: number;
  try {
    await migrate(client, migrations, log, layout);
    if (options.retention !== undefined) await applyRetention(client, options.retention, layout, log);
    rolledUpFrom = await usageStart(client);
    if (options.readsFiles === true) await tellBrokenParts(client, database, log);
  } catch (error) {
    await client.close();
    throw explainStart(error, 'schema', place);
  }
  const { logsDays = 0 } = options.retention ?? {};
  const rawKeptMs = logsDays === 0 ? Infinity : logsDays * dayMs;
  return new ClickHouseAnalytics(client, { ...options, rawKeptMs, rolledUpFrom });
}

function connect(
  options: ClickHouseOptions,
  database: string,
  timeoutMs = requestTimeoutMs,
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
    ...(certificateAuthority !== undefined && { tls: { ca_cert: certificateAuthority } }),
    // Its log lines quote statements and rows; what matters reaches our log through the errors it throws.
    log: { level: ClickHouseLogLevel.OFF },
  });
}

async function step(
  name: OpeningStep,
  place: StorePlace,
  client: ClickHouseClient,
  run: (client: ClickHouseClient) => Promise<void>,
): Promise<void> {
  try {
    await run(client);
  } catch (error) {
    throw explainStart(error, name, place);
  } finally {
    await client.close();
  }
}

/** The engine leaves out parts that it cannot read, and says nothing of it. */
async function tellBrokenParts(client: ClickHouseClient, database: string, log: Log): Promise<void> {
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

/** In a format that every version knows. */
async function versionOf(client: ClickHouseClient): Promise<string> {
  const result = await client.query({ query: 'SELECT version()', format: 'TabSeparated' });
  return (await result.text()).trim();
}

/** A user without the right to create databases may use one that exists, hence the look before. */
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
  const query = `CREATE DATABASE IF NOT EXISTS {database:Identifier}${onCluster(layout)}`;
  await client.command({ query, query_params, clickhouse_settings: schemaSettings });
}
