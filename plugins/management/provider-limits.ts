import { Type, type Static } from '../../core/pipeline/plugin.ts';
import type { RateLimit, UsageLimit } from '../../core/ports/resources.ts';
import { RateLimits, readRateLimits, readUsageLimit, UsageLimitSchema } from './limits-schema.ts';
import { orNull } from './text-schema.ts';

const OneUsageLimit = Type.Array(UsageLimitSchema, { maxItems: 1 });

/** A usage limit of a body: alone, or in a list of one. Null for none. */
export const GivenUsageLimit = Type.Union([UsageLimitSchema, OneUsageLimit, Type.Null()]);

/** The rate limits of a body: one alone, or a list. Null for none. */
export const GivenRateLimits = Type.Union([RateLimits.items, RateLimits, Type.Null()]);

/** What a workspace may use: a list of one limit of each kind at the most. */
export const accessLimits = {
  usage_limits: Type.Optional(orNull(OneUsageLimit)),
  rate_limits: Type.Optional(orNull(Type.Array(RateLimits.items, { maxItems: 1 }))),
};

/** The usage limit that a body says at `pointer`. Throws `invalid_request` for one that cannot be. */
export function usageLimitOfBody(
  given: Static<typeof GivenUsageLimit>,
  pointer = '/usage_limits',
): UsageLimit | undefined {
  const isList = Array.isArray(given);
  const one = isList ? given[0] : given;
  return one === undefined || one === null
    ? undefined
    : readUsageLimit(one, isList ? `${pointer}/0` : pointer);
}

/** The rate limits that a body says at `pointer`. Throws `invalid_request` for two that limit the same. */
export function rateLimitsOfBody(
  given: Static<typeof GivenRateLimits>,
  pointer = '/rate_limits',
): readonly RateLimit[] {
  if (given === null) return [];
  return readRateLimits(Array.isArray(given) ? given : [given], pointer);
}
