/** That usage has reached a threshold, or the limit itself. */
export interface UsageCrossing {
  /** The same crossing has the same id, on every gateway and after a restart: it is alerted of once. */
  readonly id: string;
  readonly kind: 'threshold' | 'exhausted';
  readonly organisationId: string;
  /** Undefined for what belongs to the organisation as a whole. */
  readonly workspaceId: string | undefined;
  /** Whose usage it is. */
  readonly subject: {
    readonly type: 'api_key' | 'workspace' | 'provider' | 'integration' | 'usage_limit_policy';
    readonly id: string;
    readonly name: string;
    /** Of a policy that counts by group: the group, such as `metadata._user=ann`. */
    readonly valueKey?: string;
  };
  readonly unit: 'cost' | 'tokens' | 'requests';
  readonly limit: number;
  /** Undefined when the limit has none. */
  readonly threshold: number | undefined;
  readonly used: number;
  /** When counting begins anew, milliseconds since the epoch; undefined for never. */
  readonly resetsAt: number | undefined;
  /** When it was crossed, milliseconds since the epoch. */
  readonly at: number;
  /** Of a key: its `alert_emails`, which are told besides. */
  readonly emails?: readonly string[];
}

/** Tells people and systems of crossings, as the block `alerts` of the configuration says. Without it nothing is told. */
export interface UsageAlerts {
  /** Hands a crossing over. Never throws and never waits: it is stored and sent beside requests. */
  crossed(crossing: UsageCrossing): void;
}

/** Where nobody can be told. */
export const noUsageAlerts: UsageAlerts = { crossed: () => undefined };
