import { randomUUID } from 'node:crypto';
import { emptyIntegration, ProviderKey, SecretMappings } from '../../../core/organisation/integrations.ts';
import { plainProvider, providerFields } from '../../../core/organisation/providers.ts';
import type { RouteDefinition } from '../../../core/pipeline/define-route.ts';
import { defineRoute, GatewayError, type Scope, type Static, Type } from '../../../core/pipeline/plugin.ts';
import type { KeyRecord } from '../../../core/ports/directory.ts';
import type { StoredRecord } from '../../../core/ports/records.ts';
import type { ResourcesReader, ResourcesWriter } from '../../../core/ports/resources.ts';
import type { Page, Paged } from '../../../core/ports/page.ts';
import { places, storedRecords } from '../shared/records.ts';
import { integrationRecord, integrationSchemas, SecretMappingSchema } from '../integrations/record.ts';
import { type PlainSecrets, sealedSecrets } from '../shared/sealed-secrets.ts';
import { removeIntegration } from '../integrations/routes.ts';
import { limitSchemas } from '../shared/limits.ts';
import { listReplies, paging } from '../shared/replies.ts';
import { providerRecords } from './routes.ts';
import { Identifier, Name, orNull, Place, refusedBody, strict } from '../shared/fields.ts';
import {
  ConfigurationsSchema,
  type GivenConfigurations,
} from '../../../core/organisation/integration-configurations.ts';

/** A virtual key in the API. */
const VirtualKeyReply = Type.Object({
  ...providerRecords.Reply,
  ai_provider_name: Type.String(),
  integration_id: Type.String(),
  masked_api_key: Type.String({ description: 'Empty for integrations that the workspace does not own.' }),
  model_config: Type.Record(Type.String(), Type.Unknown(), {
    description: 'Settings with masked secrets; empty for integrations that the workspace does not own.',
  }),
  secret_mappings: Type.Array(SecretMappingSchema),
  object: Type.Literal('virtual-key'),
});

/** A provider with its integration and the opened secrets of that. */
interface ShownVirtualKey {
  readonly provider: StoredRecord<'provider'>;
  readonly integration: StoredRecord<'integration'>;
  readonly plain: PlainSecrets;
}

/** Converts a provider with its integration to the shape of virtual keys, with its current usage. */
function showVirtualKey(
  { provider, integration, plain }: ShownVirtualKey,
  scope: Pick<Scope, 'clock' | 'budgets'>,
): Static<typeof VirtualKeyReply> {
  // Credentials of the organisation's integrations are shown by the routes of integrations only.
  const isOwn = integration.workspaceId !== undefined;
  const key = isOwn ? plain['key'] : undefined;
  return {
    ...providerRecords.show(provider, scope),
    ...{ ai_provider_name: integration.data.aiProviderId, integration_id: integration.id },
    masked_api_key: key === undefined ? '' : sealedSecrets.mask(key),
    model_config: isOwn ? integrationRecord.shownConfigurations(integration, plain) : {},
    secret_mappings: isOwn
      ? integration.data.secretMappings.map((mapping) => integrationRecord.showMapping(mapping))
      : [],
    object: 'virtual-key',
  };
}

/** A virtual key for the reference. */
const virtualKeyExample: Static<typeof VirtualKeyReply> = {
  ...providerRecords.example,
  ...{ ai_provider_name: 'openai', integration_id: '3f0c8f2e-7a0d-4b62-9f3c-2f3f6f9d7a10' },
  ...{ masked_api_key: 'sk…9Q', model_config: {}, secret_mappings: [], object: 'virtual-key' },
};

const text = (description: string) => Type.Optional(orNull(Type.String({ maxLength: 255, description })));

const Deployment = Type.Object(
  {
    apiVersion: Type.String({ minLength: 1, maxLength: 30 }),
    deploymentName: Type.String({ minLength: 1, maxLength: 255 }),
    alias: Type.Optional(Type.String({ minLength: 1, maxLength: 255 })),
    is_default: Type.Optional(Type.Boolean()),
  },
  strict,
);
const Deployments = Type.Optional(
  orNull(Type.Array(Deployment, { maxItems: 100, description: 'Deployments of Azure OpenAI.' })),
);

