import { type Static, Type } from 'typebox';
import type { RateLimit, UsageLimit } from '../ports/budgets.ts';
import { Instant, orNull, strict } from './fields.ts';
import type { Mistake } from '../base/json.ts';

const maxAmount = Number.MAX_SAFE_INTEGER;

const UsageType = Type.Union([Type.Literal('cost'), Type.Literal('tokens'), Type.Literal('requests')], {
  description: 'US dollars, tokens or requests. Default `cost`.',
});
const Period = Type.Union([Type.Literal('monthly'), Type.Literal('weekly')]);

/** A usage limit in bodies, files and answers; the same for keys, workspaces, providers and integrations. */
export const UsageLimitSchema = Type.Object(
  {
    type: Type.Optional(UsageType),
    credit_limit: Type.Number({
      minimum: 1,
      maximum: maxAmount,
      description: 'Amount that may be used in one period.',
    }),
    alert_threshold: Type.Optional(
      orNull(
        Type.Number({
          minimum: 1,
          maximum: maxAmount,
          description: 'Usage that triggers an alert; lower than `credit_limit`.',
        }),
      ),
    ),
    periodic_reset: Type.Optional(orNull(Period)),
    periodic_reset_days: Type.Optional(
      orNull(Type.Integer({ minimum: 1, maximum: 365, description: 'Instead of `periodic_reset`.' })),
    ),
    next_usage_reset_at: Type.Optional(orNull(Instant('Time of the first reset.'))),
  },
  strict,
);

/** A rate limit in bodies, files and answers. */
export const RateLimitSchema = Type.Object(
  {
    type: Type.Union([Type.Literal('requests'), Type.Literal('tokens')]),
    unit: Type.Union(
      [
        Type.Literal('rps'),
        Type.Literal('rpm'),
        Type.Literal('rph'),
        Type.Literal('rpd'),
        Type.Literal('rpw'),
      ],
      { description: 'Per second, minute, hour, day or week.' },
    ),
    value: Type.Integer({ minimum: 0, maximum: maxAmount }),
  },
  strict,
);

/** The rate limits of a record. */
export const RateLimits = Type.Array(RateLimitSchema, { maxItems: 10 });

/**
 * Violations in a usage limit that its schema cannot detect: two kinds of period, an unreachable threshold, an invalid
 * time. `pointer` is its place.
 */
export function usageLimitIssues(
  limit: Static<typeof UsageLimitSchema>,
  pointer: string,
): readonly Mistake[] {
  const { periodic_reset: reset, periodic_reset_days: days, next_usage_reset_at: next } = limit;
  const threshold = limit.alert_threshold ?? undefined;
  const issues: Mistake[] = [];
  const refuse = (key: string, message: string): void => {
    issues.push({ path: `${pointer}/${key}`, message });
  };
  if ((reset ?? undefined) !== undefined && (days ?? undefined) !== undefined)
    refuse('periodic_reset_days', 'cannot stand beside periodic_reset; give one of them');
  if (threshold !== undefined && threshold >= limit.credit_limit)
    refuse('alert_threshold', 'must be below credit_limit');
  if (typeof next === 'string' && Number.isNaN(Date.parse(next)))
    refuse('next_usage_reset_at', 'must be an ISO 8601 time like 2030-01-31T00:00:00Z');
  return issues;
}

/** The same for the usage limits of one record: two of them must not count the same unit in the same periods. */
export function usageLimitsIssues(
  limits: readonly Static<typeof UsageLimitSchema>[],
  pointer: string,
): readonly Mistake[] {
  const seen = new Set<string>();
  return limits.flatMap((limit, index) => {
    const { type = 'cost', periodic_reset: reset, periodic_reset_days: days } = limit;
    const identity = `${type}/${reset ?? days ?? ''}`;
    const issues = [...usageLimitIssues(limit, `${pointer}/${index}`)];
    if (seen.has(identity)) {
      const message = `is a second limit of ${type} with the same periods; keep one`;
      issues.push({ path: `${pointer}/${index}`, message });
    }
    seen.add(identity);
    return issues;
  });
}

/** Violations in rate limits that their schema cannot detect: two limits of the same type and unit. */
export function rateLimitIssues(
  limits: readonly Static<typeof RateLimitSchema>[],
  pointer: string,
): readonly Mistake[] {
  const seen = new Set<string>();
  return limits.flatMap(({ type, unit }, index) => {
    const identity = `${type}/${unit}`;
    if (!seen.has(identity)) return (seen.add(identity), []);
    return { path: `${pointer}/${index}`, message: `is a second limit of ${type} per ${unit}; keep one` };
  });
}

/** Record of a valid usage limit. */
export function usageLimitOf(limit: Static<typeof UsageLimitSchema>): UsageLimit {
  const { periodic_reset: reset, periodic_reset_days: days, next_usage_reset_at: next } = limit;
  const threshold = limit.alert_threshold;
  return {
    type: limit.type ?? 'cost',
    creditLimit: limit.credit_limit,
    ...(typeof threshold === 'number' && { alertThreshold: threshold }),
    ...(typeof reset === 'string' && { periodicReset: reset }),
    ...(typeof days === 'number' && { periodicResetDays: days }),
    ...(typeof next === 'string' && { nextResetAt: Date.parse(next) }),
  };
}

/** Records of valid rate limits. */
export function rateLimitsOf(limits: readonly Static<typeof RateLimitSchema>[]): readonly RateLimit[] {
  return limits.map(({ type, unit, value }) => ({ type, unit, value }));
}

/** A usage limit in the form of answers. */
export function showUsageLimit(limit: UsageLimit): Static<typeof UsageLimitSchema> {
  return {
    type: limit.type,
    credit_limit: limit.creditLimit,
    alert_threshold: limit.alertThreshold ?? null,
    periodic_reset: limit.periodicReset ?? null,
    periodic_reset_days: limit.periodicResetDays ?? null,
    next_usage_reset_at: limit.nextResetAt === undefined ? null : new Date(limit.nextResetAt).toISOString(),
  };
}
