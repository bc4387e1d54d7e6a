import { type Static, Type } from 'typebox';
import { didYouMean } from '../base/did-you-mean.ts';
import { endpointIds } from '../dialects/endpoint.ts';
import type {
  PolicyCondition,
  PolicyRules,
  RateLimitPolicyData,
  UsageLimitPolicyData,
} from '../ports/record-kinds.ts';
import { type LimitIssue, usageLimitIssues, UsageLimitSchema } from './limits.ts';
import { Name, orNull, strict } from './fields.ts';

/** Keys of a policy's rules, besides `metadata.<name>`. */
export const policyKeys = [
  'api_key',
  'workspace_id',
  'organisation_id',
  'virtual_key',
  'provider',
  'config',
  'prompt',
  'model',
  'endpoint_type',
] as const;
/** One of these keys. */
export type PolicyKey = (typeof policyKeys)[number];

const metadataPrefix = 'metadata.';
const maxAmount = Number.MAX_SAFE_INTEGER;

/** Metadata name in a rule's key; undefined for other keys. */
export function metadataName(key: string): string | undefined {
  if (!key.startsWith(metadataPrefix) || key.length === metadataPrefix.length) return undefined;
  return key.slice(metadataPrefix.length);
}

/** Whether a rule may have this key. */
export function isPolicyKey(key: string): boolean {
  return metadataName(key) !== undefined || policyKeys.some((known) => known === key);
}

const Key = Type.String({
  minLength: 1,
  maxLength: 255,
  examples: ['api_key'],
  description: `One of ${policyKeys.map((key) => `\`${key}\``).join(', ')}, or \`metadata.<name>\`.`,
});

const Value = Type.String({ minLength: 1, maxLength: 1024, examples: ['*'] });
/** One value, or several. */
const Values = (description: string) =>
  Type.Union([Value, Type.Array(Value, { minItems: 1, maxItems: 100, uniqueItems: true })], {
    description,
    'x-expected': 'a text of 1 to 1,024 characters, or a list of 1 to 100 different ones',
  });

/** Requests to which a policy applies. */
const Conditions = Type.Array(
  Type.Object(
    {
      key: Key,
      value: Values(
        'The value, or a prefix followed by `*`; `*` alone matches any value. For a list, one of them has to match.',
      ),
      excludes: Type.Optional(Values('The condition does not hold for these, written like `value`.')),
    },
    strict,
  ),
  { minItems: 1, maxItems: 50, description: 'Conditions, all of which a request must meet.' },
);

/** Grouping of a policy's counts. */
const GroupBy = Type.Array(Type.Object({ key: Key }, strict), {
  minItems: 1,
  maxItems: 20,
  description: 'Requests with equal values of all these properties share one count.',
});

const PolicyName = Name('For people; it is in refusals. Default: what the policy says.');

/** Mutable fields of a rate-limit policy. */
export const rateLimitPolicyFields = {
  name: PolicyName,
  conditions: Conditions,
  group_by: GroupBy,
  unit: Type.Union([Type.Literal('rpm'), Type.Literal('rph'), Type.Literal('rpd'), Type.Literal('rpw')], {
    description: 'Per minute, hour, 24 hours or 7 days.',
  }),
  value: Type.Number({ minimum: 0, maximum: maxAmount, description: 'Allowed requests or tokens.' }),
};

/** Unit of a rate-limit policy; immutable. */
export const RateLimitType = Type.Union([Type.Literal('requests'), Type.Literal('tokens')]);

const limitFields = UsageLimitSchema.properties;

/** Mutable fields of a usage-limit policy. */
export const usageLimitPolicyFields = {
  name: PolicyName,
  conditions: Conditions,
  group_by: GroupBy,
  credit_limit: Type.Number({
    minimum: 0,
    maximum: maxAmount,
    description: 'Amount that may be used in one period.',
  }),
  alert_threshold: orNull(
    Type.Number({
      minimum: 0,
      maximum: maxAmount,
      description: 'Usage that triggers an alert; lower than `credit_limit`.',
    }),
  ),
  periodic_reset: limitFields.periodic_reset,
  periodic_reset_days: limitFields.periodic_reset_days,
  next_usage_reset_at: limitFields.next_usage_reset_at,
};

/** Unit of a usage-limit policy: US dollars, tokens or requests; immutable. */
export const UsagePolicyType = Type.Union([
  Type.Literal('cost'),
  Type.Literal('tokens'),
  Type.Literal('requests'),
]);

/** Rules of a policy in bodies and files. */
export interface GivenRules {
  readonly conditions?: Static<typeof Conditions>;
  readonly group_by?: Static<typeof GroupBy>;
}

