import type { Analytics } from '../../core/ports/analytics.ts';
import type { Clock } from '../../core/ports/clock.ts';
import type { Log } from '../../core/ports/log.ts';
import { createAnalytics } from './create-analytics.ts';
import type { AnalyticsStoreSettings } from '../../core/ports/analytics-store-settings.ts';
import { serverOptions } from './server-options.ts';
import { openWhenReachable } from './waiting-analytics.ts';

/**
 * Opens the analytics store on the server that the configuration names; `folder` is where that configuration lies.
 * A server that is away is waited for in the background (`openWhenReachable`). Throws one sentence with the remedy
 * when a setting has to be changed, here or on the server.
 */
export async function openServer(
  settings: AnalyticsStoreSettings,
  folder: string,
  { clock, log }: { readonly clock: Clock; readonly log: Log },
): Promise<Analytics> {
  const options = await serverOptions(settings, folder);
  return openWhenReachable({ open: () => createAnalytics({ ...options, log }), clock, log });
}
