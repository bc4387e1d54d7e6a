import { ClickHouseLogLevel, createClient, type ClickHouseClient } from '@clickhouse/client';
import type { Analytics } from '../../core/ports/analytics.ts';
import type { Log } from '../../core/ports/log.ts';
import { ClickHouseAnalytics } from './clickhouse-analytics.ts';
import { migrate, SchemaChanged } from './migrate.ts';
import { readMigrations } from './migrations.ts';
import { unavailable } from './store-errors.ts';

/** Which ClickHouse server to use. */
export interface ClickHouseOptions {
  /** `http://host:8123` or `https://…`, without a path. */
  readonly url: string;
  readonly username: string;
  readonly password: string;
  /** Created when it does not exist. Default `weir`. */
  readonly database?: string;
  readonly log: Log;
}

const requestTimeoutMs = 60_000;

/**
 * Opens the analytics store on a ClickHouse server or on the embedded engine and brings its schema up to date.
 * Throws a `GatewayError` `store_unavailable` when the server does not answer or refuses the schema, and
 * `SchemaChanged` when its schema was made by a migration that has been changed since.
 */
export async function createAnalytics(options: ClickHouseOptions): Promise<Analytics> {
  const { database = 'weir', log } = options;
  const migrations = await readMigrations();
  await createDatabase(options, database);
  const client = connect(options, database);
  try {
    await migrate(client, migrations, log);
  } catch (error) {
    await client.close();
    throw error instanceof SchemaChanged ? error : unavailable(error);
  }
  return new ClickHouseAnalytics(client);
}

function connect(options: ClickHouseOptions, database: string): ClickHouseClient {
  return createClient({
    url: options.url,
    username: options.username,
    password: options.password,
    database,
    application: 'weir',
    request_timeout: requestTimeoutMs,
    compression: { request: false, response: false },
    // Its log lines quote statements and rows; what matters reaches our log through the errors it throws.
    log: { level: ClickHouseLogLevel.OFF },
  });
}

/** A user without the right to create databases may use one that exists, hence the look before. */
async function createDatabase(options: ClickHouseOptions, database: string): Promise<void> {
  const client = connect(options, 'default');
  const query_params = { database };
  try {
    const result = await client.query({
      query: 'EXISTS DATABASE {database:Identifier}',
      query_params,
      format: 'JSONCompactEachRow',
    });
    const [[exists] = [0]] = await result.json<[number]>();
    if (exists === 1) return;
    await client.command({ query: 'CREATE DATABASE IF NOT EXISTS {database:Identifier}', query_params });
  } catch (error) {
    throw unavailable(error);
  } finally {
    await client.close();
  }
}
