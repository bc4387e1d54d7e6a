import { randomUUID } from 'node:crypto';
import type { GatewayError } from '../errors/gateway-error.ts';
import type { RouteDefinition } from '../pipeline/define-route.ts';
import type { RequestContext } from '../pipeline/context.ts';
import { matchedRoute } from '../pipeline/keys.ts';
import type { KeyRecord } from '../ports/directory.ts';
import type { HeaderList } from '../ports/header-list.ts';
import type { AuditEntry } from '../ports/resources.ts';
import { isSecretName } from '../config/ajv.ts';
import { isStorable } from '../organisation/storable-text.ts';

const maxDepth = 32;
const mask = '***';

/**
 * The same value with everything masked that stands under the name of a secret (`api_key`, `apiKey`, `authorization`),
 * at any depth. Integers beyond 2^53 become their digits; what lies more than 32 levels deep is left out.
 */
export function maskSecrets(value: unknown): unknown {
  return masked(value, 0);
}

function masked(value: unknown, depth: number): unknown {
  if (typeof value === 'bigint') return String(value);
  if (typeof value === 'string') return storable(value);
  if (typeof value !== 'object' || value === null) return value;
  if (depth === maxDepth) return '…';
  if (Array.isArray(value)) return value.map((item) => masked(item, depth + 1));
  // A name like __proto__ must become a member like any other.
  const copy = Object.create(null) as Record<string, unknown>;
  for (const [name, member] of Object.entries(value)) {
    copy[storable(name)] = isSecretName(name) ? mask : masked(member, depth + 1);
  }
  return copy;
}

function storable(text: string): string {
  if (isStorable(text)) return text;
  return Buffer.from(text.replaceAll('\0', '\ufffd'), 'utf8').toString('utf8');
}

const maxDetailsBytes = 16_384;
const maxStrangerPath = 256;
/** Of the texts that stand for query, headers and body when these are too long: together, and as UTF-8, within the bound. */
const shortened = { query: 1000, headers: 1500, body: 1500, message: 300 };

/** What an entry is about. */
export interface AuditSubject {
  readonly organisationId: string;
  /** Empty for what belongs to the organisation. */
  readonly workspaceId: string;
  /** Empty when nothing was changed. */
  readonly resourceId: string;
  /** The status that the client sees. */
  readonly status: number;
  /** Why it was refused. */
  readonly error?: GatewayError | undefined;
}

/** What was done: `api_keys.create` is about `api_keys`. */
export type AuditedAction = Pick<RouteDefinition, 'id' | 'audit'>;

/**
 * An action for the audit trail. `key` is undefined for callers that are not known. People who come with a token or
 * with a key of their own are named by their user id, everybody else by the key.
 */
export function auditEntry(
  context: RequestContext,
  route: AuditedAction,
  key: KeyRecord | undefined,
  subject: AuditSubject,
): AuditEntry {
  const userId = key?.kind === 'workspace-user' ? key.userId : '';
  return {
    id: randomUUID(),
    organisationId: subject.organisationId,
    workspaceId: subject.workspaceId,
    at: context.startedAt,
    actorType: userId === '' ? 'api_key' : 'user',
    actorId: userId === '' ? (key?.id ?? '') : userId,
    actorName: key?.name ?? '',
    action: route.audit ?? 'read',
    resourceType: resourceTypeOf(route),
    resourceId: subject.resourceId,
    method: context.method,
    uri: context.originalPath.slice(0, key === undefined ? maxStrangerPath : 2048),
    requestId: context.id,
    status: subject.status,
    clientIp: context.remoteAddress,
    details:
      key === undefined
        ? strangerDetails(subject.error)
        : detailsOf(context, subject.error, userId === '' ? undefined : key.id),
  };
}

/** How often something was tried again. */
export interface Repeats {
  readonly repeats: number;
  /** Of the last one, milliseconds since the epoch. */
  readonly lastAt: number;
  /** Not all of them were like the first. */
  readonly isMixed: boolean;
}

/** The entry about attempts that were like `first`; what they sent is not kept. */
export function repeatedEntry(first: AuditEntry, { repeats, lastAt, isMixed }: Repeats): AuditEntry {
  const since = new Date(first.at).toISOString();
  const like = isMixed ? 'other attempts, more than are kept one by one,' : 'attempts like this one';
  const error = { code: 'repeated', message: `${repeats} ${like} were refused since ${since}.` };
  return { ...first, id: randomUUID(), at: lastAt, details: JSON.stringify({ error, repeats }) };
}

/** Nothing that somebody unknown sends is kept but the beginning of the path: it may be anything, and much of it. */
function strangerDetails(refusal: GatewayError | undefined): string {
  const error = refusal && {
    code: refusal.code,
    message: refusal.message.slice(0, shortened.message),
  };
  return JSON.stringify({ error });
}

/** `api_keys` of `api_keys.create`. */
function resourceTypeOf({ id }: AuditedAction): string {
  return id.slice(0, id.indexOf('.'));
}

/** What was asked for, and of a person with which of their keys. What goes to a provider is not administration: its body is left out. */
function detailsOf(
  context: RequestContext,
  refusal: GatewayError | undefined,
  keyId: string | undefined,
): string {
  const error = refusal === undefined ? undefined : { code: refusal.code, message: refusal.message };
  const query = maskSecrets(Object.fromEntries(new URLSearchParams(context.query)));
  const headers = maskSecrets(headersOf(context.headers));
  const isRecorded = context.body.loaded && context.get(matchedRoute) !== undefined;
  const body = isRecorded ? maskSecrets(context.json) : undefined;
  const details = JSON.stringify({ query, headers, body, error, api_key_id: keyId });
  if (Buffer.byteLength(details) <= maxDetailsBytes) return details;
  return JSON.stringify({
    query: JSON.stringify(query).slice(0, shortened.query),
    headers: JSON.stringify(headers).slice(0, shortened.headers),
    body: JSON.stringify(body)?.slice(0, shortened.body),
    error: error && { code: error.code, message: error.message.slice(0, shortened.message) },
    api_key_id: keyId?.slice(0, 255),
    truncated: true,
  });
}

/** A header may hold a whole config, credentials included; it has no part in administration. */
function headersOf(list: HeaderList): Record<string, string> {
  const headers: Record<string, string> = {};
  for (let at = 0; at + 1 < list.length; at += 2) {
    const value = list[at + 1] as string;
    headers[(list[at] as string).toLowerCase()] = value.trimStart().startsWith('{') ? '***' : value;
  }
  return headers;
}
