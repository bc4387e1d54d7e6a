/** What an operator can switch off, each with the environment variable that does it (`OFF`). All are on by default. */
export const featureVariables = {
  guardrails: 'GUARDRAILS_ENABLED',
  api_access: 'API_ACCESS_ENABLED',
  data_exports: 'DATA_EXPORTS_ENABLED',
  usage_limits: 'USAGE_LIMITS_ENABLED',
  audit_logs: 'AUDIT_LOGS_ENABLED',
  scim: 'SCIM_ENABLED',
  policies: 'POLICY_ENABLED',
} as const;

/** Something that can be switched off. */
export type Feature = keyof typeof featureVariables;

/** What is switched off, and what is shown of how long things are kept. */
export interface Features {
  isOn(feature: Feature): boolean;
  /** Those that are off. */
  readonly off: readonly Feature[];
  /** Days, shown and nothing else; `retention` of the configuration deletes, and is what is shown by default. 0: for ever. */
  readonly logRetentionDays: number;
  readonly metricsRetentionDays: number;
}

/** Section `retention` of the configuration, defaults filled in: how many days rows are kept, 0 for ever. */
export interface RetentionSettings {
  /** Log rows of requests. */
  readonly logs_days: number;
  /** What was sent and answered. */
  readonly bodies_days: number;
  /** Roll-ups, and feedback. */
  readonly metrics_days: number;
}

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
