import { randomUUID } from 'node:crypto';
import type { RouteDefinition } from '../http/define-route.ts';
import type { RequestContext } from '../pipeline/context.ts';
import type { KeyRecord } from '../ports/directory.ts';
import type { HeaderList } from '../ports/header-list.ts';
import type { AuditEntry } from '../ports/resources.ts';
import { maskSecrets } from './mask-secrets.ts';

const maxDetailsBytes = 16_384;
/** Of the texts that stand for query, headers and body when these are too long: together, and as UTF-8, within the bound. */
const shortened = { query: 1000, headers: 1500, body: 2500 };

/** What an entry is about. */
export interface AuditSubject {
  readonly organisationId: string;
  /** Empty for what belongs to the organisation. */
  readonly workspaceId: string;
  /** Empty when nothing was changed. */
  readonly resourceId: string;
  /** The status that the client sees. */
  readonly status: number;
}

/** An action for the audit trail. `key` is undefined for callers that are not known. */
export function auditEntry(
  context: RequestContext,
  route: RouteDefinition,
  key: KeyRecord | undefined,
  subject: AuditSubject,
): AuditEntry {
  return {
    id: randomUUID(),
    organisationId: subject.organisationId,
    workspaceId: subject.workspaceId,
    at: context.startedAt,
    actorType: 'api_key',
    actorId: key?.id ?? '',
    actorName: key?.name ?? '',
    action: route.audit ?? 'read',
    resourceType: resourceTypeOf(route),
    resourceId: subject.resourceId,
    method: context.method,
    uri: context.originalPath.slice(0, 2048),
    requestId: context.id,
    status: subject.status,
    clientIp: context.remoteAddress,
    details: detailsOf(context),
  };
}

/** `api_keys` of `api_keys.create`. */
function resourceTypeOf({ id }: RouteDefinition): string {
  return id.slice(0, id.indexOf('.'));
}

function detailsOf(context: RequestContext): string {
  const query = maskSecrets(Object.fromEntries(new URLSearchParams(context.query)));
  const headers = maskSecrets(headersOf(context.headers));
  const body = context.body.loaded ? maskSecrets(context.json) : undefined;
  const details = JSON.stringify({ query, headers, body });
  if (Buffer.byteLength(details) <= maxDetailsBytes) return details;
  return JSON.stringify({
    query: JSON.stringify(query).slice(0, shortened.query),
    headers: JSON.stringify(headers).slice(0, shortened.headers),
    body: JSON.stringify(body)?.slice(0, shortened.body),
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
