// Composition root: the analytics store of a configuration.
import { availableParallelism } from 'node:os';
import path from 'node:path';
import type { GatewayConfig } from '../core/config/schema.ts';
import type { UndoStack } from '../core/lifecycle/undo-stack.ts';
import type { Analytics } from '../core/ports/analytics.ts';
import type { Clock } from '../core/ports/clock.ts';
import type { Log } from '../core/ports/log.ts';
import type { Metrics } from '../core/ports/metrics.ts';
import { createAnalytics } from '../storage/clickhouse/create-analytics.ts';
import { SchemaChanged } from '../storage/clickhouse/migrate.ts';
import { AnalyticsStartError } from '../storage/clickhouse/store-errors.ts';
import { openWhenReachable } from '../storage/clickhouse/waiting-analytics.ts';
import { gateQueries } from '../storage/clickhouse/query-gate.ts';
import { openServer, type StoreRules } from '../storage/clickhouse/open-server.ts';
import { privateFolders } from '../storage/embedded/own-folder.ts';
import { memoryBudget } from '../storage/embedded/memory-budget.ts';
import {
  CannotOpenFolder,
  defaultQueries,
  holdsTables,
  startChdb,
  type EmbeddedChdb,
} from '../storage/embedded/start-chdb.ts';
import { createNoAnalytics } from '../storage/none/no-analytics.ts';

/** Options of `openAnalytics`. */
export interface AnalyticsOptions {
  readonly config: Pick<GatewayConfig, 'storage' | 'retention'>;
  /** The configuration's file: relative paths in it start from its folder. */
  readonly file: string;
  /** The data folder, absolute; this process holds its lock. */
  readonly data: string;
  readonly log: Log;
  readonly clock: Clock;
  /** Undefined for a command, whose queries pass no gate. */
  readonly metrics?: Metrics;
  /** Called with the embedded engine when it runs. */
  readonly started?: (engine: Pick<EmbeddedChdb, 'pid' | 'trouble'>) => void;
  readonly opened: UndoStack;
}

const queriesOfServer = 4;
/** In addition to the time limit of the engine's start. */
const patienceForSchemaMs = 120_000;
const longestSaid = 500;

/**
 * Opens the analytics store of the configuration; resources to close are added to `opened`. Throws one sentence with
 * the remedy.
 */
export async function openAnalytics(options: AnalyticsOptions): Promise<Analytics> {
  const { config, clock, metrics } = options;
  const { analytics } = config.storage;
  const store = await openStore(options);
  if (metrics === undefined || analytics.url === 'none:') return store;
  const running = isServer(config)
    ? (analytics.max_concurrent_queries ?? queriesOfServer)
    : engineQueries(config);
  return gateQueries(store, { running, waiting: analytics.max_queued_queries, clock, metrics });
}

async function openStore(options: AnalyticsOptions): Promise<Analytics> {
  const { config, file, log, clock, opened } = options;
  const { analytics: settings } = config.storage;
  if (settings.url === 'none:') return createNoAnalytics();
  const rules = rulesOf(config);
  if (isServer(config)) {
    const server = await openServer(settings, path.dirname(file), { clock, log, ...rules });
    opened.push(() => server.close());
    return server;
  }
  const embedded = new EmbeddedStore(options);
  opened.push(() => embedded.close());
  const folder = engineFolder(options);
  // A failed start on a new folder is reported at once: no data are lost, and often a setting has to be changed.
  const store = (await holdsTables(folder))
    ? await openWhenReachable({
        open: () =>
          embedded.open().catch((error: unknown) => {
            throw damaged(error, folder);
          }),
        clock,
        log,
        patienceMs: config.storage.engine_start_ms + patienceForSchemaMs,
      })
    : await embedded.open();
  opened.push(() => store.close());
  return store;
}

/** The embedded engine and the store on it, reopened as often as necessary. */
class EmbeddedStore {
  readonly #options: AnalyticsOptions;
  #engine: EmbeddedChdb | undefined;
  #opening: Promise<Analytics> | undefined;
  #closed = false;

