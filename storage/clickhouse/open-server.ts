import type { Analytics, AnalyticsServerSettings } from '../../core/ports/analytics.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { Log } from '../../core/ports/log.ts';
import { createAnalytics, type ClickHouseOptions } from './create-analytics.ts';
import { serverOptions } from './server-options.ts';
import { openWhenReachable } from './waiting-analytics.ts';

/** What holds in the store, wherever it is. */
export type StoreRules = Pick<ClickHouseOptions, 'queryBounds' | 'retention'>;

/**
 * Opens the analytics store on the server that the configuration names; `folder` is where that configuration lies.
 * A server that is away is waited for in the background (`openWhenReachable`). Throws one sentence with the remedy
 * when a setting has to be changed, here or on the server.
 */
export async function openServer(
  settings: AnalyticsServerSettings,
  folder: string,
  { clock, log, ...rules }: { readonly clock: Clock; readonly log: Log } & StoreRules,
): Promise<Analytics> {
  const options = await serverOptions(settings, folder);
  return openWhenReachable({ open: () => createAnalytics({ ...options, ...rules, log }), clock, log });
}
