import { writeFile } from 'node:fs/promises';
import { messageOf } from '../../../core/errors/gateway-error.ts';

const leadingCode = /^(?:Error: )?Code: (\d+)\./;

/** An error with the text and number of a ClickHouse server, so that its clients can read it. */
export class EngineError extends Error {
  readonly engineCode: number;

  constructor(engineCode: number, type: string, message: string) {
    super(`Code: ${engineCode}. DB::Exception: ${message} (${type})`);
    this.name = 'EngineError';
    this.engineCode = engineCode;
  }
}

/** The engine's error number of anything thrown; 1002 (unknown exception) when it has none. */
export function engineCodeOf(error: unknown): number {
  if (error instanceof EngineError) return error.engineCode;
  const message = messageOf(error);
  const code = leadingCode.exec(message)?.[1];
  return code === undefined ? 1002 : Number(code);
}

/** Body of a failed answer: always starts with `Code: N.`, as clients expect. */
export function engineMessageOf(error: unknown): string {
  const message = messageOf(error);
  return leadingCode.test(message) ? message : `Code: 1002. DB::Exception: ${message}. (UNKNOWN_EXCEPTION)`;
}

const statusByCode: Readonly<Record<number, number>> = {
  46: 404,
  47: 404,
  50: 404,
  56: 404,
  60: 404,
  81: 404,
  115: 404,
  48: 501,
  159: 408,
  160: 408,
  194: 401,
  202: 503,
  229: 413,
  439: 503,
  497: 403,
  516: 401,
};
const badRequest = new Set([
  6, 25, 26, 27, 32, 33, 36, 38, 41, 42, 43, 44, 53, 62, 69, 70, 72, 73, 117, 321, 349, 376, 407, 456, 457,
  467,
]);

/** HTTP status of a server for an error number. */
export function statusOfCode(code: number): number {
  return statusByCode[code] ?? (badRequest.has(code) ? 400 : 500);
}

/** Settings that the engine reads at its start only. */
interface EngineConfig {
  /** Size of each of its caches, bytes. */
  readonly caches: Readonly<Record<CacheName, number>>;
  /** Upper bound of a merged part, bytes. */
  readonly maxMergeBytes: number;
}

type CacheName = keyof typeof cacheSettings;

/** Caches that Weir's tables fill; those of other formats and unused indexes stay small by themselves. */
const cacheSettings = {
  marks: 'mark_cache_size',
  primaryIndex: 'primary_index_cache_size',
  indexMarks: 'index_mark_cache_size',
  indexUncompressed: 'index_uncompressed_cache_size',
  queryCondition: 'query_condition_cache_size',
  compiledExpressions: 'compiled_expression_cache_size',
  textTokens: 'text_index_tokens_cache_size',
  textHeaders: 'text_index_header_cache_size',
  textPostings: 'text_index_postings_cache_size',
} as const;

/**
 * An insert is on disk before it is acknowledged, and the result of a merge before the engine removes its parts. Those
 * are removed within seconds: a part that waits for it takes 27 KB, and hundreds that are removed at once leave pages
 * half empty. Writing wide rows takes memory for every column: parts of an insert are compact, buffers start small, and
 * merges use small blocks, column after column, few at the same time. A finished thread stays, with memory kept for the
 * next one: pools are small, not up to 128 threads each.
 */
const configXml = ({ caches, maxMergeBytes }: EngineConfig): string => `<clickhouse>
${Object.entries(cacheSettings)
  .map(([name, setting]) => `  <${setting}>${caches[name as CacheName]}</${setting}>`)
  .join('\n')}
  <background_pool_size>2</background_pool_size>
  <background_merges_mutations_concurrency_ratio>1</background_merges_mutations_concurrency_ratio>
  <background_schedule_pool_size>2</background_schedule_pool_size>
  <max_parts_cleaning_thread_pool_size>2</max_parts_cleaning_thread_pool_size>
  <max_active_parts_loading_thread_pool_size>8</max_active_parts_loading_thread_pool_size>
  <max_outdated_parts_loading_thread_pool_size>2</max_outdated_parts_loading_thread_pool_size>
  <merge_tree>
    <fsync_after_insert>1</fsync_after_insert>
    <fsync_part_directory>1</fsync_part_directory>
    <min_rows_to_fsync_after_merge>1</min_rows_to_fsync_after_merge>
    <cleanup_delay_period>5</cleanup_delay_period>
    <max_cleanup_delay_period>10</max_cleanup_delay_period>
    <min_bytes_for_wide_part>67108864</min_bytes_for_wide_part>
    <min_columns_to_activate_adaptive_write_buffer>1</min_columns_to_activate_adaptive_write_buffer>
    <vertical_merge_algorithm_min_rows_to_activate>16384</vertical_merge_algorithm_min_rows_to_activate>
    <merge_max_block_size>2048</merge_max_block_size>
    <merge_max_block_size_bytes>4194304</merge_max_block_size_bytes>
    <max_bytes_to_merge_at_max_space_in_pool>${maxMergeBytes}</max_bytes_to_merge_at_max_space_in_pool>
    <number_of_free_entries_in_pool_to_lower_max_size_of_merge>1</number_of_free_entries_in_pool_to_lower_max_size_of_merge>
    <number_of_free_entries_in_pool_to_execute_mutation>1</number_of_free_entries_in_pool_to_execute_mutation>
    <number_of_free_entries_in_pool_to_execute_optimize_entire_partition>1</number_of_free_entries_in_pool_to_execute_optimize_entire_partition>
  </merge_tree>
</clickhouse>
`;

/** Writes the file with the settings that the engine reads at its start only. */
export async function writeEngineConfig(path: string, config: EngineConfig): Promise<void> {
  await writeFile(path, configXml(config), { mode: 0o600 });
}
