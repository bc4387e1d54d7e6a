import type { RouteDefinition } from '../../core/pipeline/define-route.ts';
import {
  defineRoute,
  GatewayError,
  type Outcome,
  type RequestContext,
  type Scope,
  type Static,
  Type,
} from '../../core/pipeline/plugin.ts';
import type { AuditFilter, AuditRecord, Resources } from '../../core/ports/resources.ts';
import { listReplies, paging } from './shared/replies.ts';
import { Instant, Name, orNull, readInstant, strict } from './shared/fields.ts';
import { RefusedAttempts } from '../../core/http/audit-trail.ts';
import { isTokenError } from '../../core/errors/gateway-error.ts';
import { matchedRoute } from '../../core/pipeline/keys.ts';

/** Writes administration requests refused with 401 or 403 to the audit trail. Plugin `auth` records refused tokens. */
export class DeniedAttempts {
  private readonly refused: RefusedAttempts;

  constructor(scope: Scope, resources: Resources) {
    this.refused = new RefusedAttempts(scope, resources);
  }

  /** Notes how a request ended. */
  settled(context: RequestContext, outcome: Outcome): void {
    const { status, error } = outcome;
    const route = context.get(matchedRoute);
    if (route === undefined || (status !== 401 && status !== 403) || isTokenError(error)) return;
    this.refused.note(context, route, outcome);
  }
}

const Actor = Type.Union([Type.Literal('user'), Type.Literal('api_key'), Type.Literal('system')]);
const optional = (description: string) => Type.Optional(Name(description));

const Query = Type.Object(
  {
    ...paging.query,
    start_time: Type.Optional(Instant('Start. Default: the first entry.')),
    end_time: Type.Optional(Instant('End, inclusive. Default: now.')),
    organisation_id: optional("Default, and nothing else: the key's organisation."),
    method: Type.Optional(
      Type.Union(['GET', 'POST', 'PUT', 'PATCH', 'DELETE'].map((method) => Type.Literal(method))),
    ),
    uri: Type.Optional(Type.String({ minLength: 1, maxLength: 2048, description: 'The path as received.' })),
    request_id: optional('As in the response header `request-id`.'),
    user_id: optional('Actor: the id of the key, the user or the part of the gateway.'),
    user_type: Type.Optional(Actor),
    workspace_id: optional('Its id.'),
    response_status_code: Type.Optional(Type.Integer({ minimum: 100, maximum: 599 })),
    resource_type: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 1000,
        description: '`workspaces`, `api_keys` …; several with commas between them.',
      }),
    ),
    resource_id: optional('Id of the record that was changed.'),
    action: optional('`create`, `update`, `delete`, `rotate` …'),
    client_ip: optional('Address of the client.'),
    country: Type.Optional(
      Type.String({
        maxLength: 64,
        description:
          'Empty, as in the entries, because addresses are not geolocated. Any other value finds nothing.',
      }),
    ),
  },
  strict,
);

const Entry = Type.Object({
  id: Type.String(),
  number: Type.Integer({
    description:
      'Position in the hash chain of the organisation, from 1; 0 for a refused attempt, which is not in a chain.',
  }),
  hash: Type.String({
    description: 'SHA-256 over this entry and the hash of the previous one; empty for a refused attempt.',
  }),
  timestamp: Type.String(),
  method: Type.String(),
  uri: Type.String(),
  request_id: Type.String(),
  request_body: Type.String({ description: 'JSON with masked secrets; empty if there was none.' }),
  query_params: Type.String({ description: 'JSON with masked secrets.' }),
  request_headers: Type.String({ description: 'JSON with masked secrets.' }),
  user_id: Type.String(),
  user_name: Type.String(),
  user_type: Actor,
  organisation_id: Type.String(),
  workspace_id: Type.String(),
  response_status_code: Type.Integer(),
  resource_type: Type.String(),
  resource_id: Type.String(),
  action: Type.String(),
  client_ip: Type.String(),
  country: Type.String({ description: 'Always empty, because addresses are not geolocated.' }),
  api_key_id: Type.String({ description: 'Key or token that the user used; empty for other actors.' }),
  error: Type.String({ description: 'Reason for the refusal; empty if the attempt was not refused.' }),
});

/** The routes of the audit trail. */
export function auditLogRoutes(): readonly RouteDefinition[] {
  return [auditLogsRoute(), auditVerificationRoute()];
}

