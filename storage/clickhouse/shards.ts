import { createHash } from 'node:crypto';
import type { ClickHouseClient, ClickHouseSettings } from '@clickhouse/client';
import { Type } from 'typebox';
import { Check } from 'typebox/value';
import { type Applied, type Migration, schemaSql, type SchemaStore, type TableLayout } from './migrate.ts';

/** The schema of all shards. */
export const shardedSchema = { readShards, of: schemaOfShards, distribute: distributeTables };

/** The shard that a row belongs to. */
export const shardPlace = { of: shardOf, isOfEarlierProcess, withToken: shardWith };

/**
 * The shards of a cluster. Each has the tables, with a part of the rows, in `database`. Distributed tables of the same
 * names, in the database `databaseOfAll`, read and write those of all shards; whatever reads and writes rows uses them
 * alone.
 */
export interface Shards {
  readonly count: number;
  /** Database of the shards' own tables. */
  readonly database: string;
  readonly layout: TableLayout;
}

/** Name of the database of the Distributed tables. */
function databaseOfAll(database: string): string {
  return `${database}_all`;
}

/** Settings of every statement on Distributed tables. */
const allShardsSettings: ClickHouseSettings = {
  // A request, its body and its feedback may be on different shards: the rows of a sub-select go to all shards.
  distributed_product_mode: 'global',
  // An answer without the rows of a shard, or of those that it is thought not to have, is a wrong one.
  skip_unavailable_shards: 0,
  optimize_skip_unused_shards: 0,
  // Rows arrive on the shard that the statement names, not each on the shard that it was read from.
  parallel_distributed_insert_select: '0',
  // An acknowledged row is in its table, never in a queue of the server that took it.
  insert_distributed_sync: 1,
};

/** Pieces of statements for a cluster of shards. */
export const shardSql = {
  databaseOfAll,
  allShardsSettings,
  intoShard,
  tablesOfSchema,
  distributedTable,
  quoted,
};

/** Shard of the rows that are few, or whose order matters: changes of prices. Shards are added behind it. */
const firstShard = 1;

/** Settings of an insert into the shard with this number, from 1 on. */
function intoShard(shard = firstShard): ClickHouseSettings {
  return { insert_shard_id: String(shard) };
}

/**
 * Number of the shard of a whole batch, from 1 to `count`; the same for the same token. Tokens spread evenly, and a
 * further shard takes its batches from all others without moving any between them.
 *
 * The server would split a batch by a sharding key into a small insert for each shard. Whole batches keep the number of
 * inserts, and a repeated one is one block with one token where it was before.
 */
function shardOf(token: string, count: number): number {
  let [shard, most] = [firstShard, -1];
  for (let number = 1; number <= count; number += 1) {
    const weight = createHash('sha256').update(`${number} ${token}`).digest().readUIntBE(0, 6);
    if (weight > most) [shard, most] = [number, weight];
  }
  return shard;
}

/** Tokens of the journal carry the start of the process whose rows they are, in milliseconds with base 36. */
const startInToken = /^[a-z]+-([0-9a-z]{1,11})-[0-9a-f]+-\d/;

/** True for a batch that an earlier process may have sent, when the cluster had another number of shards. */
function isOfEarlierProcess(token: string): boolean {
  const start = startInToken.exec(token)?.[1];
  return start === undefined || Number.parseInt(start, 36) < performance.timeOrigin;
}

const rowPlace = Type.Object({
  id: Type.String({ pattern: '^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$' }),
  created_at: Type.String({ maxLength: 40 }),
});

/**
 * The shard that has the first row of a batch, and so all of them: a batch is stored as a whole. Undefined when none
 * has it, or when the row cannot be read, which the store will say itself.
 */
async function shardWith(
  select: <Row>(sql: string, parameters: Readonly<Record<string, unknown>>) => Promise<Row[]>,
  table: string,
  firstRow: string,
): Promise<number | undefined> {
  let row: unknown;
  try {
    row = JSON.parse(firstRow);
  } catch {
    return undefined;
  }
  if (!Check(rowPlace, row)) return undefined;
  const [found] = await select<{ shard: number }>(
    `SELECT toUInt32(_shard_num) AS shard FROM ${table} WHERE id = {id:UUID} AND created_at = parseDateTime64BestEffortOrZero({at:String}, 3, 'UTC') LIMIT 1`,
    { id: row.id, at: row.created_at },
  );
  return found?.shard;
}

