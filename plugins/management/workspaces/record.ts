import { workspaceBudgetKey } from '../../../core/access/limit-charges.ts';
import { type Scope, type Static, Type } from '../../../core/pipeline/plugin.ts';
import type { Member } from '../../../core/ports/people.ts';
import type { WorkspaceDefaults, WorkspaceRecord } from '../../../core/ports/resources.ts';
import { DefaultGuardrailNames } from '../../../core/organisation/guardrails.ts';
import { RateLimits } from '../../../core/organisation/limits.ts';
import { defaultGuardrailKeys } from '../../../core/organisation/route-config.ts';
import {
  ResetTimes,
  ResetUsage,
  resetUsed,
  showResetTimes,
  showUsedLimit,
  UsageLimitSchema,
} from '../shared/limits.ts';
import {
  AllowedModelNames,
  Description,
  ManagedBy,
  Metadata,
  Name,
  orNull,
  refusedBody,
  strict,
} from '../shared/fields.ts';
import type { DefaultNames } from '../configs/uses.ts';
import { OrganisationRoleSchema, WorkspaceRoleSchema } from '../users/record.ts';

/** A member of a workspace in the API. */
export const MemberReply = Type.Object({
  object: Type.Literal('workspace-user'),
  id: Type.String({ description: 'The id of the user.' }),
  first_name: Type.String(),
  last_name: Type.String(),
  email: Type.String(),
  org_role: OrganisationRoleSchema,
  role: WorkspaceRoleSchema,
  status: Type.Literal('active'),
  scopes: Type.Array(Type.String(), {
    description:
      'Always empty: only keys have scopes. The rights of users follow from `role` and `org_role`.',
  }),
  settings: Type.Null({ description: 'Always empty: members have no settings of their own.' }),
  workspace_id: Type.String(),
  created_at: Type.String({ description: 'Start of the membership.' }),
  last_updated_at: Type.String(),
});

/** Converts a stored member to the API's shape. */
export function showMember({ member, user }: Member): Static<typeof MemberReply> {
  return {
    object: 'workspace-user',
    id: user.id,
    first_name: user.firstName,
    last_name: user.lastName,
    email: user.email,
    org_role: user.role,
    role: member.role,
    status: 'active',
    scopes: [],
    settings: null,
    workspace_id: member.workspaceId,
    created_at: new Date(member.createdAt).toISOString(),
    last_updated_at: new Date(member.updatedAt).toISOString(),
  };
}

/** Example for the reference. */
export const memberExample: Static<typeof MemberReply> = {
  object: 'workspace-user',
  id: '0198a1c2-7b3e-7c4d-8e5f-6a7b8c9d0e1f',
  first_name: 'Ann',
  last_name: 'Lee',
  email: 'ann@example.com',
  org_role: 'member',
  role: 'manager',
  status: 'active',
  scopes: [],
  settings: null,
  workspace_id: '0198a1c2-8c4f-7d5e-9f60-7b8c9d0e1f2a',
  created_at: '2026-11-21T09:00:00.000Z',
  last_updated_at: '2026-11-21T09:00:00.000Z',
};

/** Path of the routes of workspaces, with the suffix of their operation ids. */
export interface WorkspacePlace {
  readonly path: '/admin/workspaces' | '/workspaces';
  /** Suffix of the operation ids. */
  readonly suffix: '' | '_plain';
}

/** Both paths of workspaces and their members, settings and so on. */
export const workspacePlaces: readonly WorkspacePlace[] = [
  { path: '/admin/workspaces', suffix: '' },
  { path: '/workspaces', suffix: '_plain' },
];

/** Default guardrails in bodies. Absent members stay unchanged; an empty list removes all. */
export const guardrailDefaults = {
  input_guardrails: DefaultGuardrailNames(
    'Guardrails that judge every request, even if it does not name them. Omitted: unchanged.',
  ),
  output_guardrails: DefaultGuardrailNames(
    'Guardrails that judge every answer, even if the request does not name them. Omitted: unchanged.',
  ),
};

const fields = {
  description: Type.Optional(orNull(Description)),
  icon: Type.Optional(orNull(Type.String({ maxLength: 255 }))),
  defaults: Type.Optional(
    Type.Object(
      {
        metadata: Type.Optional(Metadata),
        config_id: Type.Optional(orNull(Name('A config of this gateway.'))),
        allowed_models: Type.Optional(orNull(AllowedModelNames)),
        ...guardrailDefaults,
      },
      strict,
    ),
  ),
  usage_limits: Type.Optional(orNull(Type.Array(UsageLimitSchema, { maxItems: 10 }))),
  rate_limits: Type.Optional(orNull(RateLimits)),
};

const WorkspaceName = Name('Unique in the organisation.');

/** Body that creates a workspace. */
export const CreateWorkspace = Type.Object(
  {
    name: WorkspaceName,
    ...fields,
    users: Type.Optional(
      Type.Array(Name('Id or e-mail address of a user of the organisation.'), {
        maxItems: 100,
        description: 'Initial members, with the role `member`.',
      }),
    ),
  },
  strict,
);

/** Body that changes a workspace; absent members stay unchanged, and lists are replaced as a whole. */
export const UpdateWorkspace = Type.Object(
  { name: Type.Optional(WorkspaceName), ...fields, reset_usage: ResetUsage },
  strict,
);

/**
 * Default metadata and config of requests, at `pointer` of the body. Throws `invalid_request` for an unknown config.
 */
