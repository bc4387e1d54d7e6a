import {
  givenRateLimits,
  type GivenRateLimits,
  givenUsageLimit,
  type GivenUsageLimit,
} from '../../core/organisation/provider-schema.ts';
import { type Static, Type } from '../../core/pipeline/plugin.ts';
import type { RateLimit, UsageLimit } from '../../core/ports/limits.ts';
import { RateLimits, refuseFirst, UsageLimitSchema } from './limits-schema.ts';
import { orNull } from './text-schema.ts';

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
