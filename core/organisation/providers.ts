import { type Static, Type } from 'typebox';
import type { ProviderData } from '../ports/record-kinds.ts';
import type { RateLimit, UsageLimit } from '../ports/budgets.ts';
import {
  rateLimitIssues,
  RateLimits,
  rateLimitsOf,
  usageLimitIssues,
  usageLimitOf,
  UsageLimitSchema,
} from './limits.ts';
import { Description, Instant, orNull } from './fields.ts';
import type { Mistake } from '../base/json.ts';

const OneUsageLimit = Type.Array(UsageLimitSchema, { maxItems: 1 });

/** A usage limit of a body: a single one, or a list of one. Null for none. */
export const GivenUsageLimit = Type.Union([UsageLimitSchema, OneUsageLimit, Type.Null()]);

/** Rate limits of a body: a single one, or a list. Null for none. */
export const GivenRateLimits = Type.Union([RateLimits.items, RateLimits, Type.Null()]);

/** Limits of a workspace's access: at most one of each kind. */
export const accessLimits = {
  usage_limits: Type.Optional(orNull(OneUsageLimit)),
  rate_limits: Type.Optional(orNull(Type.Array(RateLimits.items, { maxItems: 1 }))),
};

/** Fields of providers and virtual keys in bodies. */
export const providerFields = {
  note: Type.Optional(orNull(Description)),
  usage_limits: Type.Optional(GivenUsageLimit),
  rate_limits: Type.Optional(GivenRateLimits),
  expires_at: Type.Optional(orNull(Instant('Time from which requests with it are refused. Null for never.'))),
};

/** A provider without limits of its own. */
export const plainProvider: ProviderData = {
  note: '',
  usageLimits: undefined,
  rateLimits: [],
  expiresAt: undefined,
  isVirtualKey: false,
};

/** The usage limit at `pointer`, with its violations. */
export function givenUsageLimit(
  given: Static<typeof GivenUsageLimit>,
  pointer: string,
): { readonly limit: UsageLimit | undefined; readonly issues: readonly Mistake[] } {
  const isList = Array.isArray(given);
  const one = isList ? given[0] : given;
  if (one === undefined || one === null) return { limit: undefined, issues: [] };
  return { limit: usageLimitOf(one), issues: usageLimitIssues(one, isList ? `${pointer}/0` : pointer) };
}

/** The rate limits at `pointer`, with their violations. */
export function givenRateLimits(
  given: Static<typeof GivenRateLimits>,
  pointer: string,
): { readonly limits: readonly RateLimit[]; readonly issues: readonly Mistake[] } {
  if (given === null) return { limits: [], issues: [] };
  const list = Array.isArray(given) ? given : [given];
  return { limits: rateLimitsOf(list), issues: rateLimitIssues(list, pointer) };
}
