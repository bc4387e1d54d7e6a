import { type ApiKeyType, hasScope, heldScopes, managesKeys, reachOf } from '../../../core/access/scopes.ts';
import { dailyRotation } from '../../../core/organisation/key-rotation.ts';
import type { RouteDefinition, RouteInput } from '../../../core/pipeline/define-route.ts';
import { defineRoute, GatewayError, type Scope, Type } from '../../../core/pipeline/plugin.ts';
import type {
  ApiKeyFilter,
  ApiKeyRecord,
  KeyRotation,
  ResourcesReader,
} from '../../../core/ports/resources.ts';
import { refusedBody } from '../shared/fields.ts';
import type { UserKeyRules } from '../../../core/ports/organisation-settings.ts';
import { requireGrant, userRecords } from '../users/record.ts';
import { randomBytes, randomUUID } from 'node:crypto';
import type { InviteRecord, UserRecord } from '../../../core/ports/people.ts';
import { sha256 } from '../../../core/base/bytes.ts';
import { settingsFor, type SettingsSource } from '../shared/data-visibility.ts';

/** Makes keys and their secrets. */
export const newKeys = { ofUser: newUserKey, ofPeople: keysOfPeople, secret: newSecret };

const dayMs = 86_400_000;
type Reader = Pick<ResourcesReader, 'apiKeys' | 'members' | 'users'>;

/**
 * User id for a new key of the workspace: the named user, else the caller; empty when the caller is not a user. Throws
 * `invalid_request` for a user who is neither a member of the workspace nor a manager of the organisation,
 * `scope_missing` for another user whose role is above the caller's.
 */
async function ownerOfKey(
  reader: Reader,
  actor: Actor,
  workspaceId: string,
  named: string | undefined,
): Promise<string> {
  const { organisationId, userId } = actor.key;
  const wanted = named ?? userId;
  if (wanted === '') return '';
  const [user] = await userRecords.named(reader, organisationId, [{ path: '/user_id', idOrEmail: wanted }]);
  if (user === undefined) return '';
  const isManaging = user.role !== 'member';
  if (!isManaging && (await reader.members.find(organisationId, workspaceId, user.id)) === undefined) {
    const message = `names ${user.email}, who is no member of the workspace; add them to it first`;
    throw refusedBody([{ path: '/user_id', message }]);
  }
  if (user.id !== userId) requireGrant(actor.role, user.role);
  return user.id;
}

/** Workspace whose keys are counted. */
type Place = Pick<ApiKeyRecord, 'organisationId'> & { readonly workspaceId: string };

/** Number of user keys of a workspace that are not expired at `now` (milliseconds since the epoch). */
async function keysOfPeople(
  { apiKeys }: Pick<ResourcesReader, 'apiKeys'>,
  { organisationId, workspaceId }: Place,
  now: number,
): Promise<number> {
  const filter = { workspaceId, types: ['workspace-user'], aliveAt: now } as const;
  return (await apiKeys.list(organisationId, filter, { offset: 0, limit: 0 })).total;
}

/** Throws `resource_conflict` when the workspace has as many user keys as its settings allow. */
async function requireRoom(
  { apiKeys }: Reader,
  { organisationId, workspaceId }: Place,
  { maxPerWorkspace }: UserKeyRules,
  now: number,
): Promise<void> {
  if (maxPerWorkspace === undefined) return;
  const total = await keysOfPeople({ apiKeys }, { organisationId, workspaceId }, now);
  if (total < maxPerWorkspace) return;
  throw new GatewayError(
    'resource_conflict',
    `The workspace has ${total} keys of people that have not ended, and its settings allow ${maxPerWorkspace} (user_api_keys.max_per_workspace). Delete one first.`,
  );
}

/**
 * Expiry of a user key. `wanted` is the requested expiry: null for never, undefined when the request names none. Throws
 * `invalid_request`, naming the latest moment, when it is later than the settings allow.
 */
function endOfKey(
  wanted: number | null | undefined,
  { defaultDays, maxDays }: UserKeyRules,
  createdAt: number,
): number | undefined {
  const latest = maxDays === undefined ? undefined : createdAt + maxDays * dayMs;
  if (wanted === undefined) return defaultDays === undefined ? latest : createdAt + defaultDays * dayMs;
  if (latest === undefined || (wanted !== null && wanted <= latest)) return wanted ?? undefined;
  const message = `must be ${new Date(latest).toISOString()} or earlier: the settings let keys of people live for ${maxDays} days`;
  throw refusedBody([{ path: '/expires_at', message }]);
}

