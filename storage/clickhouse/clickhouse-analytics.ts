import { createReadStream } from 'node:fs';
import { Readable } from 'node:stream';
import { finished } from 'node:stream/promises';
import type { ClickHouseClient, ClickHouseSettings } from '@clickhouse/client';
import type {
  Analytics,
  CountedBy,
  CountedUsage,
  CountedUsageQuery,
  CountedValues,
  FeedbackQuery,
  FeedbackSeries,
  FeedbackSeriesQuery,
  GroupQuery,
  LogQuery,
  LogRecord,
  NewLogs,
  NewLogsQuery,
  RecordedCost,
  RequestSeries,
  RequestSeriesQuery,
  StoredRows,
  TimeWindow,
  Visibility,
} from '../../core/ports/analytics.ts';
import type { JournalTable } from '../../core/ports/journal.ts';
import type { Repricing } from '../../core/ports/prices.ts';
import type { BodyRow, FeedbackRow, RequestRow } from '../../core/ports/request-row.ts';
import { logSql } from './filter-sql.ts';
import { usageSeries } from './series.ts';
import { repricingOf } from './price-changes.ts';
import { listings } from './list-logs.ts';
import { newLogs } from './new-logs.ts';
import { oneServer, schemaSql, type TableLayout } from './migrate.ts';
import { rowColumns } from './row-columns.ts';
import { type QueryBounds, type Select, selectOf } from './select.ts';
import { shardPlace, type Shards, shardSql } from './shards.ts';
import { analyticsErrors } from './store-errors.ts';
import type { UsageReach } from './usage-sql.ts';

const maxRowsPerBlock = '10000000';
const insertSettings: ClickHouseSettings = {
  async_insert: 0,
  insert_deduplicate: 1,
  // After a crash between a table and its view, only one of them has the rows. Older servers would skip both.
  deduplicate_blocks_in_dependent_materialized_views: 1,
  // One insert is one block, so that it is atomic and its token covers all of it.
  input_format_parallel_parsing: 0,
  max_insert_block_size: maxRowsPerBlock,
  min_insert_block_size_rows: maxRowsPerBlock,
  min_insert_block_size_bytes: '1000000000',
  // A gateway that is newer than the schema may send unknown columns.
  input_format_skip_unknown_fields: 1,
  // An unpaired surrogate in a caller's text is kept unchanged.
  input_format_json_throw_on_bad_escape_sequence: 0,
  date_time_input_format: 'best_effort',
};
/**
 * Building the index of the search costs as much as everything else about an insert of bodies, and each merge builds it
 * anew: merges alone do. Parts without one, some seconds of rows each, are read by a search.
 */
const ownSettings: Readonly<Partial<Record<JournalTable, ClickHouseSettings>>> = {
  bodies: { materialize_skip_indexes_on_insert: 0 },
};
const inserts: Readonly<Record<JournalTable, string>> = {
  requests: 'INSERT INTO requests FORMAT JSONEachRow',
  bodies: 'INSERT INTO bodies FORMAT JSONEachRow',
  feedback: 'INSERT INTO feedback FORMAT JSONEachRow',
};
const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
/** They are sent in the query string, whose limit is about a megabyte. */
const idsAtOnce = 1000;

/** Time after which a statement of an interrupted command has ended on the server. */
const repricingGraceMs = 30_000;

/** Bytes per read from a file of rows: little memory, few turns of the event loop. */
const readBytes = 256 * 1024;

/** Properties of a store other than its address. */
interface StoreTraits {
  readonly isEmbedded?: boolean | undefined;
  readonly queryBounds?: QueryBounds | undefined;
  /** Retention of request rows, milliseconds; Infinity (the default): unlimited. Roll-ups are kept longer. */
  readonly rawKeptMs?: number | undefined;
  /** Start of complete roll-ups, milliseconds since the epoch; Infinity (the default): they are not complete. */
  readonly rolledUpFrom?: number | undefined;
  readonly layout?: TableLayout | undefined;
  /** Set when the client's tables are Distributed ones. */
  readonly shards?: Shards | undefined;
}

