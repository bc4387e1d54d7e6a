import { type Static, Type } from '../../../core/pipeline/plugin.ts';
import type { UserRecord, WorkspaceRole } from '../../../core/ports/people.ts';

/** What somebody is in the organisation. */
export const OrganisationRoleSchema = Type.Union([
  Type.Literal('owner'),
  Type.Literal('admin'),
  Type.Literal('member'),
]);

/** What somebody can be made in the organisation: nobody is made its owner by the API. */
export const GivenOrganisationRole = Type.Union([Type.Literal('admin'), Type.Literal('member')]);

/** What somebody is in a workspace, as answers say it. */
export const WorkspaceRoleSchema = Type.Union([Type.Literal('manager'), Type.Literal('member')]);

/** What bodies and queries say of it. */
export const GivenWorkspaceRole = Type.Union(
  [Type.Literal('manager'), Type.Literal('member'), Type.Literal('admin')],
  { description: '`admin` is another word for `manager`.' },
);

/** The role that `GivenWorkspaceRole` stands for. */
export function readWorkspaceRole(role: WorkspaceRole | 'admin'): WorkspaceRole {
  return role === 'admin' ? 'manager' : role;
}

/** Somebody of the organisation as the API shows them. */
export const UserReply = Type.Object({
  object: Type.Literal('user'),
  id: Type.String(),
  first_name: Type.String(),
  last_name: Type.String(),
  role: OrganisationRoleSchema,
  email: Type.String(),
  created_at: Type.String(),
  last_updated_at: Type.String(),
  workspace_ids: Type.Array(Type.String(), { description: 'The workspaces that they are a member of.' }),
});

/** Puts a stored user into the shape of the API. */
export function showUser(user: UserRecord, workspaceIds: readonly string[]): Static<typeof UserReply> {
  return {
    object: 'user',
    id: user.id,
    first_name: user.firstName,
    last_name: user.lastName,
    role: user.role,
    email: user.email,
    created_at: new Date(user.createdAt).toISOString(),
    last_updated_at: new Date(user.updatedAt).toISOString(),
    workspace_ids: [...workspaceIds],
  };
}

/** What the reference shows. */
export const userExample: Static<typeof UserReply> = {
  object: 'user',
  id: '0198a1c2-7b3e-7c4d-8e5f-6a7b8c9d0e1f',
  first_name: 'Ann',
  last_name: 'Lee',
  role: 'member',
  email: 'ann@example.com',
  created_at: '2026-11-21T09:00:00.000Z',
  last_updated_at: '2026-11-21T09:00:00.000Z',
  workspace_ids: ['0198a1c2-8c4f-7d5e-9f60-7b8c9d0e1f2a'],
};
