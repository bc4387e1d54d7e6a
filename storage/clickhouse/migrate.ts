import type { ClickHouseClient, ClickHouseSettings } from '@clickhouse/client';
import type { Log } from '../../core/ports/log.ts';
import type { Migration } from './migrations.ts';
import { fillTemplate, oneServer, type TableLayout } from './table-layout.ts';

const createVersions = `CREATE TABLE IF NOT EXISTS schema_versions{{on_cluster}}
(
    version UInt32,
    name String,
    checksum String,
    applied_at DateTime64(3, 'UTC') DEFAULT now64(3)
)
ENGINE = {{engine MergeTree}}
ORDER BY version
SETTINGS {{deduplication_window 10000}}`;

/**
 * For statements that change the schema. A server of the cluster that is away gets them when it is back and does not
 * hold up the others; a failure is reported with the answer's head, not in the middle of it.
 */
export const schemaSettings: ClickHouseSettings = {
  distributed_ddl_task_timeout: '30',
  distributed_ddl_output_mode: 'null_status_on_timeout',
  wait_end_of_query: 1,
};

interface Applied {
  readonly version: number;
  readonly name: string;
  readonly checksum: string;
}

/** A migration that was applied to the store reads differently now. */
export class SchemaChanged extends Error {
  constructor(step: Migration, before: Applied) {
    super(
      `migration ${step.name} was applied to the analytics store with other contents (then ${before.name}, checksum ` +
        `${before.checksum.slice(0, 12)}, now ${step.checksum.slice(0, 12)}): restore the file and put the change into a new one`,
    );
    this.name = 'SchemaChanged';
  }
}

/**
 * Brings the schema of the client's database up to date; `layout` is that of the migrations. Runs nothing twice, and does no harm when several gateways
 * do it at the same moment: statements can be repeated and a step is recorded once, by its deduplication token.
 * Throws `SchemaChanged` when a step that was applied has been changed since.
 */
export async function migrate(
  client: ClickHouseClient,
  migrations: readonly Migration[],
  log: Log,
  layout: TableLayout = oneServer,
): Promise<void> {
  const query = fillTemplate(createVersions, layout);
  await client.command({ query, clickhouse_settings: schemaSettings });
  const applied = new Map((await appliedVersions(client)).map((row) => [row.version, row]));
  for (const step of migrations) {
    const before = applied.get(step.version);
    if (before === undefined) await apply(client, step, log);
    else if (before.checksum !== step.checksum) throw new SchemaChanged(step, before);
  }
  const newest = Math.max(0, ...applied.keys());
  if (newest > migrations.length) {
    log.warn('the analytics store has a newer schema than this version knows; new columns are left empty', {
      schema: newest,
      known: migrations.length,
    });
  }
}

async function appliedVersions(client: ClickHouseClient): Promise<Applied[]> {
  const result = await client.query({
    query: 'SELECT DISTINCT version, name, checksum FROM schema_versions ORDER BY version',
    format: 'JSONEachRow',
  });
  return result.json<Applied>();
}

async function apply(client: ClickHouseClient, step: Migration, log: Log): Promise<void> {
  for (const query of step.statements) {
    await client.command({ query, clickhouse_settings: schemaSettings });
  }
  const { version, name, checksum } = step;
  await client.insert({
    table: 'schema_versions',
    columns: ['version', 'name', 'checksum'],
    values: [{ version, name, checksum }],
    format: 'JSONEachRow',
    clickhouse_settings: { async_insert: 0, insert_deduplication_token: `schema-version-${version}` },
  });
  log.info('analytics schema brought up to date', { migration: name });
}
