import { holds, reachOf, refuseScopes } from '../../core/access/access.ts';
import { managesKeys } from '../../core/access/roles.ts';
import { canonicalScope, type ApiKeyType } from '../../core/access/scopes.ts';
import { withFullStop } from '../../core/errors/full-stop.ts';
import type { RouteInput } from '../../core/pipeline/define-route.ts';
import { GatewayError } from '../../core/pipeline/plugin.ts';
import type { KeyRecord } from '../../core/ports/directory.ts';
import type { ApiKeyFilter, ApiKeyRecord, ResourcesReader } from '../../core/ports/resources.ts';
import { refusedBody, shownMistakes } from './refused-body.ts';

/** What can be done with a key; the second part of its scope. */
export type ApiKeyAction = 'create' | 'read' | 'update' | 'delete' | 'list' | 'rotate';

const resources: Readonly<Record<ApiKeyType, string>> = {
  'organisation-service': 'organisation_service_api_keys',
  'workspace-service': 'workspace_service_api_keys',
  'workspace-user': 'workspace_user_api_keys',
};

/** All types of keys. */
export const apiKeyTypes: readonly ApiKeyType[] = [
  'organisation-service',
  'workspace-service',
  'workspace-user',
];

/** The scope that something with keys of a type needs. */
export function keyScope(type: ApiKeyType, action: ApiKeyAction): string {
  return `${resources[type]}.${action}`;
}

/** The scopes one of which is needed to do something with keys. */
export function keyScopes(action: ApiKeyAction): readonly string[] {
  return apiKeyTypes.map((type) => keyScope(type, action));
}

/** Who does something: the input of every route says it. */
export type Actor = Pick<RouteInput<unknown, unknown, unknown>, 'key' | 'role'>;

/** Throws `scope_missing` when the actor's role does not manage keys of this type. */
export function requireManager({ key: actor, role }: Actor, type: ApiKeyType): void {
  if (managesKeys(role, type)) return;
  const who =
    type === 'organisation-service'
      ? 'owners and admins of the organisation manage its keys. Use a key of one of them'
      : 'managers of a workspace, and owners and admins of the organisation, manage keys of the workspace. Use a key of one of them, or a service key of the workspace';
  throw new GatewayError('scope_missing', `The key "${actor.name}" acts as ${role}: ${who}.`);
}

/** The keys that the actor sees: what its key reaches, and of that its own alone when it acts as a member. */
export function visibleKeys({ key, role }: Actor): Pick<ApiKeyFilter, 'workspaceId' | 'userId' | 'ids'> {
  const { workspaceId } = reachOf(key);
  if (role !== 'member') return { workspaceId };
  return key.userId === '' ? { workspaceId, ids: [key.id] } : { workspaceId, userId: key.userId };
}

/** The key with this id. Throws `resource_not_found` when the actor does not see it, `scope_missing` without the scope. */
export async function visibleKey(
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
  if (!holds(actor.key, scope))
    throw new GatewayError('scope_missing', `The key "${actor.key.name}" lacks the scope "${scope}".`);
  if (action !== 'read') requireManager(actor, found.type);
  return found;
}

/**
 * The scopes of a body, in their own spelling and once each. Throws `invalid_request` for scopes that there are not or
 * that keys of this type cannot hold, `scope_missing` for those that the actor cannot give.
 */
export function readScopes(actor: KeyRecord, type: ApiKeyType, scopes: readonly string[]): readonly string[] {
  const issues = refuseScopes(actor, type, scopes);
  if (issues.length === 0) return [...new Set(scopes.map((scope) => canonicalScope(scope)))];
  const errors = issues.map(({ path, message }) => ({ path: `/scopes${path}`, message }));
  if (issues.some(({ kind }) => kind !== 'escalation')) throw refusedBody(errors);
  throw new GatewayError(
    'scope_missing',
    withFullStop(`A key gives no more than it has: ${shownMistakes(errors)}`),
    { param: errors[0]?.path ?? null, extra: { errors } },
  );
}
