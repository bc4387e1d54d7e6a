// A part of the composition root: telling of usage.
import { createGuardedFetch } from '../adapters/guarded-fetch/guarded-fetch.ts';
import { sendMail } from '../adapters/mail/send-mail.ts';
import {
  createUsageAlerts,
  type StoredUsageAlerts,
  type UsageAlertsPlace,
} from '../core/administration/alerts/usage-alerts.ts';
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
}: Omit<UsageAlertsPlace, 'settings' | 'fetch' | 'sendMail'> & {
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
  const alerts = createUsageAlerts({
    ...place,
    settings: () => current.alerts,
    fetch: () => current.fetch,
    sendMail,
  });
  return {
    crossed: (crossing) => alerts.crossed(crossing),
    close: () => alerts.close(),
    use: (next) => void (current = inUse(next)),
  };
}
