import { randomBytes } from 'node:crypto';
import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Clock } from '../../core/ports/clock.ts';
import type { Log } from '../../core/ports/log.ts';
import type { ChdbChildOptions } from './chdb-child.ts';
import { lockData } from './data-lock.ts';
import { diskFault } from './disk-fault.ts';
import { memoryBudget } from './memory-budget.ts';
import { privateFolders } from './own-folder.ts';
import { ChildStartError, SupervisedChild } from './supervised-child.ts';

/** Data folder and memory of the embedded analytics engine. */
interface ChdbOptions {
  readonly directory: string;
  readonly log: Log;
  readonly clock: Clock;
  /** Resident memory that its process may take, bytes; default 1 GiB. See `memoryBudget`. */
  readonly memoryBytes?: number | undefined;
  /** Concurrent queries; default 2. Inserts and pings do not count. */
  readonly queries?: number | undefined;
  /**
   * Absolute folders whose files inserts may name (`isEmbedded` of `createAnalytics`), so that the engine's process
   * reads them itself. They may be created later. Default: none.
   */
  readonly rowFolders?: readonly string[];
  /** Time limit of a start, milliseconds. Default 300,000. */
  readonly startTimeoutMs?: number | undefined;
}

/** A running embedded engine, addressed like any ClickHouse server. */
export interface EmbeddedChdb {
  readonly url: string;
  readonly username: string;
  readonly password: string;
  /** Number of process restarts. */
  readonly restarts: number;
  /** Reason why its process is not running, and time of the next start; undefined while it runs. */
  readonly trouble: string | undefined;
  /** The current process; undefined between two. */
  readonly pid: number | undefined;
  /** Ends the process cleanly and releases the folder. */
  close(): Promise<void>;
}

/** The engine runs here, but cannot open its folder. */
export class CannotOpenFolder extends Error {
  /** The engine's message, on one line. */
  readonly reason: string;

  constructor(directory: string, reason: string, cause?: unknown) {
    super(
      `the embedded analytics engine could not open ${directory}: ${reason}. Check that the folder can be written to, or move it away to begin with an empty one`,
      { cause },
    );
    this.name = 'CannotOpenFolder';
    this.reason = reason;
  }
}

const username = 'weir';
const defaultMemoryBytes = 1_073_741_824;
export const defaultQueries = 2;
/** One for each table that the journal ships to. */
const insertSessions = 3;
/** For statements outside the query gate: pings, and look-ups of rows to replay. */
const otherSessions = 2;
const maxMergeBytes = 8 * 1024 ** 3;
const folderBusy = /Cannot lock file|Another server instance/;
const folderBusyAttempts = 12;
const folderBusyWaitMs = 500;

/**
 * Settings of jemalloc, the engine's allocator: one arena instead of four per processor, and freed pages return to the
 * system after a second. With many arenas each keeps half-empty pages of its own, and the process grows.
 */
const allocator = 'narenas:1,dirty_decay_ms:1000,muzzy_decay_ms:0';

/**
 * Starts the embedded analytics engine (chdb) in a process of its own and keeps it running. Resolves when it answers.
 * Throws when the folder is in use, or when chdb cannot run here, with the remedy in the message.
 */
export async function startChdb(options: ChdbOptions): Promise<EmbeddedChdb> {
  const { directory, log, clock } = options;
  const lock = await lockData(directory, { clock });
  try {
    await refuseTablesWithoutDatabase(directory);
    const configFile = join(await privateFolders.runtime(directory), 'engine.xml');
    const { memoryBytes = defaultMemoryBytes, queries = defaultQueries, rowFolders = [] } = options;
    const memory = memoryBudget(memoryBytes, queries);
    await writeEngineConfig(configFile, { caches: memory.caches, maxMergeBytes });
    const password = randomBytes(32).toString('base64url');
    const sessions = { inserts: insertSessions, queries: queries + otherSessions };
    const place = { directory, configFile, rowFolders };
    const child: ChdbChildOptions = { ...place, memory, sessions, username, password };
    const supervised = await startWhenFree(directory, () => {
      const environment = { UV_THREADPOOL_SIZE: '8', TZ: 'UTC', JE_MALLOC_CONF: allocator };
      const entry = new URL('./chdb-child.ts', import.meta.url);
      return new SupervisedChild({
        name: 'analytics engine',
        entry,
        options: child,
        log,
        clock,
        environment,
        ...(options.startTimeoutMs !== undefined && { startTimeoutMs: options.startTimeoutMs }),
      });
    });
    return {
      url: `http://127.0.0.1:${supervised.port}`,
      username,
      password,
      get restarts() {
        return supervised.restarts;
      },
      get trouble() {
        return supervised.trouble;
      },
      get pid() {
        return supervised.pid;
      },
      async close() {
        await supervised.stop();
        await lock.release();
      },
    };
  } catch (error) {
    await lock.release();
    throw error;
  }
}

