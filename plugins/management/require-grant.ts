import { mayGrant, type Role } from '../../core/access/roles.ts';
import { GatewayError } from '../../core/pipeline/plugin.ts';
import type { OrganisationRole, UserRecord, WorkspaceRole } from '../../core/ports/people.ts';

/**
 * Throws `scope_missing` when the organisation gives this person a role above the actor's: a manager neither brings
 * those to a workspace nor changes what they are there.
 */
export function requireNotAboveActor(actor: Role, { role }: Pick<UserRecord, 'role'>): void {
  if (role !== 'member') requireGrant(actor, role);
}

/** Throws `scope_missing` when somebody in the role `actor` may not give, change or take away the other role. */
export function requireGrant(actor: Role, role: OrganisationRole | WorkspaceRole): void {
  if (mayGrant(actor, role)) return;
  throw new GatewayError(
    'scope_missing',
    `Nobody reaches above themselves: your key acts as ${actor}, which cannot give, change or take away the role ${role}. Use a key of somebody who is ${role}, or more.`,
  );
}
