import { directoryBehind, isTokenError } from '../../core/errors/gateway-error.ts';
import {
  callerKey,
  callerKeyHeader,
  callerToken,
  isPublicRequest,
  matchedRoute,
  ownRequest,
} from '../../core/pipeline/keys.ts';
import {
  definePlugin,
  GatewayError,
  type Outcome,
  type RequestContext,
  type Scope,
  type Static,
  Type,
} from '../../core/pipeline/plugin.ts';
import type { Directory, KeyRecord } from '../../core/ports/directory.ts';
import { TokenRing } from './token-ring.ts';
import { keySecretHash, keySecretProperties, oneKeySecret } from '../../core/organisation/key-secret.ts';
import { TokenSchema } from './token-options.ts';
import { RefusedAttempts } from '../../core/http/audit-trail.ts';
import type { Resources } from '../../core/ports/resources.ts';
import { sha256 } from '../../core/base/bytes.ts';
import { BrowserSessions } from '../../core/access/browser-session.ts';
import { seenOrigin } from '../../core/pipeline/browser.ts';
import { isOfWorkspace } from '../../core/access/scopes.ts';
import { Name } from '../../core/organisation/fields.ts';

const challenge = { headers: ['www-authenticate', 'Bearer'] };

/** The request names no caller. */
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

/** The browser has no session, or one that has ended. */
function sessionOver(): GatewayError {
  return new GatewayError(
    'key_missing',
    "The session of this browser has ended, or it sent another page's token. Sign in again.",
    challenge,
  );
}

/** The service key in this header is not known. */
function invalid(header: string): GatewayError {
  return new GatewayError(
    'key_invalid',
    `The service key in ${header} is not known here. Check that it was copied whole and still exists.`,
    challenge,
  );
}

/** The key has expired. */
function keyExpiredError({ id, name, isReplaced }: KeyRecord, at: number): GatewayError {
  const when = new Date(at).toISOString();
  return new GatewayError(
    'key_expired',
    isReplaced === true
      ? `This secret of the service key "${name}" was replaced, and has ended at ${when}. Use the new one; where nobody has it, POST /api-keys/${id}/rotate answers one.`
      : `The service key "${name}" expired at ${when}. Ask for a new one.`,
    challenge,
  );
}

const form = /^eyJ[\w-]+\.[\w-]+\.[\w-]*$/;

/**
 * True for text in the form of a JSON Web Token: three base64url parts, of which the first starts like an encoded JSON
 * object. A token with an empty signature has this form, too, and is refused later.
 */
function isTokenForm(text: string): boolean {
  return text.startsWith('eyJ') && form.test(text);
}

const maxRemembered = 10_000;

const maxRememberedStrangers = 1000;

/**
 * Every known service key: those of the options and those of the directory. Secrets are looked up by their SHA-256, so
 * that the time of a look-up reveals at most something about a digest, and nothing about a secret.
 */
class KeyRing {
  private readonly held = new Map<string, KeyRecord>();
  private readonly directory: Directory;
  /** Hashes by secret. Hashing would be the most expensive step of authentication; a secret in use is hashed once. */
  private readonly hashes = new Map<string, string>();
  /** Hashes of secrets that are no service keys: providers' own keys, which callers send beside a service key. */
  private readonly strangers = new Map<string, string>();

  /** Throws `invalid_request` when two keys share their secret or their id, or when a date does not exist. */
  constructor(keys: readonly KeyOptions[], directory: Directory) {
    this.directory = directory;
    const ids = new Set<string>();
    keys.forEach((options, index) => this.add(options, `keys[${index}]`, ids));
  }

  /** The key with this secret, or undefined. */
  find(secret: string): KeyRecord | undefined {
    const known = this.hashes.get(secret) ?? this.strangers.get(secret);
    const hash = known ?? sha256(secret, 'base64');
    const record = this.held.get(hash) ?? this.directory.keyByHash(hash);
    if (known === undefined) this.remember(secret, hash, record !== undefined);
    return record;
  }

  /** Two maps, so that guesses never evict the keys in use. Only the hash is cached: a verdict could become stale. */
  private remember(secret: string, hash: string, isKey: boolean): void {
    const memory = isKey ? this.hashes : this.strangers;
    if (memory.size >= (isKey ? maxRemembered : maxRememberedStrangers)) memory.clear();
    memory.set(secret, hash);
  }

  private add(options: KeyOptions, place: string, ids: Set<string>): void {
    const hash = hashOf(options, place);
    const record = newRecord(options, place, this.directory);
    const twin = this.held.get(hash);
    if (twin)
      throw problem(place, `"${record.name}" and "${twin.name}" have the same secret; give each its own`);
    if (ids.has(record.id))
      throw problem(place, `a second key has the id "${record.id}"; give each its own id`);
    ids.add(record.id);
    this.held.set(hash, record);
  }
}

