import { reachOf } from '../../../core/access/scopes.ts';
import type { RouteDefinition } from '../../../core/pipeline/define-route.ts';
import { defineRoute, type Scope, Type } from '../../../core/pipeline/plugin.ts';
import type { KeyRecord } from '../../../core/ports/directory.ts';
import type { RecordFilter, StoredRecord } from '../../../core/ports/records.ts';
import type { ResourcesReader } from '../../../core/ports/resources.ts';
import type { Page, Paged } from '../../../core/ports/page.ts';
import {
  changedRecord,
  newSlug,
  requiredWorkspace,
  staleVersion,
  visibleRecord,
  visibleWorkspace,
} from '../shared/records.ts';
import { usableIntegration } from '../integrations/record.ts';
import { limitWarning, limitWarningField } from '../shared/limits.ts';
import { listReply, pageOf, pageQuery } from '../shared/replies.ts';
import {
  changedProvider,
  CreateProvider,
  providerExample,
  providerOf,
  ProviderReply,
  requireUnused,
  showProvider,
  UpdateProvider,
} from './record.ts';
import { Identifier, strict } from '../shared/fields.ts';

const Params = Type.Object({ slug: Identifier });
const Place = Type.Object({ workspace_id: Type.Optional(Identifier) }, strict);
const Changed = Type.Object({
  ...{ id: Type.String(), slug: Type.String(), object: Type.Literal('provider') },
  ...limitWarningField,
});
const changedExample = { id: providerExample.id, slug: providerExample.slug, object: 'provider' };

/** The routes of providers. */
export function providerRoutes(scope: Scope): readonly RouteDefinition[] {
  return [createRoute(scope), listRoute(scope), getRoute(scope), updateRoute(scope), deleteRoute()];
}

function createRoute({ clock }: Scope): RouteDefinition {
  return defineRoute({
    id: 'providers.create',
    method: 'POST',
    path: '/providers',
    summary: 'Lets a workspace use an integration, under a slug of its own',
    scope: 'providers.create',
    audit: 'create',
    body: CreateProvider,
    reply: Changed,
    examples: {
      request: { name: 'OpenAI, production', integration_id: 'openai-prod', slug: 'openai-prod' },
      response: changedExample,
    },
    async handle({ body, key, write, sendVersion }) {
      const data = changedProvider(body, { clock });
      const slug = body.slug ?? newSlug('', body.name);
      const now = clock.now();
      const by = key.userId || key.id;
      const record = await write(async (writer) => {
        const workspace = await requiredWorkspace(writer, key, body.workspace_id);
        const integration = await usableIntegration(
          writer,
          workspace,
          body.integration_id,
          '/integration_id',
        );
        const workspaceId = workspace.id;
        const record = providerOf(integration, { workspaceId, slug, name: body.name, data, by, now });
        await writer.records.insert(record);
        return { id: record.id, workspaceId, result: record };
      });
      sendVersion(record.version);
      return {
        ...{ id: record.id, slug, object: 'provider' as const },
        ...limitWarning(data.usageLimits !== undefined),
      };
    },
  });
}

function listRoute({ clock }: Scope): RouteDefinition {
  return defineRoute({
    id: 'providers.list',
    method: 'GET',
    path: '/providers',
    summary: 'The providers that the key may see, oldest first',
    scope: 'providers.list',
    // Reads only.
    audit: null,
    query: Type.Object({ ...pageQuery, workspace_id: Type.Optional(Identifier) }, strict),
    reply: Type.Object({ ...listReply, data: Type.Array(ProviderReply) }),
    examples: { response: { object: 'list', total: 1, data: [providerExample] } },
    async handle({ query, key, read }) {
      const page = pageOf(query);
      const { total, data } = await read((reader) => seenProviders(reader, key, query.workspace_id, page));
      const now = clock.now();
      return { object: 'list' as const, total, data: data.map((record) => showProvider(record, now)) };
    },
  });
}

/** A page of the providers within the key's reach; of one workspace, when it is named. */
export async function seenProviders(
  reader: Pick<ResourcesReader, 'records' | 'workspaces'>,
  key: KeyRecord,
  workspace: string | undefined,
  page: Page,
): Promise<Paged<StoredRecord<'provider'>>> {
  const { organisationId, workspaceId: reach } = reachOf(key);
  const workspaceId = workspace === undefined ? reach : (await visibleWorkspace(reader, key, workspace)).id;
  const filter: RecordFilter = workspaceId === undefined ? {} : { workspaceId };
  return reader.records.list('provider', organisationId, filter, page);
}

function getRoute({ clock }: Scope): RouteDefinition {
  return defineRoute({
    id: 'providers.get',
    method: 'GET',
    path: '/providers/{slug}',
    summary: 'One provider',
    scope: 'providers.read',
    // Reads only.
    audit: null,
    params: Params,
    query: Place,
    reply: ProviderReply,
    examples: { response: providerExample },
    async handle({ params, query, key, read, sendVersion }) {
      const record = await read((reader) => visibleProvider(reader, key, params.slug, query.workspace_id));
      sendVersion(record.version);
      return showProvider(record, clock.now());
    },
  });
}

/** The provider of this slug or id. Throws `resource_not_found` for one that is not within reach. */
export function visibleProvider(
  reader: Pick<ResourcesReader, 'records' | 'workspaces'>,
  key: KeyRecord,
  idOrSlug: string,
  workspace?: string,
): Promise<StoredRecord<'provider'>> {
  return visibleRecord(reader, key, { kind: 'provider', noun: 'provider', idOrSlug, workspace });
}

function updateRoute({ clock }: Scope): RouteDefinition {
  return defineRoute({
    id: 'providers.update',
    method: 'PUT',
    path: '/providers/{slug}',
    summary: 'Changes a provider; what is not given stays',
    scope: 'providers.update',
    audit: 'update',
    params: Params,
    query: Place,
    body: UpdateProvider,
    reply: Changed,
    examples: { request: { note: 'For the website' }, response: changedExample },
    async handle({ params, query, body, key, write, requireVersion, sendVersion }) {
      const place = body.workspace_id ?? query.workspace_id;
      const record = await write(async (writer) => {
        const before = await visibleProvider(writer, key, params.slug, place);
        requireVersion(before.version);
        const change = {
          name: body.name ?? before.name,
          data: changedProvider(body, { clock }, before.data),
        };
        const after = changedRecord(before, change, key, clock.now());
        if (!(await writer.records.replace(after))) throw staleVersion();
        return { id: after.id, workspaceId: after.workspaceId, result: after };
      });
      sendVersion(record.version);
      return {
        ...{ id: record.id, slug: record.slug, object: 'provider' as const },
        ...limitWarning(record.data.usageLimits !== undefined),
      };
    },
  });
}

function deleteRoute(): RouteDefinition {
  return defineRoute({
    id: 'providers.delete',
    method: 'DELETE',
    path: '/providers/{slug}',
    summary: 'Deletes a provider, unless something names it; its integration stays',
    scope: 'providers.delete',
    audit: 'delete',
    params: Params,
    query: Place,
    reply: Type.Object({}),
    examples: { response: {} },
    async handle({ params, query, key, write, requireVersion }) {
      await write(async (writer) => {
        const before = await visibleProvider(writer, key, params.slug, query.workspace_id);
        requireVersion(before.version);
        await requireUnused(writer, before.organisationId, [before]);
        if (!(await writer.records.remove('provider', before.organisationId, before.id)))
          throw staleVersion();
        return { id: before.id, workspaceId: before.workspaceId, result: undefined };
      });
      return {};
    },
  });
}
