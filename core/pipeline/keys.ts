import type { OnStoreFailure } from '../ports/counters.ts';
import type { Directory, KeyRecord } from '../ports/directory.ts';
import type { RouteDefinition } from './define-route.ts';
import type { ProviderCall } from '../redaction/provider-call.ts';
import type { Redaction } from '../redaction/redaction.ts';
import { defineKey, type Outcome, type RequestContext } from './context.ts';

/** The service key that the caller proved to hold. Set by `auth`; absent before it has run and after it has refused. */
export const callerKey = defineKey<KeyRecord>('key');

/** The JSON Web Token with which a caller came, as `auth` has verified it. */
export interface CallerToken {
  /** Never log it. */
  readonly text: string;
  readonly claims: Readonly<Record<string, unknown>>;
  /** Milliseconds since the epoch. */
  readonly expiresAt: number;
}

/** Set by `auth` together with `callerKey`; absent for callers with a service key. */
export const callerToken = defineKey<CallerToken>('token');

/**
 * Which headers hold a service key. `authorization` means that the Authorization header holds one, whether or not
 * the service header does too: it must then never be sent to a provider. Set by `auth` together with `callerKey`.
 */
export const callerKeyHeader = defineKey<'service' | 'authorization'>('key-header');

/**
 * Slug of the provider that the request addresses without a header: its model did, as `@slug/model`, before it lost the
 * slug, or its prompt says so.
 */
export const addressedProvider = defineKey<string>('addressed-provider');

/**
 * A guardrail's verdict on the hook that it is about to leave: it looked and `passed` or `changed` the request or the
 * answer, or it had nothing to look at (`skipped`). Without it the log says `unknown`.
 */
export const judged = defineKey<'passed' | 'changed' | 'skipped' | undefined>('judged');

/**
 * The answer to the present attempt is stored, so that later requests can refer to it by its id, and continues this
 * earlier one. Undefined: it is not stored.
 */
export const keptAnswer = defineKey<{ readonly previousResponseId: string | null } | undefined>(
  'kept-answer',
);

/** Extra frames around a streamed answer, in its wire; each method is called once. */
export interface StreamNotes {
  /** Before everything else; undefined for nothing. */
  first(): Buffer | undefined;
  /** Behind the end marker of a stream that has come to its end. */
  last(): Buffer | undefined;
}

/** Set for the answer to the present attempt; undefined: no extra frames, and every byte stays. */
export const streamNotes = defineKey<StreamNotes | undefined>('stream-notes');

/** The administration route that the request is for; absent for every other request. */
export const matchedRoute = defineKey<RouteDefinition>('route');

/** Id of the one JSON-RPC request in this HTTP request; absent without one, and for several. Set by `mcp`. */
export const rpcRequestId = defineKey<string | number>('rpc-request-id');

/**
 * The request is for a public document and needs no key: `auth` lets it pass. Set in `admit` by the plugin that answers it,
 * which must then answer it.
 */
export const isPublicRequest = defineKey<true>('public-request');

/** Where a caller of MCP servers gets a token. */
interface BearerChallenge {
  /** Address of the metadata of the protected resource (RFC 9728). */
  readonly resourceMetadata: string;
  /** OAuth scopes to ask for, with spaces between them. */
  readonly scope: string;
}

/**
 * Sent in `WWW-Authenticate` with refusals of the credential (401), and of a token without the scope (403). Set in `admit`
 * by the plugin that knows the authorization server.
 */
export const bearerChallenge = defineKey<BearerChallenge>('bearer-challenge');

/**
 * The gateway sends this request itself, in the name of the caller. Set before every hook; `auth` takes the caller as the
 * key, and nothing judges the request.
 */
export const ownRequest = defineKey<{ readonly caller: KeyRecord | undefined }>('own-request');

/** Handling of this request's limits while the store that counts is away. Absent for `local`. */
export const limitsOnStoreFailure = defineKey<OnStoreFailure>('limits-on-store-failure');

/**
 * Redaction of everything that is recorded of this request, in the log or elsewhere. Set by `logger` when the
 * request settles; absent without rules.
 */
export const logRedaction = defineKey<Redaction>('log-redaction');

/**
 * The request that was last sent to a provider, with its body in the provider's wire. Set where a plugin says `keepsCall`;
 * absent for a request that was not sent.
 */
export const providerCall = defineKey<ProviderCall>('provider-call');

type Settings = Pick<Directory, 'settingsIn'>;

/**
 * Whether bodies of a request and its answer may be kept or sent elsewhere: not for a caller that is not authenticated,
 * not those of public requests (tokens are exchanged in them), and not where the request, the key, the workspace or the
 * organisation forbids it.
 */
export function keepsBodies(
  directory: Settings,
  context: RequestContext,
  { error }: Pick<Outcome, 'error'>,
): boolean {
  if (error?.type === 'authentication_error' || context.get(isPublicRequest) === true) return false;
  if (context.service('debug')?.toLowerCase() === 'false') return false;
  return isAllowed(directory, context.facts, context.get(callerKey)?.defaults);
}

/** The same for requests that a key reports, without the settings that only proxied ones have. */
export function keepsReportedBodies(directory: Settings, key: KeyRecord): boolean {
  return isAllowed(directory, key, key.defaults);
}

function isAllowed(
  directory: Settings,
  { organisationId, workspaceId }: Pick<KeyRecord, 'organisationId' | 'workspaceId'>,
  defaults: KeyRecord['defaults'],
): boolean {
  if (defaults?.logBodies === false) return false;
  return directory.settingsIn(organisationId, workspaceId).logging.mode === 'full';
}