/** The same for a key that is new. */
function firstRotationOf({ rotationDays }: UserKeyRules, now: number): KeyRotation | undefined {
  return rotationDays === undefined ? undefined : dailyRotation(rotationDays, now);
}

/** Action on a key; the second part of its scope. */
type ApiKeyAction = 'create' | 'read' | 'update' | 'delete' | 'list' | 'rotate';

const resources: Readonly<Record<ApiKeyType, string>> = {
  'organisation-service': 'organisation_service_api_keys',
  'workspace-service': 'workspace_service_api_keys',
  'workspace-user': 'workspace_user_api_keys',
};

/** All types of keys. */
const apiKeyTypes: readonly ApiKeyType[] = ['organisation-service', 'workspace-service', 'workspace-user'];

/** Says what a caller may do with a key. */
export const keyAccess = {
  types: apiKeyTypes,
  ownerOf: ownerOfKey,
  requireRoom,
  endOf: endOfKey,
  firstRotationOf,
  scope: keyScope,
  scopes: keyScopes,
  requireManager,
  visibleKeys,
  visibleKey,
};

/** Scope for an action on keys of a type. */
function keyScope(type: ApiKeyType, action: ApiKeyAction): string {
  return `${resources[type]}.${action}`;
}

/** Scopes for an action on keys; the caller needs one of them. */
function keyScopes(action: ApiKeyAction): readonly string[] {
  return apiKeyTypes.map((type) => keyScope(type, action));
}

/** The caller's key and role, part of the input of every route. */
export type Actor = Pick<RouteInput<unknown, unknown, unknown>, 'key' | 'role'>;

/** Throws `scope_missing` when the actor's role does not manage keys of this type. */
function requireManager({ key: actor, role }: Actor, type: ApiKeyType): void {
  if (managesKeys(role, type)) return;
  const who =
    type === 'organisation-service'
      ? 'owners and admins of the organisation manage its keys. Use a key of one of them'
      : 'managers of a workspace, and owners and admins of the organisation, manage keys of the workspace. Use a key of one of them, or a service key of the workspace';
  throw new GatewayError('scope_missing', `The key "${actor.name}" acts as ${role}: ${who}.`);
}

/** Filter for the keys that the actor sees: those in reach of its key; as a member, only its own ones. */
function visibleKeys({ key, role }: Actor): Pick<ApiKeyFilter, 'workspaceId' | 'userId' | 'ids'> {
  const { workspaceId } = reachOf(key);
  if (role !== 'member') return { workspaceId };
  return key.userId === '' ? { workspaceId, ids: [key.id] } : { workspaceId, userId: key.userId };
}

/** The key with this id. Throws `resource_not_found` when the actor does not see it, `scope_missing` without the scope. */
async function visibleKey(
  { apiKeys }: Pick<ResourcesReader, 'apiKeys'>,
  actor: Actor,
  id: string,
  action: ApiKeyAction,
): Promise<ApiKeyRecord> {
  const { workspaceId, userId, ids } = visibleKeys(actor);
  const found = await apiKeys.find(actor.key.organisationId, id);
  const isVisible =
    (workspaceId === undefined || found?.workspaceId === workspaceId) &&
    (userId === undefined || found?.userId === userId) &&
    (ids === undefined || ids.includes(id));
  if (found === undefined || !isVisible) {
    throw new GatewayError(
      'resource_not_found',
      `No key "${id.slice(0, 64)}" is visible to this key. Check its id.`,
    );
  }
  const scope = keyScope(found.type, action);
  if (!hasScope(actor.key, scope))
    throw new GatewayError('scope_missing', `The key "${actor.key.name}" lacks the scope "${scope}".`);
  if (action !== 'read') requireManager(actor, found.type);
  return found;
}

/** Input for a key that an invite promised. */
interface PromisedKey {
  readonly invite: InviteRecord;
  readonly user: UserRecord;
  readonly workspaceId: string;
  readonly secret: NewSecret;
  readonly rules: UserKeyRules;
  /** Milliseconds since the epoch. */
  readonly now: number;
}

