/** Where the tables live: on one server, or on the servers of a cluster. */
export interface TableLayout {
  /** Statements that change the schema run `ON CLUSTER` this name (a macro such as `{cluster}` too). Default: on one server. */
  readonly cluster?: string | undefined;
  /** Tables have replicas: this is what their engine is told. Default: they have none. */
  readonly replica?: ReplicaNames | undefined;
}

/** What a replicated engine is told; the server fills in `{shard}`, `{database}`, `{table}`, `{replica}` and its own macros. */
export interface ReplicaNames {
  /** Path in Keeper, the same for all replicas of a table. Empty: the server's own `default_replica_path` and name. */
  readonly path: string;
  readonly name: string;
}

/** The layout of a single server, and of the embedded engine. */
export const oneServer: TableLayout = {};

const marker = /\{\{\s*(\w+)\s*([^}]*?)\s*\}\}/g;
const engine = /^(\w*MergeTree)(?:\((.*)\))?$/;
/** A row may wait in the journal for days; a server's own default is one hour since version 25.10. */
const rememberedSeconds = 604_800;

/**
 * Fills in what depends on the layout. A statement says `{{on_cluster}}` after the name of what it creates or
 * changes, `ENGINE = {{engine MergeTree}}` (or `SummingMergeTree(n)` …) and, among its settings,
 * `{{deduplication_window 10000}}`. Throws for any other marker.
 */
export function fillTemplate(sql: string, layout: TableLayout): string {
  return sql.replaceAll(marker, (whole, name: string, argument: string) => {
    if (name === 'on_cluster' && argument === '') return onCluster(layout);
    const [, kind, own] = engine.exec(name === 'engine' ? argument : '') ?? [];
    if (kind !== undefined) return engineOf(kind, own, layout);
    if (name === 'deduplication_window' && /^\d+$/.test(argument)) return windowOf(argument, layout);
    throw new Error(
      `a migration holds ${whole}; write {{on_cluster}}, {{engine SomeMergeTree}} or {{deduplication_window N}}`,
    );
  });
}

/** ` ON CLUSTER 'name'`, or nothing. */
export function onCluster({ cluster }: TableLayout): string {
  return cluster === undefined ? '' : ` ON CLUSTER ${literal(cluster)}`;
}

function engineOf(kind: string, own: string | undefined, { replica }: TableLayout): string {
  const names =
    replica === undefined || replica.path === '' ? [] : [literal(replica.path), literal(replica.name)];
  const parts = own === undefined ? names : [...names, own];
  const name = replica === undefined ? kind : `Replicated${kind}`;
  return parts.length === 0 ? name : `${name}(${parts.join(', ')})`;
}

/** The two families of engines remember the blocks they have seen under different settings. */
function windowOf(blocks: string, { replica }: TableLayout): string {
  return replica === undefined
    ? `non_replicated_deduplication_window = ${blocks}`
    : `replicated_deduplication_window = ${blocks}, replicated_deduplication_window_seconds = ${rememberedSeconds}`;
}

function literal(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
}
