import {
  rateLimitIssues,
  rateLimitsOf,
  usageLimitIssues,
  usageLimitOf,
  type LimitIssue,
  type RateLimitSchema,
  type UsageLimitSchema,
} from '../../core/access/limits-schema.ts';
import type { Static } from '../../core/pipeline/plugin.ts';
import type { RateLimit, UsageLimit } from '../../core/ports/resources.ts';
import { refusedBody } from './refused-body.ts';

export { RateLimits, showUsageLimit, UsageLimitSchema } from '../../core/access/limits-schema.ts';

/**
 * A usage limit of a body. `pointer` is its place there. Throws `invalid_request` for two ways of beginning anew, for a
 * threshold that the limit never lets be reached and for a time that there is not.
 */
export function readUsageLimit(body: Static<typeof UsageLimitSchema>, pointer: string): UsageLimit {
  refuseFirst(usageLimitIssues(body, pointer));
  return usageLimitOf(body);
}

/** The rate limits of a body. Throws `invalid_request` when two of them limit the same in the same unit. */
export function readRateLimits(
  body: readonly Static<typeof RateLimitSchema>[],
  pointer: string,
): readonly RateLimit[] {
  refuseFirst(rateLimitIssues(body, pointer));
  return rateLimitsOf(body);
}

/** Throws `invalid_request` for the first of these. */
export function refuseFirst([issue]: readonly LimitIssue[]): void {
  if (issue !== undefined) throw refusedBody([issue]);
}
