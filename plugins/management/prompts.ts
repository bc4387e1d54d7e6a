import { randomUUID } from 'node:crypto';
import { reachOf } from '../../core/access/access.ts';
import type { RouteDefinition } from '../../core/pipeline/define-route.ts';
import { defineRoute, Type, type Scope } from '../../core/pipeline/plugin.ts';
import type { KeyRecord } from '../../core/ports/directory.ts';
import type { StoredRecord } from '../../core/ports/records.ts';
import type { ResourcesWriter, WorkspaceRecord } from '../../core/ports/resources.ts';
import { changedRecord } from './changed-record.ts';
import { checkTemplate } from './checked-template.ts';
import { namedCollection } from './collection-record.ts';
import { listReply, pageOf, pageQuery } from './page-query.ts';
import { requirePrompts } from './prompt-access.ts';
import { CreatePrompt, emptyVersion, requireProvider, versionOf } from './prompt-body.ts';
import { PromptEntry, PromptReply, showEntry, showPrompt } from './prompt-record.ts';
import { newSlug } from './record-slug.ts';
import { refusedBody } from './refused-body.ts';
import { staleVersion } from './stale-version.ts';
import { Identifier, Name, strict } from './text-schema.ts';
import { requiredWorkspace, visibleRecord } from './visible-record.ts';
import { PromptReferenceParam, referencedTemplate, visibleTemplate } from './visible-prompt.ts';
import { placeOfList } from './visible-workspace.ts';
import { updatePromptRoute } from './update-prompt.ts';

/** The routes of prompts themselves; those of their versions are in `prompt-versions.ts`. */
export function promptRoutes(scope: Scope): readonly RouteDefinition[] {
  return [
    createRoute(scope),
    listRoute(scope),
    getRoute(scope),
    updatePromptRoute(scope),
    archiveRoute(scope),
  ];
}

const Created = Type.Object({
  id: Type.String(),
  object: Type.Literal('prompt'),
  slug: Type.String(),
  version_id: Type.String(),
});

function createRoute({ clock, directory, router }: Scope): RouteDefinition {
  return defineRoute({
    id: 'prompts.create',
    method: 'POST',
    path: '/prompts',
    summary: 'Saves a prompt, with its first version',
    scope: 'prompts.create',
    audit: 'create',
    body: CreatePrompt,
    reply: Created,
    async handle({ body, key, role, write, sendVersion }) {
      requirePrompts({ key, role }, directory, 'Write');
      const now = clock.now();
      const { record, version } = await write(async (writer) => {
        const workspace = await workspaceOfPrompt(writer, key, body);
        const { id: workspaceId, organisationId } = workspace;
        const collection = await namedCollection(writer, body.collection_id, { workspace, key, now });
        const data = versionOf(body, emptyVersion);
        await checkTemplate(writer, { template: data.template, place: { organisationId, workspaceId } });
        await requireProvider(writer, { organisationId, workspaceId }, data.virtualKey, router);
        const by = key.userId || key.id;
        const record: StoredRecord<'prompt'> = {
          ...{ kind: 'prompt', id: randomUUID(), organisationId, workspaceId },
          ...{ slug: newSlug('pp-', body.name), name: body.name, status: 'active' },
          ...{ parentId: collection.id, data, secrets: {}, createdBy: by, updatedBy: by },
          ...{ createdAt: now, updatedAt: now, version: 1 },
        };
        await writer.records.insert(record);
        const version = await writer.records.addVersion('prompt', organisationId, {
          ...{ id: randomUUID(), recordId: record.id, name: record.name, data },
          ...{ description: body.version_description ?? '', labelId: '', createdBy: by, createdAt: now },
        });
        return { id: record.id, workspaceId, result: { record, version } };
      });
      sendVersion(record.version);
      return { id: record.id, object: 'prompt' as const, slug: record.slug, version_id: version.id };
    },
  });
}

