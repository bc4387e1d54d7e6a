import {
  type LimitIssue,
  rateLimitIssues,
  type RateLimitSchema,
  rateLimitsOf,
  showUsageLimit as showPlainLimit,
  usageLimitIssues,
  usageLimitOf,
  UsageLimitSchema as PlainLimit,
} from '../../core/organisation/limits-schema.ts';
import { notEnforced, notEnforcedMarks, Warning } from '../../core/organisation/not-enforced.ts';
import { type Static, Type } from '../../core/pipeline/plugin.ts';
import type { RateLimit, UsageLimit } from '../../core/ports/limits.ts';
import { refusedBody } from './refused-body.ts';
import { strict } from './text-schema.ts';

export { RateLimits } from '../../core/organisation/limits-schema.ts';

/** A usage limit as answers show it. A body may repeat `status` and `warning`; they change nothing. */
export const UsageLimitSchema = Type.Object(
  {
    ...PlainLimit.properties,
    status: Type.Optional(
      Type.String({
        maxLength: 32,
        description: 'Of answers: `not enforced`. In a body it changes nothing.',
      }),
    ),
    warning: Type.Optional(
      Type.String({
        maxLength: 1024,
        description: 'Of answers: what that means. In a body it changes nothing.',
      }),
    ),
  },
  strict,
);

/** A usage limit in the shape of answers. */
export function showUsageLimit(limit: UsageLimit): Static<typeof UsageLimitSchema> {
  return { ...showPlainLimit(limit), ...notEnforcedMarks('usageLimits') };
}

/** A member of answers that do not show the limit that they are about. */
export const limitWarningField = { warning: Type.Optional(Warning) };

/** What it says when a usage limit has been kept. */
export function limitWarning(isLimited: boolean): { readonly warning?: string } {
  return isLimited ? { warning: notEnforced.usageLimits } : {};
}

/**
 * A usage limit of a body. `pointer` is its place there. Throws `invalid_request` for two ways of beginning anew, for a
 * threshold that the limit never lets be reached and for a time that there is not.
 */
export function readUsageLimit(body: Static<typeof PlainLimit>, pointer: string): UsageLimit {
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
