// Composition root: alerts on usage and keys.
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

/** Parts of the configuration that alerts depend on. */
type AlertsConfig = Pick<GatewayConfig, 'alerts' | 'security'>;

/** Alerts that follow the configuration. */
export interface OpenedAlerts extends StoredUsageAlerts {
  /** Applies the recipients and the allowed webhook hosts of this configuration. */
  use(config: AlertsConfig): void;
}

/** Defines the jobs of alerts, with the settings of `config` until another one is applied. */
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
