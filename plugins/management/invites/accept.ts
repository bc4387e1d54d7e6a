import type { InviteRecord, UserRecord } from '../../../core/ports/people.ts';
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
import type { ResourcesWriter, WorkspaceRecord } from '../../../core/ports/resources.ts';
import { linkOrigin } from '../../../core/pipeline/browser.ts';
import { userRecords } from '../users/record.ts';
import { storedRecords } from '../shared/records.ts';
import { strict } from '../shared/fields.ts';
import { memberRecords } from '../workspaces/members.ts';
import { newKeys, type NewSecret } from '../api-keys/access.ts';
import { settingsInForce } from '../settings/routes.ts';
import { sha256 } from '../../../core/base/bytes.ts';

/** State of an invite at `now` (milliseconds since the epoch). */
export function statusOf({ status, expiresAt }: InviteRecord, now: number): InviteRecord['status'] {
  return status === 'pending' && expiresAt <= now ? 'expired' : status;
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
export function acceptInviteRoute({ clock, keyPrefix }: Scope): RouteDefinition {
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
      user: userRecords.Reply,
      api_keys: Type.Array(Key),
    }),
    examples: {
      request: { token: 'q3Vv0n4Dq2bY8kXwT1mZs7RcLe5HjUa9', first_name: 'Ann', last_name: 'Lee' },
      response: { object: 'accepted-invite', user: userRecords.example, api_keys: [] },
    },
    async handle({ body, key, write }) {
      const now = clock.now();
      return write(async (writer) => {
        const invite = await writer.invites.find(key.organisationId, key.id);
        // The invite may have been accepted or cancelled in between.
        if (invite === undefined || statusOf(invite, now) !== 'pending') throw storedRecords.stale();
        const user = await userOf(writer, invite, {
          firstName: body.first_name ?? '',
          lastName: body.last_name ?? '',
          now,
        });
        const joined = await join(writer, invite, { user, now });
        const keys = [];
        for (const workspace of joined) {
          const secret = newKeys.secret(keyPrefix);
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
        if (!isReplaced) throw storedRecords.stale();
        const shown = userRecords.show(
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
  if (most !== undefined && (await newKeys.ofPeople(writer, place, now)) >= most) return undefined;
  const record = newKeys.ofUser({ invite, user, workspaceId: workspace.id, secret, rules, now });
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
    if (present === undefined)
      await memberRecords.insert(writer, workspace, { wanted: [{ user, role }], now });
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
export function newInviteLink(context: RequestContext, publicUrl: string | undefined): NewInviteLink {
  const token = `wi_${randomBytes(32).toString('base64url')}`;
  return { link: `${linkOrigin(context, publicUrl)}/invite#${token}`, tokenHash: hashOfToken(token) };
}

/** Stored hash of a token (SHA-256, base64). */
function hashOfToken(token: string): string {
  return sha256(token, 'base64');
}
