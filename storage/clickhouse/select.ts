import type { ClickHouseClient, ClickHouseSettings } from '@clickhouse/client';
import { mapInTurns } from '../../core/base/turns.ts';
import { analyticsErrors } from './store-errors.ts';

/** Limits of one query. */
export interface QueryBounds {
  /** Time limit that the store itself enforces, seconds. Default 20. */
  readonly seconds?: number | undefined;
  /** Memory limit, bytes; beyond half of it, sorting and grouping spill to disk. Default 400,000,000. */
  readonly memoryBytes?: number | undefined;
  /** Concurrent cores. Default: the store's own setting. */
  readonly threads?: number | undefined;
}

const querySeconds = 20;
const queryBytes = 400_000_000;
/** Wait beyond the store's time limit; a later answer will not come. */
const lateMs = 5000;
const maxRows = 1_000_000;
const maxResultBytes = 128 * 1024 * 1024;
/** Characters of an answer that are parsed per turn. */
const charactersAtOnce = 32 * 1024;

function settingsOf({ memoryBytes = queryBytes, threads }: QueryBounds): ClickHouseSettings {
  const spillBytes = String(Math.floor(memoryBytes / 2));
  return {
    max_memory_usage: String(Math.floor(memoryBytes)),
    max_bytes_before_external_group_by: spillBytes,
    max_bytes_before_external_sort: spillBytes,
    ...(threads !== undefined && { max_threads: threads }),
    // Looking up a large set in an index too takes several times the memory of the set.
    use_index_for_in_with_subqueries_max_values: '10000',
    max_result_rows: String(maxRows),
    max_result_bytes: String(maxResultBytes),
    result_overflow_mode: 'throw',
    // A failure midway is then an error, not half an answer.
    wait_end_of_query: 1,
    output_format_json_quote_64bit_integers: 0,
    output_format_json_quote_decimals: 1,
    output_format_decimal_trailing_zeros: 1,
    date_time_output_format: 'simple',
  };
}

/** The rows of an answer with one row per line. */
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

/** Runs one query: values are always bound, never part of the text. Throws the error from `queryError`. */
export type Select = <Row>(
  sql: string,
  parameters: Readonly<Record<string, unknown>>,
  options?: {
    /** Time limit of the store; default and maximum: that of every query. */
    readonly seconds?: number;
    /** In addition to those of every query. */
    readonly settings?: ClickHouseSettings;
  },
) => Promise<Row[]>;

/** Queries of a client, bounded in time, memory and answer length. */
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
      // The client would build a pipeline of streams for them, which is slower than one string.
      return await rowsOf<Row>(await result.text());
    } catch (error) {
      throw analyticsErrors.ofQuery(error);
    }
  };
}
