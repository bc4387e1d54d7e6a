import { randomUUID } from 'node:crypto';
import type { RouteDefinition } from '../../../core/pipeline/define-route.ts';
import { defineRoute, GatewayError, type Scope, type Static, Type } from '../../../core/pipeline/plugin.ts';
import type { KeyRecord } from '../../../core/ports/directory.ts';
import type { InviteFilter, InviteRecord } from '../../../core/ports/people.ts';
import type { ResourcesReader } from '../../../core/ports/resources.ts';
import { acceptInviteRoute, newInviteLink, statusOf } from './accept.ts';
import { listReplies, paging } from '../shared/replies.ts';
import { readWorkspaceRole, requireGrant, roleSchemas } from '../users/record.ts';
import { storedRecords } from '../shared/records.ts';
import { Identifier, Name, orNull, refusedBody, strict } from '../shared/fields.ts';
import { canonicalScope, refuseScopes, type Role } from '../../../core/access/scopes.ts';
import type { Mistake } from '../../../core/base/json.ts';

/** Body that creates an invite. */
const CreateInvite = Type.Object(
  {
    email: Type.String({ format: 'email', maxLength: 255 }),
    role: roleSchemas.GivenOrganisation,
    workspaces: Type.Optional(
      Type.Array(
        Type.Object(
          { id: Name('A workspace, by its id or slug.'), role: Type.Optional(roleSchemas.GivenWorkspace) },
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
function inviteScopes(actor: KeyRecord, { workspace_api_key_details: details }: Body): readonly string[] {
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
async function invitedWorkspaces(
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
const InviteStatus = Type.Union([
  Type.Literal('pending'),
  Type.Literal('cancelled'),
  Type.Literal('accepted'),
  Type.Literal('expired'),
]);

/** An invite as the API shows it: never its token. */
const InviteReply = Type.Object({
  object: Type.Literal('invite'),
  id: Type.String(),
  email: Type.String(),
  role: roleSchemas.GivenOrganisation,
  status: InviteStatus,
  workspaces: Type.Array(Type.Object({ id: Type.String(), role: roleSchemas.Workspace })),
  workspace_api_key_details: Type.Object({ scopes: Type.Array(Type.String()) }),
  invited_by: Type.String({ description: 'Id of the user or key that created the invite.' }),
  created_at: Type.String(),
  expires_at: Type.String(),
  accepted_at: orNull(Type.String()),
});

/** Converts a stored invite to the API's shape. After its lifetime it shows `expired`, even before the job marks it. */
function showInvite(invite: InviteRecord, now: number): Static<typeof InviteReply> {
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

/** Example for the reference. */
const inviteExample: Static<typeof InviteReply> = {
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

/** Lifetime of an invite: 7 days. */
const inviteLifeMs = 7 * 24 * 3_600_000;

const path = '/admin/users/invites';
const Params = Type.Object({ inviteId: Identifier });
const linkExample = 'https://gateway.example.com/invite#wi_…';
const link = Type.String({ description: 'Link for the invited person only; shown only in this answer.' });

/** The routes of invites. */
export function inviteRoutes(scope: Scope): readonly RouteDefinition[] {
  return [
    createRoute(scope),
    listRoute(scope),
    getRoute(scope),
    cancelRoute(scope),
    resendRoute(scope),
    acceptInviteRoute(scope),
  ];
}

function createRoute({ clock, publicUrl }: Scope): RouteDefinition {
  return defineRoute({
    id: 'invites.create',
    method: 'POST',
    path,
    summary: 'Invites a person into the organisation and its workspaces',
    scope: 'organisation_users.create',
    audit: 'create',
    body: CreateInvite,
    reply: Type.Object({ id: Type.String(), object: Type.Literal('invite'), invite_link: link }),
    examples: {
      request: { email: 'ann@example.com', role: 'member', workspaces: inviteExample.workspaces },
      response: { id: inviteExample.id, object: 'invite', invite_link: linkExample },
    },
    async handle({ body, key, role, context, write }) {
      requireGrant(role, body.role);
      const keyScopes = inviteScopes(key, body);
      const made = newInviteLink(context, publicUrl);
      const now = clock.now();
      const email = body.email.toLowerCase();
      const id = randomUUID();
      await write(async (writer) => {
        if ((await writer.users.byEmail(key.organisationId, email)) !== undefined) {
          throw new GatewayError(
            'already_exists',
            `${email} belongs to the organisation already. Add them to workspaces instead.`,
          );
        }
        const workspaces = await invitedWorkspaces(writer, key, { body, role });
        // An expired invite that is not marked yet must not block a new one.
        await writer.invites.expireDue(key.organisationId, now);
        await writer.invites.insert({
          id,
          organisationId: key.organisationId,
          email,
          role: body.role,
          workspaces,
          keyScopes,
          status: 'pending',
          tokenHash: made.tokenHash,
          invitedBy: key.userId || key.id,
          expiresAt: now + inviteLifeMs,
          acceptedAt: undefined,
          createdAt: now,
          updatedAt: now,
          version: 1,
        });
        return { id, result: undefined };
      });
      return { id, object: 'invite' as const, invite_link: made.link };
    },
  });
}

function listRoute({ clock }: Scope): RouteDefinition {
  return defineRoute({
    id: 'invites.list',
    method: 'GET',
    path,
    summary: 'Invites of the organisation, oldest first',
    scope: 'organisation_users.list',
    // Reads only.
    audit: null,
    query: Type.Object(
      {
        ...paging.query,
        role: Type.Optional(roleSchemas.GivenOrganisation),
        email: Type.Optional(Type.String({ maxLength: 255 })),
        status: Type.Optional(InviteStatus),
      },
      strict,
    ),
    reply: Type.Object({ ...listReplies.of, data: Type.Array(InviteReply) }),
    examples: { response: { object: 'list', total: 1, data: [inviteExample] } },
    async handle({ query, key, read }) {
      const filter: InviteFilter = {
        ...(query.role !== undefined && { role: query.role }),
        ...(query.email !== undefined && { email: query.email }),
        ...(query.status !== undefined && { status: query.status }),
      };
      const page = paging.of(query);
      const { total, data } = await read(({ invites }) => invites.list(key.organisationId, filter, page));
      const now = clock.now();
      return { object: 'list' as const, total, data: data.map((invite) => showInvite(invite, now)) };
    },
  });
}

function getRoute({ clock }: Scope): RouteDefinition {
  return defineRoute({
    id: 'invites.get',
    method: 'GET',
    path: `${path}/{inviteId}`,
    summary: 'One invite',
    scope: 'organisation_users.read',
    // Reads only.
    audit: null,
    params: Params,
    reply: InviteReply,
    examples: { response: inviteExample },
    async handle({ params, key, read, sendVersion }) {
      const invite = await read((reader) => visibleInvite(reader, key, params.inviteId));
      sendVersion(invite.version);
      return showInvite(invite, clock.now());
    },
  });
}

function cancelRoute({ clock }: Scope): RouteDefinition {
  return defineRoute({
    id: 'invites.delete',
    method: 'DELETE',
    path: `${path}/{inviteId}`,
    summary: 'Cancels an invite; its link becomes invalid',
    scope: 'organisation_users.delete',
    audit: 'delete',
    params: Params,
    reply: Type.Object({}),
    examples: { response: {} },
    async handle({ params, key, write, requireVersion }) {
      await write(async (writer) => {
        const before = await visibleInvite(writer, key, params.inviteId);
        requireVersion(before.version);
        if (before.status === 'accepted') throw alreadyAcceptedError(before);
        const change = { updatedAt: clock.now(), version: before.version + 1 };
        const after: InviteRecord = { ...before, status: 'cancelled', ...change };
        if (before.status !== 'cancelled' && !(await writer.invites.replace(after)))
          throw storedRecords.stale();
        return { id: before.id, result: undefined };
      });
      return {};
    },
  });
}

function resendRoute({ clock, publicUrl }: Scope): RouteDefinition {
  return defineRoute({
    id: 'invites.resend',
    method: 'POST',
    path: `${path}/{inviteId}/resend`,
    summary: 'Creates a new link for an invite, with the full lifetime; the previous link becomes invalid',
    scope: 'organisation_users.create',
    audit: 'update',
    params: Params,
    reply: Type.Object({
      invite_link: link,
      inviteLink: Type.String({ description: 'Same value, for clients that read it here.' }),
    }),
    examples: { response: { invite_link: linkExample, inviteLink: linkExample } },
    async handle({ params, key, role, context, write }) {
      const made = newInviteLink(context, publicUrl);
      const now = clock.now();
      await write(async (writer) => {
        const before = await visibleInvite(writer, key, params.inviteId);
        requireGrant(role, before.role);
        const status = statusOf(before, now);
        if (status === 'accepted') throw alreadyAcceptedError(before);
        if (status === 'cancelled') {
          throw new GatewayError(
            'resource_conflict',
            `The invite of ${before.email} was cancelled. Invite them again.`,
          );
        }
        const isReplaced = await writer.invites.replace({
          ...before,
          status: 'pending',
          tokenHash: made.tokenHash,
          expiresAt: now + inviteLifeMs,
          updatedAt: now,
          version: before.version + 1,
        });
        if (!isReplaced) throw storedRecords.stale();
        return { id: before.id, result: undefined };
      });
      return { invite_link: made.link, inviteLink: made.link };
    },
  });
}

/**
 * The invite with this id. Throws `resource_not_found`, with the same message for an unknown invite and for one of
 * another organisation.
 */
async function visibleInvite(
  { invites }: Pick<ResourcesReader, 'invites'>,
  key: KeyRecord,
  id: string,
): Promise<InviteRecord> {
  const found = await invites.find(key.organisationId, id);
  if (found !== undefined) return found;
  throw new GatewayError(
    'resource_not_found',
    `No invite "${id.slice(0, 64)}" is visible to this key. Check the id.`,
  );
}

function alreadyAcceptedError({ email }: InviteRecord): GatewayError {
  return new GatewayError(
    'resource_conflict',
    `${email} has accepted the invite already. Change or remove the user instead.`,
  );
}
