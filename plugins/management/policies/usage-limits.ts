import { randomUUID } from 'node:crypto';
import {
  changedUsage,
  policyRulesOf,
  PolicyTargetSchema,
  storedTarget,
  unlimited,
  usageLimitPolicy,
  type UsageOfPolicy,
  usagePolicyIssues,
  usagePolicyName,
} from '../../../core/organisation/policies.ts';
import type { RouteDefinition } from '../../../core/pipeline/define-route.ts';
import { defineRoute, type Scope, type Static, Type } from '../../../core/pipeline/plugin.ts';
import { budgetPeriod } from '../../../core/access/budget-period.ts';
import { budgetOfPolicy, policyBudgetPrefix } from '../../../core/access/limit-charges.ts';
import type { Budgets, BudgetUsage } from '../../../core/ports/budgets.ts';
import type { StoredRecord } from '../../../core/ports/records.ts';
import { places, storedRecords } from '../shared/records.ts';
import { policyRules } from './entities.ts';
import { type PolicyKind, policyRecords } from './routes.ts';
import { Name, orNull, refusedBody, strict } from '../shared/fields.ts';
import { limitFields } from '../shared/limits.ts';

const { fields, changeable } = usageLimitPolicy;

const object = Type.Literal('policy_usage_limits');
const Create = Type.Object(
  {
    ...changeable,
    conditions: fields.conditions,
    group_by: fields.group_by,
    target: Type.Optional(PolicyTargetSchema),
    type: usageLimitPolicy.type,
    credit_limit: fields.credit_limit,
    workspace_id: Type.Optional(
      Name('Id or slug. Default: the workspace of the key, or for keys of the organisation all of them.'),
    ),
    organisation_id: Type.Optional(Name('Needed, like `workspace_id`, where a token authenticates.')),
  },
  strict,
);

const Update = Type.Object(
  {
    ...changeable,
    conditions: Type.Optional(fields.conditions),
    group_by: Type.Optional(fields.group_by),
    credit_limit: Type.Optional(fields.credit_limit),
    reset_usage_for_value: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 1024,
        examples: ['metadata._user:alice'],
        description: 'Group whose count is reset, as named in `value_key_usage_map`.',
      }),
    ),
  },
  strict,
);

/** Usage of one group. */
const GroupUsage = Type.Object({
  current_usage: Type.Number({
    description: 'US dollars, tokens or requests since the start of the period.',
  }),
  status: Type.Union([Type.Literal('active'), Type.Literal('exhausted')]),
  is_threshold_alerts_sent: Type.Boolean({
    description:
      'Whether usage has reached the current `alert_threshold` in this period; the recipients in `alerts` of the configuration are notified within a second. A changed limit, threshold or period, and a reset, re-arm it.',
  }),
  is_exhausted_alerts_sent: Type.Boolean({ description: 'The same for `credit_limit`.' }),
});

const Reply = Type.Object({
  id: Type.String(),
  ...fields,
  target: PolicyTargetSchema,
  type: usageLimitPolicy.type,
  ...policyRecords.replyFields,
  last_reset_at: orNull(
    Type.String({
      description:
        'Start of the current period, if it is later than the creation of the policy; a reset of one group is not shown here.',
    }),
  ),
  next_reset_at: orNull(
    Type.String({
      description:
        'End of the current period, when all counts begin anew; null for never. `next_usage_reset_at` is the time that was given for the first one.',
    }),
  ),
  value_key_usage_map: Type.Optional(
    Type.Record(Type.String(), GroupUsage, {
      description:
        'With `include_usage`: usage of each group (`metadata._user:alice`), at most 1,000 groups.',
    }),
  ),
  object,
});

type UsageKind = PolicyKind<'usage_limit_policy'>;

const names: Omit<UsageKind, 'show'> = {
  kind: 'usage_limit_policy',
  routes: 'usage_limit_policies',
  path: '/policies/usage-limits',
  parameter: 'policyUsageLimitsId',
  words: 'usage-limit policy',
  filters: { target: Type.Optional(PolicyTargetSchema), type: Type.Optional(usageLimitPolicy.type) },
  readQuery: {
    include_usage: Type.Optional(
      Type.Boolean({ description: 'Include the usage of each group in the answer.' }),
    ),
  },
  reply: Reply,
};

/** The routes of usage-limit policies. */
export function usageLimitPolicyRoutes(scope: Scope): readonly RouteDefinition[] {
  const { budgets, clock } = scope;
  const kind: UsageKind = {
    ...names,
    show: (record, query) => ({
      ...show(record, budgets, clock.now()),
      ...(query?.['include_usage'] === true && { value_key_usage_map: usageByGroup(record, budgets) }),
    }),
  };
  return [
    createRoute(scope),
    ...policyRecords.routes(kind, scope),
    updateRoute(scope, kind),
    ...policyRules.routes(kind, (record, valueKey) => usageOfEntity(record, valueKey, budgets)),
    policyRules.resetRoute(kind, async (record, valueKey) => {
      await budgets.reset(policyBudgetPrefix(record) + valueKey, record.organisationId);
    }),
  ];
}

const maxGroups = 1000;

