import { randomUUID } from 'node:crypto';
import type { RouteDefinition } from '../../core/pipeline/define-route.ts';
import { defineRoute, GatewayError, Type, type Scope } from '../../core/pipeline/plugin.ts';
import type { StoredRecord } from '../../core/ports/records.ts';
import type { ResourcesReader } from '../../core/ports/resources.ts';
import {
  CollectionDetails,
  collectionDetails,
  CollectionReply,
  namedCollection,
  showCollection,
} from './collection-record.ts';
import { listReply, pageOf, pageQuery } from './page-query.ts';
import { requirePrompts } from './prompt-access.ts';
import { changedRecord } from './changed-record.ts';
import { refusedBody } from './refused-body.ts';
import { newSlug } from './record-slug.ts';
import { staleVersion } from './stale-version.ts';
import { Identifier, Name, orNull, strict } from './text-schema.ts';
import { eachRecord, everyRecord, noSuchRecord, requiredWorkspace, visibleRecord } from './visible-record.ts';
import { placeOfList } from './visible-workspace.ts';

const Params = Type.Object({ collectionId: Identifier });
const CollectionName = Name('For people.');
const maxDepth = 20;

/** The routes of collections: the folders of prompts. */
export function collectionRoutes(scope: Scope): readonly RouteDefinition[] {
  return [createRoute(scope), listRoute(scope), getRoute(scope), updateRoute(scope), archiveRoute(scope)];
}

function createRoute({ clock, directory }: Scope): RouteDefinition {
  return defineRoute({
    id: 'collections.create',
    method: 'POST',
    path: '/collections',
    summary: 'Makes a collection of prompts',
    scope: 'prompts.create',
    audit: 'create',
    body: Type.Object(
      {
        name: CollectionName,
        workspace_id: Type.Optional(orNull(Name('Id or slug; keys of the organisation say it here.'))),
        parent_collection_id: Type.Optional(orNull(Name('The collection that it is in: its id or slug.'))),
      },
      strict,
    ),
    reply: CollectionReply,
    async handle({ body, key, role, write, sendVersion }) {
      requirePrompts({ key, role }, directory, 'Write');
      const now = clock.now();
      const record = await write(async (writer) => {
        const workspace = await requiredWorkspace(writer, key, body.workspace_id);
        const { id: workspaceId, organisationId } = workspace;
        const pointer = '/parent_collection_id';
        const parent =
          body.parent_collection_id == null
            ? undefined
            : await namedCollection(writer, body.parent_collection_id, { workspace, key, now, pointer });
        if (parent !== undefined) await requireDepth(writer, parent);
        const by = key.userId || key.id;
        const record: StoredRecord<'collection'> = {
          ...{ kind: 'collection', id: randomUUID(), organisationId, workspaceId },
          ...{ slug: newSlug('collection-', body.name), name: body.name, status: 'active' },
          ...{ parentId: parent?.id ?? '', data: { isDefault: false }, secrets: {} },
          ...{ createdBy: by, updatedBy: by, createdAt: now, updatedAt: now, version: 1 },
        };
        await writer.records.insert(record);
        return { id: record.id, workspaceId, result: record };
      });
      sendVersion(record.version);
      return showCollection(record);
    },
  });
}

/** A collection never moves, so a new one below an existing one closes no circle. */
async function requireDepth(
  { records }: Pick<ResourcesReader, 'records'>,
  parent: StoredRecord<'collection'>,
): Promise<void> {
  let above: StoredRecord<'collection'> | undefined = parent;
  for (let depth = 1; above !== undefined && above.parentId !== ''; depth++) {
    if (depth >= maxDepth)
      throw refusedBody([
        { path: '/parent_collection_id', message: `is ${maxDepth} deep already, which is the most` },
      ]);
    above = await records.find('collection', parent, above.parentId);
  }
}

function listRoute({ directory }: Scope): RouteDefinition {
  return defineRoute({
    id: 'collections.list',
    method: 'GET',
    path: '/collections',
    summary: 'The collections of a workspace, oldest first, with how much is in them',
    scope: 'prompts.list',
    // Reads only.
    audit: null,
    query: Type.Object(
      {
        ...pageQuery,
        workspace_id: Type.Optional(Name('Only those of this workspace: its id or slug.')),
        search: Type.Optional(Name('Part of the name or slug, in any case.')),
      },
      strict,
    ),
    reply: Type.Object({
      ...listReply,
      data: Type.Array(Type.Object({ ...CollectionReply.properties, ...CollectionDetails.properties })),
    }),
    async handle({ query, key, role, read }) {
      requirePrompts({ key, role }, directory, 'View');
      const page = pageOf(query);
      return read(async (reader) => {
        const { organisationId, workspaceId } = await placeOfList(reader, key, query.workspace_id);
        const filter = {
          status: 'active' as const,
          ...(workspaceId !== undefined && { workspaceId }),
          ...(query.search !== undefined && { search: query.search }),
        };
        const found = await reader.records.list('collection', organisationId, filter, page);
        const data = [];
        for (const record of found.data)
          data.push({ ...showCollection(record), ...(await collectionDetails(reader, record)) });
        return { object: 'list' as const, total: found.total, data };
      });
    },
  });
}