/** The cluster cannot hold the tables as configured; with the reason and the remedy. */
export class UnfitCluster extends Error {
  readonly reason: string;
  readonly remedy: string;

  constructor(reason: string, remedy: string) {
    super(`${reason}. ${remedy}`);
    this.name = 'UnfitCluster';
    this.reason = reason;
    this.remedy = remedy;
  }
}

interface ClusterRow {
  readonly shards: number;
  readonly fewest_replicas: number;
  readonly most_replicas: number;
  /** Shards to each of whose replicas a Distributed table writes by itself. */
  readonly written_twice: number;
}

/** Reads the shards of the cluster. Throws `UnfitCluster` when rows would be missing or stored twice there. */
async function readShards(client: ClickHouseClient, database: string, layout: TableLayout): Promise<Shards> {
  const { cluster = '', replica, quorum } = layout;
  const result = await client.query({
    query: `SELECT toUInt32(count()) AS shards, toUInt32(min(replicas)) AS fewest_replicas, toUInt32(max(replicas)) AS most_replicas,
        toUInt32(countIf(replicas > 1 AND NOT internal)) AS written_twice
      FROM (SELECT shard_num, count() AS replicas, min(internal_replication) AS internal
        FROM system.clusters WHERE cluster = ${clusterName(cluster)} GROUP BY shard_num)`,
    format: 'JSONEachRow',
  });
  const [row] = await result.json<ClusterRow>();
  if (row === undefined || row.shards === 0)
    throw new UnfitCluster(
      'it knows no such cluster',
      `storage.analytics.cluster is "${cluster}"; SHOW CLUSTERS lists the names.`,
    );
  if (row.most_replicas > 1 && replica === undefined)
    throw new UnfitCluster(
      `a shard of the cluster has ${row.most_replicas} replicas`,
      'Set storage.analytics.replicated: true, or name a cluster with one server for each shard.',
    );
  if (row.written_twice > 0)
    throw new UnfitCluster(
      'it would write each row to every replica of a shard by itself',
      `Set <internal_replication>true</internal_replication> for each shard of the cluster "${cluster}" in <remote_servers> of the servers.`,
    );
  if (quorum !== undefined && quorum.replicas !== 'auto' && quorum.replicas > row.fewest_replicas)
    throw new UnfitCluster(
      `a shard of the cluster has ${row.fewest_replicas} replicas, and storage.analytics.insert_quorum is ${quorum.replicas}`,
      'No insert would succeed: lower it, or write "auto".',
    );
  return { count: row.shards, database, layout };
}

/** The name of the cluster as an expression, with the server's macros in place of `{name}`. */
function clusterName(cluster: string): string {
  const parts = cluster
    .split(/(\{\w+\})/)
    .filter((part) => part !== '')
    .map((part) =>
      part.startsWith('{') ? `getMacro(${schemaSql.literal(part.slice(1, -1))})` : schemaSql.literal(part),
    );
  return parts.length === 1 ? (parts[0] as string) : `concat(${parts.join(', ')})`;
}

const tableName = /^CREATE TABLE IF NOT EXISTS (\w+)/;
const versions = 'schema_versions';

/** Names of the tables that migrations create, and that of their record. */
function tablesOfSchema(migrations: readonly Migration[]): string[] {
  const statements = migrations.flatMap((step) => step.statements);
  return [versions, ...statements.flatMap((sql) => tableName.exec(sql)?.[1] ?? [])];
}

/**
 * Statement for the Distributed table of this name. It has no sharding key: a batch names its shard, and a key would
 * let the server look for rows only where the key says.
 */
function distributedTable(
  name: string,
  { database, layout }: Pick<Shards, 'database' | 'layout'>,
  how: 'new' | 'replaced',
): string {
  const create = how === 'new' ? 'CREATE TABLE IF NOT EXISTS' : 'CREATE OR REPLACE TABLE';
  const own = `${quoted(database)}.${quoted(name)}`;
  const engine = [layout.cluster ?? '', database, name].map(schemaSql.literal).join(', ');
  return `${create} ${quoted(databaseOfAll(database))}.${quoted(name)}${schemaSql.onCluster(layout)} AS ${own} ENGINE = Distributed(${engine})`;
}

