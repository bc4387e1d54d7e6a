import { reachOf } from '../../../core/access/scopes.ts';
import { emptyIntegration } from '../../../core/organisation/integrations.ts';
import type { RouteDefinition } from '../../../core/pipeline/define-route.ts';
import { type Scope, Type } from '../../../core/pipeline/plugin.ts';
import type { StoredRecord } from '../../../core/ports/records.ts';
import type { ResourcesWriter } from '../../../core/ports/resources.ts';
import { RecordResource } from '../shared/record-resource.ts';
import { everyRecord, newSlug, staleVersion, visibleWorkspace, workspaceOfBody } from '../shared/records.ts';
import {
  changedIntegration,
  CreateIntegration,
  IntegrationDetail,
  integrationExample,
  IntegrationReply,
  integrationScopes,
  providerRow,
  requireIntegrationScope,
  seenIntegrations,
  showIntegration,
  showWholeIntegration,
  UpdateIntegration,
  visibleIntegration,
  wholeIntegrationExample,
} from './record.ts';
import { integrationModelRoutes } from './models.ts';
import { openSecrets, sealSecrets, shownSecrets } from '../shared/sealed-secrets.ts';
import { integrationWorkspaceRoutes } from './workspaces.ts';
import { addDefaultProvider, requireUnused } from '../providers/record.ts';
import { Identifier, strict } from '../shared/fields.ts';

const Place = Type.Object({ workspace_id: Type.Optional(Identifier) }, strict);

/** The routes of integrations, with those of their models and workspaces. */
export function integrationRoutes(scope: Scope): readonly RouteDefinition[] {
  const { router, secrets } = scope;
  const integrations = new RecordResource(scope, {
    kind: 'integration',
    noun: 'integration',
    operations: 'integrations',
    path: '/integrations',
    parameter: 'slug',
    scopes: integrationScopes,
    find: (reader, key, { idOrSlug, workspace }, action) =>
      visibleIntegration(reader, key, { slug: idOrSlug, workspace }, action),
  });
  return [
    integrations.create({
      summary: 'Stores credentials at a provider, for the organisation or for one workspace',
      body: CreateIntegration,
      reply: Type.Object({ id: Type.String(), slug: Type.String(), object: Type.Literal('integration') }),
      examples: {
        request: { name: 'OpenAI, production', slug: 'openai-prod', ai_provider_id: 'openai', key: 'sk-…' },
        response: { id: integrationExample.id, slug: 'openai-prod', object: 'integration' },
      },
      prepare: ({ body }) => providerRow(router, body.ai_provider_id, '/ai_provider_id'),
      async make(writer, { id, key, body, prepared: row }) {
        const workspaceId = (await workspaceOfBody(writer, key, body.workspace_id))?.id;
        requireIntegrationScope(key, 'create', workspaceId);
        const owner = { organisationId: key.organisationId, workspaceId };
        const empty = emptyIntegration(body.name, body.ai_provider_id);
        const { plain, ...content } = await changedIntegration(writer, body, empty, { owner, row });
        const slug = body.slug ?? newSlug('', body.name);
        return { workspaceId, slug, ...content, secrets: sealSecrets(secrets, id, plain) };
      },
      async show(record, writer, { body }) {
        const { id, slug, workspaceId, createdBy: by, createdAt: now } = record;
        if (workspaceId !== undefined && body.create_default_provider !== false)
          await addDefaultProvider(writer, record, workspaceId, {
            slug: body.default_provider_slug,
            by,
            now,
          });
        return { id, slug, object: 'integration' as const };
      },
    }),
    integrations.list({
      summary: 'The integrations that the key may see, oldest first',
      query: {
        workspace_id: Type.Optional(Identifier),
        type: Type.Optional(
          Type.Union([Type.Literal('workspace'), Type.Literal('organisation'), Type.Literal('all')], {
            description:
              'Those of workspaces, those of the organisation, or all (default). With `workspace_id`: of that workspace, and what it may use of the organisation.',
          }),
        ),
      },
      entry: IntegrationReply,
      examples: { response: { object: 'list', total: 1, data: [integrationExample] } },
      async rows(reader, { key, query: { workspace_id: named, type = 'all' } }, { offset, limit }) {
        const workspace = named === undefined ? undefined : (await visibleWorkspace(reader, key, named)).id;
        const workspaceId = workspace ?? reachOf(key).workspaceId;
        return seenIntegrations(reader, key, { workspaceId, type, offset, limit });
      },
      show: showIntegration,
    }),
    integrations.get({
      summary: 'One integration, its secrets masked',
      query: Place,
      reply: IntegrationDetail,
      examples: { response: wholeIntegrationExample },
      show: (record) => showWholeIntegration(record, shownSecrets(secrets, record)),
    }),
    integrations.update({
      summary: 'Changes an integration; what is not given stays',
      query: Place,
      body: UpdateIntegration,
      reply: IntegrationDetail,
      examples: { request: { key: 'sk-…' }, response: wholeIntegrationExample },
      async change(before, writer, { body }) {
        const row = providerRow(router, before.data.aiProviderId, '');
        const opened = { name: before.name, data: before.data, plain: openSecrets(secrets, before) };
        const { plain, ...content } = await changedIntegration(writer, body, opened, { owner: before, row });
        return { ...content, secrets: sealSecrets(secrets, before.id, plain) };
      },
      show: (record) => showWholeIntegration(record, openSecrets(secrets, record)),
    }),
    integrations.remove({
      summary: 'Deletes an integration and its providers, unless something names one of them',
      query: Place,
      examples: { response: {} },
      requireUnused: removeProviders,
    }),
    ...integrationModelRoutes(scope),
    ...integrationWorkspaceRoutes(scope),
  ];
}

/** Removes the providers of an integration. Throws `resource_conflict` while something names one of them. */
async function removeProviders(
  writer: ResourcesWriter,
  { id, organisationId }: StoredRecord<'integration'>,
): Promise<void> {
  const providers = await everyRecord(writer, 'provider', organisationId, { parentId: id });
  await requireUnused(writer, organisationId, providers);
  for (const provider of providers) await writer.records.remove('provider', organisationId, provider.id);
}

/** Removes an integration with its providers. Throws `resource_conflict` while something names one of them. */
export async function removeIntegration(
  writer: ResourcesWriter,
  record: StoredRecord<'integration'>,
): Promise<void> {
  await removeProviders(writer, record);
  if (!(await writer.records.remove('integration', record.organisationId, record.id))) throw staleVersion();
}