/** Violations in rules that their schema cannot detect: unknown or duplicate keys. `pointer` is their place. */
export function policyRuleIssues(given: GivenRules, pointer: string): readonly LimitIssue[] {
  const { conditions = [], group_by: groupBy = [] } = given;
  const issues: LimitIssue[] = [];
  conditions.forEach((condition, index) => {
    const { key } = condition;
    const place = `${pointer}/conditions/${index}`;
    if (!isPolicyKey(key))
      issues.push({ path: `${place}/key`, message: unknown(key, noKey, policyKeys, 'metadata.<name>') });
    if (key !== 'endpoint_type') return;
    for (const { value, path } of conditionValues(condition, place))
      if (!value.endsWith('*') && !endpointIds.some((known) => known === value))
        issues.push({ path, message: unknown(value, 'is no endpoint', endpointIds) });
  });
  groupBy.forEach(({ key }, index) => {
    const path = `${pointer}/group_by/${index}/key`;
    if (!isPolicyKey(key)) issues.push({ path, message: unknown(key, noKey, policyKeys, 'metadata.<name>') });
    else if (groupBy.findIndex((other) => other.key === key) < index)
      issues.push({ path, message: 'is there twice; name each key once' });
  });
  return issues;
}

/** Values of a condition, followed by the excluded ones, each with its place; `pointer` is that of the condition. */
export function conditionValues(
  condition: PolicyCondition,
  pointer: string,
): readonly { readonly value: string; readonly path: string }[] {
  return (['value', 'excludes'] as const).flatMap((member) => {
    const said = condition[member] ?? [];
    if (typeof said === 'string') return [{ value: said, path: `${pointer}/${member}` }];
    return said.map((value, index) => ({ value, path: `${pointer}/${member}/${index}` }));
  });
}

/** The condition with each value mapped. */
export function mapCondition(condition: PolicyCondition, of: (value: string) => string): PolicyCondition {
  const map = (said: PolicyCondition['value']): PolicyCondition['value'] =>
    typeof said === 'string' ? of(said) : said.map(of);
  const { key, value, excludes } = condition;
  return { key, value: map(value), ...(excludes !== undefined && { excludes: map(excludes) }) };
}

/** Values of one member of a condition as a list. */
export function listOfValues(said: PolicyCondition['value'] | undefined): readonly string[] {
  if (said === undefined) return [];
  return typeof said === 'string' ? [said] : said;
}

/** The rules in stored form. */
export function policyRulesOf(given: Required<GivenRules>): PolicyRules {
  return {
    conditions: given.conditions.map((condition) => mapCondition(condition, (value) => value)),
    groupBy: given.group_by.map(({ key }) => ({ key })),
  };
}

const noKey = 'no rule can be about';

/** Message about an unknown word, with the nearest one and all known ones. */
function unknown(word: string, why: string, known: readonly string[], ...others: readonly string[]): string {
  const near = didYouMean(word, known);
  const hint = near === undefined ? '.' : `; did you mean "${near}"?`;
  return `is ${JSON.stringify(word.slice(0, 64))}, which ${why}${hint} Known: ${[...known, ...others].join(', ')}`;
}

/** Mutable fields of a usage-limit policy in a body. */
export const changeableUsage = {
  name: Type.Optional(usageLimitPolicyFields.name),
  alert_threshold: Type.Optional(usageLimitPolicyFields.alert_threshold),
  periodic_reset: usageLimitPolicyFields.periodic_reset,
  periodic_reset_days: usageLimitPolicyFields.periodic_reset_days,
  next_usage_reset_at: usageLimitPolicyFields.next_usage_reset_at,
};

/** Limit of a usage-limit policy in a body or a file. */
interface GivenUsage {
  readonly credit_limit?: number;
  readonly alert_threshold?: number | null;
  readonly periodic_reset?: 'monthly' | 'weekly' | null;
  readonly periodic_reset_days?: number | null;
  /** ISO 8601. */
  readonly next_usage_reset_at?: string | null;
}

/** The limit of a usage-limit policy. */
export type UsageOfPolicy = Omit<UsageLimitPolicyData, 'conditions' | 'groupBy' | 'type'>;

/** A limit in its initial state. */
export const unlimited: UsageOfPolicy = {
  creditLimit: 0,
  alertThreshold: undefined,
  periodicReset: undefined,
  periodicResetDays: undefined,
  nextResetAt: undefined,
};

/** The limit with the given changes. One kind of period replaces the other. */
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

/** Violations in the given rules and in the resulting limit. */
export function usagePolicyIssues(
  said: GivenRules & GivenUsage,
  limit: UsageOfPolicy,
): readonly LimitIssue[] {
  return [
    ...policyRuleIssues(said, ''),
    ...usageLimitIssues(
      {
        credit_limit: limit.creditLimit,
        alert_threshold: limit.alertThreshold ?? null,
        periodic_reset: limit.periodicReset ?? null,
        periodic_reset_days: limit.periodicResetDays ?? null,
        next_usage_reset_at: said.next_usage_reset_at ?? null,
      },
      '',
    ),
  ];
}

/** Default name of a usage-limit policy: its limit. */
export function usagePolicyName(type: UsageLimitPolicyData['type'], creditLimit: number): string {
  return `${creditLimit} ${type === 'cost' ? 'US dollars' : type}`;
}

const periods = { rpm: 'minute', rph: 'hour', rpd: 'day', rpw: 'week' };

/** The same for a rate-limit policy. */
export function ratePolicyName({
  type,
  unit,
  value,
}: Pick<RateLimitPolicyData, 'type' | 'unit' | 'value'>): string {
  return `${value} ${type} per ${periods[unit]}`;
}