/** `GET /audit-logs`: changes and refused attempts, with their actors. */
function auditLogsRoute(): RouteDefinition {
  const { object, total } = listReplies.of;
  return defineRoute({
    id: 'audit_logs.list',
    method: 'GET',
    path: '/audit-logs',
    summary: 'Changes in the organisation and refused attempts, newest first',
    scope: 'audit_logs.list',
    feature: 'audit_logs',
    // Reads only.
    audit: null,
    query: Query,
    reply: Type.Object({ object, total, records: Type.Array(Entry) }),
    async handle({ query, key, read }) {
      if (query.organisation_id !== undefined && query.organisation_id !== key.organisationId) {
        throw new GatewayError(
          'invalid_request',
          'A key reads the audit trail of its own organisation alone.',
          {
            param: 'organisation_id',
          },
        );
      }
      const page = paging.of(query);
      if (query.country) return { object: 'list' as const, total: 0, records: [] };
      const filter = filterOf(query);
      const found = await read(({ audit }) => audit.list(key.organisationId, filter, page));
      return {
        object: 'list' as const,
        total: found.total,
        records: found.data.map((record) => showEntry(record)),
      };
    },
  });
}

/** `GET /audit-logs/verification`: whether the chain is as it was written, a thousand entries at a time. */
function auditVerificationRoute(): RouteDefinition {
  return defineRoute({
    id: 'audit_logs.verify',
    method: 'GET',
    path: '/audit-logs/verification',
    summary: 'Verifies the hash chain of the audit trail, up to 1,000 entries a call',
    scope: 'audit_logs.list',
    feature: 'audit_logs',
    // Reads only.
    audit: null,
    query: Type.Object(
      {
        after: Type.Optional(
          Type.Integer({
            minimum: 0,
            maximum: Number.MAX_SAFE_INTEGER,
            description: '`verified` of the call before, to go on. Default: 0, the beginning.',
          }),
        ),
      },
      strict,
    ),
    reply: Type.Object({
      object: Type.Literal('audit-verification'),
      verified: Type.Integer({ description: 'Number of the last entry that is as it was written.' }),
      end: Type.Integer({ description: 'Number of the last entry of the chain.' }),
      is_complete: Type.Boolean({ description: 'The end is reached, or a fault is found.' }),
      fault: orNull(Type.String({ description: 'What is not as it was written; null for nothing.' })),
    }),
    async handle({ query, key, read }) {
      const { verified, end, fault } = await read(({ audit }) =>
        audit.verify(key.organisationId, query.after ?? 0),
      );
      return {
        object: 'audit-verification' as const,
        ...{ verified, end, fault: fault ?? null },
        is_complete: fault !== undefined || verified >= end,
      };
    },
  });
}

function filterOf(query: Static<typeof Query>): AuditFilter {
  const { start_time: start, end_time: end } = query;
  return {
    ...(start !== undefined && { from: readInstant('start_time', start) }),
    ...(end !== undefined && { to: readInstant('end_time', end) }),
    ...(query.method !== undefined && { method: query.method }),
    ...(query.uri !== undefined && { uri: query.uri }),
    ...(query.request_id !== undefined && { requestId: query.request_id }),
    ...(query.user_id !== undefined && { actorId: query.user_id }),
    ...(query.user_type !== undefined && { actorType: query.user_type }),
    ...(query.workspace_id !== undefined && { workspaceId: query.workspace_id }),
    ...(query.response_status_code !== undefined && { status: query.response_status_code }),
    ...(query.resource_type !== undefined && { resourceType: query.resource_type.split(',') }),
    ...(query.resource_id !== undefined && { resourceId: query.resource_id }),
    ...(query.action !== undefined && { action: query.action }),
    ...(query.client_ip !== undefined && { clientIp: query.client_ip }),
  };
}

function showEntry(record: AuditRecord): Static<typeof Entry> {
  const details = JSON.parse(record.details) as Readonly<Record<string, unknown>>;
  const { body, query, headers, error, api_key_id: keyId } = details;
  return {
    id: record.id,
    number: record.number,
    hash: record.hash,
    timestamp: new Date(record.at).toISOString(),
    method: record.method,
    uri: record.uri,
    request_id: record.requestId,
    request_body: jsonText(body),
    query_params: jsonText(query),
    request_headers: jsonText(headers),
    user_id: record.actorId,
    user_name: record.actorName,
    user_type: record.actorType,
    organisation_id: record.organisationId,
    workspace_id: record.workspaceId,
    response_status_code: record.status,
    resource_type: record.resourceType,
    resource_id: record.resourceId,
    action: record.action,
    client_ip: record.clientIp,
    country: '',
    api_key_id: jsonText(keyId),
    error: jsonText((error as { message?: unknown } | undefined)?.message),
  };
}

/** The value as JSON; a value that was cut for its length is text already. */
function jsonText(value: unknown): string {
  if (value === undefined) return '';
  return typeof value === 'string' ? value : JSON.stringify(value);
}