/** The analytics store on a ClickHouse server, or on the embedded engine, which has the same protocol. */
export class ClickHouseAnalytics implements Analytics {
  readonly #client: ClickHouseClient;
  readonly #select: Select;
  readonly #isEmbedded: boolean;
  readonly #rawKeptMs: number;
  readonly #rolledUpFrom: number;
  readonly #insertSettings: ClickHouseSettings;
  readonly #layout: TableLayout;
  readonly #shards: Shards | undefined;
  /** Replaced whenever an insert of requests begins or ends. */
  #state = {};

  /**
   * `client` has a database whose schema is up to date. `isEmbedded`: the engine serves this process alone. It reads the
   * files of `StoredRows` itself, so that their bytes need not pass through this process, and no other process inserts.
   */
  constructor(client: ClickHouseClient, traits: StoreTraits = {}) {
    const { isEmbedded = false, queryBounds, rawKeptMs = Infinity, rolledUpFrom = Infinity } = traits;
    const { layout = oneServer, shards } = traits;
    this.#client = client;
    this.#select = selectOf(client, queryBounds);
    this.#isEmbedded = isEmbedded;
    this.#rawKeptMs = rawKeptMs;
    this.#rolledUpFrom = rolledUpFrom;
    this.#insertSettings = { ...insertSettings, ...schemaSql.quorumSettings(layout) };
    this.#layout = layout;
    this.#shards = shards;
  }

