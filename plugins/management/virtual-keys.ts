import { randomUUID } from 'node:crypto';
import { emptyIntegration } from '../../core/organisation/integration-content.ts';
import { plainProvider } from '../../core/organisation/provider-schema.ts';
import type { RouteDefinition } from '../../core/pipeline/define-route.ts';
import { defineRoute, GatewayError, type Scope, Type } from '../../core/pipeline/plugin.ts';
import type { KeyRecord } from '../../core/ports/directory.ts';
import type { StoredRecord } from '../../core/ports/records.ts';
import type { ResourcesReader, ResourcesWriter } from '../../core/ports/resources.ts';
import type { Page, Paged } from '../../core/ports/page.ts';
import { changedRecord } from './changed-record.ts';
import { changedIntegration, providerRow } from './integration-body.ts';
import { shownConfigurations } from './integration-record.ts';
import { openSecrets, sealSecrets, shownSecrets } from './integration-secrets.ts';
import { removeIntegration } from './integrations.ts';
import { limitWarning, limitWarningField } from './limits-schema.ts';
import { listReply, pageOf, pageQuery } from './page-query.ts';
import { changedProvider } from './provider-body.ts';
import { providerOf } from './provider-defaults.ts';
import { requireUnused } from './provider-uses.ts';
import { seenProviders, visibleProvider } from './providers.ts';
import { newSlug } from './record-slug.ts';
import { staleVersion } from './stale-version.ts';
import { Identifier, strict } from './text-schema.ts';
import {
  configurationsOf,
  CreateVirtualKey,
  rowName,
  UpdateVirtualKey,
  type VirtualKeyBody,
} from './virtual-key-body.ts';
import {
  type ShownVirtualKey,
  showVirtualKey,
  virtualKeyExample,
  VirtualKeyReply,
} from './virtual-key-record.ts';
import { noSuchRecord, requiredWorkspace } from './visible-record.ts';

const Params = Type.Object({ slug: Identifier });
const Place = Type.Object({ workspace_id: Type.Optional(Identifier) }, strict);

/** The routes of virtual keys: the older face of integrations and providers. */
export function virtualKeyRoutes(scope: Scope): readonly RouteDefinition[] {
  return [createRoute(scope), listRoute(scope), getRoute(scope), updateRoute(scope), deleteRoute()];
}

function createRoute({ clock, router, secrets }: Scope): RouteDefinition {
  return defineRoute({
    id: 'virtual_keys.create',
    method: 'POST',
    path: '/virtual-keys',
    summary: 'Makes an integration of a workspace and a provider of the same slug',
    scope: 'virtual_keys.create',
    deprecated: true,
    audit: 'create',
    body: CreateVirtualKey,
    reply: Type.Object({
      success: Type.Literal(true),
      data: Type.Object({ slug: Type.String() }),
      ...{ id: Type.String(), slug: Type.String(), object: Type.Literal('virtual-key') },
      ...limitWarningField,
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
      const row = providerRow(router, aiProviderId, '/provider');
      const data = changedProvider(body, { clock }, { ...plainProvider, isVirtualKey: true });
      const slug = body.slug ?? newSlug('', body.name);
      const now = clock.now();
      const by = key.userId || key.id;
      const id = await write(async (writer) => {
        const workspace = await requiredWorkspace(writer, key, body.workspace_id);
        const owner = { organisationId: key.organisationId, workspaceId: workspace.id };
        const said = integrationPart(body);
        const empty = emptyIntegration(body.name, aiProviderId);
        const made = await changedIntegration(writer, said, empty, { owner, row });
        const integrationId = randomUUID();
        const integration: StoredRecord<'integration'> = {
          ...{ kind: 'integration', id: integrationId, ...owner, slug, name: made.name, data: made.data },
          ...{ status: 'active', parentId: '', secrets: sealSecrets(secrets, integrationId, made.plain) },
          ...{ createdBy: by, updatedBy: by, createdAt: now, updatedAt: now, version: 1 },
        };
        await writer.records.insert(integration);
        const provider = providerOf(integration, {
          ...{ workspaceId: workspace.id, slug, name: body.name, data, by, now },
        });
        await writer.records.insert(provider);
        return { id: provider.id, workspaceId: workspace.id, result: provider.id };
      });
      sendVersion(1);
      return {
        ...{ success: true as const, data: { slug }, id, slug, object: 'virtual-key' as const },
        ...limitWarning(data.usageLimits !== undefined),
      };
    },
  });
}

/** The part of a body that its integration keeps. */
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

function listRoute({ clock, secrets }: Scope): RouteDefinition {
  return defineRoute({
    id: 'virtual_keys.list',
    method: 'GET',
    path: '/virtual-keys',
    summary: 'The providers that the key may see in the shape of virtual keys, oldest first',
    scope: 'virtual_keys.list',
    deprecated: true,
    // Reads only.
    audit: null,
    query: Type.Object({ ...pageQuery, workspace_id: Type.Optional(Identifier) }, strict),
    reply: Type.Object({ ...listReply, data: Type.Array(VirtualKeyReply) }),
    examples: { response: { object: 'list', total: 1, data: [virtualKeyExample] } },
    async handle({ query, key, read }) {
      const page = pageOf(query);
      const { total, pairs } = await read(async (reader) => {
        const { total, data } = await withIntegration(reader, key, query.workspace_id, page);
        const pairs: Omit<ShownVirtualKey, 'plain'>[] = [];
        for (const provider of data)
          pairs.push({ provider, integration: await integrationOf(reader, provider) });
        return { total, pairs };
      });
      const now = clock.now();
      const data = pairs.map((pair) =>
        showVirtualKey({ ...pair, plain: shownSecrets(secrets, pair.integration) }, now),
      );
      return { object: 'list' as const, total, data };
    },
  });
}

/** Without the `providers` of the configuration, which stand before all others: they have no integration. */
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
  const { total, data } = await seenProviders(reader, key, workspace, page);
  return { total: total - without.total, data };
}

