import type { Directory, KeyRecord } from '../ports/directory.ts';
import type { OrganisationRole, WorkspaceRole } from '../ports/people.ts';
import type { ApiKeyType } from './scopes.ts';

/** Role of a user in an organisation or in one of its workspaces. */
export type Role = 'owner' | 'admin' | 'manager' | 'member';

/** Rights of a role. */
interface RoleRights {
  /** Creates and manages keys of the organisation. */
  readonly organisationKeys: boolean;
  /** Creates and manages keys of workspaces: in any, in the one that it manages, or in none. */
  readonly workspaceKeys: 'any' | 'own' | 'none';
  /** Lists archived workspaces, and reads their records. */
  readonly archived: boolean;
}

/** The role matrix. */
export const rightsByRole: Readonly<Record<Role, RoleRights>> = {
  owner: { organisationKeys: true, workspaceKeys: 'any', archived: true },
  admin: { organisationKeys: true, workspaceKeys: 'any', archived: true },
  manager: { organisationKeys: false, workspaceKeys: 'own', archived: false },
  member: { organisationKeys: false, workspaceKeys: 'none', archived: false },
};

const ranks: readonly Role[] = ['member', 'manager', 'admin', 'owner'];

/** Look-up of roles. */
type People = Pick<Directory, 'user' | 'memberRole'>;

/**
 * Role of a key. Keys of users act in the user's role in the key's one workspace: owners and admins of the organisation
 * manage every workspace. A workspace's service key acts as its manager.
 */
export function roleOf({ kind, organisationId, workspaceId, userId }: KeyRecord, people: People): Role {
  if (kind === 'owner') return 'owner';
  if (kind === 'organisation-service') return 'admin';
  if (kind === 'workspace-service') return 'manager';
  return userId === '' ? 'member' : workspaceRoleOf(organisationId, workspaceId, userId, people);
}

/** Role of the user in the workspace; `member` also without a membership. */
function workspaceRoleOf(
  organisationId: string,
  workspaceId: string,
  userId: string,
  people: People,
): WorkspaceRole {
  const user = people.user(organisationId, userId);
  if (user !== undefined && user.role !== 'member') return 'manager';
  return people.memberRole(workspaceId, userId) ?? 'member';
}

/** Whether this role creates, changes, rotates and deletes keys of this type; scope and reach apply in addition. */
export function managesKeys(role: Role, type: ApiKeyType): boolean {
  const rights = rightsByRole[role];
  return type === 'organisation-service' ? rights.organisationKeys : rights.workspaceKeys !== 'none';
}

/** Whether an actor in this role may grant, change or revoke the other one: never one above its own. */
export function mayGrant(actor: Role, role: OrganisationRole | WorkspaceRole): boolean {
  return actor !== 'member' && ranks.indexOf(role) <= ranks.indexOf(actor);
}
