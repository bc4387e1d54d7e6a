import { Type, type Static } from '../../core/pipeline/plugin.ts';
import type { Member } from '../../core/ports/people.ts';
import type { WorkspaceRecord } from '../../core/ports/resources.ts';
import { RateLimits, showUsageLimit, UsageLimitSchema } from './limits-schema.ts';
import { MemberReply, showMember } from './member-record.ts';
import { ManagedBy, Metadata, orNull } from './text-schema.ts';

/** A workspace as the API shows it. */
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
    is_default: Type.Integer({ description: '1 for the workspace that the gateway made itself.' }),
    object: Type.Literal('workspace'),
  }),
  usage_limits: Type.Array(UsageLimitSchema),
  rate_limits: RateLimits,
  managed_by: ManagedBy,
  object: Type.Literal('workspace'),
});

/** Members that an answer about one workspace shows. */
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

/** Puts a stored workspace with its members into the shape of the API; without them when they are undefined. */
export function showWithUsers(
  record: WorkspaceRecord,
  members: readonly Member[] | undefined,
): Static<typeof WorkspaceWithUsers> {
  return {
    ...showWorkspace(record),
    ...(members !== undefined && { users: members.map((member) => showMember(member)) }),
  };
}

/** Puts a stored workspace into the shape of the API. */
export function showWorkspace(record: WorkspaceRecord): Static<typeof WorkspaceReply> {
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
      is_default: record.isDefault ? 1 : 0,
      object: 'workspace',
    },
    usage_limits: record.usageLimits.map((limit) => showUsageLimit(limit)),
    rate_limits: record.rateLimits.map(({ type, unit, value }) => ({ type, unit, value })),
    managed_by: record.managedBy ?? 'api',
    object: 'workspace',
  };
}
