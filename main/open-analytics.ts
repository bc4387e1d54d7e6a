// A part of the composition root: which analytics store a configuration means.
import { availableParallelism } from 'node:os';
import path from 'node:path';
import type { GatewayConfig } from '../core/config/schema.ts';
import type { UndoStack } from '../core/lifecycle/undo-stack.ts';
import type { Analytics } from '../core/ports/analytics.ts';
import type { Clock } from '../core/ports/clock.ts';
import type { Log } from '../core/ports/log.ts';
import type { Metrics } from '../core/ports/metrics.ts';
import { createAnalytics } from '../storage/clickhouse/create-analytics.ts';
import { gateQueries } from '../storage/clickhouse/gated-analytics.ts';
import { openServer, type StoreRules } from '../storage/clickhouse/open-server.ts';
import { closeToOthers } from '../storage/embedded/own-folder.ts';
import { memoryBudget } from '../storage/embedded/memory-budget.ts';
import { defaultQueries, startChdb, type EmbeddedChdb } from '../storage/embedded/start-chdb.ts';
import { createNoAnalytics } from '../storage/none/no-analytics.ts';

/** What `openAnalytics` needs. */
export interface AnalyticsOptions {
  readonly config: Pick<GatewayConfig, 'storage' | 'retention'>;
  /** The configuration's file: relative names in it are meant from there. */
  readonly file: string;
  /** The data folder, absolute; its lock is ours. */
  readonly data: string;
  readonly log: Log;
  readonly clock: Clock;
  /** Undefined for a command, whose queries pass no gate. */
  readonly metrics?: Metrics;
  /** Is told of the embedded engine when it runs. */
  readonly started?: (engine: Pick<EmbeddedChdb, 'pid' | 'trouble'>) => void;
  readonly opened: UndoStack;
}

const queriesOfServer = 4;

/**
 * Opens the analytics store that the configuration names; what has to be closed again goes onto `opened`. Throws one
 * sentence with the remedy.
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
  const engine = await startEngine(options);
  opened.push(() => engine.close());
  options.started?.(engine);
  const analytics = await createAnalytics({
    url: engine.url,
    username: engine.username,
    password: engine.password,
    readsFiles: true,
    log,
    ...rules,
  });
  opened.push(() => analytics.close());
  return analytics;
}

/** Starts the embedded engine as the configuration wants it. */
export async function startEngine({
  config,
  data,
  log,
  clock,
}: Pick<AnalyticsOptions, 'config' | 'data' | 'log' | 'clock'>): Promise<EmbeddedChdb> {
  const { url, max_memory_bytes: memoryBytes } = config.storage.analytics;
  const named = url.slice('chdb:'.length);
  if (named !== '') await closeToOthers(path.resolve(named), log);
  return startChdb({
    directory: named === '' ? path.join(data, 'analytics') : path.resolve(named),
    ...{ log, clock, memoryBytes, queries: engineQueries(config) },
    startTimeoutMs: config.storage.engine_start_ms,
    // The engine reads the journal's segments itself: their bytes never pass through this process.
    rowFolders: [path.join(data, 'journal')],
  });
}

/** What the configuration says of every query, and of how long rows are kept. */
export function rulesOf(config: AnalyticsOptions['config']): StoreRules {
  const { query_timeout_s: seconds, max_memory_bytes: memoryBytes } = config.storage.analytics;
  const { logs_days: logsDays, bodies_days: bodiesDays, metrics_days: metricsDays } = config.retention;
  const queries = engineQueries(config);
  // All queries together may not take more cores than there are: one alone then leaves some to the gateway.
  const threads = Math.ceil(availableParallelism() / queries);
  const ofEngine = { memoryBytes: memoryBudget(memoryBytes, queries).query, threads };
  return {
    queryBounds: { seconds, ...(isServer(config) ? {} : ofEngine) },
    retention: { logsDays, bodiesDays, metricsDays },
  };
}

/** Whether the store is a server, and not the embedded engine. */
export function isServer({ storage }: AnalyticsOptions['config']): boolean {
  return storage.analytics.url.startsWith('http');
}

function engineQueries({ storage }: AnalyticsOptions['config']): number {
  return storage.analytics.max_concurrent_queries ?? defaultQueries;
}
