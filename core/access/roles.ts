import type { KeyRecord } from '../ports/directory.ts';
import type { ApiKeyType } from './scopes.ts';

/** What somebody is in an organisation or in one of its workspaces. */
export type Role = 'owner' | 'admin' | 'manager' | 'member';

/** What a role may do, and where. */
export interface RoleRights {
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

const roles: Readonly<Record<KeyRecord['kind'], Role>> = {
  owner: 'owner',
  'organisation-service': 'admin',
  'workspace-service': 'manager',
  'workspace-user': 'member',
};

/** The role that a key acts in: keys of people act as members, a workspace's service key as its manager. */
export function roleOf({ kind }: KeyRecord): Role {
  return roles[kind];
}

/** Whether the role of this key creates, changes, rotates and deletes keys of this type; scope and reach come on top. */
export function managesKeys(actor: KeyRecord, type: ApiKeyType): boolean {
  const rights = rightsByRole[roleOf(actor)];
  return type === 'organisation-service' ? rights.organisationKeys : rights.workspaceKeys !== 'none';
}
