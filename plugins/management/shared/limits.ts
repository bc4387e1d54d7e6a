import {
  rateLimitIssues,
  RateLimits,
  type RateLimitSchema,
  rateLimitsOf,
  showUsageLimit,
  usageLimitIssues,
  usageLimitOf,
  usageLimitsIssues,
  UsageLimitSchema as PlainLimit,
} from '../../../core/organisation/limits.ts';
import { budgetPeriod } from '../../../core/access/budget-period.ts';
import { usageLimitKey } from '../../../core/access/limit-charges.ts';
import { type Static, Type } from '../../../core/pipeline/plugin.ts';
import type { Budgets, BudgetUsage, RateLimit, UsageLimit } from '../../../core/ports/budgets.ts';
import type { Clock } from '../../../core/ports/clock.ts';
import { orNull, refusedBody, strict } from './fields.ts';
import {
  givenRateLimits,
  type GivenRateLimits,
  givenUsageLimit,
  type GivenUsageLimit,
} from '../../../core/organisation/providers.ts';
import type { Mistake } from '../../../core/base/json.ts';

/** Reads limits of bodies, and shows them. */
export const limitFields = {
  readUsage: readUsageLimit,
  readUsages: readUsageLimits,
  readRates: readRateLimits,
  showResetTimes,
  lastResetText,
  showUsed: showUsedLimit,
  isExhausted,
  resetUsed,
  usageOfBody: usageLimitOfBody,
  ratesOfBody: rateLimitsOfBody,
  shownRates: shownRateLimits,
};

/** A usage limit in answers. A body may repeat the read-only members, which change nothing. */
const UsageLimitSchema = Type.Object(
  {
    ...PlainLimit.properties,
    current_usage: Type.Optional(
      orNull(
        Type.Number({
          description: 'Usage since the start of the period or the last reset. Read-only: ignored in a body.',
        }),
      ),
    ),
    last_reset_at: Type.Optional(
      orNull(
        Type.String({
          maxLength: 64,
          description:
            'Time of the last reset of the count, by period or by request; null if it was never reset. Read-only: ignored in a body.',
        }),
      ),
    ),
    status: Type.Optional(
      Type.String({
        maxLength: 32,
        description: 'Field of older answers. Ignored in a body.',
      }),
    ),
    warning: Type.Optional(
      Type.String({
        maxLength: 1024,
        description: 'Field of older answers. Ignored in a body.',
      }),
    ),
  },
  strict,
);

/**
 * A usage limit of a body. `pointer` is its place there. Throws `invalid_request` for two kinds of reset, for an alert
 * threshold that usage can never reach and for an invalid time.
 */
function readUsageLimit(body: Static<typeof PlainLimit>, pointer: string): UsageLimit {
  refuseFirst(usageLimitIssues(body, pointer));
  return usageLimitOf(body);
}

/** The usage limits of a body that takes several. Also throws `invalid_request` when two of them count the same. */
function readUsageLimits(body: readonly Static<typeof PlainLimit>[], pointer: string): readonly UsageLimit[] {
  refuseFirst(usageLimitsIssues(body, pointer));
  return body.map(usageLimitOf);
}

/** The rate limits of a body's `rate_limits`. Throws `invalid_request` for two with the same type and unit. */
function readRateLimits(body: readonly Static<typeof RateLimitSchema>[]): readonly RateLimit[] {
  refuseFirst(rateLimitIssues(body, '/rate_limits'));
  return rateLimitsOf(body);
}

/** Throws `invalid_request` for the first issue. */
function refuseFirst([issue]: readonly Mistake[]): void {
  if (issue !== undefined) throw refusedBody([issue]);
}

/** Owner of usage limits. */
interface LimitOwner {
  /** Prefix of the keys of its budgets, as made by `core/access/limit-charges.ts`. */
  readonly prefix: string;
  readonly organisationId: string;
  readonly createdAt: number;
}

/** Usage of a limit, and whether it is exhausted. */
function usedOf(limit: UsageLimit, { prefix, createdAt }: LimitOwner, budgets: Pick<Budgets, 'usage'>) {
  const { type: unit, creditLimit, alertThreshold: threshold } = limit;
  const key = usageLimitKey(prefix, limit);
  return budgets.usage({ key, unit, limit: creditLimit, threshold, period: budgetPeriod(limit, createdAt) });
}

