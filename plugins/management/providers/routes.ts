import { reachOf } from '../../../core/access/scopes.ts';
import type { RouteDefinition } from '../../../core/pipeline/define-route.ts';
import { type Scope, type Static, Type } from '../../../core/pipeline/plugin.ts';
import type { KeyRecord } from '../../../core/ports/directory.ts';
import type { RecordFilter, StoredRecord } from '../../../core/ports/records.ts';
import type { ResourcesReader } from '../../../core/ports/resources.ts';
import type { Page, Paged } from '../../../core/ports/page.ts';
import { newSlug, requiredWorkspace, visibleWorkspace } from '../shared/records.ts';
import { usableIntegration } from '../integrations/record.ts';
import { RecordResource } from '../shared/record-resource.ts';
import {
  changedProvider,
  CreateProvider,
  providerExample,
  ProviderReply,
  requireUnused,
  resetProviderUsage,
  showProvider,
  UpdateProvider,
} from './record.ts';
import { Identifier, Place } from '../shared/fields.ts';
const Changed = Type.Object({
  ...{ id: Type.String(), slug: Type.String(), object: Type.Literal('provider') },
});
const changedExample = { id: providerExample.id, slug: providerExample.slug, object: 'provider' };

/** The routes of providers. */
export function providerRoutes(scope: Scope): readonly RouteDefinition[] {
  const { clock } = scope;
  const providers = new RecordResource(scope, {
    kind: 'provider',
    noun: 'provider',
    operations: 'providers',
    path: '/providers',
    parameter: 'slug',
    scopes: (action) => `providers.${action}`,
  });
  return [
    providers.create({
      summary: 'Creates a provider: lets a workspace use an integration under its own slug',
      body: CreateProvider,
      reply: Changed,
      examples: {
        request: { name: 'OpenAI, production', integration_id: 'openai-prod', slug: 'openai-prod' },
        response: changedExample,
      },
      prepare: ({ body }) => changedProvider(body, { clock }),
      async make(writer, { key, body, prepared: data }) {
        const workspace = await requiredWorkspace(writer, key, body.workspace_id);
        const { id: parentId } = await usableIntegration(
          writer,
          workspace,
          body.integration_id,
          '/integration_id',
        );
        const slug = body.slug ?? newSlug('', body.name);
        return { workspaceId: workspace.id, parentId, slug, name: body.name, data };
      },
      show: showChanged,
    }),
    providers.list({
      summary: 'Providers that the key may see, oldest first',
      query: { workspace_id: Type.Optional(Identifier) },
      entry: ProviderReply,
      examples: { response: { object: 'list', total: 1, data: [providerExample] } },
      rows: (reader, { key, query }, page) => seenProviders(reader, key, query.workspace_id, page),
      show: (record) => showProvider(record, scope),
    }),
    providers.get({
      summary: 'One provider',
      query: Place,
      reply: ProviderReply,
      examples: { response: providerExample },
      show: (record) => showProvider(record, scope),
    }),
    providers.update({
      summary: 'Updates a provider; omitted fields stay unchanged',
      query: Place,
      body: UpdateProvider,
      reply: Changed,
      examples: { request: { note: 'For the website' }, response: changedExample },
      change: ({ name, data }, _writer, { body }) => ({
        name: body.name ?? name,
        data: changedProvider(body, { clock }, data),
      }),
      afterwards: (record, { body }) =>
        body.reset_usage === true ? resetProviderUsage(record, scope) : undefined,
      show: showChanged,
    }),
    providers.remove({
      summary: 'Deletes a provider that is not in use; its integration stays',
      query: Place,
      examples: { response: {} },
      requireUnused: (writer, record) => requireUnused(writer, record.organisationId, [record]),
    }),
  ];
}

function showChanged({ id, slug }: StoredRecord<'provider'>): Static<typeof Changed> {
  return { id, slug, object: 'provider' };
}

/** A page of the providers within the key's reach, or of the named workspace. */
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