function quoted(name: string): string {
  return `\`${name.replaceAll('\\', '\\\\').replaceAll('`', '\\`')}\``;
}

/** Clients of both databases. */
interface SchemaClients {
  /** Of the shards' own tables. */
  readonly own: ClickHouseClient;
  /** Of the Distributed tables. */
  readonly all: ClickHouseClient;
}

interface AppliedOnShard extends Applied {
  readonly shard: number;
}

/** The schema of all shards: statements run on the cluster, inserts and the record of a step on each shard. */
function schemaOfShards(
  { own, all }: SchemaClients,
  shards: Shards,
  migrations: readonly Migration[],
): SchemaStore {
  const { layout } = shards;
  const command = (client: ClickHouseClient, query: string): Promise<unknown> =>
    client.command({ query, clickhouse_settings: schemaSql.settings });
  const numbers = Array.from({ length: shards.count }, (_, index) => index + 1);
  return {
    async applied() {
      await command(own, schemaSql.fillTemplate(schemaSql.createVersions, layout));
      await command(all, distributedTable(versions, shards, 'new'));
      const result = await all.query({
        query: `SELECT DISTINCT toUInt32(_shard_num) AS shard, version, name, checksum FROM ${versions} ORDER BY version`,
        format: 'JSONEachRow',
      });
      return everywhere(await result.json<AppliedOnShard>(), shards);
    },
    async run(statement) {
      if (!statement.startsWith('INSERT ')) return void (await command(own, statement));
      await distributeTables(all, shards, migrations);
      for (const shard of numbers) {
        await all.command({
          query: statement,
          query_params: { shard },
          clickhouse_settings: {
            ...schemaSql.settings,
            ...schemaSql.quorumSettings(layout),
            ...intoShard(shard),
          },
        });
      }
    },
    async record(step) {
      for (const shard of numbers) {
        const insert = schemaSql.versionInsert(step, layout);
        const clickhouse_settings = { ...insert.clickhouse_settings, ...intoShard(shard) };
        await all.insert({ ...insert, clickhouse_settings });
      }
    },
  };
}

/**
 * Steps that every shard has. Throws `UnfitCluster` for a shard without any while others have several: it was added
 * later, and a repetition of all steps on the cluster would rewrite rows of the others.
 */
function everywhere(rows: readonly AppliedOnShard[], { count }: Shards): Applied[] {
  const steps = new Map<number, AppliedOnShard[]>();
  for (const row of rows) steps.set(row.version, [...(steps.get(row.version) ?? []), row]);
  const started = new Set(rows.map(({ shard }) => shard));
  // A step is recorded on all shards before the next one on any: an interrupted start leaves a difference of one.
  if (steps.size > 1 && started.size < count) {
    const missing = Array.from({ length: count }, (_, index) => index + 1).filter(
      (shard) => !started.has(shard),
    );
    throw new UnfitCluster(
      `shard ${missing.join(', ')} of the cluster has no tables on record, unlike the others`,
      'Run what `weir clickhouse schema --one-server` prints on each server of that shard, then start again.',
    );
  }
  return [...steps.values()].flatMap((found) =>
    found.length === count || new Set(found.map(({ checksum }) => checksum)).size > 1 ? found : [],
  );
}

/** Creates the Distributed tables that are missing, and replaces those whose columns are not those of their tables. */
async function distributeTables(
  all: ClickHouseClient,
  shards: Shards,
  migrations: readonly Migration[],
): Promise<void> {
  const { database } = shards;
  const columns = (of: string): string =>
    `arraySort(groupArrayIf((name, type, default_kind, default_expression), database = {${of}:String}))`;
  const result = await all.query({
    query: `SELECT table AS name FROM system.columns WHERE database IN ({own:String}, {all:String}) AND table IN {tables:Array(String)}
      GROUP BY table HAVING ${columns('own')} != ${columns('all')} AND countIf(database = {own:String}) > 0 ORDER BY name`,
    query_params: { own: database, all: databaseOfAll(database), tables: tablesOfSchema(migrations) },
    format: 'JSONEachRow',
  });
  for (const { name } of await result.json<{ name: string }>())
    await all.command({
      query: distributedTable(name, shards, 'replaced'),
      clickhouse_settings: schemaSql.settings,
    });
}
