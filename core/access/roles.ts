import type { Directory, KeyRecord } from '../ports/directory.ts';
import type { OrganisationRole, WorkspaceRole } from '../ports/people.ts';
import type { ApiKeyType } from './scopes.ts';

/** What somebody is in an organisation or in one of its workspaces. */
export type Role = 'owner' | 'admin' | 'manager' | 'member';

/** What a role may do, and where. */
interface RoleRights {
  /** Creates and manages keys of the organisation. */
  readonly organisationKeys: boolean;
  /** Creates and manages keys of workspaces: in any, in the one that it manages, or in none. */
  readonly workspaceKeys: 'any' | 'own' | 'none';
  /** Lists archived workspaces, and reads what is of them. */
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

/** Who is who: what roles are looked up in. */
type People = Pick<Directory, 'user' | 'memberRole'>;

/**
 * The role that a key acts in. Keys of people act as what their people are in the key's one workspace: owners and
 * admins of the organisation manage every workspace. A workspace's service key acts as its manager.
 */
export function roleOf({ kind, organisationId, workspaceId, userId }: KeyRecord, people: People): Role {
  if (kind === 'owner') return 'owner';
  if (kind === 'organisation-service') return 'admin';
  if (kind === 'workspace-service') return 'manager';
  return userId === '' ? 'member' : workspaceRoleOf(organisationId, workspaceId, userId, people);
}

/** What the user is in the workspace: `member` also for those who belong to nothing. */
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

/** Whether the role of this key creates, changes, rotates and deletes keys of this type; scope and reach come on top. */
export function managesKeys(role: Role, type: ApiKeyType): boolean {
  const rights = rightsByRole[role];
  return type === 'organisation-service' ? rights.organisationKeys : rights.workspaceKeys !== 'none';
}

/** Whether somebody in this role may give, change or take away the other one: nobody reaches above themselves. */
export function mayGrant(actor: Role, role: OrganisationRole | WorkspaceRole): boolean {
  return actor !== 'member' && ranks.indexOf(role) <= ranks.indexOf(actor);
}
