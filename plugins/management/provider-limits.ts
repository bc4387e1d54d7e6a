import {
  givenRateLimits,
  givenUsageLimit,
  type GivenRateLimits,
  type GivenUsageLimit,
} from '../../core/access/provider-schema.ts';
import type { Static } from '../../core/pipeline/plugin.ts';
import type { RateLimit, UsageLimit } from '../../core/ports/resources.ts';
import { refuseFirst } from './limits-schema.ts';

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