function getRoute({ directory }: Scope): RouteDefinition {
  const Child = Type.Object({
    id: Type.String(),
    name: Type.String(),
    last_updated_at: Type.String(),
    ...CollectionDetails.properties,
  });
  return defineRoute({
    id: 'collections.get',
    method: 'GET',
    path: '/collections/{collectionId}',
    summary: 'One collection, by its id or slug, with the collections in it',
    scope: 'prompts.read',
    // Reads only.
    audit: null,
    params: Params,
    reply: Type.Object({ ...CollectionReply.properties, child_collections: Type.Array(Child) }),
    async handle({ params, key, role, read, sendVersion }) {
      requirePrompts({ key, role }, directory, 'View');
      return read(async (reader) => {
        const record = await visibleCollection(reader, key, params.collectionId);
        const { organisationId, id } = record;
        const filter = { parentId: id, status: 'active' as const };
        const children = [];
        for (const child of await everyRecord(reader, 'collection', organisationId, filter)) {
          const { id, name, last_updated_at } = showCollection(child);
          children.push({ id, name, last_updated_at, ...(await collectionDetails(reader, child)) });
        }
        sendVersion(record.version);
        return { ...showCollection(record), child_collections: children };
      });
    },
  });
}

function updateRoute({ clock, directory }: Scope): RouteDefinition {
  return defineRoute({
    id: 'collections.update',
    method: 'PUT',
    path: '/collections/{collectionId}',
    summary: 'Renames a collection',
    scope: 'prompts.update',
    audit: 'update',
    params: Params,
    body: Type.Object({ name: CollectionName }, strict),
    reply: CollectionReply,
    async handle({ params, body, key, role, write, requireVersion, sendVersion }) {
      requirePrompts({ key, role }, directory, 'Write');
      const record = await write(async (writer) => {
        const before = await visibleCollection(writer, key, params.collectionId);
        requireVersion(before.version);
        const after = changedRecord(before, { name: body.name }, key, clock.now());
        if (!(await writer.records.replace(after))) throw staleVersion();
        return { id: after.id, workspaceId: after.workspaceId, result: after };
      });
      sendVersion(record.version);
      return showCollection(record);
    },
  });
}

function archiveRoute({ clock, directory }: Scope): RouteDefinition {
  return defineRoute({
    id: 'collections.delete',
    method: 'DELETE',
    path: '/collections/{collectionId}',
    summary: 'Archives a collection that nothing is in',
    scope: 'prompts.delete',
    audit: 'delete',
    params: Params,
    reply: Type.Object({}),
    async handle({ params, key, role, write, requireVersion }) {
      requirePrompts({ key, role }, directory, 'Write');
      await write(async (writer) => {
        const before = await visibleCollection(writer, key, params.collectionId);
        const { id, workspaceId } = before;
        requireVersion(before.version);
        if (before.data.isDefault)
          throw new GatewayError('resource_conflict', 'The default collection of a workspace stays.');
        await requireEmpty(writer, before);
        const after = changedRecord(before, { status: 'archived' }, key, clock.now());
        if (!(await writer.records.replace(after))) throw staleVersion();
        return { id, workspaceId, result: undefined };
      });
      return {};
    },
  });
}

const maxNamed = 10;

async function requireEmpty(
  reader: Pick<ResourcesReader, 'records'>,
  { id, name, organisationId }: StoredRecord<'collection'>,
): Promise<void> {
  const inside: string[] = [];
  for (const kind of ['collection', 'prompt', 'prompt_partial'] as const) {
    for await (const record of eachRecord(reader, kind, organisationId, { parentId: id, status: 'active' })) {
      if (inside.length === maxNamed) break;
      inside.push(`${kind.replace('_', ' ')} "${record.slug}"`);
    }
  }
  if (inside.length === 0) return;
  throw new GatewayError(
    'resource_conflict',
    `The collection "${name}" is not empty: ${inside.join(', ')}. Delete what is in it, or move its prompts, first.`,
  );
}

async function visibleCollection(
  reader: Pick<ResourcesReader, 'records' | 'workspaces'>,
  key: Parameters<typeof visibleRecord>[1],
  idOrSlug: string,
): Promise<StoredRecord<'collection'>> {
  const record = await visibleRecord(reader, key, { kind: 'collection', noun: 'collection', idOrSlug });
  if (record.status === 'active') return record;
  throw noSuchRecord('collection', idOrSlug);
}
