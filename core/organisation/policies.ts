import { type Static, Type } from 'typebox';
import { didYouMean } from '../base/did-you-mean.ts';
import { endpointIds } from '../dialects/endpoint.ts';
import type {
  PolicyCondition,
  PolicyRules,
  PolicyTarget,
  RateLimitPolicyData,
  UsageLimitPolicyData,
} from '../ports/record-kinds.ts';
import { usageLimitIssues, UsageLimitSchema } from './limits.ts';
import { Name, orNull, strict } from './fields.ts';
import type { Mistake } from '../base/json.ts';

const callerKeys = ['api_key', 'workspace_id', 'organisation_id'] as const;

/** Keys of a policy's rules by its target, besides `metadata.<name>`. */
export const policyKeys = {
  llm: [...callerKeys, 'virtual_key', 'provider', 'config', 'prompt', 'model', 'endpoint_type'],
  mcp_tools: [...callerKeys, 'mcp_server', 'mcp_tool'],
} as const satisfies Readonly<Record<PolicyTarget, readonly string[]>>;
/** One of these keys. */
export type PolicyKey = (typeof policyKeys)[PolicyTarget][number];

const metadataPrefix = 'metadata.';
const maxAmount = Number.MAX_SAFE_INTEGER;

/** Metadata name in a rule's key; undefined for other keys. */
export function metadataName(key: string): string | undefined {
  if (!key.startsWith(metadataPrefix) || key.length === metadataPrefix.length) return undefined;
  return key.slice(metadataPrefix.length);
}

/** Whether a rule of a policy with this target may have this key. */
function isPolicyKey(key: string, target: PolicyTarget): boolean {
  return metadataName(key) !== undefined || policyKeys[target].some((known) => known === key);
}

const listed = (target: PolicyTarget): string => policyKeys[target].map((key) => `\`${key}\``).join(', ');

