import { readMigrations, schemaSql } from './migrate.ts';
import { shardSql } from './shards.ts';
import type { ClickHouseOptions } from './create-analytics.ts';

/** Content of a script. */
interface ScriptOptions extends Pick<ClickHouseOptions, 'database' | 'layout'> {
  /** For a server that the others of the cluster do not know yet: nothing runs ON CLUSTER. */
  readonly oneServer: boolean;
}

/**
 * All statements of the schema as a script for `clickhouse-client --multiquery`, with the record of its steps: a
 * gateway that starts afterwards finds nothing to do but retention. Each statement may be repeated on empty tables.
 */
export async function schemaScript({
  database = 'weir',
  layout = {},
  oneServer,
}: ScriptOptions): Promise<string> {
  const { sharded = false } = layout;
  // Inserts are for the shard that the script reaches.
  const own = { ...layout, sharded: false, ...(oneServer && { cluster: undefined }) };
  const migrations = await readMigrations(own);
  const create = (name: string): string =>
    `CREATE DATABASE IF NOT EXISTS ${shardSql.quoted(name)}${schemaSql.onCluster(own)}`;
  const places = { database, layout: { ...layout, cluster: layout.cluster } };
  const distributed = (name: string): string => {
    const sql = shardSql.distributedTable(name, places, 'new');
    return oneServer ? sql.replace(schemaSql.onCluster(layout), '') : sql;
  };
  const statements = [
    create(database),
    `USE ${shardSql.quoted(database)}`,
    schemaSql.fillTemplate(schemaSql.createVersions, own),
    ...migrations.flatMap((step) => [...step.statements, noteOf(schemaSql.versionInsert(step, own))]),
    ...(sharded
      ? [create(shardSql.databaseOfAll(database)), ...shardSql.tablesOfSchema(migrations).map(distributed)]
      : []),
  ];
  return [...headOf(own.cluster, sharded, oneServer), '', ...statements.map((sql) => `${sql};\n`)].join('\n');
}

function headOf(cluster: string | undefined, sharded: boolean, oneServer: boolean): string[] {
  const head = ['-- The tables of Weir. Retention is not part of them: a gateway sets it when it starts.'];
  if (oneServer)
    return [...head, '-- For clickhouse-client --multiquery, on each server that has no tables yet.'];
  if (cluster === undefined) return [...head, '-- For clickhouse-client --multiquery.'];
  head.push('-- For clickhouse-client --multiquery, on one server of the cluster.');
  if (sharded)
    head.push(
      '-- Then run what `weir clickhouse schema --one-server` prints on one server of each other shard: it notes there that the tables are complete.',
    );
  return head;
}

/** The record of a step as a statement. */
function noteOf({
  table,
  columns,
  values,
  clickhouse_settings,
}: ReturnType<typeof schemaSql.versionInsert>): string {
  const settings = Object.entries(clickhouse_settings).map(
    ([name, value]) => `${name} = ${typeof value === 'string' ? schemaSql.literal(value) : String(value)}`,
  );
  const rows = values.map(({ version, name, checksum }) =>
    [String(version), schemaSql.literal(name), schemaSql.literal(checksum)].join(', '),
  );
  return `INSERT INTO ${table} (${columns.join(', ')}) SETTINGS ${settings.join(', ')} VALUES (${rows.join('), (')})`;
}