/** Settings under the names of older clients, which use two spellings. */
const olderFields = {
  apiVersion: text('Azure: `azure_api_version`.'),
  api_version: text('The same as `apiVersion`.'),
  resourceName: text('Azure: `azure_resource_name`.'),
  resource_name: text('The same as `resourceName`.'),
  deploymentName: text('Azure: `azure_deployment_id`.'),
  deployment_name: text('The same as `deploymentName`.'),
  deploymentConfig: Deployments,
  deployment_config: Deployments,
};

const fields = {
  key: Type.Optional(orNull(ProviderKey)),
  ...providerFields,
  usage_limits: limitSchemas.BodyUsageLimit,
  secret_mappings: Type.Optional(orNull(SecretMappings)),
  ...olderFields,
  ...ConfigurationsSchema.properties,
};

/** Body that creates a virtual key. */
const CreateVirtualKey = Type.Object(
  {
    name: Name('For people.'),
    provider: Name('A provider of the provider table; `open-ai` and `hugging-face` are understood.'),
    slug: Type.Optional(integrationSchemas.GivenSlug),
    workspace_id: Type.Optional(Name('Id or slug. Default: the workspace of the key.')),
    ...fields,
  },
  strict,
);

/** Body that changes a virtual key; absent members stay unchanged. */
const UpdateVirtualKey = Type.Object(
  {
    name: Type.Optional(Name('For people.')),
    workspace_id: Type.Optional(Name('Its workspace, for keys of the organisation that name it by slug.')),
    reset_usage: limitSchemas.ResetUsage,
    ...fields,
  },
  strict,
);

/** Members of a body that describe a virtual key. */
type VirtualKeyBody = Omit<Static<typeof UpdateVirtualKey>, 'workspace_id' | 'reset_usage'>;

/** Rows of the provider table by their names in older clients. */
const olderNames: Readonly<Record<string, string>> = {
  'azure-open-ai': 'azure-openai',
  'hugging-face': 'huggingface',
  'open-ai': 'openai',
};

/** Name of the row for a provider's name in a body. */
function rowName(provider: string): string {
  return Object.hasOwn(olderNames, provider) ? (olderNames[provider] ?? provider) : provider;
}

/**
 * The settings of a body under their current names; undefined when it has none. Throws `invalid_request` for one
 * setting in two spellings.
 */
function configurationsOf(body: VirtualKeyBody): GivenConfigurations | undefined {
  const given: Record<string, unknown> = {};
  for (const name of Object.keys(ConfigurationsSchema.properties)) {
    const value = (body as Readonly<Record<string, unknown>>)[name];
    if (value !== undefined) given[name] = value;
  }
  const put = (name: string, older: string, value: unknown): void => {
    if (value === undefined || value === null) return;
    if (given[name] !== undefined) {
      const message = `says the same as ${name}; give one of them`;
      throw refusedBody([{ path: `/${older}`, message }]);
    }
    given[name] = value;
  };
  put('azure_api_version', 'apiVersion', oneOf(body.apiVersion, body.api_version, 'api_version'));
  put('azure_resource_name', 'resourceName', oneOf(body.resourceName, body.resource_name, 'resource_name'));
  const deployment = oneOf(body.deploymentName, body.deployment_name, 'deployment_name');
  put('azure_deployment_id', 'deploymentName', deployment);
  const deployments = oneOf(body.deploymentConfig, body.deployment_config, 'deployment_config');
  if (deployments !== undefined && deployments.length > 0)
    put('azure_deployment_config', 'deploymentConfig', deployments.map(deploymentOf));
  return Object.keys(given).length === 0 ? undefined : given;
}

