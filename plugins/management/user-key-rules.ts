import { GatewayError } from '../../core/pipeline/plugin.ts';
import type { UserKeyRules } from '../../core/ports/organisation-settings.ts';
import type { ApiKeyRecord, ResourcesReader } from '../../core/ports/resources.ts';
import type { Actor } from './api-key-access.ts';
import { refusedBody } from './refused-body.ts';
import { requireGrant } from './require-grant.ts';
import { namedUsers } from './visible-user.ts';

const dayMs = 86_400_000;
type Reader = Pick<ResourcesReader, 'apiKeys' | 'members' | 'users'>;

/**
 * The id of whom a key of the workspace is for: who is named, else the caller, else nobody (empty). Throws
 * `invalid_request` for somebody who belongs to neither the workspace nor the management of the organisation,
 * `scope_missing` for somebody else who is above the caller.
 */
export async function ownerOfKey(
  reader: Reader,
  actor: Actor,
  workspaceId: string,
  named: string | undefined,
): Promise<string> {
  const { organisationId, userId } = actor.key;
  const wanted = named ?? userId;
  if (wanted === '') return '';
  const [user] = await namedUsers(reader, organisationId, [{ path: '/user_id', idOrEmail: wanted }]);
  if (user === undefined) return '';
  const isManaging = user.role !== 'member';
  if (!isManaging && (await reader.members.find(organisationId, workspaceId, user.id)) === undefined) {
    const message = `names ${user.email}, who is no member of the workspace; add them to it first`;
    throw refusedBody([{ path: '/user_id', message }]);
  }
  if (user.id !== userId) requireGrant(actor.role, user.role);
  return user.id;
}

/** Throws `scope_missing` when the key is that of somebody above the caller: its new secret would be the caller's. */
export async function requireNotAbove(
  { users }: Pick<ResourcesReader, 'users'>,
  { key, role }: Actor,
  { organisationId, userId }: ApiKeyRecord,
): Promise<void> {
  if (userId === '' || userId === key.userId) return;
  const user = await users.find(organisationId, userId);
  if (user !== undefined) requireGrant(role, user.role);
}

/** Where keys are counted. */
type Place = Pick<ApiKeyRecord, 'organisationId'> & { readonly workspaceId: string };

/** How many keys of people that have not ended by `now` (milliseconds since the epoch) a workspace has. */
export async function keysOfPeople(
  { apiKeys }: Pick<ResourcesReader, 'apiKeys'>,
  { organisationId, workspaceId }: Place,
  now: number,
): Promise<number> {
  const filter = { workspaceId, types: ['workspace-user'], aliveAt: now } as const;
  return (await apiKeys.list(organisationId, filter, { offset: 0, limit: 0 })).total;
}

/** Throws `resource_conflict` when the workspace has as many keys of people as its settings let it have. */
export async function requireRoom(
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
 * When a key of somebody ends. `wanted`: what its maker said, null for never and undefined for nothing. Throws
 * `invalid_request`, naming the latest moment, when that is later than the settings allow.
 */
export function endOfKey(
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
