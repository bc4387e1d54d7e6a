import type { ClickHouseClient, ClickHouseSettings } from '@clickhouse/client';
import { mapInTurns } from '../../core/base/turns.ts';
import { queryError } from './store-errors.ts';
import type { LogCursor } from '../../core/ports/analytics.ts';

/**
 * `(created_at, id)` of rows whose place is known: a sub-select, so that the primary key finds them. Its placeholders are
 * filled by `pairsOf`.
 */
export const inPairs =
  "(created_at, id) IN (SELECT fromUnixTimestamp64Milli(pair.1, 'UTC'), pair.2 FROM (SELECT arrayJoin(arrayZip({times:Array(Int64)}, {ids:Array(UUID)})) AS pair))";

/** They travel in the query string, which a server takes up to a megabyte of. */
export const pairsAtOnce = 1000;

/** The shortest window that holds these rows, of which there is at least one, and what `inPairs` asks for. */
export function pairsOf(rows: readonly LogCursor[]) {
  const times = rows.map((row) => row.createdAt);
  return {
    window: { from: Math.min(...times), to: Math.max(...times) + 1 },
    parameters: { times, ids: rows.map((row) => row.id) },
  };
}

/** What one query may take. */
export interface QueryBounds {
  /** The store ends a query by itself after so many seconds. Default 20. */
  readonly seconds?: number | undefined;
  /** Memory, bytes; beyond half of it, sorting and grouping go on in files. Default 400,000,000. */
  readonly memoryBytes?: number | undefined;
  /** Cores at the same time. Default: what the store's own settings say. */
  readonly threads?: number | undefined;
}

const querySeconds = 20;
const queryBytes = 400_000_000;
/** An answer that is later by so much will not come. */
const lateMs = 5000;
const mostRows = 1_000_000;
const mostResultBytes = 128 * 1024 * 1024;
/** Of an answer that are read in a turn. */
const charactersAtOnce = 32 * 1024;

function settingsOf({ memoryBytes = queryBytes, threads }: QueryBounds): ClickHouseSettings {
  const spillBytes = String(Math.floor(memoryBytes / 2));
  return {
    max_memory_usage: String(Math.floor(memoryBytes)),
    max_bytes_before_external_group_by: spillBytes,
    max_bytes_before_external_sort: spillBytes,
    ...(threads !== undefined && { max_threads: threads }),
    // To look a large set up in an index too takes several times the memory of the set.
    use_index_for_in_with_subqueries_max_values: '10000',
    max_result_rows: String(mostRows),
    max_result_bytes: String(mostResultBytes),
    result_overflow_mode: 'throw',
    // A failure half-way is an error then, not half an answer.
    wait_end_of_query: 1,
    output_format_json_quote_64bit_integers: 0,
    output_format_json_quote_decimals: 1,
    output_format_decimal_trailing_zeros: 1,
    date_time_output_format: 'simple',
  };
}

/** The rows of an answer in which each is a line. */
async function rowsOf<Row>(answer: string): Promise<Row[]> {
  const lines = answer.trimEnd();
  const pieces: string[] = [];
  for (let start = 0; start < lines.length;) {
    const found = lines.indexOf('\n', start + charactersAtOnce);
    const end = found === -1 ? lines.length : found;
    pieces.push(lines.slice(start, end));
    start = end + 1;
  }
  const read = (piece: string): Row[] => JSON.parse(`[${piece.replaceAll('\n', ',')}]`) as Row[];
  return (await mapInTurns(pieces, read, 1)).flat();
}

/** Runs one query: values are always bound, never part of the text. Throws what `queryError` makes of a failure. */
export type Select = <Row>(
  sql: string,
  parameters: Readonly<Record<string, unknown>>,
  options?: {
    /** Longest time that the store may take; default and most: that of every query. */
    readonly seconds?: number;
    /** Above those that every query has. */
    readonly settings?: ClickHouseSettings;
  },
) => Promise<Row[]>;

/** Queries of a client, each bounded in time, memory and the length of its answer. */
export function selectOf(client: ClickHouseClient, bounds: QueryBounds = {}): Select {
  const { seconds: longest = querySeconds } = bounds;
  const common = settingsOf(bounds);
  return async <Row>(
    sql: string,
    parameters: Readonly<Record<string, unknown>>,
    { seconds: wanted = longest, settings = {} }: Parameters<Select>[2] = {},
  ) => {
    const seconds = Math.min(wanted, longest);
    try {
      const result = await client.query({
        query: sql,
        query_params: parameters,
        format: 'JSONEachRow',
        clickhouse_settings: { ...common, ...settings, max_execution_time: seconds },
        abort_signal: AbortSignal.timeout(seconds * 1000 + lateMs),
      });
      // The client would make a pipeline of streams for them, which is slower than one string.
      return await rowsOf<Row>(await result.text());
    } catch (error) {
      throw queryError(error);
    }
  };
}
