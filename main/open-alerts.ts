// A part of the composition root: telling of usage and of keys.
import { createGuardedFetch } from '../adapters/guarded-fetch/guarded-fetch.ts';
import { sendMail } from '../adapters/mail/send-mail.ts';
import {
  createUsageAlerts,
  type StoredUsageAlerts,
  type UsageAlertsPlace,
} from '../core/administration/alerts/usage-alerts.ts';
import { AlertChannels } from '../core/administration/alerts/alert-channels.ts';
import { defineKeyNotices, type KeyNoticesPlace } from '../core/administration/alerts/key-notices.ts';
import type { Metrics } from '../core/ports/metrics.ts';
import type { GatewayConfig } from '../core/config/schema.ts';

/** What of the configuration alerts follow. */
type AlertsConfig = Pick<GatewayConfig, 'alerts' | 'security'>;

/** Alerts that follow the configuration. */
export interface OpenedAlerts extends StoredUsageAlerts {
  /** From now on this one says who is told, and where webhooks may go. */
  use(config: AlertsConfig): void;
}

/** Defines the jobs of alerts, with what `config` says until another one is used. */
export function openAlerts({
  config,
  ...place
}: Omit<UsageAlertsPlace, 'settings' | 'fetch' | 'channels'> &
  Pick<KeyNoticesPlace, 'jobs' | 'resources'> & {
    readonly metrics: Metrics;
    readonly config: AlertsConfig;
  }): OpenedAlerts {
  const inUse = ({ alerts, security }: AlertsConfig) => {
    const { log, clock, metrics } = place;
    return {
      alerts,
      fetch: createGuardedFetch({ log, clock, metrics, trustedHosts: security.trusted_hosts }),
    };
  };
  let current = inUse(config);
  const settings = () => current.alerts;
  const channels = new AlertChannels({ ...place, settings, sendMail });
  const alerts = createUsageAlerts({ ...place, settings, fetch: () => current.fetch, channels });
  defineKeyNotices({ ...place, channels, canMail: () => current.alerts.smtp !== undefined });
  return {
    crossed: (crossing) => alerts.crossed(crossing),
    close: () => alerts.close(),
    use: (next) => void (current = inUse(next)),
  };
}
