/** Section `retention` of the configuration, defaults filled in: how many days rows are kept, 0 for ever. */
export interface RetentionSettings {
  /** Log rows of requests. */
  readonly logs_days: number;
  /** What was sent and answered. */
  readonly bodies_days: number;
  /** Roll-ups, and feedback. */
  readonly metrics_days: number;
}
