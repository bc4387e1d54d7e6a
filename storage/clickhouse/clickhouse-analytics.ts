import { createReadStream } from 'node:fs';
import { Readable } from 'node:stream';
import { finished } from 'node:stream/promises';
import type { ClickHouseClient, ClickHouseSettings } from '@clickhouse/client';
import { GatewayError } from '../../core/errors/gateway-error.ts';
import type {
  Analytics,
  GroupColumn,
  GroupQuery,
  GroupRow,
  KeyUsage,
  KeyUsageQuery,
  LogRecord,
  StoredRows,
  TimeWindow,
  Visibility,
} from '../../core/ports/analytics.ts';
import type { JournalTable } from '../../core/ports/journal.ts';
import type { BodyRow, FeedbackRow, RequestRow } from '../../core/ports/request-row.ts';
import { alias, groupSql } from './group-sql.ts';
import { keyUsageSql, type KeyUsageRow } from './key-usage-sql.ts';
import { bodyColumns, feedbackColumns, requestColumns } from './row-columns.ts';
import { insertError, queryError, unavailable } from './store-errors.ts';

const maxRowsPerBlock = '10000000';
const insertSettings: ClickHouseSettings = {
  async_insert: 0,
  insert_deduplicate: 1,
  // A store that died between a table and its view has the rows in the one only. Older servers would skip both.
  deduplicate_blocks_in_dependent_materialized_views: 1,
  // One insert is one block, so that it is stored whole or not at all and its token covers all of it.
  input_format_parallel_parsing: 0,
  max_insert_block_size: maxRowsPerBlock,
  min_insert_block_size_rows: maxRowsPerBlock,
  min_insert_block_size_bytes: '1000000000',
  // A gateway that is newer than the schema may send columns that do not exist yet.
  input_format_skip_unknown_fields: 1,
  // Half a surrogate pair in a caller's text is kept as it was written.
  input_format_json_throw_on_bad_escape_sequence: 0,
  date_time_input_format: 'best_effort',
};
/** The store ends a query by itself, in seconds; an answer that is later by `lateMs` will not come. */
const querySeconds = 20;
const usageSeconds = 5;
const lateMs = 5000;
const querySettings: ClickHouseSettings = {
  max_memory_usage: '400000000',
  max_bytes_before_external_group_by: '200000000',
  output_format_json_quote_64bit_integers: 0,
  output_format_json_quote_decimals: 1,
  output_format_decimal_trailing_zeros: 1,
  date_time_output_format: 'simple',
};
const inserts: Readonly<Record<JournalTable, string>> = {
  requests: 'INSERT INTO requests FORMAT JSONEachRow',
  bodies: 'INSERT INTO bodies FORMAT JSONEachRow',
  feedback: 'INSERT INTO feedback FORMAT JSONEachRow',
};
const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
const maxPage = 10_000;
const maxOffset = 1_000_000;
const maxKeys = 100;
/** The last moment that the store's time type can hold, in the year 2299. */
const endOfTime = 10_413_791_999_999;

const inWindow =
  "created_at >= fromUnixTimestamp64Milli({from:Int64}, 'UTC') AND created_at < fromUnixTimestamp64Milli({to:Int64}, 'UTC')";
/** They travel in the query string, which a server takes up to a megabyte of. */
const idsAtOnce = 1000;

type GroupResult = Readonly<Record<string, number | string | null>> & {
  readonly group_value: string;
  readonly group_requests: number;
  readonly group_total: number;
};

/** Read at a time from a file of rows: little memory, few turns of the event loop. */
const readBytes = 256 * 1024;

/** The analytics store on a ClickHouse server, or on the embedded engine, which answers the same protocol. */
export class ClickHouseAnalytics implements Analytics {
  readonly #client: ClickHouseClient;
  readonly #readsFiles: boolean;

  /**
   * `client` speaks to a database whose schema is up to date. `readsFiles`: what it speaks to reads the files of
   * `StoredRows` itself (the embedded engine), so that their bytes need not pass through this process.
   */
  constructor(client: ClickHouseClient, { readsFiles = false }: { readonly readsFiles?: boolean } = {}) {
    this.#client = client;
    this.#readsFiles = readsFiles;
  }