const Key = Type.String({
  minLength: 1,
  maxLength: 255,
  examples: ['api_key'],
  description: `One of ${listed('llm')}, or \`metadata.<name>\`; with the target \`mcp_tools\` one of ${listed('mcp_tools')}, or \`metadata.<name>\`.`,
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
const rateLimitPolicyFields = {
  name: PolicyName,
  conditions: Conditions,
  group_by: GroupBy,
  unit: Type.Union([Type.Literal('rpm'), Type.Literal('rph'), Type.Literal('rpd'), Type.Literal('rpw')], {
    description: 'Per minute, hour, 24 hours or 7 days.',
  }),
  value: Type.Number({ minimum: 0, maximum: maxAmount, description: 'Allowed requests or tokens.' }),
};

/** Target of a policy; immutable. */
export const PolicyTargetSchema = Type.Union([Type.Literal('llm'), Type.Literal('mcp_tools')], {
  description:
    'What the policy counts: requests to models (`llm`), or calls of tools of MCP servers (`mcp_tools`), which have requests alone, no tokens and no cost. Default `llm`.',
});

/** The member `target` of a stored policy: absent for `llm`, as in policies of earlier versions. */
export function storedTarget(target: PolicyTarget | undefined): { readonly target?: PolicyTarget } {
  return target === 'mcp_tools' ? { target } : {};
}

/** Unit of a rate-limit policy; immutable. */
const RateLimitType = Type.Union([Type.Literal('requests'), Type.Literal('tokens')]);

const limitFields = UsageLimitSchema.properties;

/** Mutable fields of a usage-limit policy. */
const usageLimitPolicyFields = {
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
const UsagePolicyType = Type.Union([Type.Literal('cost'), Type.Literal('tokens'), Type.Literal('requests')]);

/** Rules of a policy in bodies and files. */
export interface GivenRules {
  readonly conditions?: Static<typeof Conditions>;
  readonly group_by?: Static<typeof GroupBy>;
}

/** What a policy counts, in bodies and files. */
interface GivenCount {
  readonly target?: PolicyTarget;
  readonly type?: UsageLimitPolicyData['type'];
}

/** Violations in what a policy counts: calls of tools have neither tokens nor a cost. `pointer` is its place. */
function countIssues({ target, type }: GivenCount, pointer: string): readonly Mistake[] {
  if (target !== 'mcp_tools' || type === undefined || type === 'requests') return [];
  const message = `is "${type}", and calls of MCP tools have neither tokens nor a cost that could be counted; with the target "mcp_tools" write "requests"`;
  return [{ path: `${pointer}/type`, message }];
}

/**
 * Violations in rules that their schema cannot detect: unknown or duplicate keys, a type that the target does not have.
 * `pointer` is their place.
 */
export function policyRuleIssues(given: GivenRules & GivenCount, pointer: string): readonly Mistake[] {
  const { conditions = [], group_by: groupBy = [], target = 'llm' } = given;
  const issues: Mistake[] = [...countIssues(given, pointer)];
  conditions.forEach((condition, index) => {
    const { key } = condition;
    const place = `${pointer}/conditions/${index}`;
    if (!isPolicyKey(key, target)) issues.push({ path: `${place}/key`, message: unknownKey(key, target) });
    else if (key === 'endpoint_type')
      for (const { value, path } of conditionValues(condition, place))
        if (!value.endsWith('*') && !modelEndpoints.some((known) => known === value))
          issues.push({ path, message: unknownEndpoint(value) });
  });
  groupBy.forEach(({ key }, index) => {
    const path = `${pointer}/group_by/${index}/key`;
    if (!isPolicyKey(key, target)) issues.push({ path, message: unknownKey(key, target) });
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

/** Calls of tools have a target of their own. */
const modelEndpoints = endpointIds.filter((id) => id !== 'mcp');

function unknownEndpoint(value: string): string {
  if (value === 'mcp')
    return 'is "mcp", whose calls of tools are counted by policies with the target "mcp_tools"; make one of them';
  return unknown(value, 'is no endpoint', modelEndpoints);
}

function unknownKey(key: string, target: PolicyTarget): string {
  const other = target === 'llm' ? 'mcp_tools' : 'llm';
  const why = isPolicyKey(key, other)
    ? `only rules of policies with the target "${other}" can be about`
    : noKey;
  return unknown(key, why, policyKeys[target], 'metadata.<name>');
}

const noKey = 'no rule can be about';

/** Message about an unknown word, with the nearest one and all known ones. */
function unknown(word: string, why: string, known: readonly string[], ...others: readonly string[]): string {
  const near = didYouMean(word, known);
  const hint = near === undefined ? '.' : `; did you mean "${near}"?`;
  return `is ${JSON.stringify(word.slice(0, 64))}, which ${why}${hint} Known: ${[...known, ...others].join(', ')}`;
}

/** Mutable fields of a usage-limit policy in a body. */
const changeableUsage = {
  name: Type.Optional(usageLimitPolicyFields.name),
  alert_threshold: Type.Optional(usageLimitPolicyFields.alert_threshold),
  periodic_reset: usageLimitPolicyFields.periodic_reset,
  periodic_reset_days: usageLimitPolicyFields.periodic_reset_days,
  next_usage_reset_at: usageLimitPolicyFields.next_usage_reset_at,
};

/** Schemas of a rate-limit policy: its mutable fields, and its unit. */
export const rateLimitPolicy = { fields: rateLimitPolicyFields, type: RateLimitType };

/** Schemas of a usage-limit policy: its mutable fields, those of a change, and its unit. */
export const usageLimitPolicy = {
  fields: usageLimitPolicyFields,
  changeable: changeableUsage,
  type: UsagePolicyType,
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
export type UsageOfPolicy = Omit<UsageLimitPolicyData, 'conditions' | 'groupBy' | 'target' | 'type'>;

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
  said: GivenRules & GivenCount & GivenUsage,
  limit: UsageOfPolicy,
): readonly Mistake[] {
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
export function usagePolicyName(
  { type, target }: Pick<UsageLimitPolicyData, 'type' | 'target'>,
  creditLimit: number,
): string {
  return `${creditLimit} ${type === 'cost' ? 'US dollars' : (countedThings(target) ?? type)}`;
}

function countedThings(target: PolicyTarget | undefined): string | undefined {
  return target === 'mcp_tools' ? 'tool calls' : undefined;
}

const periods = { rpm: 'minute', rph: 'hour', rpd: 'day', rpw: 'week' };

/** The same for a rate-limit policy. */
export function ratePolicyName({
  target,
  type,
  unit,
  value,
}: Pick<RateLimitPolicyData, 'target' | 'type' | 'unit' | 'value'>): string {
  return `${value} ${countedThings(target) ?? type} per ${periods[unit]}`;
}
