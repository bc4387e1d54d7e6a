import { Type, type Static } from '../../core/pipeline/plugin.ts';
import type { Member } from '../../core/ports/people.ts';
import { OrganisationRoleSchema, WorkspaceRoleSchema } from './role-schema.ts';

/** A member of a workspace as the API shows them. */
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
    description: 'Empty: scopes are those of keys. What people may do follows from `role` and `org_role`.',
  }),
  settings: Type.Null({ description: 'Members have no settings of their own.' }),
  workspace_id: Type.String(),
  created_at: Type.String({ description: 'Since when they are a member.' }),
  last_updated_at: Type.String(),
});

/** Puts a stored member into the shape of the API. */
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

/** What the reference shows. */
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
