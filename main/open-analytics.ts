// A part of the composition root: which analytics store a configuration means.
import path from 'node:path';
import type { GatewayConfig } from '../core/config/schema.ts';
import type { UndoStack } from '../core/lifecycle/undo-stack.ts';
import type { Analytics } from '../core/ports/analytics.ts';
import type { Clock } from '../core/ports/clock.ts';
import type { Log } from '../core/ports/log.ts';
import { createAnalytics } from '../storage/clickhouse/create-analytics.ts';
import { openServer } from '../storage/clickhouse/open-server.ts';
import { startChdb } from '../storage/embedded/start-chdb.ts';
import { createNoAnalytics } from '../storage/none/no-analytics.ts';

/** What `openAnalytics` needs. */
export interface AnalyticsOptions {
  readonly config: Pick<GatewayConfig, 'storage'>;
  /** The configuration's file: relative names in it are meant from there. */
  readonly file: string;
  /** The data folder, absolute; its lock is ours. */
  readonly data: string;
  readonly log: Log;
  readonly clock: Clock;
  readonly opened: UndoStack;
}

/**
 * Opens the analytics store that the configuration names; what has to be closed again goes onto `opened`. Throws one
 * sentence with the remedy.
 */
export async function openAnalytics(options: AnalyticsOptions): Promise<Analytics> {
  const { config, file, data, log, clock, opened } = options;
  const { storage } = config;
  const { url } = storage.analytics;
  if (url === 'none:') return createNoAnalytics();
  if (url.startsWith('http')) {
    const server = await openServer(storage.analytics, path.dirname(file), { clock, log });
    opened.push(() => server.close());
    return server;
  }
  const named = url.slice('chdb:'.length);
  const directory = named === '' ? path.join(data, 'analytics') : path.resolve(named);
  // The engine reads the journal's segments itself: their bytes never pass through this process.
  const engine = await startChdb({ directory, log, clock, rowFolders: [path.join(data, 'journal')] });
  opened.push(() => engine.close());
  const analytics = await createAnalytics({
    url: engine.url,
    username: engine.username,
    password: engine.password,
    readsFiles: true,
    log,
  });
  opened.push(() => analytics.close());
  return analytics;
}
