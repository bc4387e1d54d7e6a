import { callerKey, callerKeyHeader } from '../../core/pipeline/keys.ts';
import { definePlugin, GatewayError, type RequestContext } from '../../core/pipeline/plugin.ts';
import type { KeyRecord } from '../../core/ports/directory.ts';
import { KeyRing } from './key-ring.ts';
import { AuthSchema } from './options.ts';

/** Finds out who is calling. Refuses with `key_missing`, `key_invalid` or `key_expired`. */
export default definePlugin({
  name: 'auth',
  description:
    'Identifies the caller by a service key, in the service header or as `Authorization: Bearer`, and refuses callers without one.',
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
        const key = own ? ring.find(own) : bearerKey;
        if (key === undefined) {
          if (own || bearerIsOurs) throw invalid(own ? header : 'authorization');
          throw missing(header, keyPrefix, bearer !== undefined);
        }
        attribute(context, key);
        if (key.expiresAt !== null && context.startedAt >= key.expiresAt) throw expired(key, key.expiresAt);
        context.set(callerKey, key);
        context.set(callerKeyHeader, bearerIsOurs ? 'authorization' : 'service');
      },
    };
  },
});

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

function expired(key: KeyRecord, at: number): GatewayError {
  return new GatewayError(
    'key_expired',
    `The service key "${key.name}" expired at ${new Date(at).toISOString()}. Ask for a new one.`,
    challenge,
  );
}