export function readDefaults(
  {
    metadata,
    config_id: configId,
    allowed_models: allowedModels,
  }: { metadata?: Record<string, string>; config_id?: string | null; allowed_models?: string[] | null },
  router: DefaultNames,
  pointer = '/defaults',
): WorkspaceDefaults {
  const missing = typeof configId === 'string' ? router.missingConfig(configId) : undefined;
  if (missing !== undefined) throw refusedBody([{ path: `${pointer}/config_id`, message: missing }]);
  return {
    ...(metadata !== undefined && { metadata }),
    ...(typeof configId === 'string' && { configId }),
    ...(Array.isArray(allowedModels) && { allowedModels }),
  };
}

/** Allowed models in the API's shape. */
export function shownModels({ allowedModels }: Pick<WorkspaceDefaults, 'allowedModels'>): string[] | null {
  return allowedModels === undefined ? null : [...allowedModels];
}

interface GivenGuardrails {
  input_guardrails?: string[];
  output_guardrails?: string[];
}

/**
 * Default guardrails after the change by a body; absent members stay unchanged. Throws `invalid_request`, with the
 * place below `pointer`, for guardrails that cannot judge there.
 */
export function changedGuardrails(
  body: GivenGuardrails,
  { guardrails: before }: WorkspaceDefaults,
  { names, pointer }: { readonly names: Pick<DefaultNames, 'unusableGuardrail'>; readonly pointer: string },
): Pick<WorkspaceDefaults, 'guardrails'> {
  const mistakes: { path: string; message: string }[] = [];
  for (const [key, phase] of defaultGuardrailKeys)
    for (const [index, name] of (body[key] ?? []).entries()) {
      const message = names.unusableGuardrail(name, phase);
      if (message !== undefined) mistakes.push({ path: `${pointer}/${key}/${index}`, message });
    }
  if (mistakes.length > 0) throw refusedBody(mistakes);
  const input = body.input_guardrails ?? before?.input ?? [];
  const output = body.output_guardrails ?? before?.output ?? [];
  return input.length + output.length === 0 ? {} : { guardrails: { input, output } };
}

/** Default guardrails in the API's shape. */
export function showGuardrails({ guardrails }: WorkspaceDefaults) {
  return {
    input_guardrails: [...(guardrails?.input ?? [])],
    output_guardrails: [...(guardrails?.output ?? [])],
  };
}

/** A workspace in the API. */
export const WorkspaceReply = Type.Object({
  id: Type.String(),
  slug: Type.String(),
  name: Type.String(),
  description: Type.String(),
  icon: Type.String(),
  status: Type.Union([Type.Literal('active'), Type.Literal('archived')]),
  created_at: Type.String(),
  last_updated_at: Type.String(),
  defaults: Type.Object({
    metadata: Metadata,
    config_id: orNull(Type.String()),
    allowed_models: orNull(AllowedModelNames),
    input_guardrails: Type.Array(Type.String()),
    output_guardrails: Type.Array(Type.String()),
    is_default: Type.Integer({ description: '1 for the workspace that the gateway created itself.' }),
    object: Type.Literal('workspace'),
  }),
  usage_limits: Type.Array(UsageLimitSchema),
  ...ResetTimes,
  rate_limits: RateLimits,
  managed_by: ManagedBy,
  object: Type.Literal('workspace'),
});

/** Upper bound of members in an answer about one workspace. */
export const shownMembers = 100;

/** One workspace with its members. */
export const WorkspaceWithUsers = Type.Object({
  ...WorkspaceReply.properties,
  users: Type.Optional(
    Type.Array(MemberReply, {
      description: `The first ${shownMembers} members, for keys with the scope \`workspace_users.list\`.`,
    }),
  ),
});

/** Converts a stored workspace with its members, unless undefined, to the API's shape. */
export function showWithUsers(
  record: WorkspaceRecord,
  members: readonly Member[] | undefined,
  scope: Pick<Scope, 'budgets' | 'clock'>,
): Static<typeof WorkspaceWithUsers> {
  return {
    ...showWorkspace(record, scope),
    ...(members !== undefined && { users: members.map((member) => showMember(member)) }),
  };
}

/** Budget of a workspace's usage limits. */
function budgetOf({ id, organisationId, createdAt }: WorkspaceRecord) {
  return { prefix: workspaceBudgetKey(organisationId, id), organisationId, createdAt };
}

/** Resets the usage counted against a workspace's usage limits. */
export function resetWorkspaceUsage(
  record: WorkspaceRecord,
  { budgets }: Pick<Scope, 'budgets'>,
): Promise<void> {
  return resetUsed(record.usageLimits, budgetOf(record), budgets);
}

/** Converts a stored workspace to the API's shape. */
export function showWorkspace(
  record: WorkspaceRecord,
  scope: Pick<Scope, 'budgets' | 'clock'>,
): Static<typeof WorkspaceReply> {
  return {
    id: record.id,
    slug: record.slug,
    name: record.name,
    description: record.description,
    icon: record.icon,
    status: record.status,
    created_at: new Date(record.createdAt).toISOString(),
    last_updated_at: new Date(record.updatedAt).toISOString(),
    defaults: {
      metadata: { ...record.defaults.metadata },
      config_id: record.defaults.configId ?? null,
      allowed_models: shownModels(record.defaults),
      ...showGuardrails(record.defaults),
      is_default: record.isDefault ? 1 : 0,
      object: 'workspace',
    },
    usage_limits: record.usageLimits.map((limit) => showUsedLimit(limit, budgetOf(record), scope.budgets)),
    ...showResetTimes(record.usageLimits, budgetOf(record), scope),
    rate_limits: record.rateLimits.map(({ type, unit, value }) => ({ type, unit, value })),
    managed_by: record.managedBy ?? 'api',
    object: 'workspace',
  };
}
