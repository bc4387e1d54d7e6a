import { createHash } from 'node:crypto';
import type { ClickHouseClient, ClickHouseSettings } from '@clickhouse/client';
import { calendar, type Block } from './calendar.ts';
import { demoInserts } from './demo-sql.ts';
import { populate, type Home, type Population } from './population.ts';

/** Settings of a fill; equal settings always produce equal rows. */
export interface FillOptions {
  readonly rows: number;
  readonly days: number;
  /** Share of the requests that have bodies, 0 to 1. */
  readonly bodies: number;
  readonly seed: number;
  readonly home: Home;
  /** End of a fill that has not started yet; milliseconds since the epoch, excluded. */
  readonly end: number;
  /** Memory limit of one statement, bytes. Default: the store's own. Does not affect the rows. */
  readonly memoryBytes?: number | undefined;
}

/** Methods used of a client. */
export type StoreClient = Pick<ClickHouseClient, 'query' | 'command'>;

/** Progress of a fill. */
export interface FillProgress {
  /** Stored request rows, of this run and of earlier ones. */
  readonly stored: number;
  readonly rows: number;
  /** Rows stored by this run. */
  readonly own: number;
  /** End of the period; that of the earlier run, when this one continues it. */
  readonly end: number;
}

const version = 1;
/** A block holds its rows in memory several times; those with bodies are large. */
const rowsPerBlock = 20_000;
const bodiesPerBlock = 10_000;
const blockRows = '10000000';
const settings: ClickHouseSettings = {
  // One thread builds a block, which is stored whole, so that its token covers all of it.
  max_threads: 1,
  max_insert_threads: '1',
  max_block_size: blockRows,
  max_insert_block_size: blockRows,
  min_insert_block_size_rows: blockRows,
  min_insert_block_size_bytes: '1000000000',
  async_insert: 0,
  insert_deduplicate: 1,
  deduplicate_blocks_in_dependent_materialized_views: 1,
  max_execution_time: 600,
};

/**
 * Writes the rows of a demo into the tables of the client's database, block by block, and reports progress after each.
 * Continues an interrupted fill with the same options; leaves a complete one unchanged. `stop` ends it after the
 * present block.
 */
export async function fill(
  client: StoreClient,
  options: FillOptions,
  report: (progress: FillProgress) => void,
  stop?: AbortSignal,
): Promise<FillProgress> {
  const prefix = prefixOf(options);
  const begun = await begunFill(client, options.home, prefix);
  const end = begun?.end ?? options.end;
  const mark = `${prefix}${end.toString(36)}`;
  const blocks = calendar({ ...options, end, blockRows: rowsOfBlock(options.bodies) });
  const common = parametersOf(populate(options.home, options.seed), mark, options, blocks);
  const missing = blocks.filter((block) => begun === undefined || block.to > begun.last);
  // A block that was interrupted between two months is stored again; its token excludes the part that is present.
  if (begun !== undefined && (await isWhole(client, missing[0], mark, options.home))) missing.shift();
  let stored = missing[0]?.first ?? options.rows;
  let own = 0;
  const progress = (): FillProgress => ({ stored, rows: options.rows, own, end });
  report(progress());
  for (const block of missing) {
    if (stop?.aborted === true) break;
    await store(client, block, mark, common, options.memoryBytes);
    stored = block.first + block.rows;
    own += block.rows;
    report(progress());
  }
  return progress();
}

/** Prefix of a fill's mark: the settings of its rows, except its end. */
function prefixOf({ rows, days, bodies, seed, home }: FillOptions): string {
  const told = JSON.stringify([version, rows, days, bodies, seed, home.organisationId, home.workspaceId]);
  return `demo-${createHash('sha256').update(told).digest('hex').slice(0, 12)}-`;
}

/** The latest fill with these options, and the time of its last row. */
async function begunFill(
  client: StoreClient,
  { organisationId }: Home,
  prefix: string,
): Promise<{ end: number; last: number } | undefined> {
  const result = await client.query({
    query: `SELECT generation AS mark, toString(toUnixTimestamp64Milli(max(created_at))) AS last FROM requests
      WHERE organisation_id = {organisation:String} AND startsWith(generation, {prefix:String})
      GROUP BY generation ORDER BY last DESC LIMIT 1`,
    query_params: { organisation: organisationId, prefix },
    format: 'JSONEachRow',
  });
  const [row] = await result.json<{ mark: string; last: string }>();
  return row && { end: parseInt(row.mark.slice(prefix.length), 36), last: Number(row.last) };
}

async function isWhole(
  client: StoreClient,
  block: Block | undefined,
  mark: string,
  { organisationId }: Home,
): Promise<boolean> {
  if (block === undefined) return false;
  const result = await client.query({
    query: `SELECT toUInt32(count()) AS rows FROM requests WHERE organisation_id = {organisation:String}
      AND created_at >= fromUnixTimestamp64Milli({from:Int64}, 'UTC') AND created_at < fromUnixTimestamp64Milli({to:Int64}, 'UTC')
      AND generation = {mark:String}`,
    query_params: { organisation: organisationId, mark, from: block.from, to: block.to },
    format: 'JSONEachRow',
  });
  const [found] = await result.json<{ rows: number }>();
  return found?.rows === block.rows;
}

function parametersOf(
  population: Population,
  mark: string,
  { seed, bodies }: FillOptions,
  [block]: readonly Block[],
): Record<string, unknown> {
  const origin = BigInt(`0x${createHash('sha256').update(mark).digest('hex').slice(0, 15)}`).toString();
  const [first = 0, second = block?.to ?? 0] = block?.starts ?? [];
  return { ...population, mark, seed, bodies, origin, spanMs: second - first };
}

async function store(
  client: StoreClient,
  { first, rows, to, starts, before }: Block,
  mark: string,
  common: Readonly<Record<string, unknown>>,
  memoryBytes: number | undefined,
): Promise<void> {
  const sizes = before.map((from, place) => (before[place + 1] ?? rows) - from);
  const query_params = { ...common, first, rows, to, starts, before, sizes };
  const insert = (table: keyof typeof demoInserts): Promise<unknown> =>
    client.command({
      query: demoInserts[table],
      query_params,
      clickhouse_settings: {
        ...settings,
        ...(memoryBytes !== undefined && { max_memory_usage: String(memoryBytes) }),
        insert_deduplication_token: `${mark}/${table}/${first}`,
      },
    });
  await Promise.all([insert('bodies'), insert('feedback')]);
  await insert('requests');
}

function rowsOfBlock(bodies: number): number {
  return Math.min(rowsPerBlock, Math.max(1000, Math.floor(bodiesPerBlock / Math.max(bodies, 0.0001))));
}
