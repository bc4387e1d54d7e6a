/** Money in US dollars or tokens that may be used. */
export interface UsageLimit {
  readonly type: 'cost' | 'tokens';
  readonly creditLimit: number;
  readonly alertThreshold?: number;
  readonly periodicReset?: 'monthly' | 'weekly';
  /** 1 to 365; instead of `periodicReset`. */
  readonly periodicResetDays?: number;
  readonly nextResetAt?: number;
}

export interface RateLimit {
  readonly type: 'requests' | 'tokens';
  /** Per second, minute, hour, day, week. */
  readonly unit: 'rps' | 'rpm' | 'rph' | 'rpd' | 'rpw';
  readonly value: number;
}