function oneOf<T>(first: T | null | undefined, second: T | null | undefined, name: string): T | undefined {
  if ((first ?? undefined) !== undefined && (second ?? undefined) !== undefined)
    throw refusedBody([{ path: `/${name}`, message: 'is there in two spellings; give one of them' }]);
  return first ?? second ?? undefined;
}

function deploymentOf({ apiVersion, deploymentName, alias, is_default }: Static<typeof Deployment>) {
  return {
    ...{ azure_api_version: apiVersion, azure_deployment_name: deploymentName },
    ...(alias !== undefined && { alias }),
    ...(is_default !== undefined && { is_default }),
  };
}

const Params = Type.Object({ slug: Identifier });

/** The routes of virtual keys: the older API of integrations and providers. */
export function virtualKeyRoutes(scope: Scope): readonly RouteDefinition[] {
  return [createRoute(scope), listRoute(scope), getRoute(scope), updateRoute(scope), deleteRoute()];
}

function createRoute({ clock, router, secrets }: Scope): RouteDefinition {
  return defineRoute({
    id: 'virtual_keys.create',
    method: 'POST',
    path: '/virtual-keys',
    summary: 'Creates an integration of a workspace and a provider with the same slug',
    scope: 'virtual_keys.create',
    deprecated: true,
    audit: 'create',
    body: CreateVirtualKey,
    reply: Type.Object({
      success: Type.Literal(true),
      data: Type.Object({ slug: Type.String() }),
      ...{ id: Type.String(), slug: Type.String(), object: Type.Literal('virtual-key') },
    }),
    examples: {
      request: { name: 'OpenAI, production', provider: 'openai', key: 'sk-…' },
      response: {
        ...{ success: true, data: { slug: virtualKeyExample.slug } },
        ...{ id: virtualKeyExample.id, slug: virtualKeyExample.slug, object: 'virtual-key' },
      },
    },
    async handle({ body, key, write, sendVersion }) {
      const aiProviderId = rowName(body.provider);
      const row = integrationRecord.providerRow(router, aiProviderId, '/provider');
      const data = providerRecords.changed(body, { clock }, { ...plainProvider, isVirtualKey: true });
      const slug = body.slug ?? storedRecords.newSlug('', body.name);
      const now = clock.now();
      const by = key.userId || key.id;
      const id = await write(async (writer) => {
        const workspace = await places.required(writer, key, body.workspace_id);
        const owner = { organisationId: key.organisationId, workspaceId: workspace.id };
        const said = integrationPart(body);
        const empty = emptyIntegration(body.name, aiProviderId);
        const made = await integrationRecord.changed(writer, said, empty, { owner, row });
        const integrationId = randomUUID();
        const { name, data: held } = made;
        const sealed = sealedSecrets.seal(secrets, integrationId, made.plain);
        const given = { id: integrationId, ...owner, slug, name, data: held, secrets: sealed };
        const integration = storedRecords.create({ kind: 'integration', ...given }, by, now);
        await writer.records.insert(integration);
        const provider = providerRecords.of(integration, {
          ...{ workspaceId: workspace.id, slug, name: body.name, data, by, now },
        });
        await writer.records.insert(provider);
        return { id: provider.id, workspaceId: workspace.id, result: provider.id };
      });
      sendVersion(1);
      return {
        ...{ success: true as const, data: { slug }, id, slug, object: 'virtual-key' as const },
      };
    },
  });
}

/** Members of a body that the integration stores. */
function integrationPart(body: VirtualKeyBody) {
  const { key, secret_mappings } = body;
  const configurations = configurationsOf(body);
  return {
    ...(body.name !== undefined && { name: body.name }),
    ...(key !== undefined && { key }),
    ...(secret_mappings !== undefined && { secret_mappings }),
    ...(configurations !== undefined && { configurations }),
  };
}

