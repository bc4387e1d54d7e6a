import { randomUUID } from 'node:crypto';
import {
  changeableUsage as changeable,
  changedUsage,
  type GivenRules,
  policyRulesOf,
  unlimited,
  usageLimitPolicyFields as fields,
  type UsageOfPolicy,
  usagePolicyIssues,
  usagePolicyName,
  UsagePolicyType,
} from '../../../core/organisation/policies.ts';
import { notEnforcedFields, notEnforcedMarks, Warning } from '../../../core/organisation/not-enforced.ts';
import type { RouteDefinition } from '../../../core/pipeline/define-route.ts';
import { defineRoute, type Scope, type Static, Type } from '../../../core/pipeline/plugin.ts';
import type { StoredRecord } from '../../../core/ports/records.ts';
import { changedRecord, placeOfNew, staleVersion } from '../shared/records.ts';
import { changedRules, namedRules, policyEntityRoutes, resetEntityRoute } from './entities.ts';
import {
  changeablePolicy,
  policyId,
  type PolicyKind,
  policyParams,
  policyReplyFields,
  policyRoutes,
  showPolicy,
} from './routes.ts';
import { Name, refusedBody, strict } from '../shared/fields.ts';

const object = Type.Literal('policy_usage_limits');
const Create = Type.Object(
  {
    ...changeable,
    conditions: fields.conditions,
    group_by: fields.group_by,
    type: UsagePolicyType,
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
  },
  strict,
);

const Reply = Type.Object({
  id: Type.String(),
  ...fields,
  type: UsagePolicyType,
  ...policyReplyFields,
  status: Type.Union([notEnforcedFields.status, Type.Literal('archived')]),
  warning: Type.Optional(Warning),
  object,
});

const kind: PolicyKind<'usage_limit_policy'> = {
  kind: 'usage_limit_policy',
  routes: 'usage_limit_policies',
  path: '/policies/usage-limits',
  parameter: 'policyUsageLimitsId',
  words: 'usage-limit policy',
  filters: { type: Type.Optional(UsagePolicyType) },
  readQuery: {
    include_usage: Type.Optional(
      Type.Boolean({ description: 'Taken and without effect: usage is not counted by policies yet.' }),
    ),
  },
  reply: Reply,
  show,
};

/** The routes of usage-limit policies. They are records: nothing counts against them yet. */
export function usageLimitPolicyRoutes(scope: Scope): readonly RouteDefinition[] {
  return [
    createRoute(scope),
    ...policyRoutes(kind, scope),
    updateRoute(scope),
    ...policyEntityRoutes(kind),
    resetEntityRoute(kind),
  ];
}

function createRoute({ clock, router }: Scope): RouteDefinition {
  return defineRoute({
    id: 'usage_limit_policies.create',
    method: 'POST',
    path: kind.path,
    summary: 'Creates a usage-limit policy: so many US dollars or tokens',
    scope: 'policies.create',
    feature: 'policies',
    audit: 'create',
    body: Create,
    reply: Type.Object({ id: Type.String(), object, ...notEnforcedFields }),
    async handle({ body, key, write }) {
      const { type } = body;
      const limit = changedUsage(body, { ...unlimited, creditLimit: body.credit_limit });
      requirePossible(body, limit);
      const now = clock.now();
      const id = randomUUID();
      const by = key.userId || key.id;
      await write(async (reader) => {
        const { organisationId } = key;
        const workspaceId = (await placeOfNew(reader, key, body))?.id;
        const sources = { reader, router, organisationId, workspaceId };
        const rules = await namedRules(policyRulesOf(body), sources);
        await reader.records.insert({
          ...{ kind: kind.kind, id, organisationId, workspaceId, slug: id },
          name: body.name ?? usagePolicyName(type, body.credit_limit),
          ...{ status: 'active', parentId: '', secrets: {}, data: { ...rules, type, ...limit } },
          ...{ createdBy: by, updatedBy: by, createdAt: now, updatedAt: now, version: 1 },
        });
        return { id, workspaceId, result: undefined };
      });
      return { id, object: 'policy_usage_limits' as const, ...notEnforcedMarks('usageLimits') };
    },
  });
}

function updateRoute({ clock, router }: Scope): RouteDefinition {
  return defineRoute({
    id: 'usage_limit_policies.update',
    method: 'PUT',
    path: `${kind.path}/{${kind.parameter}}`,
    summary: 'Changes a usage-limit policy; what is not given stays, and null takes a setting away',
    scope: 'policies.update',
    feature: 'policies',
    audit: 'update',
    params: policyParams(kind),
    body: Update,
    reply: Reply,
    async handle({ params, body, key, write, requireVersion, sendVersion }) {
      const record = await write(async (reader) => {
        const before = await changeablePolicy(reader, key, kind, policyId(kind, params));
        requireVersion(before.version);
        const { organisationId, workspaceId, data } = before;
        const limit = changedUsage(body, data);
        requirePossible(body, limit);
        const rules = await changedRules(body, data, { reader, router, organisationId, workspaceId });
        const change = { name: body.name ?? before.name, data: { ...rules, type: data.type, ...limit } };
        const after = changedRecord(before, change, key, clock.now());
        if (!(await reader.records.replace(after))) throw staleVersion();
        return { id: after.id, workspaceId, result: after };
      });
      sendVersion(record.version);
      return show(record);
    },
  });
}

function requirePossible(body: GivenRules & Static<typeof Update>, limit: UsageOfPolicy): void {
  const issues = usagePolicyIssues(body, limit, '');
  if (issues.length > 0) throw refusedBody(issues);
}

function show(record: StoredRecord<'usage_limit_policy'>): Static<typeof Reply> {
  const { conditions, groupBy, type, ...limit } = record.data;
  return {
    ...{ id: record.id, name: record.name, type },
    conditions: conditions.map((condition) => ({ key: condition.key, value: condition.value })),
    group_by: groupBy.map(({ key }) => ({ key })),
    credit_limit: limit.creditLimit,
    alert_threshold: limit.alertThreshold ?? null,
    periodic_reset: limit.periodicReset ?? null,
    periodic_reset_days: limit.periodicResetDays ?? null,
    next_usage_reset_at: limit.nextResetAt === undefined ? null : new Date(limit.nextResetAt).toISOString(),
    ...showPolicy(record),
    ...(record.status === 'active' ? notEnforcedMarks('usageLimits') : { status: record.status }),
    object: 'policy_usage_limits',
  };
}
