import { Type, type Static } from 'typebox';
import { didYouMean } from '../base/did-you-mean.ts';
import type { PolicyRules } from '../ports/record-kinds.ts';
import { UsageLimitSchema, type LimitIssue } from './limits-schema.ts';
import { Name, orNull, strict } from './text-schema.ts';

/** What the rules of a policy may be about, beside `metadata.<name>`. */
export const policyKeys = [
  'api_key',
  'workspace_id',
  'organisation_id',
  'virtual_key',
  'provider',
  'config',
  'prompt',
  'model',
] as const;
/** One of them. */
export type PolicyKey = (typeof policyKeys)[number];

const metadataPrefix = 'metadata.';
const most = Number.MAX_SAFE_INTEGER;

/** The name of the metadata that a rule is about; undefined for every other rule. */
export function metadataName(key: string): string | undefined {
  if (!key.startsWith(metadataPrefix) || key.length === metadataPrefix.length) return undefined;
  return key.slice(metadataPrefix.length);
}

/** Whether a rule can be about this. */
export function isPolicyKey(key: string): boolean {
  return metadataName(key) !== undefined || policyKeys.some((known) => known === key);
}

const Key = Type.String({
  minLength: 1,
  maxLength: 255,
  examples: ['api_key'],
  description: `One of ${policyKeys.map((key) => `\`${key}\``).join(', ')}, or \`metadata.<name>\`.`,
});

/** Which requests a policy is about. */
export const Conditions = Type.Array(
  Type.Object(
    {
      key: Key,
      value: Type.String({
        minLength: 1,
        maxLength: 1024,
        examples: ['*'],
        description: 'The value, or its beginning with a `*` behind it; `*` alone stands for any value.',
      }),
    },
    strict,
  ),
  { minItems: 1, maxItems: 50, description: 'All of them must hold.' },
);

/** What a policy counts together. */
export const GroupBy = Type.Array(Type.Object({ key: Key }, strict), {
  minItems: 1,
  maxItems: 20,
  description: 'Requests that are alike in all of these share one count.',
});

const PolicyName = Name('For people; it is in refusals. Default: what the policy says.');

/** The fields of a rate-limit policy that can be changed. */
export const rateLimitPolicyFields = {
  name: PolicyName,
  conditions: Conditions,
  group_by: GroupBy,
  unit: Type.Union([Type.Literal('rpm'), Type.Literal('rph'), Type.Literal('rpd')], {
    description: 'Per minute, hour or day.',
  }),
  value: Type.Number({ minimum: 0, maximum: most, description: 'How many requests or tokens.' }),
};

/** What a rate-limit policy counts; never changes. */
export const RateLimitType = Type.Union([Type.Literal('requests'), Type.Literal('tokens')]);

const limitFields = UsageLimitSchema.properties;

/** The fields of a usage-limit policy that can be changed. */
export const usageLimitPolicyFields = {
  name: PolicyName,
  conditions: Conditions,
  group_by: GroupBy,
  credit_limit: Type.Number({ minimum: 0, maximum: most, description: 'How much may be used.' }),
  alert_threshold: orNull(
    Type.Number({ minimum: 0, maximum: most, description: 'Below `credit_limit`: when to tell people.' }),
  ),
  periodic_reset: limitFields.periodic_reset,
  periodic_reset_days: limitFields.periodic_reset_days,
  next_usage_reset_at: limitFields.next_usage_reset_at,
};

/** What a usage-limit policy counts, in US dollars or tokens; never changes. */
export const UsagePolicyType = Type.Union([Type.Literal('cost'), Type.Literal('tokens')]);

/** The rules of a policy as bodies and files give them. */
export interface GivenRules {
  readonly conditions?: Static<typeof Conditions>;
  readonly group_by?: Static<typeof GroupBy>;
}

/** What is wrong with rules that their schema lets through: keys that there are not, or twice. `pointer` is their place. */
export function policyRuleIssues(given: GivenRules, pointer: string): readonly LimitIssue[] {
  const { conditions = [], group_by: groupBy = [] } = given;
  const issues: LimitIssue[] = [];
  conditions.forEach(({ key }, index) => {
    if (!isPolicyKey(key))
      issues.push({ path: `${pointer}/conditions/${index}/key`, message: unknownKey(key) });
  });
  groupBy.forEach(({ key }, index) => {
    const path = `${pointer}/group_by/${index}/key`;
    if (!isPolicyKey(key)) issues.push({ path, message: unknownKey(key) });
    else if (groupBy.findIndex((other) => other.key === key) < index)
      issues.push({ path, message: 'is there twice; name each key once' });
  });
  return issues;
}

/** The rules as they are stored. */
export function policyRulesOf(given: Required<GivenRules>): PolicyRules {
  return {
    conditions: given.conditions.map(({ key, value }) => ({ key, value })),
    groupBy: given.group_by.map(({ key }) => ({ key })),
  };
}

function unknownKey(key: string): string {
  const shown = JSON.stringify(key.slice(0, 64));
  const near = didYouMean(key, policyKeys);
  const hint = near === undefined ? '.' : `; did you mean "${near}"?`;
  return `is ${shown}, which no rule can be about${hint} Known: ${policyKeys.join(', ')}, metadata.<name>`;
}