function listRoute(scope: Scope): RouteDefinition {
  const { secrets } = scope;
  return defineRoute({
    id: 'virtual_keys.list',
    method: 'GET',
    path: '/virtual-keys',
    summary: 'Providers that the key may see, in the form of virtual keys, oldest first',
    scope: 'virtual_keys.list',
    deprecated: true,
    // Reads only.
    audit: null,
    query: Type.Object({ ...paging.query, workspace_id: Type.Optional(Identifier) }, strict),
    reply: Type.Object({ ...listReplies.of, data: Type.Array(VirtualKeyReply) }),
    examples: { response: { object: 'list', total: 1, data: [virtualKeyExample] } },
    async handle({ query, key, read }) {
      const page = paging.of(query);
      const { total, pairs } = await read(async (reader) => {
        const { total, data } = await withIntegration(reader, key, query.workspace_id, page);
        const pairs: Omit<ShownVirtualKey, 'plain'>[] = [];
        for (const provider of data)
          pairs.push({ provider, integration: await integrationOf(reader, provider) });
        return { total, pairs };
      });
      const data = pairs.map((pair) =>
        showVirtualKey({ ...pair, plain: sealedSecrets.shown(secrets, pair.integration) }, scope),
      );
      return { object: 'list' as const, total, data };
    },
  });
}

/** A page without the `providers` of the configuration, which come first in lists and have no integration. */
async function withIntegration(
  reader: Pick<ResourcesReader, 'records' | 'workspaces'>,
  key: KeyRecord,
  workspace: string | undefined,
  { offset, limit }: Page,
): Promise<Paged<StoredRecord<'provider'>>> {
  const filter = { parentId: '' };
  const { organisationId } = key;
  const without = await reader.records.list('provider', organisationId, filter, { offset: 0, limit: 0 });
  const page = { offset: offset + without.total, limit };
  const { total, data } = await providerRecords.seen(reader, key, workspace, page);
  return { total: total - without.total, data };
}

async function integrationOf(
  { records }: Pick<ResourcesReader, 'records'>,
  { organisationId, workspaceId, parentId, slug }: StoredRecord<'provider'>,
): Promise<StoredRecord<'integration'>> {
  const found = await records.find('integration', { organisationId, workspaceId }, parentId);
  if (found === undefined) throw storedRecords.noSuch('virtual key', slug);
  return found;
}

function getRoute(scope: Scope): RouteDefinition {
  const { secrets } = scope;
  return defineRoute({
    id: 'virtual_keys.get',
    method: 'GET',
    path: '/virtual-keys/{slug}',
    summary: 'One virtual key, with a masked secret',
    scope: 'virtual_keys.read',
    deprecated: true,
    // Reads only.
    audit: null,
    params: Params,
    query: Place,
    reply: VirtualKeyReply,
    examples: { response: virtualKeyExample },
    async handle({ params, query, key, read, sendVersion }) {
      const pair = await read(async (reader) => {
        const provider = await visibleProvider(reader, key, params.slug, query.workspace_id);
        return { provider, integration: await integrationOf(reader, provider) };
      });
      sendVersion(pair.provider.version);
      const plain = sealedSecrets.shown(secrets, pair.integration);
      return showVirtualKey({ ...pair, plain }, scope);
    },
  });
}

function updateRoute(scope: Scope): RouteDefinition {
  return defineRoute({
    id: 'virtual_keys.update',
    method: 'PUT',
    path: '/virtual-keys/{slug}',
    summary: 'Updates a virtual key; omitted fields stay unchanged',
    scope: 'virtual_keys.update',
    deprecated: true,
    audit: 'update',
    params: Params,
    query: Place,
    body: UpdateVirtualKey,
    reply: VirtualKeyReply,
    examples: { request: { key: 'sk-…' }, response: virtualKeyExample },
    async handle({ params, query, body, key, write, requireVersion, sendVersion }) {
      const place = body.workspace_id ?? query.workspace_id;
      const by = key.userId || key.id;
      const now = scope.clock.now();
      const shown = await write(async (writer) => {
        const before = await visibleProvider(writer, key, params.slug, place);
        requireVersion(before.version);
        const change = {
          name: body.name ?? before.name,
          data: providerRecords.changed(body, scope, before.data),
        };
        const provider = await storedRecords.change(writer, before, change, key, now);
        const pair = { provider, integration: await integrationOf(writer, before) };
        const result = await changedCredentials(writer, pair, body, { scope, by, now });
        return { id: before.id, workspaceId: before.workspaceId, result };
      });
      if (body.reset_usage === true) await providerRecords.resetUsage(shown.provider, scope);
      sendVersion(shown.provider.version);
      return showVirtualKey(shown, scope);
    },
  });
}

