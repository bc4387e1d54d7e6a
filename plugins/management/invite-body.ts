import { refuseScopes } from '../../core/access/access.ts';
import type { Role } from '../../core/access/roles.ts';
import { canonicalScope } from '../../core/access/scopes.ts';
import { Type, type Static } from '../../core/pipeline/plugin.ts';
import type { KeyRecord } from '../../core/ports/directory.ts';
import type { InviteRecord } from '../../core/ports/people.ts';
import type { ResourcesReader } from '../../core/ports/resources.ts';
import { refusedBody, type BodyMistake } from './refused-body.ts';
import { requireGrant } from './require-grant.ts';
import { GivenOrganisationRole, GivenWorkspaceRole, readWorkspaceRole } from './role-schema.ts';
import { Name, strict } from './text-schema.ts';

/** Whom to invite, and to what. */
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
        { maxItems: 100, description: 'The workspaces that they become a member of; `member` by default.' },
      ),
    ),
    workspace_api_key_details: Type.Optional(
      Type.Object(
        {
          scopes: Type.Array(Type.String({ minLength: 1, maxLength: 255 }), {
            maxItems: 300,
            description:
              'When not empty, a key with these scopes is made for them in each of the workspaces.',
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
 * The scopes of the keys to be made, in their own spelling and once each. Throws `invalid_request` for those that keys
 * of people cannot hold and for those that the actor cannot give.
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

/** Who invites, and what they said. */
export interface Invitation {
  readonly body: Body;
  readonly role: Role;
}

/**
 * The workspaces that a body names, with the roles in them. Throws `invalid_request` with every mistake: those that are
 * not there, that are archived, and that are named a second time.
 */
export async function invitedWorkspaces(
  { workspaces }: Pick<ResourcesReader, 'workspaces'>,
  { organisationId }: KeyRecord,
  { body, role: actor }: Invitation,
): Promise<InviteRecord['workspaces']> {
  const found = new Map<string, InviteRecord['workspaces'][number]>();
  const mistakes: BodyMistake[] = [];
  for (const [index, { id: named, role = 'member' }] of (body.workspaces ?? []).entries()) {
    const path = `/workspaces/${index}/id`;
    const shown = named.slice(0, 64);
    const workspace = await workspaces.find(organisationId, named);
    requireGrant(actor, readWorkspaceRole(role));
    if (workspace === undefined)
      mistakes.push({ path, message: `names "${shown}", and the organisation has no such workspace` });
    else if (workspace.status === 'archived')
      mistakes.push({ path, message: `names "${shown}", which is archived` });
    else if (found.has(workspace.id))
      mistakes.push({ path, message: `names "${shown}" once more; keep one` });
    else found.set(workspace.id, { id: workspace.id, role: readWorkspaceRole(role) });
  }
  if (mistakes.length > 0) throw refusedBody(mistakes);
  return [...found.values()];
}
