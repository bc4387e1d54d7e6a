import { type Static, Type } from '../../../core/pipeline/plugin.ts';
import type { UserRecord, WorkspaceRole } from '../../../core/ports/people.ts';

/** Role of a user in the organisation. */
export const OrganisationRoleSchema = Type.Union([
  Type.Literal('owner'),
  Type.Literal('admin'),
  Type.Literal('member'),
]);

/** Roles in the organisation that the API can give: it cannot make an owner. */
export const GivenOrganisationRole = Type.Union([Type.Literal('admin'), Type.Literal('member')]);

/** Role of a user in a workspace, in answers. */
export const WorkspaceRoleSchema = Type.Union([Type.Literal('manager'), Type.Literal('member')]);

/** The same in bodies and queries. */
export const GivenWorkspaceRole = Type.Union(
  [Type.Literal('manager'), Type.Literal('member'), Type.Literal('admin')],
  { description: '`admin` means the same as `manager`.' },
);

/** The role of a `GivenWorkspaceRole`: `admin` means `manager`. */
export function readWorkspaceRole(role: WorkspaceRole | 'admin'): WorkspaceRole {
  return role === 'admin' ? 'manager' : role;
}

/** A user of the organisation in the API. */
export const UserReply = Type.Object({
  object: Type.Literal('user'),
  id: Type.String(),
  first_name: Type.String(),
  last_name: Type.String(),
  role: OrganisationRoleSchema,
  email: Type.String(),
  created_at: Type.String(),
  last_updated_at: Type.String(),
  workspace_ids: Type.Array(Type.String(), { description: 'Workspaces of the user.' }),
});

/** Converts a stored user to the API's shape. */
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

/** Example for the reference. */
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
