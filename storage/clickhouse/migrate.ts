import type { ClickHouseClient, ClickHouseSettings } from '@clickhouse/client';
import type { Log } from '../../core/ports/log.ts';
import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';

/** Location of the tables: on one server, or on the servers of a cluster. */
export interface TableLayout {
  /** Schema statements run `ON CLUSTER` this name (a macro such as `{cluster}` too). Default: on one server. */
  readonly cluster?: string | undefined;
  /** Parameters of replicated tables. Default: no replicas. */
  readonly replica?: ReplicaNames | undefined;
  /** Every shard of the cluster has the tables, with a part of the rows; see `Shards`. Default: one shard has them. */
  readonly sharded?: boolean | undefined;
  /** Default: an insert is acknowledged by one replica. */
  readonly quorum?: InsertQuorum | undefined;
}

/** Replicas that have an insert before it is acknowledged. */
interface InsertQuorum {
  /** `auto`: the majority. */
  readonly replicas: number | 'auto';
  /** False: inserts into a table wait for each other. */
  readonly parallel: boolean;
}

/**
 * Parameters of a replicated engine; the server fills in `{shard}`, `{database}`, `{table}`, `{replica}` and its own
 * macros.
 */
interface ReplicaNames {
  /** Path in Keeper, the same for all replicas of a table. Empty: the server's own `default_replica_path` and name. */
  readonly path: string;
  readonly name: string;
}

/** The layout of a single server, and of the embedded engine. */
export const oneServer: TableLayout = {};

const marker = /\{\{\s*(\w+)\s*([^}]*?)\s*\}\}/g;
const engine = /^(\w*MergeTree)(?:\((.*)\))?$/;
/**
 * Deduplication window: a row may wait in the journal for days; a server's own default is one hour since version 25.10.
 */
const rememberedSeconds = 604_800;

/** Longest wait of an insert for its quorum, milliseconds; it is repeated afterwards, with the same token. */
const quorumTimeoutMs = 30_000;

/** Settings of every insert in this layout. */
function quorumSettings({ quorum }: TableLayout): ClickHouseSettings {
  if (quorum === undefined) return {};
  return {
    insert_quorum: String(quorum.replicas),
    insert_quorum_parallel: quorum.parallel ? 1 : 0,
    insert_quorum_timeout: quorumTimeoutMs,
  };
}

/**
 * Fills in the parts that depend on the layout. A statement has `{{on_cluster}}` after the name that it creates or
 * changes, `ENGINE = {{engine MergeTree}}` (or `SummingMergeTree(n)` …) and, among its settings,
 * `{{deduplication_window 10000}}`. An insert has `{{of_shard}}` after each table that it reads: it runs once for each
 * shard, with the rows of that one. Throws for any other marker.
 */
function fillTemplate(sql: string, layout: TableLayout): string {
  return sql.replaceAll(marker, (whole, name: string, argument: string) => {
    if (name === 'on_cluster' && argument === '') return onCluster(layout);
    if (name === 'of_shard' && argument === '')
      return layout.sharded === true ? ' WHERE _shard_num = {shard:UInt32}' : '';
    const [, kind, own] = engine.exec(name === 'engine' ? argument : '') ?? [];
    if (kind !== undefined) return engineOf(kind, own, layout);
    if (name === 'deduplication_window' && /^\d+$/.test(argument)) return windowOf(argument, layout);
    throw new Error(
      `a migration holds ${whole}; write {{on_cluster}}, {{engine SomeMergeTree}}, {{deduplication_window N}} or {{of_shard}}`,
    );
  });
}

/** ` ON CLUSTER 'name'`, or nothing. */
function onCluster({ cluster }: TableLayout): string {
  return cluster === undefined ? '' : ` ON CLUSTER ${literal(cluster)}`;
}

function engineOf(kind: string, own: string | undefined, { replica }: TableLayout): string {
  const names =
    replica === undefined || replica.path === '' ? [] : [literal(replica.path), literal(replica.name)];
  const parts = own === undefined ? names : [...names, own];
  const name = replica === undefined ? kind : `Replicated${kind}`;
  return parts.length === 0 ? name : `${name}(${parts.join(', ')})`;
}

/** The two engine families have different settings for remembered blocks. */
function windowOf(blocks: string, { replica }: TableLayout): string {
  return replica === undefined
    ? `non_replicated_deduplication_window = ${blocks}`
    : `replicated_deduplication_window = ${blocks}, replicated_deduplication_window_seconds = ${rememberedSeconds}`;
}

