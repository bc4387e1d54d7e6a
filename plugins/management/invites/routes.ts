import { randomBytes, randomUUID } from 'node:crypto';
import type { RouteDefinition, RouteInput } from '../../../core/pipeline/define-route.ts';
import {
  defineRoute,
  GatewayError,
  type RequestContext,
  type Scope,
  Type,
} from '../../../core/pipeline/plugin.ts';
import type { KeyRecord } from '../../../core/ports/directory.ts';
import type { InviteFilter, InviteRecord, UserRecord } from '../../../core/ports/people.ts';
import type { ResourcesReader, ResourcesWriter, WorkspaceRecord } from '../../../core/ports/resources.ts';
import {
  CreateInvite,
  invitedWorkspaces,
  inviteExample,
  InviteReply,
  inviteScopes,
  InviteStatus,
  showInvite,
  statusOf,
} from './record.ts';
import { linkOrigin } from '../../../core/pipeline/browser.ts';
import { listReply, pageOf, pageQuery } from '../shared/replies.ts';
import { GivenOrganisationRole, requireGrant, showUser, userExample, UserReply } from '../users/record.ts';
import { staleVersion } from '../shared/records.ts';
import { Identifier, strict } from '../shared/fields.ts';
import { insertMembers } from '../workspaces/members.ts';
import { keysOfPeople, newSecret, type NewSecret, newUserKey } from '../api-keys/access.ts';
import { settingsInForce } from '../settings/record.ts';
import { sha256 } from '../../../core/base/bytes.ts';

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

const acceptScope = 'invites.accept';
const FirstOrLast = Type.Optional(Type.String({ maxLength: 255 }));

const Body = Type.Object(
  {
    token: Type.String({
      minLength: 16,
      maxLength: 255,
      description: 'Token after the `#` of the link.',
    }),
    first_name: FirstOrLast,
    last_name: FirstOrLast,
  },
  strict,
);

const Key = Type.Object({
  object: Type.Literal('api-key'),
  id: Type.String(),
  workspace_id: Type.String(),
  key: Type.String({ description: 'Secret, shown only in this answer.' }),
});

/** `POST /invites/accept`: the bearer of the link becomes the invited user. It needs no service key. */
function acceptInviteRoute({ clock, keyPrefix }: Scope): RouteDefinition {
  return defineRoute({
    id: 'invites.accept',
    method: 'POST',
    path: '/invites/accept',
    summary: 'Accepts an invite with the token of its link; creates the user, memberships and keys',
    scope: acceptScope,
    identify: ({ token }, read) => invited(token, read, clock.now()),
    audit: 'accept',
    body: Body,
    reply: Type.Object({
      object: Type.Literal('accepted-invite'),
      user: UserReply,
      api_keys: Type.Array(Key),
    }),
    examples: {
      request: { token: 'q3Vv0n4Dq2bY8kXwT1mZs7RcLe5HjUa9', first_name: 'Ann', last_name: 'Lee' },
      response: { object: 'accepted-invite', user: userExample, api_keys: [] },
    },
    async handle({ body, key, write }) {
      const now = clock.now();
      return write(async (writer) => {
        const invite = await writer.invites.find(key.organisationId, key.id);
        // The invite may have been accepted or cancelled in between.
        if (invite === undefined || statusOf(invite, now) !== 'pending') throw staleVersion();
        const user = await userOf(writer, invite, {
          firstName: body.first_name ?? '',
          lastName: body.last_name ?? '',
          now,
        });
        const joined = await join(writer, invite, { user, now });
        const keys = [];
        for (const workspace of joined) {
          const secret = newSecret(keyPrefix);
          const id = await giveKey(writer, invite, { user, workspace, secret, now });
          if (id === undefined) continue;
          const object = 'api-key' as const;
          keys.push({ object, id, workspace_id: workspace.id, key: secret.text });
        }
        const change = { updatedAt: now, version: invite.version + 1 };
        const isReplaced = await writer.invites.replace({
          ...invite,
          status: 'accepted',
          acceptedAt: now,
          ...change,
        });
        if (!isReplaced) throw staleVersion();
        const shown = showUser(
          user,
          joined.map(({ id }) => id),
        );
        return { id: invite.id, result: { object: 'accepted-invite' as const, user: shown, api_keys: keys } };
      });
    },
  });
}