function newRecord(options: KeyOptions, place: string, directory: Directory): KeyRecord {
  const kind = options.kind ?? 'workspace-service';
  const expiresAt = options.expires_at === undefined ? null : Date.parse(options.expires_at);
  if (Number.isNaN(expiresAt))
    throw problem(place, `expires_at is no date: write it like 2030-01-31T00:00:00Z`);
  return {
    id: options.id ?? options.name,
    name: options.name,
    kind,
    organisationId: options.organisation_id ?? directory.defaultOrganisationId,
    workspaceId: options.workspace_id ?? directory.defaultWorkspaceId,
    userId: '',
    scopes: options.scopes ?? (kind === 'owner' ? ['*'] : ['completions.write']),
    expiresAt,
    definedAt: `auth: ${place}`,
  };
}

function hashOf(options: KeyOptions, place: string): string {
  const hash = keySecretHash(options);
  if (hash === undefined) throw problem(place, 'give the key as key or as key_sha256');
  return hash;
}

function problem(place: string, message: string): GatewayError {
  return new GatewayError('invalid_request', `auth: ${place}: ${message}.`, { param: place });
}

const verifying = { id: 'tokens.verify', audit: 'verify' };
const sending = { id: 'requests.send', audit: 'send' };

/**
 * Writes to the audit trail every refused token, for any request, and every key that lacks the scope to send a request
 * to a provider. Administration routes record their own refusals for missing scopes.
 */
class CallerRefusals {
  private readonly refused: RefusedAttempts;

  constructor(scope: Scope, resources: Resources) {
    this.refused = new RefusedAttempts(scope, resources);
  }

  /** Notes how a request ended. */
  settled(context: RequestContext, outcome: Outcome): void {
    const { error } = outcome;
    if (error === undefined) return;
    if (isTokenError(error)) this.refused.note(context, verifying, outcome);
    else if (error.code === 'scope_missing' && context.get(matchedRoute) === undefined)
      this.refused.note(context, sending, outcome);
  }
}

const strict = { additionalProperties: false };

const KeySchema = Type.Object(
  {
    name: Name('Display name of the key, shown in messages.'),
    id: Type.Optional(Name('Id of the key in logs, analytics and rate limits. Default: its name.')),
    ...keySecretProperties,
    kind: Type.Optional(
      Type.Union(
        [
          Type.Literal('owner'),
          Type.Literal('organisation-service'),
          Type.Literal('workspace-service'),
          Type.Literal('workspace-user'),
        ],
        {
          default: 'workspace-service',
          description: 'Type of the key: owner and organisation-service keys see every workspace.',
        },
      ),
    ),
    organisation_id: Type.Optional(
      Name('Organisation that it belongs to. Default: the default organisation.'),
    ),
    workspace_id: Type.Optional(
      Name('Workspace that its requests are logged in. Default: the default workspace.'),
    ),
    scopes: Type.Optional(
      Type.Array(Type.String({ pattern: '^(\\*|[a-z_]+\\.[a-z_]+)$' }), {
        maxItems: 200,
        description:
          'Scopes of the key (`logs.view`, `analytics.view`, `*` for everything). Default: `completions.write`; an owner key `*`.',
      }),
    ),
    expires_at: Type.Optional(
      Type.String({
        format: 'date-time',
        description: 'Expiry time, ISO 8601 with a time zone. Default: never.',
      }),
    ),
  },
  { ...strict, ...oneKeySecret },
);

/** Options of `auth`. */
const AuthSchema = Type.Object(
  {
    keys: Type.Optional(
      Type.Array(KeySchema, {
        default: [],
        maxItems: 10000,
        description: 'Service keys defined in this file, in addition to those that the gateway stores.',
      }),
    ),
    jwt: Type.Optional(TokenSchema),
  },
  strict,
);

/** One key as written in YAML. */
export type KeyOptions = Static<typeof KeySchema>;

/**
 * Identifies the caller. Refuses keys with `key_missing`, `key_invalid`, `key_expired` or `workspace_archived`, and
 * tokens with `token_invalid` or `token_keys_unavailable`. While the store of keys cannot be read, an unknown key is
 * refused with `store_unavailable`: it may exist.
 */
