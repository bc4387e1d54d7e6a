import type { RetentionSettings } from '../ports/retention-settings.ts';
import { featureVariables, type Feature, type Features } from './features.ts';

type ShownRetention = Pick<RetentionSettings, 'logs_days' | 'metrics_days'>;
type Environment = Readonly<Record<string, string | undefined>>;

const names = Object.keys(featureVariables) as Feature[];

/** How long things are kept where nobody has configured it. */
const usualRetention: ShownRetention = { logs_days: 90, metrics_days: 365 };

/**
 * What the environment switches off (`GUARDRAILS_ENABLED=OFF`, in any case), and the periods that are shown: those of
 * `retention` in the configuration, unless the environment says others (`LOG_RETENTION_DISPLAY`,
 * `METRICS_RETENTION_DISPLAY`, days). Throws one sentence for a value that is none of these.
 */
export function readFeatures(environment: Environment, retention = usualRetention): Features {
  const off = names.filter((name) => isOff(featureVariables[name], environment));
  return {
    off,
    isOn: (feature) => !off.includes(feature),
    logRetentionDays: days('LOG_RETENTION_DISPLAY', retention.logs_days, environment),
    metricsRetentionDays: days('METRICS_RETENTION_DISPLAY', retention.metrics_days, environment),
  };
}

function isOff(variable: string, environment: Environment): boolean {
  const value = environment[variable]?.trim() ?? '';
  if (/^off$/i.test(value)) return true;
  if (/^(on)?$/i.test(value)) return false;
  throw new Error(`${variable} must be ON or OFF; it is "${value.slice(0, 64)}".`);
}

function days(variable: string, fallback: number, environment: Environment): number {
  const value = environment[variable]?.trim() ?? '';
  if (value === '') return fallback;
  if (/^[1-9]\d{0,4}$/.test(value)) return Number(value);
  throw new Error(`${variable} must be a number of days, 1 to 99999; it is "${value.slice(0, 64)}".`);
}
