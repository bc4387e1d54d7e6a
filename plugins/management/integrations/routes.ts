import { randomUUID } from 'node:crypto';
import { reachOf } from '../../../core/access/scopes.ts';
import { emptyIntegration } from '../../../core/organisation/integrations.ts';
import type { RouteDefinition } from '../../../core/pipeline/define-route.ts';
import { defineRoute, type Scope, Type } from '../../../core/pipeline/plugin.ts';
import type { StoredRecord } from '../../../core/ports/records.ts';
import {
  changedRecord,
  everyRecord,
  newSlug,
  staleVersion,
  visibleWorkspace,
  workspaceOfBody,
} from '../shared/records.ts';
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
import { listReply, pageOf, pageQuery } from '../shared/replies.ts';
import { addDefaultProvider, requireUnused } from '../providers/record.ts';
import { Identifier, strict } from '../shared/fields.ts';

const Params = Type.Object({ slug: Identifier });
const Place = Type.Object({ workspace_id: Type.Optional(Identifier) }, strict);

/** The routes of integrations, with those of their models and workspaces. */
export function integrationRoutes(scope: Scope): readonly RouteDefinition[] {
  return [
    createRoute(scope),
    listRoute(),
    getRoute(scope),
    updateRoute(scope),
    deleteRoute(),
    ...integrationModelRoutes(scope),
    ...integrationWorkspaceRoutes(scope),
  ];
}

function createRoute({ clock, router, secrets }: Scope): RouteDefinition {
  return defineRoute({
    id: 'integrations.create',
    method: 'POST',
    path: '/integrations',
    summary: 'Stores credentials at a provider, for the organisation or for one workspace',
    scope: integrationScopes('create'),
    audit: 'create',
    body: CreateIntegration,
    reply: Type.Object({ id: Type.String(), slug: Type.String(), object: Type.Literal('integration') }),
    examples: {
      request: { name: 'OpenAI, production', slug: 'openai-prod', ai_provider_id: 'openai', key: 'sk-…' },
      response: { id: integrationExample.id, slug: 'openai-prod', object: 'integration' },
    },
    async handle({ body, key, write, sendVersion }) {
      const row = providerRow(router, body.ai_provider_id, '/ai_provider_id');
      const now = clock.now();
      const id = randomUUID();
      const by = key.userId || key.id;
      const slug = body.slug ?? newSlug('', body.name);
      await write(async (writer) => {
        const workspaceId = (await workspaceOfBody(writer, key, body.workspace_id))?.id;
        requireIntegrationScope(key, 'create', workspaceId);
        const owner = { organisationId: key.organisationId, workspaceId };
        const empty = emptyIntegration(body.name, body.ai_provider_id);
        const { name, data, plain } = await changedIntegration(writer, body, empty, { owner, row });
        const record: StoredRecord<'integration'> = {
          ...{ kind: 'integration', id, ...owner, slug, name, status: 'active', parentId: '', data },
          ...{ secrets: sealSecrets(secrets, id, plain), createdBy: by, updatedBy: by },
          ...{ createdAt: now, updatedAt: now, version: 1 },
        };
        await writer.records.insert(record);
        if (workspaceId !== undefined && body.create_default_provider !== false)
          await addDefaultProvider(writer, record, workspaceId, {
            slug: body.default_provider_slug,
            by,
            now,
          });
        return { id, workspaceId, result: undefined };
      });
      sendVersion(1);
      return { id, slug, object: 'integration' as const };
    },
  });
}

function listRoute(): RouteDefinition {
  return defineRoute({
    id: 'integrations.list',
    method: 'GET',
    path: '/integrations',
    summary: 'The integrations that the key may see, oldest first',
    scope: integrationScopes('list'),
    // Reads only.
    audit: null,
    query: Type.Object(
      {
        ...pageQuery,
        workspace_id: Type.Optional(Identifier),
        type: Type.Optional(
          Type.Union([Type.Literal('workspace'), Type.Literal('organisation'), Type.Literal('all')], {
            description:
              'Those of workspaces, those of the organisation, or all (default). With `workspace_id`: of that workspace, and what it may use of the organisation.',
          }),
        ),
      },
      strict,
    ),
    reply: Type.Object({ ...listReply, data: Type.Array(IntegrationReply) }),
    examples: { response: { object: 'list', total: 1, data: [integrationExample] } },
    async handle({ query, key, read }) {
      const { offset, limit } = pageOf(query);
      const { workspace_id: named, type = 'all' } = query;
      const { total, data } = await read(async (reader) => {
        const workspace = named === undefined ? undefined : (await visibleWorkspace(reader, key, named)).id;
        const workspaceId = workspace ?? reachOf(key).workspaceId;
        return seenIntegrations(reader, key, { workspaceId, type, offset, limit });
      });
      return { object: 'list' as const, total, data: data.map((record) => showIntegration(record)) };
    },
  });
}

