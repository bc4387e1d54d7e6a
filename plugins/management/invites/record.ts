import { type Static, Type } from '../../../core/pipeline/plugin.ts';
import type { InviteRecord } from '../../../core/ports/people.ts';
import {
  GivenOrganisationRole,
  GivenWorkspaceRole,
  readWorkspaceRole,
  requireGrant,
  WorkspaceRoleSchema,
} from '../users/record.ts';
import { Name, orNull, refusedBody, strict } from '../shared/fields.ts';
import { canonicalScope, refuseScopes, type Role } from '../../../core/access/scopes.ts';
import type { KeyRecord } from '../../../core/ports/directory.ts';
import type { ResourcesReader } from '../../../core/ports/resources.ts';
import type { Mistake } from '../../../core/base/json.ts';

/** Body that creates an invite. */
export const CreateInvite = Type.Object(
  {
    email: Type.String({ format: 'email', maxLength: 255 }),
    role: GivenOrganisationRole,
    workspaces: Type.Optional(
      Type.Array(
        Type.Object(
          { id: Name('A workspace, by its id or slug.'), role: Type.Optional(GivenWorkspaceRole) },
          strict,
        ),
        { maxItems: 100, description: 'Workspaces that the user joins, with the role `member` by default.' },
      ),
    ),
    workspace_api_key_details: Type.Optional(
      Type.Object(
        {
          scopes: Type.Array(Type.String({ minLength: 1, maxLength: 255 }), {
            maxItems: 300,
            description: 'If not empty, the user gets a key with these scopes in each of the workspaces.',
          }),
        },
        strict,
      ),
    ),
  },
  strict,
);

type Body = Static<typeof CreateInvite>;

/**
 * Scopes of the promised keys, in canonical spelling and without duplicates. Throws `invalid_request` for scopes that
 * user keys cannot hold and for those that the actor cannot grant.
 */
export function inviteScopes(
  actor: KeyRecord,
  { workspace_api_key_details: details }: Body,
): readonly string[] {
  const given = details?.scopes ?? [];
  const issues = refuseScopes(actor, 'workspace-user', given);
  if (issues.length === 0) return [...new Set(given.map((scope) => canonicalScope(scope)))];
  throw refusedBody(
    issues.map(({ path, message }) => ({ path: `/workspace_api_key_details/scopes${path}`, message })),
  );
}

/** Inviter and body of an invite. */
interface Invitation {
  readonly body: Body;
  readonly role: Role;
}

/**
 * The workspaces that a body names, with the roles in them. Throws `invalid_request` with every mistake: unknown,
 * archived and repeated workspaces.
 */
export async function invitedWorkspaces(
  { workspaces }: Pick<ResourcesReader, 'workspaces'>,
  { organisationId }: KeyRecord,
  { body, role: actor }: Invitation,
): Promise<InviteRecord['workspaces']> {
  const found = new Map<string, InviteRecord['workspaces'][number]>();
  const mistakes: Mistake[] = [];
  for (const [index, { id: named, role = 'member' }] of (body.workspaces ?? []).entries()) {
    const path = `/workspaces/${index}/id`;
    const shown = named.slice(0, 64);
    const workspace = await workspaces.find(organisationId, named);
    requireGrant(actor, readWorkspaceRole(role));
    if (workspace === undefined)
      mistakes.push({ path, message: `names "${shown}", and the organisation has no such workspace` });
    else if (workspace.status === 'archived')
      mistakes.push({ path, message: `names "${shown}", which is archived` });
    else if (found.has(workspace.id)) mistakes.push({ path, message: `names "${shown}" twice; keep one` });
    else found.set(workspace.id, { id: workspace.id, role: readWorkspaceRole(role) });
  }
  if (mistakes.length > 0) throw refusedBody(mistakes);
  return [...found.values()];
}

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
  invited_by: Type.String({ description: 'Id of the user or key that created the invite.' }),
  created_at: Type.String(),
  expires_at: Type.String(),
  accepted_at: orNull(Type.String()),
});

/** Converts a stored invite to the API's shape. After its lifetime it shows `expired`, even before the job marks it. */
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

/** State of an invite at `now` (milliseconds since the epoch). */
export function statusOf({ status, expiresAt }: InviteRecord, now: number): InviteRecord['status'] {
  return status === 'pending' && expiresAt <= now ? 'expired' : status;
}

/** Example for the reference. */
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