/** The engine of a killed gateway needs a moment to notice and to release the folder. */
async function startWhenFree(directory: string, create: () => SupervisedChild): Promise<SupervisedChild> {
  for (let attempt = 1; ; attempt += 1) {
    const supervised = create();
    try {
      await supervised.start();
      return supervised;
    } catch (error) {
      if (!isFolderBusy(error) || attempt === folderBusyAttempts) throw await explainStart(directory, error);
    }
    await delay(folderBusyWaitMs);
  }
}

/** The engine has a folder lock of its own, which it reports on standard error only. */
function isFolderBusy(error: unknown): boolean {
  return error instanceof ChildStartError && folderBusy.test(error.output);
}

/** Converts a failed start into one sentence with the folder and the remedy. */
export async function explainStart(directory: string, error: unknown): Promise<Error> {
  if (!(error instanceof ChildStartError)) return error instanceof Error ? error : new Error(String(error));
  const details = { cause: error };
  if (isFolderBusy(error)) {
    const remedy = 'stop it, or give this one a data folder of its own';
    return new Error(`the analytics folder ${directory} is in use by another process: ${remedy}`, details);
  }
  if (error.reason === 'absent') {
    return new Error(
      `the embedded analytics engine (the optional package chdb) cannot run here: ${firstLine(error.message)}. ` +
        'It needs Linux with glibc or macOS. Install it, or set storage.analytics.url to "none:" to run without analytics',
      details,
    );
  }
  const disk = await diskFault(directory).catch(() => undefined);
  if (disk !== undefined)
    return new Error(`the embedded analytics engine could not open ${directory}: ${disk}`, details);
  const output = firstLine(error.output.trim());
  const reason = output === '' ? firstLine(error.message) : `${firstLine(error.message)} (${output})`;
  return new CannotOpenFolder(directory, reason, error);
}

/** True when a folder holds tables of an engine. */
export async function holdsTables(directory: string): Promise<boolean> {
  const entries = await readdir(join(directory, 'metadata')).catch(() => []);
  return entries.length > 0 || (await tableFiles(directory)).length > 0;
}

/** A new engine would set aside, and later delete, unreferenced files. */
async function refuseTablesWithoutDatabase(directory: string): Promise<void> {
  const databases = await readdir(join(directory, 'metadata')).catch(() => []);
  if (databases.length > 0) return;
  const [table] = await tableFiles(directory);
  if (table === undefined) return;
  throw new CannotOpenFolder(
    directory,
    `it holds tables (${table}) and no metadata of the database they are of`,
  );
}

/** Location of a folder's table descriptions, relative to it. */
async function tableFiles(directory: string): Promise<readonly string[]> {
  const found: string[] = [];
  const store = join(directory, 'store');
  for (const group of await readdir(store).catch(() => []))
    for (const one of await readdir(join(store, group)).catch(() => []))
      for (const name of await readdir(join(store, group, one)).catch(() => []))
        if (name.endsWith('.sql')) found.push(join('store', group, one, name));
  return found;
}

function firstLine(text: string): string {
  return text.split('\n', 1)[0] as string;
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
 * next one: pools are small, not up to 128 threads each. A merge of bodies builds the index of their search anew: merges
 * take many parts at once, so that a row is in few of them.
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
    <merge_selector_base>10</merge_selector_base>
    <max_bytes_to_merge_at_max_space_in_pool>${maxMergeBytes}</max_bytes_to_merge_at_max_space_in_pool>
    <number_of_free_entries_in_pool_to_lower_max_size_of_merge>1</number_of_free_entries_in_pool_to_lower_max_size_of_merge>
    <number_of_free_entries_in_pool_to_execute_mutation>1</number_of_free_entries_in_pool_to_execute_mutation>
    <number_of_free_entries_in_pool_to_execute_optimize_entire_partition>1</number_of_free_entries_in_pool_to_execute_optimize_entire_partition>
  </merge_tree>
</clickhouse>
`;

/** Writes the file with the settings that the engine reads at its start only. */
async function writeEngineConfig(path: string, config: EngineConfig): Promise<void> {
  await writeFile(path, configXml(config), { mode: 0o600 });
}