  async insert(
    table: JournalTable,
    rows: Uint8Array | StoredRows,
    deduplicationToken: string,
  ): Promise<void> {
    if ((rows instanceof Uint8Array ? rows.length : rows.end - rows.from) === 0) return;
    const settings = { ...insertSettings, insert_deduplication_token: deduplicationToken };
    const query = inserts[table];
    try {
      if (rows instanceof Uint8Array)
        await this.#post(query, settings, Readable.from([rows], { objectMode: false }));
      else if (this.#readsFiles) await this.#post(query, { ...settings, ...fileParameters(rows) });
      else await this.#post(query, settings, Readable.from(bytesOf(rows), { objectMode: false }));
    } catch (error) {
      throw insertError(error, table);
    }
  }

  async #post(query: string, clickhouse_settings: ClickHouseSettings, values?: Readable): Promise<void> {
    try {
      const { stream } =
        values === undefined
          ? await this.#client.exec({ query, clickhouse_settings })
          : await this.#client.exec({ query, clickhouse_settings, values });
      // Nothing comes, but an answer that nobody reads keeps its connection.
      await finished(stream.resume());
    } finally {
      // A server may refuse before it has read everything; the file must not stay open.
      values?.destroy();
    }
  }

  async storedIds(
    table: JournalTable,
    ids: readonly string[],
    window: TimeWindow,
  ): Promise<ReadonlySet<string>> {
    const { from, to } = moments(window);
    const sql = `SELECT DISTINCT id FROM ${table} WHERE id IN {ids:Array(UUID)} AND ${inWindow}`;
    const found = new Set<string>();
    for (let start = 0; start < ids.length; start += idsAtOnce) {
      const some = ids.slice(start, start + idsAtOnce);
      for (const { id } of await this.#select<{ id: string }>(sql, { from, to, ids: some })) found.add(id);
    }
    return found;
  }

  async groups(query: GroupQuery): Promise<{ total: number; rows: readonly GroupRow[] }> {
    const { limit, offset } = query;
    checkRange('limit', limit, maxPage);
    checkRange('offset', offset, maxOffset);
    const { where, parameters } = visible(query.window, query.visibility);
    const sql = groupSql(query.by, query.columns, where);
    const results = await this.#select<GroupResult>(sql, {
      ...parameters,
      limit: Math.max(limit, 1),
      offset,
    });
    const first = results[0];
    if (first === undefined && offset > 0) {
      return { total: (await this.groups({ ...query, columns: [], limit: 1, offset: 0 })).total, rows: [] };
    }
    return {
      total: first?.group_total ?? 0,
      rows: results.slice(0, limit).map((result) => groupRow(result, query.columns)),
    };
  }

  async usageOfKeys({ keys, to, visibility }: KeyUsageQuery): Promise<ReadonlyMap<string, KeyUsage>> {
    checkRange('keys', keys.length, maxKeys);
    if (keys.length === 0) return new Map();
    const since = keys.map((key) => moment(key.since));
    const { where, parameters } = visible({ from: Math.min(...since), to }, visibility);
    const rows = await this.#select<KeyUsageRow>(
      keyUsageSql(where),
      { ...parameters, keys: keys.map(({ id }) => id), since },
      usageSeconds,
    );
    return new Map(rows.map((row) => [row.usage_key, { cost: row.usage_cost, tokens: row.usage_tokens }]));
  }

  async requestById(id: string, window: TimeWindow, visibility: Visibility): Promise<LogRecord | undefined> {
    if (!uuid.test(id)) return undefined;
    const { where, place, parameters } = visible(window, visibility);
    const one = (columns: readonly string[], table: JournalTable, condition: string): string =>
      `SELECT ${columns.join(', ')} FROM ${table} WHERE id = {id:UUID} AND ${condition} LIMIT 1`;
    // Bodies do not say who sent them: they are told only together with their request.
    const [requests, bodies] = await Promise.all([
      this.#select<RequestRow>(one(requestColumns, 'requests', where), { ...parameters, id }),
      this.#select<BodyRow>(one(bodyColumns, 'bodies', place), { ...parameters, id }),
    ]);
    return requests[0] && { request: requests[0], body: bodies[0] };
  }

  async feedbackById(
    id: string,
    window: TimeWindow,
    visibility: Visibility,
  ): Promise<FeedbackRow | undefined> {
    if (!uuid.test(id)) return undefined;
    const { where, parameters } = visible(window, visibility);
    const sql = `SELECT ${feedbackColumns.join(', ')} FROM feedback WHERE feedback_id = {id:UUID} AND ${where} ORDER BY revision DESC, created_at DESC, id DESC LIMIT 1`;
    const [found] = await this.#select<FeedbackRow>(sql, { ...parameters, id });
    return found;
  }

  async ping(): Promise<void> {
    const result = await this.#client.ping({ select: true });
    if (!result.success) throw unavailable(result.error);
  }

  async close(): Promise<void> {
    await this.#client.close();
  }

  async #select<Row>(
    sql: string,
    parameters: Readonly<Record<string, unknown>>,
    seconds = querySeconds,
  ): Promise<Row[]> {
    try {
      const result = await this.#client.query({
        query: sql,
        query_params: parameters,
        format: 'JSONEachRow',
        clickhouse_settings: { ...querySettings, max_execution_time: seconds },
        abort_signal: AbortSignal.timeout(seconds * 1000 + lateMs),
      });
      return await result.json<Row>();
    } catch (error) {
      throw queryError(error);
    }
  }
}