function getRoute({ secrets }: Scope): RouteDefinition {
  return defineRoute({
    id: 'integrations.get',
    method: 'GET',
    path: '/integrations/{slug}',
    summary: 'One integration, its secrets masked',
    scope: integrationScopes('read'),
    // Reads only.
    audit: null,
    params: Params,
    query: Place,
    reply: IntegrationDetail,
    examples: { response: wholeIntegrationExample },
    async handle({ params, query, key, read, sendVersion }) {
      const named = { slug: params.slug, workspace: query.workspace_id };
      const record = await read((reader) => visibleIntegration(reader, key, named, 'read'));
      sendVersion(record.version);
      return showWholeIntegration(record, shownSecrets(secrets, record));
    },
  });
}

function updateRoute({ clock, router, secrets }: Scope): RouteDefinition {
  return defineRoute({
    id: 'integrations.update',
    method: 'PUT',
    path: '/integrations/{slug}',
    summary: 'Changes an integration; what is not given stays',
    scope: integrationScopes('update'),
    audit: 'update',
    params: Params,
    query: Place,
    body: UpdateIntegration,
    reply: IntegrationDetail,
    examples: { request: { key: 'sk-…' }, response: wholeIntegrationExample },
    async handle({ params, query, body, key, write, requireVersion, sendVersion }) {
      const named = { slug: params.slug, workspace: body.workspace_id ?? query.workspace_id };
      const { record, plain } = await write(async (writer) => {
        const before = await visibleIntegration(writer, key, named, 'update');
        requireVersion(before.version);
        const row = providerRow(router, before.data.aiProviderId, '');
        const opened = { name: before.name, data: before.data, plain: openSecrets(secrets, before) };
        const { plain, ...content } = await changedIntegration(writer, body, opened, { owner: before, row });
        const change = { ...content, secrets: sealSecrets(secrets, before.id, plain) };
        const after = changedRecord(before, change, key, clock.now());
        if (!(await writer.records.replace(after))) throw staleVersion();
        return { id: after.id, workspaceId: after.workspaceId, result: { record: after, plain } };
      });
      sendVersion(record.version);
      return showWholeIntegration(record, plain);
    },
  });
}

function deleteRoute(): RouteDefinition {
  return defineRoute({
    id: 'integrations.delete',
    method: 'DELETE',
    path: '/integrations/{slug}',
    summary: 'Deletes an integration and its providers, unless something names one of them',
    scope: integrationScopes('delete'),
    audit: 'delete',
    params: Params,
    query: Place,
    reply: Type.Object({}),
    examples: { response: {} },
    async handle({ params, query, key, write, requireVersion }) {
      const named = { slug: params.slug, workspace: query.workspace_id };
      await write(async (writer) => {
        const before = await visibleIntegration(writer, key, named, 'delete');
        requireVersion(before.version);
        await removeIntegration(writer, before);
        return { id: before.id, workspaceId: before.workspaceId, result: undefined };
      });
      return {};
    },
  });
}

type Writer = Parameters<typeof addDefaultProvider>[0];

/** Removes an integration with its providers. Throws `resource_conflict` while something names one of them. */
export async function removeIntegration(
  writer: Writer,
  { id, organisationId }: StoredRecord<'integration'>,
): Promise<void> {
  const providers = await everyRecord(writer, 'provider', organisationId, { parentId: id });
  await requireUnused(writer, organisationId, providers);
  for (const provider of providers) await writer.records.remove('provider', organisationId, provider.id);
  if (!(await writer.records.remove('integration', organisationId, id))) throw staleVersion();
}
