import { Type } from 'typebox';
import type { RateLimitPolicyData, UsageLimitPolicyData } from '../ports/record-kinds.ts';
import { usageLimitIssues, type LimitIssue } from './limits-schema.ts';
import { policyRuleIssues, usageLimitPolicyFields as fields, type GivenRules } from './policy-schema.ts';

/** What of a usage-limit policy a body can change. */
export const changeableUsage = {
  name: Type.Optional(fields.name),
  alert_threshold: Type.Optional(fields.alert_threshold),
  periodic_reset: fields.periodic_reset,
  periodic_reset_days: fields.periodic_reset_days,
  next_usage_reset_at: fields.next_usage_reset_at,
};

/** What a body or a file says of the limit of such a policy. */
export interface GivenUsage {
  readonly credit_limit?: number;
  readonly alert_threshold?: number | null;
  readonly periodic_reset?: 'monthly' | 'weekly' | null;
  readonly periodic_reset_days?: number | null;
  /** ISO 8601. */
  readonly next_usage_reset_at?: string | null;
}

/** The limit of a usage-limit policy. */
export type UsageOfPolicy = Omit<UsageLimitPolicyData, 'conditions' | 'groupBy' | 'type'>;

/** A limit of which nothing has been said. */
export const unlimited: UsageOfPolicy = {
  creditLimit: 0,
  alertThreshold: undefined,
  periodicReset: undefined,
  periodicResetDays: undefined,
  nextResetAt: undefined,
};

/** The limit after what is said. Either way of beginning anew takes the place of the other one. */
export function changedUsage(said: GivenUsage, before: UsageOfPolicy): UsageOfPolicy {
  const { alert_threshold: threshold, periodic_reset: reset, periodic_reset_days: days } = said;
  const next = said.next_usage_reset_at;
  return {
    creditLimit: said.credit_limit ?? before.creditLimit,
    alertThreshold: threshold === undefined ? before.alertThreshold : (threshold ?? undefined),
    periodicReset:
      reset === undefined && typeof days !== 'number' ? before.periodicReset : (reset ?? undefined),
    periodicResetDays:
      days === undefined && typeof reset !== 'string' ? before.periodicResetDays : (days ?? undefined),
    nextResetAt: next === undefined ? before.nextResetAt : next === null ? undefined : Date.parse(next),
  };
}

/** What is wrong with the rules that are said, and with the limit that comes of them; `pointer` is their place. */
export function usagePolicyIssues(
  said: GivenRules & GivenUsage,
  limit: UsageOfPolicy,
  pointer: string,
): readonly LimitIssue[] {
  return [
    ...policyRuleIssues(said, pointer),
    ...usageLimitIssues(
      {
        credit_limit: limit.creditLimit,
        alert_threshold: limit.alertThreshold ?? null,
        periodic_reset: limit.periodicReset ?? null,
        periodic_reset_days: limit.periodicResetDays ?? null,
        next_usage_reset_at: said.next_usage_reset_at ?? null,
      },
      pointer,
    ),
  ];
}

/** What a usage-limit policy without a name is called: what it says. */
export function usagePolicyName(type: UsageLimitPolicyData['type'], creditLimit: number): string {
  return `${creditLimit} ${type === 'cost' ? 'US dollars' : 'tokens'}`;
}

const periods = { rpm: 'minute', rph: 'hour', rpd: 'day' };

/** The same for a rate-limit policy. */
export function ratePolicyName({
  type,
  unit,
  value,
}: Pick<RateLimitPolicyData, 'type' | 'unit' | 'value'>): string {
  return `${value} ${type} per ${periods[unit]}`;
}
