import { Type, type Static } from '../../core/pipeline/plugin.ts';
import type { ApiKeyRecord } from '../../core/ports/resources.ts';
import { KeyUsageLimit } from './api-key-body.ts';
import { RateLimits, showUsageLimit } from './limits-schema.ts';
import type { UsageOfKeys } from './api-key-usage.ts';
import { ManagedBy, Metadata, orNull } from './text-schema.ts';

/** A key as the API shows it: never its secret. */
export const ApiKeyReply = Type.Object({
  id: Type.String(),
  key: Type.String({ description: 'The secret, masked: it was shown once, to whoever made it.' }),
  name: Type.String(),
  description: Type.String(),
  type: Type.Union([
    Type.Literal('organisation-service'),
    Type.Literal('workspace-service'),
    Type.Literal('workspace-user'),
  ]),
  organisation_id: Type.String(),
  workspace_id: orNull(Type.String()),
  user_id: orNull(Type.String()),
  status: Type.Union([Type.Literal('active'), Type.Literal('exhausted'), Type.Literal('expired')]),
  created_at: Type.String(),
  last_updated_at: Type.String(),
  creation_mode: Type.Union([Type.Literal('ui'), Type.Literal('api'), Type.Literal('auto')]),
  rate_limits: RateLimits,
  usage_limits: orNull(KeyUsageLimit),
  current_usage: orNull(
    Type.Number({
      description:
        'What was used since the period of `usage_limits` began, in its unit. Null without such a limit, and while the analytics store does not answer.',
    }),
  ),
  scopes: Type.Array(Type.String()),
  defaults: Type.Object({
    metadata: Metadata,
    config_id: orNull(Type.String()),
    allow_config_override: Type.Boolean(),
    log_bodies: orNull(
      Type.Boolean({
        description:
          'False: what its requests send and are answered is never logged. Else the settings of the workspace and the configuration decide.',
      }),
    ),
  }),
  alert_emails: Type.Array(Type.String()),
  expires_at: orNull(Type.String()),
  key_transition_expires_at: orNull(
    Type.String({ description: 'Until when the secret before the last rotation is taken as well.' }),
  ),
  managed_by: ManagedBy,
  object: Type.Literal('api-key'),
});

/** Puts a stored key into the shape of the API. `now` decides whether it has expired; `usage` is that of several keys. */
export function showApiKey(
  record: ApiKeyRecord,
  now: number,
  usage: UsageOfKeys,
): Static<typeof ApiKeyReply> {
  const { expiresAt, usageLimits, defaults } = record;
  const used = usage.get(record.id) ?? null;
  const isExpired = expiresAt !== undefined && expiresAt <= now;
  return {
    id: record.id,
    key: record.masked,
    name: record.name,
    description: record.description,
    type: record.type,
    organisation_id: record.organisationId,
    workspace_id: record.workspaceId ?? null,
    user_id: record.userId === '' ? null : record.userId,
    status: isExpired ? 'expired' : record.status,
    created_at: isoOf(record.createdAt),
    last_updated_at: isoOf(record.updatedAt),
    creation_mode: record.creationMode,
    rate_limits: record.rateLimits.map(({ type, unit, value }) => ({ type, unit, value })),
    usage_limits: usageLimits === undefined ? null : { ...showUsageLimit(usageLimits), current_usage: used },
    current_usage: used,
    scopes: [...record.scopes],
    defaults: {
      metadata: { ...defaults.metadata },
      config_id: defaults.configId ?? null,
      allow_config_override: defaults.allowConfigOverride ?? true,
      log_bodies: defaults.logBodies ?? null,
    },
    alert_emails: [...record.alertEmails],
    expires_at: expiresAt === undefined ? null : isoOf(expiresAt),
    key_transition_expires_at: transitionEnd(record, now),
    managed_by: record.managedBy ?? 'api',
    object: 'api-key',
  };
}

function transitionEnd({ secrets }: ApiKeyRecord, now: number): string | null {
  const before = secrets.find(({ expiresAt }) => expiresAt !== undefined && expiresAt > now);
  return before?.expiresAt === undefined ? null : isoOf(before.expiresAt);
}

function isoOf(at: number): string {
  return new Date(at).toISOString();
}
