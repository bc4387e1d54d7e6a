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
