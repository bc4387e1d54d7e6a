import { Type, type Static } from '../../core/pipeline/plugin.ts';
import type { StoredRecord } from '../../core/ports/records.ts';
import { SecretMappingSchema, showMapping } from './integration-mappings.ts';
import { shownConfigurations } from './integration-record.ts';
import { maskOf, type PlainSecrets } from './integration-secrets.ts';
import { sharedExample, sharedReply, showShared } from './provider-record.ts';

/** A virtual key as the API shows it. */
export const VirtualKeyReply = Type.Object({
  ...sharedReply,
  ai_provider_name: Type.String(),
  integration_id: Type.String(),
  masked_api_key: Type.String({ description: "Empty for integrations that are not the workspace's own." }),
  model_config: Type.Record(Type.String(), Type.Unknown(), {
    description: "Its settings, secrets masked; empty for integrations that are not the workspace's own.",
  }),
  secret_mappings: Type.Array(SecretMappingSchema),
  object: Type.Literal('virtual-key'),
});

/** A provider with its integration, the secrets of which are opened. */
export interface ShownVirtualKey {
  readonly provider: StoredRecord<'provider'>;
  readonly integration: StoredRecord<'integration'>;
  readonly plain: PlainSecrets;
}

/** Puts a provider with its integration into the shape of virtual keys, as it is at `now`. */
export function showVirtualKey(
  { provider, integration, plain }: ShownVirtualKey,
  now: number,
): Static<typeof VirtualKeyReply> {
  // What belongs to the organisation is shown by the routes of integrations alone.
  const isOwn = integration.workspaceId !== undefined;
  const key = isOwn ? plain['key'] : undefined;
  return {
    ...showShared(provider, now),
    ...{ ai_provider_name: integration.data.aiProviderId, integration_id: integration.id },
    masked_api_key: key === undefined ? '' : maskOf(key),
    model_config: isOwn ? shownConfigurations(integration, plain) : {},
    secret_mappings: isOwn ? integration.data.secretMappings.map((mapping) => showMapping(mapping)) : [],
    object: 'virtual-key',
  };
}

/** A virtual key for the reference. */
export const virtualKeyExample: Static<typeof VirtualKeyReply> = {
  ...sharedExample,
  ...{ ai_provider_name: 'openai', integration_id: '3f0c8f2e-7a0d-4b62-9f3c-2f3f6f9d7a10' },
  ...{ masked_api_key: 'sk…9Q', model_config: {}, secret_mappings: [], object: 'virtual-key' },
};
