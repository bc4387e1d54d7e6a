import { callerKey, callerKeyHeader } from '../../core/pipeline/keys.ts';
import { definePlugin, GatewayError, type RequestContext } from '../../core/pipeline/plugin.ts';
import type { KeyRecord } from '../../core/ports/directory.ts';
import { KeyRing } from './key-ring.ts';
import { AuthSchema } from './options.ts';

/** Finds out who is calling. Refuses with `key_missing`, `key_invalid`, `key_expired` or `workspace_archived`. */
export default definePlugin({
  name: 'auth',
  description:
    'Identifies the caller by a service key, in the service header, as `Authorization: Bearer`, or where the SDKs of other dialects put theirs (`x-api-key`, `x-goog-api-key`, `api-key`), and refuses callers without one.',
  schema: AuthSchema,
  capabilities: { provides: ['key'] },
  create({ keys = [] }, scope) {
    const { keyPrefix } = scope;
    const ring = new KeyRing(keys, scope.directory);
    const header = `${scope.headerPrefix}-api-key`;
    return {
      request(context) {
        const own = context.service('api-key');
        const bearer = bearerValue(context.header('authorization'));
        const bearerKey = bearer === undefined ? undefined : ring.find(bearer);
        const bearerIsOurs = bearerKey !== undefined || bearer?.startsWith(keyPrefix) === true;
        const boxed = own || bearerIsOurs ? undefined : keyOfSdk(context, keyPrefix);
        const given = own || boxed?.value;
        const key = given ? ring.find(given) : bearerKey;
        if (key === undefined) {
          if (given || bearerIsOurs) throw invalid(own ? header : (boxed?.name ?? 'authorization'));
          throw missing(header, keyPrefix, bearer !== undefined);
        }
        attribute(context, key);
        if (key.expiresAt !== null && context.startedAt >= key.expiresAt) throw expired(key, key.expiresAt);
        if (isOfWorkspace(key) && scope.directory.isArchived(key.workspaceId)) throw archived(key);
        context.set(callerKey, key);
        context.set(callerKeyHeader, bearerIsOurs ? 'authorization' : 'service');
      },
    };
  },
});

/** Where SDKs of other dialects put the one key that they know. */
const sdkHeaders = ['x-api-key', 'x-goog-api-key', 'api-key'] as const;

/** A service key, by its prefix, in one of those headers; a provider's own key stays where it is. */
function keyOfSdk(
  context: RequestContext,
  keyPrefix: string,
): { readonly name: string; readonly value: string } | undefined {
  for (const name of sdkHeaders) {
    const value = context.header(name);
    if (value?.startsWith(keyPrefix) === true) return { name, value };
  }
  return undefined;
}

function bearerValue(authorization: string | undefined): string | undefined {
  if (authorization === undefined || authorization.length < 8) return undefined;
  if (authorization.slice(0, 7).toLowerCase() !== 'bearer ') return undefined;
  return authorization.slice(7).trim() || undefined;
}

function attribute({ facts }: RequestContext, key: KeyRecord): void {
  facts.organisationId = key.organisationId;
  facts.workspaceId = key.workspaceId;
  facts.apiKeyId = key.id;
  facts.userId = key.userId;
}

const challenge = { headers: ['www-authenticate', 'Bearer'] };

function missing(header: string, keyPrefix: string, hasBearer: boolean): GatewayError {
  const seen = hasBearer
    ? ` The Authorization header holds another key: service keys begin with "${keyPrefix}".`
    : '';
  return new GatewayError(
    'key_missing',
    `No service key. Send it as "${header}: KEY" or as "Authorization: Bearer KEY".${seen}`,
    challenge,
  );
}

function invalid(header: string): GatewayError {
  return new GatewayError(
    'key_invalid',
    `The service key in ${header} is not known here. Check that it was copied whole and still exists.`,
    challenge,
  );
}

function expired({ name, isReplaced }: KeyRecord, at: number): GatewayError {
  const when = new Date(at).toISOString();
  return new GatewayError(
    'key_expired',
    isReplaced === true
      ? `This secret of the service key "${name}" was replaced, and has ended at ${when}. Use the new one.`
      : `The service key "${name}" expired at ${when}. Ask for a new one.`,
    challenge,
  );
}

/** Keys of the organisation do not end with a workspace. */
function isOfWorkspace({ kind }: KeyRecord): boolean {
  return kind === 'workspace-service' || kind === 'workspace-user';
}

function archived({ name }: KeyRecord): GatewayError {
  return new GatewayError(
    'workspace_archived',
    `The workspace of the service key "${name}" is archived, and its keys with it. Use a key of another workspace.`,
  );
}
