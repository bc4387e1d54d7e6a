import { randomUUID } from 'node:crypto';
import {
  policyRuleIssues,
  policyRulesOf,
  PolicyTargetSchema,
  rateLimitPolicy,
  ratePolicyName,
  storedTarget,
} from '../../../core/organisation/policies.ts';
import type { RouteDefinition } from '../../../core/pipeline/define-route.ts';
import { defineRoute, type Scope, type Static, Type } from '../../../core/pipeline/plugin.ts';
import type { StoredRecord } from '../../../core/ports/records.ts';
import { places, storedRecords } from '../shared/records.ts';
import { policyRules } from './entities.ts';
import { type PolicyKind, policyRecords } from './routes.ts';
import { Name, refusedBody, strict } from '../shared/fields.ts';

const { fields } = rateLimitPolicy;

const object = Type.Literal('policy_rate_limits');

const Create = Type.Object(
  {
    ...fields,
    name: Type.Optional(fields.name),
    target: Type.Optional(PolicyTargetSchema),
    type: rateLimitPolicy.type,
    workspace_id: Type.Optional(
      Name('Id or slug. Default: the workspace of the key, or for keys of the organisation all of them.'),
    ),
    organisation_id: Type.Optional(Name('Needed, like `workspace_id`, where a token authenticates.')),
  },
  strict,
);

const Update = Type.Partial(Type.Object(fields), strict);

const Reply = Type.Object({
  id: Type.String(),
  ...fields,
  target: PolicyTargetSchema,
  type: rateLimitPolicy.type,
  ...policyRecords.replyFields,
  object,
});

const kind: PolicyKind<'rate_limit_policy'> = {
  kind: 'rate_limit_policy',
  routes: 'rate_limit_policies',
  path: '/policies/rate-limits',
  parameter: 'rateLimitsPolicyId',
  words: 'rate-limit policy',
  filters: {
    target: Type.Optional(PolicyTargetSchema),
    type: Type.Optional(rateLimitPolicy.type),
    unit: Type.Optional(fields.unit),
  },
  readQuery: {},
  reply: Reply,
  show,
};

/** The routes of rate-limit policies, which the plugin `policies` enforces. */
export function rateLimitPolicyRoutes(scope: Scope): readonly RouteDefinition[] {
  return [
    createRoute(scope),
    ...policyRecords.routes(kind, scope),
    updateRoute(scope),
    ...policyRules.routes(kind),
  ];
}

function createRoute({ clock, router }: Scope): RouteDefinition {
  return defineRoute({
    id: 'rate_limit_policies.create',
    method: 'POST',
    path: kind.path,
    summary: 'Creates a rate-limit policy: a limit of requests or tokens per minute, hour, day or week',
    scope: 'policies.create',
    feature: 'policies',
    audit: 'create',
    body: Create,
    reply: Type.Object({ id: Type.String(), object }),
    async handle({ body, key, write }) {
      const issues = policyRuleIssues(body, '');
      if (issues.length > 0) throw refusedBody(issues);
      const now = clock.now();
      const id = randomUUID();
      const by = key.userId || key.id;
      await write(async (reader) => {
        const { organisationId } = key;
        const workspaceId = (await places.ofNew(reader, key, body))?.id;
        const sources = { reader, router, organisationId, workspaceId };
        const { type, unit, value } = body;
        const rules = await policyRules.named(policyRulesOf(body), sources);
        const name = body.name ?? ratePolicyName(body);
        const given = { id, organisationId, workspaceId, slug: id, name };
        const data = { ...rules, ...storedTarget(body.target), type, unit, value };
        await reader.records.insert(storedRecords.create({ kind: kind.kind, ...given, data }, by, now));
        return { id, workspaceId, result: undefined };
      });
      return { id, object: 'policy_rate_limits' as const };
    },
  });
}

function updateRoute({ clock, router }: Scope): RouteDefinition {
  return defineRoute({
    id: 'rate_limit_policies.update',
    method: 'PUT',
    path: `${kind.path}/{${kind.parameter}}`,
    summary: 'Updates a rate-limit policy; omitted fields and the current counts stay unchanged',
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
        const issues = policyRuleIssues({ ...body, ...storedTarget(data.target) }, '');
        if (issues.length > 0) throw refusedBody(issues);
        const sources = { reader, router, organisationId, workspaceId };
        const rules = await policyRules.changed(body, data, sources);
        const { type, unit, value } = data;
        const change = {
          name: body.name ?? before.name,
          data: {
            ...{ ...rules, ...storedTarget(data.target), type },
            ...{ unit: body.unit ?? unit, value: body.value ?? value },
          },
        };
        const after = await storedRecords.change(reader, before, change, key, clock.now());
        return { id: after.id, workspaceId, result: after };
      });
      sendVersion(record.version);
      return show(record);
    },
  });
}

function show(record: StoredRecord<'rate_limit_policy'>): Static<typeof Reply> {
  const { conditions, groupBy, target = 'llm', type, unit, value } = record.data;
  return {
    ...{ id: record.id, name: record.name, target, type, unit, value },
    conditions: conditions.map(policyRecords.showCondition),
    group_by: groupBy.map(({ key }) => ({ key })),
    ...policyRecords.show(record),
    object: 'policy_rate_limits',
  };
}