/** Reset times of a record's usage limits, in answers. */
const ResetTimes = {
  last_reset_at: orNull(
    Type.String({
      description:
        'Last reset of the count of `usage_limits` since the creation of the record; of several limits, the latest.',
    }),
  ),
  next_usage_reset_at: orNull(
    Type.String({
      description:
        'Next automatic reset of the count of `usage_limits`, of several limits the first; null for none. Within `usage_limits` it is the given time of the first reset.',
    }),
  ),
};

/** Last and next reset of these limits. */
function showResetTimes(
  limits: readonly UsageLimit[],
  owner: LimitOwner,
  { budgets, clock }: { readonly budgets: Pick<Budgets, 'usage'>; readonly clock: Pick<Clock, 'now'> },
): { last_reset_at: string | null; next_usage_reset_at: string | null } {
  const now = clock.now();
  let last: string | null = null;
  let next: number | undefined;
  for (const limit of limits) {
    // ISO 8601 texts in UTC sort by time.
    const at = lastResetText(usedOf(limit, owner, budgets), owner.createdAt);
    if (at !== null && (last === null || at > last)) last = at;
    const { end } = budgetPeriod(limit, owner.createdAt)(now);
    if (end !== undefined && (next === undefined || end < next)) next = end;
  }
  return {
    last_reset_at: last,
    next_usage_reset_at: next === undefined ? null : new Date(next).toISOString(),
  };
}

/** Last reset of a budget; null without one since the creation of its record. */
function lastResetText({ lastResetAt }: BudgetUsage, createdAt: number): string | null {
  return lastResetAt === undefined || lastResetAt <= createdAt ? null : new Date(lastResetAt).toISOString();
}

/** A usage limit with its usage, in the API's shape. */
function showUsedLimit(
  limit: UsageLimit,
  owner: LimitOwner,
  budgets: Pick<Budgets, 'usage'>,
): Static<typeof UsageLimitSchema> {
  const usage = usedOf(limit, owner, budgets);
  return {
    ...showUsageLimit(limit),
    current_usage: usage.used,
    last_reset_at: lastResetText(usage, owner.createdAt),
  };
}

/** True when a limit is exhausted. */
function isExhausted(limit: UsageLimit, owner: LimitOwner, budgets: Pick<Budgets, 'usage'>): boolean {
  return usedOf(limit, owner, budgets).isExhausted;
}

/** Resets the usage of all limits. Rejects when a reset cannot be stored. */
async function resetUsed(
  limits: readonly UsageLimit[],
  { prefix, organisationId }: LimitOwner,
  budgets: Pick<Budgets, 'reset'>,
): Promise<void> {
  for (const limit of limits) await budgets.reset(usageLimitKey(prefix, limit), organisationId);
}

/** Flag in bodies of updates. */
const ResetUsage = Type.Optional(Type.Boolean({ description: 'Reset the counts of its usage limits.' }));

const OneUsageLimit = Type.Array(UsageLimitSchema, { maxItems: 1 });

/** Usage limit in bodies of providers and virtual keys: an object, or a list of one. Null for none. */
const BodyUsageLimit = Type.Optional(Type.Union([UsageLimitSchema, OneUsageLimit, Type.Null()]));

/** Usage limit in bodies for the access of workspaces. */
const BodyAccessLimit = Type.Optional(orNull(OneUsageLimit));

/** The usage limit of a body at `pointer`. Throws `invalid_request` for an invalid one. */
function usageLimitOfBody(
  given: Static<typeof GivenUsageLimit>,
  pointer = '/usage_limits',
): UsageLimit | undefined {
  const { limit, issues } = givenUsageLimit(given, pointer);
  refuseFirst(issues);
  return limit;
}

/** The rate limits of a body at `pointer`. Throws `invalid_request` for two that limit the same. */
function rateLimitsOfBody(
  given: Static<typeof GivenRateLimits>,
  pointer = '/rate_limits',
): readonly RateLimit[] {
  const { limits, issues } = givenRateLimits(given, pointer);
  refuseFirst(issues);
  return limits;
}

/** Rate limits in answers about providers, virtual keys and access. */
const ShownRateLimits = orNull(RateLimits);

/** Limits in bodies and replies. */
export const limitSchemas = {
  UsageLimit: UsageLimitSchema,
  ResetTimes,
  ResetUsage,
  BodyUsageLimit,
  BodyAccessLimit,
  ShownRateLimits,
};

/** Null without rate limits: a client that expects an object here refuses an empty list. */
function shownRateLimits(limits: readonly RateLimit[]): Static<typeof ShownRateLimits> {
  return limits.length === 0 ? null : limits.map(({ type, unit, value }) => ({ type, unit, value }));
}
