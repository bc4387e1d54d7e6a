import {
  type LimitIssue,
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
import type { Budgets, BudgetUsage } from '../../../core/ports/budgets.ts';
import type { Clock } from '../../../core/ports/clock.ts';
import type { RateLimit, UsageLimit } from '../../../core/ports/limits.ts';
import { orNull, refusedBody, strict } from './fields.ts';
import {
  givenRateLimits,
  type GivenRateLimits,
  givenUsageLimit,
  type GivenUsageLimit,
} from '../../../core/organisation/providers.ts';

/** A usage limit as answers show it. A body may repeat what answers alone say; it changes nothing. */
export const UsageLimitSchema = Type.Object(
  {
    ...PlainLimit.properties,
    current_usage: Type.Optional(
      orNull(
        Type.Number({
          description:
            'What is used since its period began, or since it was last reset. Answers say it; in a body it changes nothing.',
        }),
      ),
    ),
    last_reset_at: Type.Optional(
      orNull(
        Type.String({
          maxLength: 64,
          description:
            'When its count last began anew, since its record was made. Answers say it; in a body it changes nothing.',
        }),
      ),
    ),
    status: Type.Optional(
      Type.String({
        maxLength: 32,
        description: 'Of older answers. In a body it changes nothing.',
      }),
    ),
    warning: Type.Optional(
      Type.String({
        maxLength: 1024,
        description: 'Of older answers. In a body it changes nothing.',
      }),
    ),
  },
  strict,
);

/**
 * A usage limit of a body. `pointer` is its place there. Throws `invalid_request` for two ways of beginning anew, for a
 * threshold that the limit never lets be reached and for a time that there is not.
 */
export function readUsageLimit(body: Static<typeof PlainLimit>, pointer: string): UsageLimit {
  refuseFirst(usageLimitIssues(body, pointer));
  return usageLimitOf(body);
}

/** The usage limits of a body that takes several. Throws `invalid_request` when two of them count the same, as well. */
export function readUsageLimits(
  body: readonly Static<typeof PlainLimit>[],
  pointer: string,
): readonly UsageLimit[] {
  refuseFirst(usageLimitsIssues(body, pointer));
  return body.map(usageLimitOf);
}

/** The rate limits of a body's member `rate_limits`. Throws `invalid_request` when two of them limit the same in the same unit. */
export function readRateLimits(body: readonly Static<typeof RateLimitSchema>[]): readonly RateLimit[] {
  refuseFirst(rateLimitIssues(body, '/rate_limits'));
  return rateLimitsOf(body);
}

/** Throws `invalid_request` for the first of these. */
function refuseFirst([issue]: readonly LimitIssue[]): void {
  if (issue !== undefined) throw refusedBody([issue]);
}

/** The record that usage limits belong to. */
interface LimitOwner {
  /** The start of the keys of its budgets, as `core/access/limit-charges.ts` makes them. */
  readonly prefix: string;
  readonly organisationId: string;
  readonly createdAt: number;
}

/** What is used of a limit, and whether that is all of it. */
function usedOf(limit: UsageLimit, { prefix, createdAt }: LimitOwner, budgets: Pick<Budgets, 'usage'>) {
  const { type: unit, creditLimit, alertThreshold: threshold } = limit;
  const key = usageLimitKey(prefix, limit);
  return budgets.usage({ key, unit, limit: creditLimit, threshold, period: budgetPeriod(limit, createdAt) });
}

/** What answers say of the resets of a record's usage limits. */
export const ResetTimes = {
  last_reset_at: orNull(
    Type.String({
      description:
        'When the count of `usage_limits` last began anew, since the record was made: of several, the latest.',
    }),
  ),
  next_usage_reset_at: orNull(
    Type.String({
      description:
        'When the count of `usage_limits` begins anew by itself, of several the first; null for never. In `usage_limits` it is what was said there: the first reset.',
    }),
  ),
};

/** When the counts of these limits began anew, and when they will. */
export function showResetTimes(
  limits: readonly UsageLimit[],
  owner: LimitOwner,
  { budgets, clock }: { readonly budgets: Pick<Budgets, 'usage'>; readonly clock: Pick<Clock, 'now'> },
): { last_reset_at: string | null; next_usage_reset_at: string | null } {
  const now = clock.now();
  let last: string | null = null;
  let next: number | undefined;
  for (const limit of limits) {
    // ISO 8601 in UTC sorts as its moments do.
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

/** When a budget last began anew; null for never since its record was made. */
export function lastResetText({ lastResetAt }: BudgetUsage, createdAt: number): string | null {
  return lastResetAt === undefined || lastResetAt <= createdAt ? null : new Date(lastResetAt).toISOString();
}

/** A usage limit with what is used of it. */
export function showUsedLimit(
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

/** Whether a limit is used up. */
export function isExhausted(limit: UsageLimit, owner: LimitOwner, budgets: Pick<Budgets, 'usage'>): boolean {
  return usedOf(limit, owner, budgets).isExhausted;
}

/** Begins the counts of all of the limits anew. Rejects when that cannot be stored. */
export async function resetUsed(
  limits: readonly UsageLimit[],
  { prefix, organisationId }: LimitOwner,
  budgets: Pick<Budgets, 'reset'>,
): Promise<void> {
  for (const limit of limits) await budgets.reset(usageLimitKey(prefix, limit), organisationId);
}

/** Bodies of updates say it. */
export const ResetUsage = Type.Optional(
  Type.Boolean({ description: 'The counts of its usage limits begin anew.' }),
);

const OneUsageLimit = Type.Array(UsageLimitSchema, { maxItems: 1 });

/** The usage limit in bodies of providers and virtual keys: alone, or in a list of one. Null for none. */
export const BodyUsageLimit = Type.Optional(Type.Union([UsageLimitSchema, OneUsageLimit, Type.Null()]));

/** The usage limit in bodies that say what workspaces may use. */
export const BodyAccessLimit = Type.Optional(orNull(OneUsageLimit));

/** The usage limit that a body says at `pointer`. Throws `invalid_request` for one that cannot be. */
export function usageLimitOfBody(
  given: Static<typeof GivenUsageLimit>,
  pointer = '/usage_limits',
): UsageLimit | undefined {
  const { limit, issues } = givenUsageLimit(given, pointer);
  refuseFirst(issues);
  return limit;
}

/** The rate limits that a body says at `pointer`. Throws `invalid_request` for two that limit the same. */
export function rateLimitsOfBody(
  given: Static<typeof GivenRateLimits>,
  pointer = '/rate_limits',
): readonly RateLimit[] {
  const { limits, issues } = givenRateLimits(given, pointer);
  refuseFirst(issues);
  return limits;
}

/** Rate limits as answers about providers, virtual keys and access show them. */
export const ShownRateLimits = orNull(RateLimits);

/** None is null: a client that expects an object here refuses an empty list. */
export function shownRateLimits(limits: readonly RateLimit[]): Static<typeof ShownRateLimits> {
  return limits.length === 0 ? null : limits.map(({ type, unit, value }) => ({ type, unit, value }));
}