const piece =
  /'(?:[^'\\]|\\[^]|'')*(?:'|$)|"(?:[^"\\]|\\[^]|"")*(?:"|$)|`(?:[^`\\]|\\[^]|``)*(?:`|$)|--[^\n]*|\/\*[^]*?(?:\*\/|$)|;|[^'"`;/-]+|[/-]/gy;

/**
 * Splits a migration into its statements at semicolons outside strings, quoted names and comments. Comments are
 * removed; empty statements are left out.
 */
function splitStatements(sql: string): string[] {
  const statements: string[] = [];
  let current = '';
  for (const [text] of sql.matchAll(piece)) {
    if (text === ';') {
      statements.push(current.trim());
      current = '';
    } else if (text.startsWith('--') || text.startsWith('/*')) current += ' ';
    else current += text;
  }
  statements.push(current.trim());
  return statements.filter((statement) => statement !== '');
}

/** One numbered step of the schema. */
export interface Migration {
  readonly version: number;
  readonly name: string;
  /**
   * SHA-256 of the file's text in the form for one server, hexadecimal: the same in every layout and with any line
   * endings.
   */
  readonly checksum: string;
  /** Each can be repeated without harm: two gateways may start at once. */
  readonly statements: readonly string[];
}

const fileName = /^(\d{4})-[a-z0-9-]+\.sql$/;

/** The steps in this build, for this layout, in order. Throws when a number is missing or repeated. */
export async function readMigrations(
  layout: TableLayout = oneServer,
  folder = new URL('./migrations/', import.meta.url),
): Promise<Migration[]> {
  const migrations: Migration[] = [];
  for (const name of (await readdir(folder)).filter((file) => file.endsWith('.sql')).sort()) {
    const version = Number(fileName.exec(name)?.[1]);
    if (version !== migrations.length + 1) {
      const expected = String(migrations.length + 1).padStart(4, '0');
      throw new Error(`migration ${name} must be named ${expected}-some-words.sql: numbers have no gaps`);
    }
    migrations.push(migration(version, name, await readFile(new URL(name, folder), 'utf8'), layout));
  }
  return migrations;
}

/** Builds a step from the text of its file. Throws for a marker unknown to `fillTemplate`. */
export function migration(version: number, name: string, text: string, layout = oneServer): Migration {
  const template = text.replaceAll('\r\n', '\n');
  const checksum = createHash('sha256').update(fillTemplate(template, oneServer)).digest('hex');
  return { version, name, checksum, statements: splitStatements(fillTemplate(template, layout)) };
}

/** Template of the table that records the steps. */
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
 * Settings of schema statements. An unavailable server of the cluster runs them later and does not block the others; a
 * failure is reported in the answer's head, not in the middle of it.
 */
const schemaSettings: ClickHouseSettings = {
  distributed_ddl_task_timeout: '30',
  distributed_ddl_output_mode: 'null_status_on_timeout',
  wait_end_of_query: 1,
};

/** Pieces of the statements that make the schema. */
export const schemaSql = {
  quorumSettings,
  fillTemplate,
  onCluster,
  splitStatements,
  literal,
  versionInsert,
  createVersions,
  settings: schemaSettings,
};

/** A step as the store has recorded it. */
export interface Applied {
  readonly version: number;
  readonly name: string;
  readonly checksum: string;
}

/** A migration differs from the version that was applied to the store. */
export class SchemaChanged extends Error {
  constructor(step: Migration, before: Applied) {
    super(
      `migration ${step.name} was applied to the analytics store with other contents (then ${before.name}, checksum ` +
        `${before.checksum.slice(0, 12)}, now ${step.checksum.slice(0, 12)}): restore the file and put the change into a new one`,
    );
    this.name = 'SchemaChanged';
  }
}

/** Location of the schema: one database, or all shards of a cluster. */
export interface SchemaStore {
  /** The steps that it has; creates their record when there is none. */
  applied(): Promise<readonly Applied[]>;
  run(statement: string): Promise<void>;
  /** Notes a step whose statements have all run. */
  record(step: Migration): Promise<void>;
}

/** The schema of the client's database; `layout` is that of the migrations. */
export function schemaOf(client: ClickHouseClient, layout: TableLayout = oneServer): SchemaStore {
  const run = async (query: string): Promise<void> =>
    void (await client.command({
      query,
      clickhouse_settings: {
        ...schemaSettings,
        ...(query.startsWith('INSERT ') ? quorumSettings(layout) : {}),
      },
    }));
  return {
    async applied() {
      await run(fillTemplate(createVersions, layout));
      const result = await client.query({
        query: 'SELECT DISTINCT version, name, checksum FROM schema_versions ORDER BY version',
        format: 'JSONEachRow',
      });
      return result.json<Applied>();
    },
    run,
    record: async (step) => void (await client.insert(versionInsert(step, layout))),
  };
}

/**
 * Migrates the schema of a store. Runs each step once, and is safe when several gateways migrate at the same time:
 * statements can be repeated and a step is recorded once, by its deduplication token. Throws `SchemaChanged` when an
 * applied step has changed since.
 */
export async function migrate(store: SchemaStore, migrations: readonly Migration[], log: Log): Promise<void> {
  const applied = new Map<number, Applied[]>();
  for (const row of await store.applied())
    applied.set(row.version, [...(applied.get(row.version) ?? []), row]);
  for (const step of migrations) {
    const before = applied.get(step.version);
    const other = before?.find(({ checksum }) => checksum !== step.checksum);
    if (other !== undefined) throw new SchemaChanged(step, other);
    if (before !== undefined) continue;
    for (const statement of step.statements) await store.run(statement);
    await store.record(step);
    log.info('analytics schema brought up to date', { migration: step.name });
  }
  const newest = Math.max(0, ...applied.keys());
  if (newest > migrations.length) {
    log.warn('the analytics store has a newer schema than this version knows; new columns are left empty', {
      schema: newest,
      known: migrations.length,
    });
  }
}

/** Notes a step once, however often it is sent. */
function versionInsert({ version, name, checksum }: Migration, layout: TableLayout) {
  return {
    table: 'schema_versions',
    columns: ['version', 'name', 'checksum'] as ['version', 'name', 'checksum'],
    values: [{ version, name, checksum }],
    format: 'JSONEachRow' as const,
    clickhouse_settings: {
      async_insert: 0 as const,
      insert_deduplication_token: `schema-version-${version}`,
      ...quorumSettings(layout),
    },
  };
}

/** A text as a literal of SQL. */
function literal(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
}
