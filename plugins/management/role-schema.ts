import { Type } from '../../core/pipeline/plugin.ts';
import type { WorkspaceRole } from '../../core/ports/people.ts';

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
