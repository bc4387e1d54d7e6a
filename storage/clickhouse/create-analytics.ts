import { ClickHouseLogLevel, createClient, type ClickHouseClient } from '@clickhouse/client';
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
import { applyRetention, type Retention } from './retention.ts';
import type { QueryBounds } from './select.ts';
import { checkVersion, explainStart, type OpeningStep, type StorePlace } from './store-errors.ts';
import { usageStart } from './usage-plan.ts';

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