  constructor(options: AnalyticsOptions) {
    this.#options = options;
  }

  open(): Promise<Analytics> {
    this.#opening = this.#open();
    return this.#opening;
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#opening?.catch(() => undefined);
    await this.#engine?.close();
  }

  async #open(): Promise<Analytics> {
    const { config, log } = this.#options;
    if (this.#closed) throw new Error('The gateway is ending.');
    try {
      this.#engine = await startEngine(this.#options);
      this.#options.started?.(this.#engine);
      const { url, username, password } = this.#engine;
      return await createAnalytics({ url, username, password, isEmbedded: true, log, ...rulesOf(config) });
    } catch (error) {
      await this.#engine?.close();
      this.#engine = undefined;
      throw error;
    }
  }
}

/** With an unreadable engine folder the gateway still serves: administration and requests do not need it. */
function damaged(error: unknown, url: string): unknown {
  const isSetting = error instanceof AnalyticsStartError && error.cause instanceof SchemaChanged;
  if (isSetting || !(error instanceof AnalyticsStartError || error instanceof CannotOpenFolder)) return error;
  const place = { url, username: '', database: '' };
  const says = error instanceof CannotOpenFolder ? error.reason : error.message;
  const finding = {
    reason: 'its folder is damaged or cannot be read',
    remedy:
      `Cause: ${says.replace(/\.+$/, '').slice(0, longestSaid)}. Move that folder away and nothing else, or put a copy of it in its place: ` +
      'the next attempt begins an empty one and stores there what waits in the journal. Keys, configs and other records are not in it.',
    lasting: false,
  };
  return new AnalyticsStartError(place, finding, error);
}

/** Starts the embedded engine with the settings of the configuration. */
export async function startEngine({
  config,
  data,
  log,
  clock,
}: Pick<AnalyticsOptions, 'config' | 'data' | 'log' | 'clock'>): Promise<EmbeddedChdb> {
  const { url, max_memory_bytes: memoryBytes } = config.storage.analytics;
  const directory = engineFolder({ config, data });
  if (url !== 'chdb:') await privateFolders.closeToOthers(directory, log);
  return startChdb({
    directory,
    log,
    clock,
    memoryBytes,
    queries: engineQueries(config),
    startTimeoutMs: config.storage.engine_start_ms,
    // The engine reads the journal's segments itself: their bytes never pass through this process.
    rowFolders: [path.join(data, 'journal'), path.join(data, 'workers')],
  });
}

/** Folder of the embedded engine's tables. */
function engineFolder({ config, data }: Pick<AnalyticsOptions, 'config' | 'data'>): string {
  const named = config.storage.analytics.url.slice('chdb:'.length);
  return named === '' ? path.join(data, 'analytics') : path.resolve(named);
}

/** Query limits, retention and text index of the configuration. */
export function rulesOf(config: AnalyticsOptions['config']): StoreRules {
  const {
    query_timeout_s: seconds,
    max_memory_bytes: memoryBytes,
    text_index: textIndex,
  } = config.storage.analytics;
  const { logs_days: logsDays, bodies_days: bodiesDays, metrics_days: metricsDays } = config.retention;
  const queries = engineQueries(config);
  // All queries together may not use more cores than there are: one alone then leaves some to the gateway.
  const threads = Math.ceil(availableParallelism() / queries);
  const ofEngine = { memoryBytes: memoryBudget(memoryBytes, queries).query, threads };
  return {
    queryBounds: { seconds, ...(isServer(config) ? {} : ofEngine) },
    retention: { logsDays, bodiesDays, metricsDays },
    textIndex,
  };
}

/** True when the store is a server, not the embedded engine. */
export function isServer({ storage }: AnalyticsOptions['config']): boolean {
  return storage.analytics.url.startsWith('http');
}

function engineQueries({ storage }: AnalyticsOptions['config']): number {
  return storage.analytics.max_concurrent_queries ?? defaultQueries;
}
