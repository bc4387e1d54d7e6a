import { Type, type Static } from '../../core/pipeline/plugin.ts';
import type { InviteRecord } from '../../core/ports/people.ts';
import { GivenOrganisationRole, WorkspaceRoleSchema } from './role-schema.ts';
import { orNull } from './text-schema.ts';

/** States of an invite. */
export const InviteStatus = Type.Union([
  Type.Literal('pending'),
  Type.Literal('cancelled'),
  Type.Literal('accepted'),
  Type.Literal('expired'),
]);

/** An invite as the API shows it: never its token. */
export const InviteReply = Type.Object({
  object: Type.Literal('invite'),
  id: Type.String(),
  email: Type.String(),
  role: GivenOrganisationRole,
  status: InviteStatus,
  workspaces: Type.Array(Type.Object({ id: Type.String(), role: WorkspaceRoleSchema })),
  workspace_api_key_details: Type.Object({ scopes: Type.Array(Type.String()) }),
  invited_by: Type.String({ description: 'Id of the user, or of the key, that invited.' }),
  created_at: Type.String(),
  expires_at: Type.String(),
  accepted_at: orNull(Type.String()),
});

/** Puts a stored invite into the shape of the API. One that has ended is `expired` before the job marks it. */
export function showInvite(invite: InviteRecord, now: number): Static<typeof InviteReply> {
  return {
    object: 'invite',
    id: invite.id,
    email: invite.email,
    role: invite.role,
    status: statusOf(invite, now),
    workspaces: invite.workspaces.map(({ id, role }) => ({ id, role })),
    workspace_api_key_details: { scopes: [...invite.keyScopes] },
    invited_by: invite.invitedBy,
    created_at: new Date(invite.createdAt).toISOString(),
    expires_at: new Date(invite.expiresAt).toISOString(),
    accepted_at: invite.acceptedAt === undefined ? null : new Date(invite.acceptedAt).toISOString(),
  };
}

/** The state that an invite is in at `now` (milliseconds since the epoch). */
export function statusOf({ status, expiresAt }: InviteRecord, now: number): InviteRecord['status'] {
  return status === 'pending' && expiresAt <= now ? 'expired' : status;
}

/** What the reference shows. */
export const inviteExample: Static<typeof InviteReply> = {
  object: 'invite',
  id: '0198a1c2-9d50-7e6f-a071-8c9d0e1f2a3b',
  email: 'ann@example.com',
  role: 'member',
  status: 'pending',
  workspaces: [{ id: '0198a1c2-8c4f-7d5e-9f60-7b8c9d0e1f2a', role: 'manager' }],
  workspace_api_key_details: { scopes: ['completions.write'] },
  invited_by: '0198a1c2-7b3e-7c4d-8e5f-6a7b8c9d0e1f',
  created_at: '2026-11-21T09:00:00.000Z',
  expires_at: '2026-11-28T09:00:00.000Z',
  accepted_at: null,
};