/** The key's workspace, or what the body says: by itself, or by the collection that is in it. */
async function workspaceOfPrompt(
  writer: ResourcesWriter,
  key: KeyRecord,
  body: { readonly workspace_id?: string; readonly collection_id?: string },
): Promise<WorkspaceRecord> {
  const { workspace_id: said, collection_id: collection } = body;
  if (said !== undefined || collection === undefined || reachOf(key).workspaceId !== undefined)
    return requiredWorkspace(writer, key, said);
  const { organisationId } = key;
  const found = await writer.records.find('collection', { organisationId }, collection);
  if (found?.workspaceId !== undefined) return requiredWorkspace(writer, key, found.workspaceId);
  const message = 'names no collection by its id; say workspace_id beside it';
  throw refusedBody([{ path: '/collection_id', message }]);
}

function listRoute({ directory }: Scope): RouteDefinition {
  return defineRoute({
    id: 'prompts.list',
    method: 'GET',
    path: '/prompts',
    summary: 'The prompts that the key may see, oldest first',
    scope: 'prompts.list',
    // Reads only.
    audit: null,
    query: Type.Object(
      {
        ...pageQuery,
        workspace_id: Type.Optional(Name('Only those of this workspace: its id or slug.')),
        collection_id: Type.Optional(Name('Only those in this collection: its id or slug.')),
        search: Type.Optional(Name('Part of the name or slug, in any case.')),
      },
      strict,
    ),
    reply: Type.Object({ ...listReply, data: Type.Array(PromptEntry) }),
    async handle({ query, key, role, read }) {
      requirePrompts({ key, role }, directory, 'View');
      const page = pageOf(query);
      const { total, data } = await read(async (reader) => {
        const { collection_id: idOrSlug, search } = query;
        const { organisationId, workspaceId } = await placeOfList(reader, key, query.workspace_id);
        const collection =
          idOrSlug === undefined
            ? undefined
            : await visibleRecord(reader, key, {
                ...{ kind: 'collection', noun: 'collection', idOrSlug, workspace: query.workspace_id },
              });
        const filter = {
          status: 'active' as const,
          ...(workspaceId !== undefined && { workspaceId }),
          ...(collection !== undefined && { parentId: collection.id }),
          ...(search !== undefined && { search }),
        };
        return reader.records.list('prompt', organisationId, filter, page);
      });
      return { object: 'list' as const, total, data: data.map((record) => showEntry(record)) };
    },
  });
}

function getRoute({ directory }: Scope): RouteDefinition {
  return defineRoute({
    id: 'prompts.get',
    method: 'GET',
    path: '/prompts/{promptId}',
    summary: 'One prompt, with its default version or the one that is named',
    scope: 'prompts.read',
    // Reads only.
    audit: null,
    params: Type.Object({ promptId: PromptReferenceParam }),
    reply: PromptReply,
    async handle({ params, key, role, read, sendVersion }) {
      requirePrompts({ key, role }, directory, 'View');
      const { record, version } = await read((reader) =>
        referencedTemplate(reader, key, 'prompt', params.promptId),
      );
      sendVersion(record.version);
      return showPrompt(record, version);
    },
  });
}

function archiveRoute({ clock, directory }: Scope): RouteDefinition {
  return defineRoute({
    id: 'prompts.delete',
    method: 'DELETE',
    path: '/prompts/{promptId}',
    summary: 'Archives a prompt: nobody can see or use it from then on',
    scope: 'prompts.delete',
    audit: 'delete',
    params: Type.Object({ promptId: Identifier }),
    reply: Type.Object({}),
    async handle({ params, key, role, write, requireVersion }) {
      requirePrompts({ key, role }, directory, 'Write');
      await write(async (writer) => {
        const before = await visibleTemplate(writer, key, 'prompt', params.promptId);
        requireVersion(before.version);
        const after = changedRecord(before, { status: 'archived' }, key, clock.now());
        if (!(await writer.records.replace(after))) throw staleVersion();
        return { id: after.id, workspaceId: after.workspaceId, result: undefined };
      });
      return {};
    },
  });
}