interface Change {
  readonly scope: Scope;
  readonly by: string;
  readonly now: number;
}

/**
 * Changes the integration by the credentials of the body. Throws `resource_conflict` when the integration does not
 * belong to the virtual key alone.
 */
async function changedCredentials(
  writer: ResourcesWriter,
  { provider, integration }: Omit<ShownVirtualKey, 'plain'>,
  body: VirtualKeyBody,
  { scope: { router, secrets }, by, now }: Change,
): Promise<ShownVirtualKey> {
  const plain = sealedSecrets.open(secrets, integration);
  const said = integrationPart(body);
  if (!provider.data.isVirtualKey) {
    if (Object.keys(said).every((name) => name === 'name')) return { provider, integration, plain };
    throw new GatewayError(
      'resource_conflict',
      `"${provider.slug}" is a provider of the integration "${integration.slug}". Change its key and settings there.`,
    );
  }
  if (Object.keys(said).length === 0) return { provider, integration, plain };
  const row = integrationRecord.providerRow(router, integration.data.aiProviderId, '');
  // Older clients send only the settings that they change.
  const configurations = said.configurations && {
    ...integrationRecord.shownConfigurations(integration, plain),
    ...said.configurations,
  };
  const changed = await integrationRecord.changed(
    writer,
    { ...said, ...(configurations !== undefined && { configurations }) },
    { name: integration.name, data: integration.data, plain },
    { owner: integration, row },
  );
  const after: StoredRecord<'integration'> = {
    ...{ ...integration, name: changed.name, data: changed.data, updatedBy: by, updatedAt: now },
    ...{
      secrets: sealedSecrets.seal(secrets, integration.id, changed.plain),
      version: integration.version + 1,
    },
  };
  if (!(await writer.records.replace(after))) throw storedRecords.stale();
  return { provider, integration: after, plain: changed.plain };
}

function deleteRoute(): RouteDefinition {
  return defineRoute({
    id: 'virtual_keys.delete',
    method: 'DELETE',
    path: '/virtual-keys/{slug}',
    summary: 'Deletes a virtual key that is not in use, with its credentials',
    scope: 'virtual_keys.delete',
    deprecated: true,
    audit: 'delete',
    params: Params,
    query: Place,
    reply: Type.Object({}),
    examples: { response: {} },
    async handle({ params, query, key, write, requireVersion }) {
      await write(async (writer) => {
        const before = await visibleProvider(writer, key, params.slug, query.workspace_id);
        requireVersion(before.version);
        if (before.data.isVirtualKey) {
          await removeIntegration(writer, await integrationOf(writer, before));
        } else {
          await providerRecords.requireUnused(writer, before.organisationId, [before]);
          if (!(await writer.records.remove('provider', before.organisationId, before.id)))
            throw storedRecords.stale();
        }
        return { id: before.id, workspaceId: before.workspaceId, result: undefined };
      });
      return {};
    },
  });
}

/** The provider with this slug or id. Throws `resource_not_found` for one out of reach. */
function visibleProvider(
  reader: Pick<ResourcesReader, 'records' | 'workspaces'>,
  key: KeyRecord,
  idOrSlug: string,
  workspace?: string,
): Promise<StoredRecord<'provider'>> {
  return storedRecords.visible(reader, key, { kind: 'provider', noun: 'provider', idOrSlug, workspace });
}