/** User key for an accepted invite, in one of its workspaces. Its expiry is the default of that workspace. */
function newUserKey({ invite, user, workspaceId, secret, rules, now }: PromisedKey): ApiKeyRecord {
  return {
    id: randomUUID(),
    organisationId: invite.organisationId,
    workspaceId,
    userId: user.id,
    name: `${user.email.slice(0, 240)} (invite)`,
    description: '',
    type: 'workspace-user',
    status: 'active',
    scopes: invite.keyScopes,
    rateLimits: [],
    usageLimits: undefined,
    defaults: {},
    alertEmails: [],
    masked: secret.masked,
    secrets: [{ hash: secret.hash, expiresAt: undefined }],
    creationMode: 'auto',
    expiresAt: endOfKey(undefined, rules, now),
    rotation: firstRotationOf(rules, now),
    createdAt: now,
    updatedAt: now,
    version: 1,
  };
}

/** A new secret. */
export interface NewSecret {
  /** Plain text, returned to its holder once. */
  readonly text: string;
  /** Stored hash. */
  readonly hash: string;
  /** Text for lists: its first and last letters. */
  readonly masked: string;
}

/** A new secret: the prefix of service keys and 240 random bits. */
function newSecret(keyPrefix: string): NewSecret {
  const random = randomBytes(30).toString('base64url');
  const text = keyPrefix + random;
  return {
    text,
    hash: sha256(text, 'base64'),
    masked: `${keyPrefix}${random.slice(0, 2)}…${random.slice(-2)}`,
  };
}

const Caller = Type.Object({
  object: Type.Literal('caller'),
  id: Type.String({ description: 'Id of the key; of a token, its subject.' }),
  name: Type.String(),
  type: Type.String({
    description: '`owner`, `organisation-service`, `workspace-service` or `workspace-user`.',
  }),
  is_token: Type.Boolean({ description: 'True for a JSON Web Token.' }),
  organisation_id: Type.String(),
  workspace_id: Type.String({ description: 'Workspace in which its requests are logged.' }),
  user_id: Type.String({ description: 'Empty for keys of services.' }),
  role: Type.String({ description: '`owner`, `admin`, `manager` or `member`.' }),
  scopes: Type.Array(Type.String(), {
    description:
      'Each scope that the caller holds, by its own name, without those that the settings of its workspace take from its role.',
  }),
  expires_at: Type.Union([Type.String(), Type.Null()]),
  features_off: Type.Array(Type.String(), {
    description: 'Features that the operator of this gateway has switched off.',
  }),
});

/** `GET /me`: who calls, and with which rights. Every caller may ask. */
export function callerRoute({ features, directory }: Pick<Scope, 'features' | 'directory'>): RouteDefinition {
  return defineRoute({
    id: 'caller.get',
    method: 'GET',
    path: '/me',
    summary: 'Get the caller: its key, role and scopes',
    scope: [],
    audit: null,
    reply: Caller,
    handle: ({ key, role }) => ({
      object: 'caller' as const,
      ...{ id: key.id, name: key.name, type: key.kind, is_token: key.isToken === true },
      ...{ organisation_id: key.organisationId, workspace_id: key.workspaceId, user_id: key.userId },
      role,
      scopes: usableScopes({ key, role }, directory),
      expires_at: key.expiresAt === null ? null : new Date(key.expiresAt).toISOString(),
      features_off: [...features.off],
    }),
  });
}

const changing: ReadonlySet<string> = new Set(['create', 'update', 'delete', 'publish']);

/** The scopes of the caller's key, without those that its role may not use by the settings in force. */
function usableScopes(actor: Actor, directory: SettingsSource): string[] {
  const held = [...heldScopes(actor.key)];
  const settings = settingsFor(actor, directory);
  if (settings === undefined) return held;
  const { configs, prompts, data_visibility: data } = settings;
  const who = actor.role === 'manager' ? 'managers' : 'members';
  const isUsable = (views: boolean, writes: boolean, action: string): boolean =>
    changing.has(action) ? writes : views;
  return held.filter((scope) => {
    const [subject, action = ''] = scope.split('.');
    if (subject === 'analytics') return data[`${who}ViewAnalytics`];
    if (subject === 'configs')
      return isUsable(configs[`${who}ViewConfigs`], configs[`${who}WriteConfigs`], action);
    // Rendering one is a part of sending a request.
    if (subject === 'prompts' && action !== 'render')
      return isUsable(prompts[`${who}ViewPrompts`], prompts[`${who}WritePrompts`], action);
    return true;
  });
}
