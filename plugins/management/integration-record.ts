import { showOptions } from '../../core/organisation/integration-configurations.ts';
import { Type, type Static } from '../../core/pipeline/plugin.ts';
import type { IntegrationAccess } from '../../core/ports/record-kinds.ts';
import type { StoredRecord } from '../../core/ports/records.ts';
import { PricingAdjustments } from './integration-body.ts';
import { SecretMappingSchema, showMapping } from './integration-mappings.ts';
import { headersOf, maskedHeaders, maskOf, type PlainSecrets } from './integration-secrets.ts';
import { showUsageLimit, UsageLimitSchema } from './limits-schema.ts';
import { shownRateLimits, ShownRateLimits } from './provider-limits.ts';
import { ManagedBy, orNull } from './text-schema.ts';

/** An integration in a list. */
export const IntegrationReply = Type.Object({
  id: Type.String(),
  slug: Type.String(),
  organisation_id: Type.String(),
  workspace_id: orNull(Type.String()),
  type: Type.Union([Type.Literal('workspace'), Type.Literal('organisation')]),
  ai_provider_id: Type.String(),
  name: Type.String(),
  description: Type.String(),
  status: Type.Union([Type.Literal('active'), Type.Literal('archived')]),
  created_at: Type.String(),
  last_updated_at: Type.String(),
  managed_by: ManagedBy,
  object: Type.Literal('integration'),
});

/** What workspaces may do with an integration, as answers show it. */
export const AccessReply = Type.Object({
  enabled: Type.Boolean(),
  usage_limits: orNull(Type.Array(UsageLimitSchema)),
  rate_limits: ShownRateLimits,
});

/** One integration. */
export const IntegrationDetail = Type.Object({
  ...IntegrationReply.properties,
  masked_key: Type.String({ description: 'First and last letters of the key; empty without one.' }),
  configurations: Type.Record(Type.String(), Type.Unknown(), { description: 'Secrets masked.' }),
  global_workspace_access_settings: AccessReply,
  allow_all_models: Type.Boolean(),
  workspace_count: Type.Integer({ description: 'Workspaces that it says something of by name and allows.' }),
  secret_mappings: Type.Array(SecretMappingSchema),
  pricing_adjustments: PricingAdjustments,
});

/** Puts a stored integration into the shape of lists. */
export function showIntegration(record: StoredRecord<'integration'>): Static<typeof IntegrationReply> {
  return {
    id: record.id,
    slug: record.slug,
    organisation_id: record.organisationId,
    workspace_id: record.workspaceId ?? null,
    type: record.workspaceId === undefined ? 'organisation' : 'workspace',
    ai_provider_id: record.data.aiProviderId,
    name: record.name,
    description: record.data.description,
    status: record.status,
    created_at: new Date(record.createdAt).toISOString(),
    last_updated_at: new Date(record.updatedAt).toISOString(),
    managed_by: record.managedBy ?? 'api',
    object: 'integration',
  };
}

/** Puts one integration, its secrets opened, into the shape of the API: they are masked in it. */
export function showWholeIntegration(
  record: StoredRecord<'integration'>,
  plain: PlainSecrets,
): Static<typeof IntegrationDetail> {
  const { data } = record;
  const { workspaces } = data;
  return {
    ...showIntegration(record),
    masked_key: plain['key'] === undefined ? '' : maskOf(plain['key']),
    configurations: shownConfigurations(record, plain),
    global_workspace_access_settings: showAccess(data.globalAccess),
    allow_all_models: data.allowAllModels,
    workspace_count:
      record.workspaceId === undefined
        ? Object.values(workspaces).filter(({ enabled }) => enabled).length
        : 1,
    secret_mappings: data.secretMappings.map((mapping) => showMapping(mapping)),
    pricing_adjustments: { multiplier: { default: data.priceMultiplier } },
  };
}

/** The settings of an integration, its secrets masked. */
export function shownConfigurations(
  { data }: StoredRecord<'integration'>,
  plain: PlainSecrets,
): Record<string, unknown> {
  const shown = showOptions(data.configurations);
  for (const [field, text] of Object.entries(plain)) {
    if (field === 'configurations.headers') shown['custom_headers'] = maskedHeaders(headersOf(text));
    else if (field.startsWith('configurations.')) shown[field.slice('configurations.'.length)] = maskOf(text);
  }
  return shown;
}

/** Puts an access into the shape of the API. */
export function showAccess(access: IntegrationAccess): Static<typeof AccessReply> {
  return {
    enabled: access.enabled,
    usage_limits: access.usageLimits.length === 0 ? null : access.usageLimits.map(showUsageLimit),
    rate_limits: shownRateLimits(access.rateLimits),
  };
}

/** An integration for the reference. */
export const integrationExample: Static<typeof IntegrationReply> = {
  ...{ id: '3f0c8f2e-7a0d-4b62-9f3c-2f3f6f9d7a10', slug: 'openai-prod', name: 'OpenAI, production' },
  ...{ organisation_id: '0b0ad9c2-5d0c-4d8a-a6d0-5b6d1a2f8c11', workspace_id: null, type: 'organisation' },
  ...{ ai_provider_id: 'openai', description: '', status: 'active', managed_by: 'api' },
  ...{ created_at: '2026-11-21T09:00:00.000Z', last_updated_at: '2026-11-21T09:00:00.000Z' },
  object: 'integration',
};

/** The same with everything that the answer about one has. */
export const wholeIntegrationExample: Static<typeof IntegrationDetail> = {
  ...integrationExample,
  ...{ masked_key: 'sk…9Q', configurations: { openai_project: 'proj-1' } },
  global_workspace_access_settings: { enabled: true, usage_limits: null, rate_limits: null },
  ...{ allow_all_models: true, workspace_count: 0, secret_mappings: [] },
  pricing_adjustments: { multiplier: { default: 1 } },
};
