/** Upper bound of usage in US dollars, tokens or requests. */
export interface UsageLimit {
  readonly type: 'cost' | 'tokens' | 'requests';
  readonly creditLimit: number;
  readonly alertThreshold?: number;
  readonly periodicReset?: 'monthly' | 'weekly';
  /** 1 to 365; instead of `periodicReset`. */
  readonly periodicResetDays?: number;
  readonly nextResetAt?: number;
}

/** A usage limit as the request path sees it. */
export interface OwnedUsageLimit {
  readonly limit: UsageLimit;
  /** Creation time of its record, milliseconds since the epoch: periods of `periodicResetDays` count from it. */
  readonly createdAt: number;
  /** Addresses that the record names for alerts. */
  readonly emails?: readonly string[];
}

export interface RateLimit {
  readonly type: 'requests' | 'tokens';
  /** Per second, minute, hour, day, week. */
  readonly unit: 'rps' | 'rpm' | 'rph' | 'rpd' | 'rpw';
  readonly value: number;
}