/** Usage of each group, by its value key. */
function usageByGroup(record: StoredRecord<'usage_limit_policy'>, budgets: Budgets) {
  const prefix = policyBudgetPrefix(record);
  const found: Record<string, Static<typeof GroupUsage>> = {};
  for (const key of budgets.groups(prefix).slice(0, maxGroups)) {
    const valueKey = key.slice(prefix.length);
    const usage = budgets.usage(budgetOfPolicy(record, valueKey));
    found[valueKey] = {
      current_usage: usage.used,
      status: usage.isExhausted ? 'exhausted' : 'active',
      is_threshold_alerts_sent: usage.isThresholdReached,
      is_exhausted_alerts_sent: usage.isExhausted,
    };
  }
  return found;
}

/** Usage of the group of a key, workspace or user; undefined when the policy groups by another key. */
function usageOfEntity(
  record: StoredRecord<'usage_limit_policy'>,
  valueKey: string,
  budgets: Budgets,
): BudgetUsage | undefined {
  const { groupBy } = record.data;
  const counts = groupBy.length === 1 && valueKey.startsWith(`${groupBy[0]?.key}:`);
  return counts ? budgets.usage(budgetOfPolicy(record, valueKey)) : undefined;
}

function createRoute({ clock, router }: Scope): RouteDefinition {
  return defineRoute({
    id: 'usage_limit_policies.create',
    method: 'POST',
    path: names.path,
    summary: 'Creates a usage-limit policy: a budget of US dollars, tokens or requests',
    scope: 'policies.create',
    feature: 'policies',
    audit: 'create',
    body: Create,
    reply: Type.Object({ id: Type.String(), object }),
    async handle({ body, key, write }) {
      const { type } = body;
      const limit = changedUsage(body, { ...unlimited, creditLimit: body.credit_limit });
      requirePossible(body, limit);
      const now = clock.now();
      const id = randomUUID();
      const by = key.userId || key.id;
      await write(async (reader) => {
        const { organisationId } = key;
        const workspaceId = (await places.ofNew(reader, key, body))?.id;
        const sources = { reader, router, organisationId, workspaceId };
        const rules = await policyRules.named(policyRulesOf(body), sources);
        const name = body.name ?? usagePolicyName(body, body.credit_limit);
        const given = { id, organisationId, workspaceId, slug: id, name };
        const data = { ...rules, ...storedTarget(body.target), type, ...limit };
        await reader.records.insert(storedRecords.create({ kind: names.kind, ...given, data }, by, now));
        return { id, workspaceId, result: undefined };
      });
      return { id, object: 'policy_usage_limits' as const };
    },
  });
}

function updateRoute({ clock, router, budgets }: Scope, kind: UsageKind): RouteDefinition {
  return defineRoute({
    id: 'usage_limit_policies.update',
    method: 'PUT',
    path: `${names.path}/{${names.parameter}}`,
    summary: 'Updates a usage-limit policy; omitted fields stay unchanged, and null removes a setting',
    scope: 'policies.update',
    feature: 'policies',
    audit: 'update',
    params: policyRecords.params(kind),
    body: Update,
    reply: Reply,
    async handle({ params, body, key, write, requireVersion, sendVersion }) {
      const record = await write(async (reader) => {
        const before = await policyRecords.changeable(reader, key, kind, policyRecords.id(kind, params));
        requireVersion(before.version);
        const { organisationId, workspaceId, data } = before;
        const limit = changedUsage(body, data);
        const target = storedTarget(data.target);
        requirePossible({ ...body, ...target }, limit);
        const rules = await policyRules.changed(body, data, { reader, router, organisationId, workspaceId });
        const change = {
          name: body.name ?? before.name,
          data: { ...rules, ...target, type: data.type, ...limit },
        };
        const after = await storedRecords.change(reader, before, change, key, clock.now());
        return { id: after.id, workspaceId, result: after };
      });
      const { reset_usage_for_value: value } = body;
      if (value !== undefined) await budgets.reset(policyBudgetPrefix(record) + value, record.organisationId);
      sendVersion(record.version);
      return show(record, budgets, clock.now());
    },
  });
}

function requirePossible(body: Parameters<typeof usagePolicyIssues>[0], limit: UsageOfPolicy): void {
  const issues = usagePolicyIssues(body, limit);
  if (issues.length > 0) throw refusedBody(issues);
}

function show(
  record: StoredRecord<'usage_limit_policy'>,
  budgets: Pick<Budgets, 'usage'>,
  now: number,
): Static<typeof Reply> {
  const { end } = budgetPeriod(record.data, record.createdAt)(now);
  const { conditions, groupBy, target = 'llm', type, ...limit } = record.data;
  return {
    ...{ id: record.id, name: record.name, target, type },
    conditions: conditions.map(policyRecords.showCondition),
    group_by: groupBy.map(({ key }) => ({ key })),
    credit_limit: limit.creditLimit,
    alert_threshold: limit.alertThreshold ?? null,
    periodic_reset: limit.periodicReset ?? null,
    periodic_reset_days: limit.periodicResetDays ?? null,
    next_usage_reset_at: limit.nextResetAt === undefined ? null : new Date(limit.nextResetAt).toISOString(),
    // No request has an empty group, so its budget shows the periods only.
    last_reset_at: limitFields.lastResetText(budgets.usage(budgetOfPolicy(record, '')), record.createdAt),
    next_reset_at: end === undefined ? null : new Date(end).toISOString(),
    ...policyRecords.show(record),
    object: 'policy_usage_limits',
  };
}
