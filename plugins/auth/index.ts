import { beginWithDefaults } from './begin-with-defaults.ts';
import { directoryBehind } from '../../core/errors/gateway-error.ts';
import { callerKey, callerKeyHeader, matchedRoute } from '../../core/pipeline/keys.ts';
import { notEnforced } from '../../core/organisation/not-enforced.ts';
import { definePlugin, type RequestContext } from '../../core/pipeline/plugin.ts';
import type { KeyRecord } from '../../core/ports/directory.ts';
import { CallerRefusals } from './caller-refusals.ts';
import { KeyRing } from './key-ring.ts';
import { AuthSchema } from './options.ts';
import { archived, expired, invalid, missing } from './refusals.ts';
import { isTokenForm } from './token-form.ts';
import { TokenRing } from './token-ring.ts';

/**
 * Finds out who is calling. Refuses with `key_missing`, `key_invalid`, `key_expired` or `workspace_archived`, and tokens
 * with `token_invalid` or `token_keys_unavailable`. While the store of keys cannot be read, what is not known is refused
 * with `store_unavailable`: it may exist.
 */
export default definePlugin({
  name: 'auth',
  description:
    'Identifies the caller by a service key, in the service header, as `Authorization: Bearer`, or where the SDKs of other dialects put theirs (`x-api-key`, `x-goog-api-key`, `api-key`), or by a JSON Web Token in one of the first two, and refuses callers without one.',
  schema: AuthSchema,
  capabilities: { provides: ['key'] },
  create({ keys = [], jwt }, scope) {
    const { keyPrefix, directory } = scope;
    const ring = new KeyRing(keys, directory);
    const tokens = jwt === undefined ? undefined : new TokenRing(jwt, scope);
    const header = `${scope.headerPrefix}-api-key`;
    const warningHeader = `${scope.headerPrefix}-warning`;

    const admit = (context: RequestContext, key: KeyRecord, bearerIsOurs: boolean): void => {
      // Nothing is known of the workspace of a token's bearer then.
      if (key.isToken === true && directory.standing() === 'unknown') throw directoryBehind('token');
      attribute(context, key);
      // How long a token lives is judged where it is remembered, with the tolerance of its issuer's clock.
      if (key.isToken !== true && key.expiresAt !== null && context.startedAt >= key.expiresAt)
        throw expired(key, key.expiresAt);
      if (isOfWorkspace(key) && directory.isArchived(key.workspaceId)) throw archived(key);
      if (key.limitClaims !== undefined) context.addResponseHeader(warningHeader, notEnforced.tokenLimits);
      context.set(callerKey, key);
      context.set(callerKeyHeader, bearerIsOurs ? 'authorization' : 'service');
      beginWithDefaults(context, key, directory);
    };
    /** The key of a token, and whether the Authorization header holds a token of ours, once both are known. */
    const admitLater = async (
      context: RequestContext,
      key: KeyRecord | Promise<KeyRecord>,
      bearerIsOurs: boolean | Promise<boolean>,
    ): Promise<void> => admit(context, await key, await bearerIsOurs);

    const hooks = {
      request(context: RequestContext): void | Promise<void> {
        // Its callers have a credential of another kind.
        if (context.get(matchedRoute)?.identify !== undefined) return undefined;
        const own = context.service('api-key');
        const bearer = bearerValue(context.header('authorization'));
        const bearerIsToken = tokens !== undefined && bearer !== undefined && isTokenForm(bearer);
        const bearerKey = bearer === undefined || bearerIsToken ? undefined : ring.find(bearer);
        const bearerIsKey = bearerKey !== undefined || bearer?.startsWith(keyPrefix) === true;
        const boxed = own || bearerIsKey ? undefined : keyOfSdk(context, keyPrefix);
        const given = own || boxed?.value;
        const now = context.startedAt;
        let key: KeyRecord | Promise<KeyRecord> | undefined;
        if (!given) key = bearerIsToken ? tokens.find(bearer, now) : bearerKey;
        else key = tokens !== undefined && isTokenForm(given) ? tokens.find(given, now) : ring.find(given);
        if (key === undefined) {
          if ((given ?? bearer) !== undefined && directory.standing() !== 'current')
            throw directoryBehind('service key');
          if (given || bearerIsKey) throw invalid(own ? header : (boxed?.name ?? 'authorization'));
          throw missing(header, keyPrefix, bearer !== undefined);
        }
        let bearerIsOurs: boolean | Promise<boolean> = bearerIsKey;
        if (bearerIsToken) bearerIsOurs = !given || bearer === given || tokens.owns(bearer, now);
        if (key instanceof Promise || bearerIsOurs instanceof Promise)
          return admitLater(context, key, bearerIsOurs);
        admit(context, key, bearerIsOurs);
        return undefined;
      },
    };
    if (scope.resources === undefined || !scope.features.isOn('audit_logs')) return hooks;
    const refusals = new CallerRefusals(scope, scope.resources);
    return { ...hooks, settled: (context, outcome) => refusals.settled(context, outcome) };
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

/** Keys of the organisation do not end with a workspace. */
function isOfWorkspace({ kind }: KeyRecord): boolean {
  return kind === 'workspace-service' || kind === 'workspace-user';
}
