/** Features that an operator can switch off, with the environment variable for it (`OFF`). All are on by default. */
export const featureVariables = {
  guardrails: 'GUARDRAILS_ENABLED',
  api_access: 'API_ACCESS_ENABLED',
  data_exports: 'DATA_EXPORTS_ENABLED',
  usage_limits: 'USAGE_LIMITS_ENABLED',
  audit_logs: 'AUDIT_LOGS_ENABLED',
  scim: 'SCIM_ENABLED',
  policies: 'POLICY_ENABLED',
} as const;

/** A feature that can be switched off. */
export type Feature = keyof typeof featureVariables;

/** Features that are off, and the displayed retention. */
export interface Features {
  isOn(feature: Feature): boolean;
  /** Features that are off. */
  readonly off: readonly Feature[];
  /** Displayed days only; `retention` of the configuration deletes, and is the default here. 0: for ever. */
  readonly logRetentionDays: number;
  readonly metricsRetentionDays: number;
}

/** Section `retention` of the configuration, defaults filled in: days for which rows are kept, 0 for ever. */
export interface RetentionSettings {
  /** Log rows of requests. */
  readonly logs_days: number;
  /** Request and answer bodies. */
  readonly bodies_days: number;
  /** Roll-ups, and feedback. */
  readonly metrics_days: number;
}

type ShownRetention = Pick<RetentionSettings, 'logs_days' | 'metrics_days'>;
type Environment = Readonly<Record<string, string | undefined>>;

const names = Object.keys(featureVariables) as Feature[];

/** Default retention. */
const defaultRetention: ShownRetention = { logs_days: 90, metrics_days: 365 };

/**
 * Features that the environment switches off (`GUARDRAILS_ENABLED=OFF`, in any case), and the displayed retention: that
 * of the configuration, unless the environment overrides it (`LOG_RETENTION_DISPLAY`, `METRICS_RETENTION_DISPLAY`,
 * days). Throws one sentence for an invalid value.
 */
export function readFeatures(environment: Environment, retention = defaultRetention): Features {
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