async function integrationOf(
  { records }: Pick<ResourcesReader, 'records'>,
  { organisationId, workspaceId, parentId, slug }: StoredRecord<'provider'>,
): Promise<StoredRecord<'integration'>> {
  const found = await records.find('integration', { organisationId, workspaceId }, parentId);
  if (found === undefined) throw noSuchRecord('virtual key', slug);
  return found;
}

function getRoute({ clock, secrets }: Scope): RouteDefinition {
  return defineRoute({
    id: 'virtual_keys.get',
    method: 'GET',
    path: '/virtual-keys/{slug}',
    summary: 'One virtual key, its secret masked',
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
      const plain = shownSecrets(secrets, pair.integration);
      return showVirtualKey({ ...pair, plain }, clock.now());
    },
  });
}

function updateRoute(scope: Scope): RouteDefinition {
  return defineRoute({
    id: 'virtual_keys.update',
    method: 'PUT',
    path: '/virtual-keys/{slug}',
    summary: 'Changes a virtual key; what is not given stays',
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
        const change = { name: body.name ?? before.name, data: changedProvider(body, scope, before.data) };
        const provider = changedRecord(before, change, key, now);
        if (!(await writer.records.replace(provider))) throw staleVersion();
        const pair = { provider, integration: await integrationOf(writer, before) };
        const result = await changedCredentials(writer, pair, body, { scope, by, now });
        return { id: before.id, workspaceId: before.workspaceId, result };
      });
      sendVersion(shown.provider.version);
      return showVirtualKey(shown, now);
    },
  });
}

interface Change {
  readonly scope: Scope;
  readonly by: string;
  readonly now: number;
}

/**
 * What the body says of the credentials goes to the integration. Throws `resource_conflict` when that is not the virtual
 * key's own.
 */
async function changedCredentials(
  writer: ResourcesWriter,
  { provider, integration }: Omit<ShownVirtualKey, 'plain'>,
  body: VirtualKeyBody,
  { scope: { router, secrets }, by, now }: Change,
): Promise<ShownVirtualKey> {
  const plain = openSecrets(secrets, integration);
  const said = integrationPart(body);
  if (!provider.data.isVirtualKey) {
    if (Object.keys(said).every((name) => name === 'name')) return { provider, integration, plain };
    throw new GatewayError(
      'resource_conflict',
      `"${provider.slug}" is a provider of the integration "${integration.slug}". Change its key and settings there.`,
    );
  }
  if (Object.keys(said).length === 0) return { provider, integration, plain };
  const row = providerRow(router, integration.data.aiProviderId, '');
  // Older clients send the settings that they change, and no others.
  const configurations = said.configurations && {
    ...shownConfigurations(integration, plain),
    ...said.configurations,
  };
  const changed = await changedIntegration(
    writer,
    { ...said, ...(configurations !== undefined && { configurations }) },
    { name: integration.name, data: integration.data, plain },
    { owner: integration, row },
  );
  const after: StoredRecord<'integration'> = {
    ...{ ...integration, name: changed.name, data: changed.data, updatedBy: by, updatedAt: now },
    ...{ secrets: sealSecrets(secrets, integration.id, changed.plain), version: integration.version + 1 },
  };
  if (!(await writer.records.replace(after))) throw staleVersion();
  return { provider, integration: after, plain: changed.plain };
}

function deleteRoute(): RouteDefinition {
  return defineRoute({
    id: 'virtual_keys.delete',
    method: 'DELETE',
    path: '/virtual-keys/{slug}',
    summary: 'Deletes a virtual key with its credentials, unless something names it',
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
          await requireUnused(writer, before.organisationId, [before]);
          if (!(await writer.records.remove('provider', before.organisationId, before.id)))
            throw staleVersion();
        }
        return { id: before.id, workspaceId: before.workspaceId, result: undefined };
      });
      return {};
    },
  });
}
