import { Type, type Static } from '../../core/pipeline/plugin.ts';
import type { StoredRecord } from '../../core/ports/records.ts';
import { showUsageLimit, UsageLimitSchema } from './limits-schema.ts';
import { shownRateLimits, ShownRateLimits } from './provider-limits.ts';
import { ManagedBy, orNull } from './text-schema.ts';

const Status = Type.Union([Type.Literal('active'), Type.Literal('exhausted'), Type.Literal('expired')]);

/** What answers about providers and virtual keys have alike. */
export const sharedReply = {
  id: Type.String(),
  slug: Type.String(),
  name: Type.String(),
  note: orNull(Type.String()),
  workspace_id: orNull(
    Type.String({ description: 'Null for those of the configuration that are for every workspace.' }),
  ),
  status: Status,
  usage_limits: orNull(UsageLimitSchema),
  rate_limits: ShownRateLimits,
  reset_usage: orNull(Type.Number()),
  expires_at: orNull(Type.String()),
  created_at: Type.String(),
  last_updated_at: Type.String(),
};

/** A provider as the API shows it. */
export const ProviderReply = Type.Object({
  ...sharedReply,
  integration_id: orNull(
    Type.String({ description: 'Null for what stands under `providers` in the configuration file.' }),
  ),
  managed_by: ManagedBy,
  object: Type.Literal('provider'),
});

/** What answers about providers and virtual keys show alike, as it is at `now`. */
export function showShared(record: StoredRecord<'provider'>, now: number) {
  const { note, usageLimits, rateLimits, expiresAt } = record.data;
  const status: Static<typeof Status> = expiresAt !== undefined && expiresAt <= now ? 'expired' : 'active';
  return {
    ...{ id: record.id, slug: record.slug, name: record.name, status },
    note: note === '' ? null : note,
    workspace_id: record.workspaceId ?? null,
    usage_limits: usageLimits === undefined ? null : showUsageLimit(usageLimits),
    rate_limits: shownRateLimits(rateLimits),
    reset_usage: null,
    expires_at: expiresAt === undefined ? null : new Date(expiresAt).toISOString(),
    created_at: new Date(record.createdAt).toISOString(),
    last_updated_at: new Date(record.updatedAt).toISOString(),
  };
}

/** Puts a stored provider into the shape of the API, as it is at `now`. */
export function showProvider(record: StoredRecord<'provider'>, now: number): Static<typeof ProviderReply> {
  return {
    ...showShared(record, now),
    integration_id: record.parentId === '' ? null : record.parentId,
    managed_by: record.managedBy ?? 'api',
    object: 'provider',
  };
}

/** What examples of providers and virtual keys have alike. */
export const sharedExample = {
  ...{ id: '9f5a4d7c-6c0b-4b0e-8a53-6f0f4c1f2b13', slug: 'openai-prod', name: 'OpenAI, production' },
  ...{ note: null, workspace_id: '5a5b1f38-9a4f-4b40-8f1c-2b7d8a3c9d12', status: 'active' as const },
  ...{ usage_limits: null, rate_limits: null, reset_usage: null, expires_at: null },
  ...{ created_at: '2026-11-21T09:00:00.000Z', last_updated_at: '2026-11-21T09:00:00.000Z' },
};

/** A provider for the reference. */
export const providerExample: Static<typeof ProviderReply> = {
  ...sharedExample,
  ...{ integration_id: '3f0c8f2e-7a0d-4b62-9f3c-2f3f6f9d7a10', managed_by: 'api', object: 'provider' },
};