export default definePlugin({
  name: 'auth',
  description:
    'Identifies the caller by a service key, in the service header, as `Authorization: Bearer`, in the headers of other dialects (`x-api-key`, `x-goog-api-key`, `api-key`), or by a JSON Web Token in one of the first two, or by the session of a browser that signed in at `console`, and refuses callers without one.',
  schema: AuthSchema,
  capabilities: { provides: ['key'] },
  create({ keys = [], jwt }, scope) {
    const { keyPrefix, directory } = scope;
    const ring = new KeyRing(keys, directory);
    const tokens = jwt === undefined ? undefined : new TokenRing(jwt, scope);
    const header = `${scope.headerPrefix}-api-key`;
    const sessions = new BrowserSessions(scope);

    const admit = (context: RequestContext, key: KeyRecord, bearerIsOurs: boolean, token = ''): void => {
      // The directory has no data yet, so the workspace of a token cannot be checked.
      if (key.isToken === true && directory.standing() === 'unknown') throw directoryBehind('token');
      attribute(context, key);
      // `TokenRing` judges the expiry of tokens, with the tolerance for their issuer's clock.
      if (key.isToken !== true && key.expiresAt !== null && context.startedAt >= key.expiresAt)
        throw keyExpiredError(key, key.expiresAt);
      if (isOfWorkspace(key) && directory.isArchived(key.workspaceId)) throw workspaceArchivedError(key);
      context.set(callerKey, key);
      context.set(callerKeyHeader, bearerIsOurs ? 'authorization' : 'service');
      const verified = key.isToken === true && token !== '' ? tokens?.verified(key) : undefined;
      if (verified !== undefined) context.set(callerToken, { text: token, ...verified });
      beginWithDefaults(context, key, directory);
    };
    /** Admits once the key and the owner of the bearer token are resolved. */
    const admitLater = async (
      context: RequestContext,
      key: KeyRecord | Promise<KeyRecord>,
      bearerIsOurs: boolean | Promise<boolean>,
      token: string | undefined,
    ): Promise<void> => admit(context, await key, await bearerIsOurs, token);

    const hooks = {
      request(context: RequestContext): void | Promise<void> {
        // This route identifies its callers by another kind of credential.
        if (context.get(matchedRoute)?.identify !== undefined) return undefined;
        if (context.get(isPublicRequest) === true) return undefined;
        const sent = context.get(ownRequest);
        if (sent !== undefined) return sent.caller && admit(context, sent.caller, false);
        const own = context.service('api-key');
        const bearer = bearerValue(context.header('authorization'));
        const bearerIsToken = tokens !== undefined && bearer !== undefined && isTokenForm(bearer);
        const bearerKey = bearer === undefined || bearerIsToken ? undefined : ring.find(bearer);
        const bearerIsKey = bearerKey !== undefined || bearer?.startsWith(keyPrefix) === true;
        const boxed = own || bearerIsKey ? undefined : keyOfSdk(context, keyPrefix);
        let given = own || boxed?.value;
        const csrf = given === undefined && bearer === undefined ? context.service('csrf') : undefined;
        if (csrf !== undefined) {
          given = sessions.credential(context.header('cookie'), csrf, seenOrigin(context, scope.publicUrl));
          if (given === undefined) throw sessionOver();
        }
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
          return admitLater(context, key, bearerIsOurs, given ?? bearer);
        admit(context, key, bearerIsOurs, given ?? bearer);
        return undefined;
      },
    };
    if (scope.resources === undefined || !scope.features.isOn('audit_logs')) return hooks;
    const refusals = new CallerRefusals(scope, scope.resources);
    return { ...hooks, settled: (context, outcome) => refusals.settled(context, outcome) };
  },
});

/** Headers in which SDKs of other dialects send their only key. */
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

/**
 * Merges the default metadata of a request's organisation, workspace and key into its metadata, as soon as its key is
 * known. Precedence: workspace, organisation, key, request; so a caller cannot escape a limit with metadata of its own.
 * Requests to administration routes stay unchanged.
 */
export function beginWithDefaults(
  context: RequestContext,
  key: KeyRecord,
  directory: Pick<Directory, 'defaultsOf'>,
): void {
  const own = key.defaults?.metadata;
  const above = directory.defaultsOf(key.organisationId, key.workspaceId).metadata;
  if (own === undefined && above === undefined) return;
  if (context.get(matchedRoute) !== undefined) return;
  const { facts } = context;
  // Object.assign would lose a member called __proto__.
  facts.metadata = { ...facts.metadata, ...own, ...above };
}

/** The key's workspace is archived. */
function workspaceArchivedError({ name, isToken }: KeyRecord): GatewayError {
  return new GatewayError(
    'workspace_archived',
    isToken === true
      ? `The workspace that the token of "${name}" names is archived. Get a token for another workspace.`
      : `The workspace of the service key "${name}" is archived, and its keys with it. Use a key of another workspace.`,
  );
}