/** How the embedded engine is told which rows to read; see its `readRowRange`. */
function fileParameters({ path, from, end }: StoredRows): ClickHouseSettings {
  return { weir_rows_file: path, weir_rows_from: String(from), weir_rows_end: String(end) };
}

/** The bytes of the range; throws when the file is shorter, so that no part of it is taken for the whole. */
async function* bytesOf({ path, from, end }: StoredRows): AsyncGenerator<Buffer> {
  let left = end - from;
  const file = createReadStream(path, { start: from, end: end - 1, highWaterMark: readBytes });
  for await (const chunk of file as AsyncIterable<Buffer>) {
    left -= chunk.length;
    yield chunk;
  }
  if (left > 0) throw new Error('The file of rows is shorter than it was.');
}

/** The conditions that every query carries, with their values apart from them. */
function visible(
  window: TimeWindow,
  { organisationId, workspaceId, userId, apiKeyId }: Visibility,
): {
  /** For requests. */
  where: string;
  /** For bodies, which have no column for who sent them. */
  place: string;
  parameters: Record<string, unknown>;
} {
  const conditions = ['organisation_id = {organisation:String}', inWindow];
  if (workspaceId !== undefined) conditions.push('workspace_id = {workspace:String}');
  const place = conditions.join(' AND ');
  if (userId !== undefined) conditions.push('user_id = {user:String}');
  if (apiKeyId !== undefined) conditions.push('api_key_id = {key:String}');
  return {
    where: conditions.join(' AND '),
    place,
    parameters: {
      organisation: organisationId,
      workspace: workspaceId ?? '',
      user: userId ?? '',
      key: apiKeyId ?? '',
      ...moments(window),
    },
  };
}

function moments({ from, to }: TimeWindow): { from: number; to: number } {
  return { from: moment(from), to: moment(to) };
}

function moment(time: number): number {
  return Math.min(Math.max(Math.ceil(time), 0), endOfTime);
}

function groupRow(result: GroupResult, wanted: readonly GroupColumn[]): GroupRow {
  const columns: Partial<Record<GroupColumn, number | string | null>> = {};
  for (const column of wanted) {
    const value = result[alias(column)] ?? null;
    const isTime = column === 'last_seen' || column === 'first_seen';
    columns[column] = isTime && typeof value === 'number' ? new Date(value).toISOString() : value;
  }
  return { value: result.group_value, requests: result.group_requests, columns };
}

function checkRange(name: 'limit' | 'offset' | 'keys', value: number, max: number): void {
  if (Number.isInteger(value) && value >= 0 && value <= max) return;
  const message = `\`${name}\` must be a whole number from 0 to ${max}.`;
  throw new GatewayError('invalid_request', message, { param: name });
}
