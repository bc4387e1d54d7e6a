import { randomUUID } from 'node:crypto';
import type { RouteDefinition } from '../../../core/pipeline/define-route.ts';
import { defineRoute, GatewayError, Type, type Scope } from '../../../core/pipeline/plugin.ts';
import type { KeyRecord } from '../../../core/ports/directory.ts';
import type { InviteFilter, InviteRecord } from '../../../core/ports/people.ts';
import type { ResourcesReader } from '../../../core/ports/resources.ts';
import { acceptInviteRoute } from './accept.ts';
import {
  CreateInvite,
  invitedWorkspaces,
  inviteExample,
  inviteLifeMs,
  InviteReply,
  inviteScopes,
  InviteStatus,
  newInviteLink,
  showInvite,
  statusOf,
} from './record.ts';
import { listReply, pageOf, pageQuery } from '../shared/replies.ts';
import { requireGrant } from '../users/visible.ts';
import { GivenOrganisationRole } from '../users/record.ts';
import { staleVersion } from '../shared/records.ts';
import { Identifier, strict } from '../shared/fields.ts';

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
        ...pageQuery,
        role: Type.Optional(GivenOrganisationRole),
        email: Type.Optional(Type.String({ maxLength: 255 })),
        status: Type.Optional(InviteStatus),
      },
      strict,
    ),
    reply: Type.Object({ ...listReply, data: Type.Array(InviteReply) }),
    examples: { response: { object: 'list', total: 1, data: [inviteExample] } },
    async handle({ query, key, read }) {
      const filter: InviteFilter = {
        ...(query.role !== undefined && { role: query.role }),
        ...(query.email !== undefined && { email: query.email }),
        ...(query.status !== undefined && { status: query.status }),
      };
      const page = pageOf(query);
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
        if (before.status !== 'cancelled' && !(await writer.invites.replace(after))) throw staleVersion();
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
        if (!isReplaced) throw staleVersion();
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