  async insert(
    table: JournalTable,
    rows: Uint8Array | StoredRows,
    deduplicationToken: string,
  ): Promise<void> {
    if ((rows instanceof Uint8Array ? rows.length : rows.end - rows.from) === 0) return;
    const settings = {
      ...this.#insertSettings,
      ...ownSettings[table],
      insert_deduplication_token: deduplicationToken,
    };
    if (this.#shards !== undefined) {
      const shard = await this.#shardOf(table, rows, deduplicationToken, this.#shards);
      Object.assign(settings, shardSql.intoShard(shard));
    }
    const query = inserts[table];
    if (table === 'requests') this.#state = {};
    try {
      if (rows instanceof Uint8Array)
        await this.#post(query, settings, Readable.from([rows], { objectMode: false }));
      else if (this.#isEmbedded) await this.#post(query, { ...settings, ...fileParameters(rows) });
      else await this.#post(query, settings, Readable.from(bytesOf(rows), { objectMode: false }));
    } catch (error) {
      throw analyticsErrors.ofInsert(error, table);
    } finally {
      if (table === 'requests') this.#state = {};
    }
  }

  /** Shard of a batch: that of its token, or the one that has the batch from when there were other shards. */
  async #shardOf(
    table: JournalTable,
    rows: Uint8Array | StoredRows,
    token: string,
    { count }: Shards,
  ): Promise<number> {
    const shard = shardPlace.of(token, count);
    if (!shardPlace.isOfEarlierProcess(token)) return shard;
    try {
      return (await shardPlace.withToken(this.#select, table, await firstLineOf(rows))) ?? shard;
    } catch (error) {
      // No reason for this is a fault of the rows.
      throw analyticsErrors.unavailable(error);
    }
  }

  async #post(query: string, clickhouse_settings: ClickHouseSettings, values?: Readable): Promise<void> {
    try {
      const { stream } =
        values === undefined
          ? await this.#client.exec({ query, clickhouse_settings })
          : await this.#client.exec({ query, clickhouse_settings, values });
      // The answer is empty, but an unread one keeps its connection.
      await finished(stream.resume());
    } finally {
      // A server may refuse before it has read everything; the file must be closed.
      values?.destroy();
    }
  }

  async storedIds(
    table: JournalTable,
    ids: readonly string[],
    window: TimeWindow,
  ): Promise<ReadonlySet<string>> {
    const { from, to } = logSql.moments(window);
    const sql = `SELECT DISTINCT id FROM ${table} WHERE id IN {ids:Array(UUID)} AND ${logSql.inWindow}`;
    const found = new Set<string>();
    for (let start = 0; start < ids.length; start += idsAtOnce) {
      const some = ids.slice(start, start + idsAtOnce);
      for (const { id } of await this.#select<{ id: string }>(sql, { from, to, ids: some })) found.add(id);
    }
    return found;
  }

  costsByDay(query: Parameters<Analytics['costsByDay']>[0]): Promise<readonly RecordedCost[]> {
    return costsByDay(this.#select, query);
  }

  countedUsage(query: CountedUsageQuery): Promise<readonly CountedUsage[]> {
    return countedUsage(this.#select, query);
  }

  repricing(): Promise<Repricing> {
    // The embedded engine ends with its command, and only one process uses its folder.
    const graceMs = this.#isEmbedded ? 0 : repricingGraceMs;
    const place = { client: this.#client, select: this.#select, layout: this.#layout, shards: this.#shards };
    return Promise.resolve(repricingOf({ ...place, graceMs }));
  }

  groups(query: GroupQuery): ReturnType<Analytics['groups']> {
    return usageSeries.groups(this.#select, query, this.#reach());
  }

  series(query: RequestSeriesQuery): Promise<RequestSeries> {
    return usageSeries.usage(this.#select, query, this.#reach());
  }

  feedbackSeries(query: FeedbackSeriesQuery): Promise<FeedbackSeries> {
    return usageSeries.feedback(this.#select, query);
  }

  feedback(query: FeedbackQuery): ReturnType<Analytics['feedback']> {
    return listings.feedback(this.#select, query);
  }

  logs(query: LogQuery): Promise<readonly LogRecord[]> {
    return listings.logs(this.#select, query);
  }

  countLogs(query: Parameters<Analytics['countLogs']>[0]): Promise<number> {
    return listings.count(this.#select, query);
  }

  newLogs(query: NewLogsQuery): Promise<NewLogs> {
    return newLogs(this.#select, query, this.#isEmbedded ? this.#state : undefined);
  }

  trace(traceId: string, window: TimeWindow, visibility: Visibility): Promise<readonly RequestRow[]> {
    return listings.trace(this.#select, traceId, window, visibility);
  }

  traces(query: Parameters<Analytics['traces']>[0]): ReturnType<Analytics['traces']> {
    return listings.traces(this.#select, query);
  }

  #reach(): UsageReach {
    return { completeFrom: this.#rolledUpFrom, keptFrom: Date.now() - this.#rawKeptMs };
  }

  async requestById(id: string, window: TimeWindow, visibility: Visibility): Promise<LogRecord | undefined> {
    if (!uuid.test(id)) return undefined;
    const { where, place, parameters } = logSql.visible(window, visibility);
    const one = (columns: readonly string[], table: JournalTable, condition: string): string =>
      `SELECT ${columns.join(', ')} FROM ${table} WHERE id = {id:UUID} AND ${condition} LIMIT 1`;
    // Bodies have no user or key: they are returned only together with their request.
    const [requests, bodies] = await Promise.all([
      this.#select<RequestRow>(one(rowColumns.request, 'requests', where), { ...parameters, id }),
      this.#select<BodyRow>(one(rowColumns.body, 'bodies', place), { ...parameters, id }),
    ]);
    return requests[0] && { request: requests[0], body: bodies[0] };
  }

  async feedbackById(
    id: string,
    window: TimeWindow,
    visibility: Visibility,
  ): Promise<FeedbackRow | undefined> {
    if (!uuid.test(id)) return undefined;
    const { where, parameters } = logSql.visible(window, visibility);
    const sql = `SELECT ${rowColumns.feedback.join(', ')} FROM feedback WHERE feedback_id = {id:UUID} AND ${where} ORDER BY revision DESC, created_at DESC, id DESC LIMIT 1`;
    const [found] = await this.#select<FeedbackRow>(sql, { ...parameters, id });
    return found;
  }

  async ping(): Promise<void> {
    const result = await this.#client.ping({ select: true });
    if (!result.success) throw analyticsErrors.unavailable(result.error);
  }

  async close(): Promise<void> {
    await this.#client.close();
  }
}

/** Parameters that name the rows to read for the embedded engine; see its `readRowRange`. */
function fileParameters({ path, from, end }: StoredRows): ClickHouseSettings {
  return { weir_rows_file: path, weir_rows_from: String(from), weir_rows_end: String(end) };
}

/** The first line of the rows, without its end. */
async function firstLineOf(rows: Uint8Array | StoredRows): Promise<string> {
  const newline = 10;
  const chunks: Uint8Array[] = [];
  for await (const chunk of rows instanceof Uint8Array ? [rows] : bytesOf(rows)) {
    const end = chunk.indexOf(newline);
    chunks.push(end < 0 ? chunk : chunk.subarray(0, end));
    if (end >= 0) break;
  }
  return Buffer.concat(chunks).toString();
}

/** The bytes of the range; throws when the file is shorter, so that a part is not taken for the whole. */
async function* bytesOf({ path, from, end }: StoredRows): AsyncGenerator<Buffer> {
  let left = end - from;
  const file = createReadStream(path, { start: from, end: end - 1, highWaterMark: readBytes });
  for await (const chunk of file as AsyncIterable<Buffer>) {
    left -= chunk.length;
    yield chunk;
  }
  if (left > 0) throw new Error('The file of rows is shorter than it was.');
}

/** Names of results are prefixed, so that they cannot shadow columns of the table. */
interface CostRow {
  readonly cost_day: string;
  readonly cost_service: string;
  readonly cost_model: string;
  readonly cost_requests: number;
  readonly cost_unpriced: number;
  readonly cost_unpriced_tokens: number;
  readonly cost_sum: string;
}

/** See `Analytics.costsByDay`. Requests without an attempt are left out. */
async function costsByDay(
  select: Select,
  { window, services }: Parameters<Analytics['costsByDay']>[0],
): Promise<readonly RecordedCost[]> {
  const rows = await select<CostRow>(
    [
      "SELECT toString(toDate(created_at, 'UTC')) AS cost_day, toString(ai_service) AS cost_service, toString(model) AS cost_model,",
      "count() AS cost_requests, countIf(pricing = 'unpriced') AS cost_unpriced,",
      "sumIf(total_tokens, pricing = 'unpriced') AS cost_unpriced_tokens, sum(cost) AS cost_sum",
      `FROM requests WHERE ${logSql.inWindow} AND ai_service != '' AND ({every_service:UInt8} OR ai_service IN {services:Array(String)})`,
      'GROUP BY cost_day, cost_service, cost_model ORDER BY cost_day, cost_service, cost_model',
    ].join('\n'),
    { ...logSql.moments(window), every_service: services === undefined ? 1 : 0, services: services ?? [] },
  );
  return rows.map((row) => ({
    day: row.cost_day,
    service: row.cost_service,
    model: row.cost_model,
    requests: row.cost_requests,
    unpriced: row.cost_unpriced,
    unpricedTokens: row.cost_unpriced_tokens,
    cost: row.cost_sum,
  }));
}

/** Values and their placeholders. */
class Bound {
  readonly parameters: Record<string, unknown> = {};
  #count = 0;

  add(type: string, value: unknown): string {
    const name = `counted_${(this.#count += 1)}`;
    this.parameters[name] = value;
    return `{${name}:${type}}`;
  }
}

const columns = {
  api_key: 'api_key_id',
  workspace_id: 'workspace_id',
  organisation_id: 'organisation_id',
  // Rows name the operation of an MCP request, and budgets its endpoint.
  endpoint_type: "if(startsWith(endpoint, 'mcp.'), 'mcp', toString(endpoint))",
  provider: 'toString(provider)',
} as const;

function valueOf(by: CountedBy, bound: Bound): string {
  return typeof by === 'string' ? columns[by] : `metadata[${bound.add('String', by.metadata)}]`;
}

/** Same as for conditions of policies: empty conditions match nothing. */
function conditionSql({ by, whole, beginnings, ...not }: CountedValues, bound: Bound): string {
  const value = valueOf(by, bound);
  const oneOf = (values: readonly string[], starts: readonly string[]): string =>
    `(${value} IN ${bound.add('Array(String)', values)} OR arrayExists(beginning -> startsWith(${value}, beginning), ${bound.add('Array(String)', starts)}))`;
  return `${value} != '' AND ${oneOf(whole, beginnings)} AND NOT ${oneOf(not.notWhole, not.notBeginnings)}`;
}

interface CountedRow {
  readonly counted_group: string;
  readonly counted_cost: number;
  readonly counted_tokens: number;
  readonly counted_requests: number;
  readonly counted_attempted: number;
}

/**
 * See `Analytics.countedUsage`. Each request is rounded to billionths separately, as budgets count it; a cached answer
 * costs nothing, and records without a proxied request (reported logs, spans) do not count.
 */
async function countedUsage(
  select: Select,
  { organisationId, workspaceId, conditions, groupBy, groups, endedBy }: CountedUsageQuery,
): Promise<readonly CountedUsage[]> {
  const froms = [...groups.values()];
  const from = Math.min(...froms);
  if (!(from < endedBy)) return [];
  const bound = new Bound();
  const parts = groupBy.map(({ text, by }) => `${bound.add('String', text)}, ${valueOf(by, bound)}`);
  const names = bound.add('Array(String)', [...groups.keys()]);
  const ended = bound.add('Int64', logSql.moment(endedBy));
  const where = [
    `organisation_id = ${bound.add('String', organisationId)}`,
    ...(workspaceId === undefined ? [] : [`workspace_id = ${bound.add('String', workspaceId)}`]),
    `created_at >= fromUnixTimestamp64Milli(${bound.add('Int64', logSql.moment(from))}, 'UTC')`,
    `created_at <= fromUnixTimestamp64Milli(${ended}, 'UTC')`,
    `toUnixTimestamp64Milli(created_at) + latency_ms <= ${ended}`,
    `source = '' AND (attempts > 0 OR is_hit)`,
    `counted_group IN ${names}`,
    `toUnixTimestamp64Milli(created_at) >= transform(counted_group, ${names}, ${bound.add('Array(Int64)', froms.map(logSql.moment))}, ${ended})`,
    ...conditions.map((condition) => conditionSql(condition, bound)),
  ];
  const rows = await select<CountedRow>(
    [
      `WITH concat(${parts.join(", ',', ")}, '') AS counted_group, position(cache_status, 'HIT') > 0 AS is_hit`,
      'SELECT counted_group,',
      'toInt64(sumIf(floor((toFloat64(cost) + toFloat64(lost_cost)) * 1e9 + 0.5), NOT is_hit)) AS counted_cost,',
      'toInt64(sumIf(total_tokens, NOT is_hit)) AS counted_tokens, count() AS counted_requests, countIf(NOT is_hit) AS counted_attempted',
      `FROM requests WHERE ${where.join(' AND ')} GROUP BY counted_group`,
    ].join('\n'),
    bound.parameters,
  );
  return rows.map((row) => ({
    group: row.counted_group,
    cost: row.counted_cost,
    tokens: row.counted_tokens,
    requests: row.counted_requests,
    attempted: row.counted_attempted,
  }));
}