/** Key for the bearer of the token: it may accept the invite and nothing else. */
async function invited(
  token: string,
  read: RouteInput<unknown, unknown, unknown>['read'],
  now: number,
): Promise<KeyRecord> {
  const invite = await read(({ invites }) => invites.byTokenHash(hashOfToken(token)));
  const status = invite === undefined ? undefined : statusOf(invite, now);
  if (invite === undefined || status !== 'pending') throw inviteRefusedError(status);
  return {
    id: invite.id,
    name: `invite of ${invite.email}`,
    kind: 'workspace-user',
    organisationId: invite.organisationId,
    workspaceId: '',
    userId: '',
    scopes: [acceptScope],
    expiresAt: invite.expiresAt,
  };
}

function inviteRefusedError(status: InviteRecord['status'] | undefined): GatewayError {
  const why = {
    accepted: 'This invite was accepted already: a link works once.',
    cancelled: 'This invite was cancelled.',
    expired: 'This invite has expired.',
    none: 'This link is not known here: it was not copied whole, or a newer one was sent.',
  }[status === undefined || status === 'pending' ? 'none' : status];
  return new GatewayError('key_invalid', `${why} Ask the person who invited you for a new one.`, {
    param: '/token',
  });
}

interface Holder {
  readonly user: UserRecord;
  readonly workspace: WorkspaceRecord;
  readonly secret: NewSecret;
  readonly now: number;
}

/**
 * Stores the key that the invite promised for a workspace and returns its id. Undefined when it promised none, and when
 * the workspace has as many user keys as its settings allow: the user joins without a key, and a manager can add one.
 */
async function giveKey(
  writer: ResourcesWriter,
  invite: InviteRecord,
  { user, workspace, secret, now }: Holder,
): Promise<string | undefined> {
  if (invite.keyScopes.length === 0) return undefined;
  const place = { organisationId: invite.organisationId, workspaceId: workspace.id };
  const { user_api_keys: rules } = await settingsInForce(writer, place.organisationId, place.workspaceId);
  const most = rules.maxPerWorkspace;
  if (most !== undefined && (await keysOfPeople(writer, place, now)) >= most) return undefined;
  const record = newUserKey({ invite, user, workspaceId: workspace.id, secret, rules, now });
  await writer.apiKeys.insert(record);
  return record.id;
}

interface Person {
  readonly firstName: string;
  readonly lastName: string;
  readonly now: number;
}

/** The user with the invite's address, created unless one exists meanwhile. */
async function userOf(
  { users }: Pick<ResourcesWriter, 'users'>,
  { organisationId, email, role }: InviteRecord,
  { firstName, lastName, now }: Person,
): Promise<UserRecord> {
  const present = await users.byEmail(organisationId, email);
  if (present !== undefined) return present;
  const user: UserRecord = {
    id: randomUUID(),
    organisationId,
    email,
    firstName,
    lastName,
    role,
    createdAt: now,
    updatedAt: now,
    version: 1,
  };
  await users.insert(user);
  return user;
}

/** Makes the user a member of the invite's workspaces, except deleted and archived ones. */
async function join(
  writer: ResourcesWriter,
  { organisationId, workspaces }: InviteRecord,
  { user, now }: { readonly user: UserRecord; readonly now: number },
): Promise<readonly WorkspaceRecord[]> {
  const joined: WorkspaceRecord[] = [];
  for (const { id, role } of workspaces) {
    const workspace = await writer.workspaces.find(organisationId, id);
    if (workspace?.status !== 'active') continue;
    const present = await writer.members.find(organisationId, workspace.id, user.id);
    if (present === undefined) await insertMembers(writer, workspace, { wanted: [{ user, role }], now });
    joined.push(workspace);
  }
  return joined;
}

/** A new link. */
interface NewInviteLink {
  /** URL for the invited person; shown once. */
  readonly link: string;
  /** Stored hash of the token. */
  readonly tokenHash: string;
}

/**
 * A new link: 256 random bits after the `#`, which browsers never send. Its host is `publicUrl` (`server.public_url`),
 * without one the address of the request.
 */
function newInviteLink(context: RequestContext, publicUrl: string | undefined): NewInviteLink {
  const token = `wi_${randomBytes(32).toString('base64url')}`;
  return { link: `${linkOrigin(context, publicUrl)}/invite#${token}`, tokenHash: hashOfToken(token) };
}

/** Stored hash of a token (SHA-256, base64). */
function hashOfToken(token: string): string {
  return sha256(token, 'base64');
}
