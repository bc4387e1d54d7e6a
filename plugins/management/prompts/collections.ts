import type { RouteDefinition } from '../../../core/pipeline/define-route.ts';
import { defineRoute, GatewayError, type Scope, type Static, Type } from '../../../core/pipeline/plugin.ts';
import type { StoredRecord } from '../../../core/ports/records.ts';
import type { ResourcesReader, ResourcesWriter, WorkspaceRecord } from '../../../core/ports/resources.ts';
import { listReplies, paging } from '../shared/replies.ts';
import { promptTemplates } from './templates.ts';
import { places, storedRecords } from '../shared/records.ts';
import { Identifier, Instant, Name, orNull, refusedBody, strict } from '../shared/fields.ts';
import type { KeyRecord } from '../../../core/ports/directory.ts';

const Details = Type.Object({
  child_collections_count: Type.Integer(),
  prompts_count: Type.Integer(),
  child_collections_last_updated_at: orNull(Instant('Time of the last change of one of them.')),
  prompts_last_updated_at: orNull(Instant('Time of the last change of one of them.')),
});

/** A collection in answers. */
const CollectionReply = Type.Object({
  id: Type.String(),
  object: Type.Literal('collection'),
  name: Type.String(),
  slug: Type.String(),
  workspace_id: Type.String(),
  parent_collection_id: orNull(Type.String()),
  is_default: Type.Boolean(),
  status: Type.Union([Type.Literal('active'), Type.Literal('archived')]),
  created_at: Instant('Time of creation.'),
  last_updated_at: Instant('Time of the last change.'),
});

/** Content of a collection in lists. */
const CollectionDetails = Type.Object({ collection_details: Details });

/** Converts a collection to the API's shape, without its content. */
function showCollection(record: StoredRecord<'collection'>): Static<typeof CollectionReply> {
  return {
    id: record.id,
    object: 'collection',
    name: record.name,
    slug: record.slug,
    workspace_id: record.workspaceId ?? '',
    parent_collection_id: record.parentId || null,
    is_default: record.data.isDefault,
    status: record.status,
    created_at: new Date(record.createdAt).toISOString(),
    last_updated_at: new Date(record.updatedAt).toISOString(),
  };
}

/** Numbers of collections and prompts in a collection, and the times of their last changes. */
async function collectionDetails(
  reader: Pick<ResourcesReader, 'records'>,
  record: StoredRecord<'collection'>,
): Promise<Static<typeof CollectionDetails>> {
  const collections = await insideOf(reader, 'collection', record);
  const prompts = await insideOf(reader, 'prompt', record);
  return {
    collection_details: {
      child_collections_count: collections.count,
      prompts_count: prompts.count,
      child_collections_last_updated_at: collections.updatedAt,
      prompts_last_updated_at: prompts.updatedAt,
    },
  };
}

async function insideOf(
  reader: Pick<ResourcesReader, 'records'>,
  kind: 'collection' | 'prompt',
  { id, organisationId }: StoredRecord<'collection'>,
): Promise<{ readonly count: number; readonly updatedAt: string | null }> {
  let count = 0;
  let latest = 0;
  for await (const { updatedAt } of storedRecords.each(reader, kind, organisationId, {
    parentId: id,
    status: 'active',
  })) {
    count++;
    latest = Math.max(latest, updatedAt);
  }
  return { count, updatedAt: count === 0 ? null : new Date(latest).toISOString() };
}

/** Slug of a workspace's default collection, which is created at its first use. */
const defaultCollectionSlug = 'default';

/** Workspace, key and time of the request for a collection. */
interface WantedCollection {
  readonly workspace: Pick<WorkspaceRecord, 'id' | 'organisationId'>;
  readonly key: KeyRecord;
  readonly now: number;
  /** Field of the body that names it. */
  readonly pointer?: string;
}

/**
 * The active collection of the workspace with this id or slug. `default` and undefined mean the default one, which is
 * created when missing. Throws `invalid_request` with the place in the body.
 */
export async function namedCollection(
  writer: ResourcesWriter,
  said: string | undefined,
  { workspace, key, now, pointer = '/collection_id' }: WantedCollection,
): Promise<StoredRecord<'collection'>> {
  const { id: workspaceId, organisationId } = workspace;
  const wanted = said ?? defaultCollectionSlug;
  const found = await writer.records.find('collection', { organisationId, workspaceId }, wanted);
  if (found?.status === 'active') return found;
  if (wanted !== defaultCollectionSlug) {
    const message = `names "${wanted.slice(0, 64)}", and the workspace has no such collection`;
    throw refusedBody([{ path: pointer, message }]);
  }
  const record: StoredRecord<'collection'> = storedRecords.create(
    {
      kind: 'collection',
      organisationId,
      workspaceId,
      slug: defaultCollectionSlug,
      name: 'Default',
      data: { isDefault: true },
    },
    key.userId || key.id,
    now,
  );
  await writer.records.insert(record);
  return record;
}

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
    summary: 'Creates a collection of prompts',
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
      promptTemplates.requireAccess({ key, role }, directory, 'Write');
      const now = clock.now();
      const record = await write(async (writer) => {
        const workspace = await places.required(writer, key, body.workspace_id);
        const { id: workspaceId, organisationId } = workspace;
        const pointer = '/parent_collection_id';
        const parent =
          body.parent_collection_id == null
            ? undefined
            : await namedCollection(writer, body.parent_collection_id, { workspace, key, now, pointer });
        if (parent !== undefined) await requireDepth(writer, parent);
        const record: StoredRecord<'collection'> = storedRecords.create(
          {
            kind: 'collection',
            organisationId,
            workspaceId,
            slug: storedRecords.newSlug('collection-', body.name),
            name: body.name,
            parentId: parent?.id ?? '',
            data: { isDefault: false },
          },
          key.userId || key.id,
          now,
        );
        await writer.records.insert(record);
        return { id: record.id, workspaceId, result: record };
      });
      sendVersion(record.version);
      return showCollection(record);
    },
  });
}

/** Throws `invalid_request` below the deepest level. Collections never move, so a new one closes no cycle. */
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
    summary: 'Collections of a workspace, oldest first, with their number of entries',
    scope: 'prompts.list',
    // Reads only.
    audit: null,
    query: Type.Object(
      {
        ...paging.query,
        workspace_id: Type.Optional(Name('Only those of this workspace: its id or slug.')),
        search: Type.Optional(Name('Part of the name or slug, in any case.')),
      },
      strict,
    ),
    reply: Type.Object({
      ...listReplies.of,
      data: Type.Array(Type.Object({ ...CollectionReply.properties, ...CollectionDetails.properties })),
    }),
    async handle({ query, key, role, read }) {
      promptTemplates.requireAccess({ key, role }, directory, 'View');
      const page = paging.of(query);
      return read(async (reader) => {
        const { organisationId, workspaceId } = await places.ofList(reader, key, query.workspace_id);
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
    summary: 'One collection, by its id or slug, with its sub-collections',
    scope: 'prompts.read',
    // Reads only.
    audit: null,
    params: Params,
    reply: Type.Object({ ...CollectionReply.properties, child_collections: Type.Array(Child) }),
    async handle({ params, key, role, read, sendVersion }) {
      promptTemplates.requireAccess({ key, role }, directory, 'View');
      return read(async (reader) => {
        const record = await visibleCollection(reader, key, params.collectionId);
        const { organisationId, id } = record;
        const filter = { parentId: id, status: 'active' as const };
        const children = [];
        for (const child of await storedRecords.every(reader, 'collection', organisationId, filter)) {
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
      promptTemplates.requireAccess({ key, role }, directory, 'Write');
      const record = await write(async (writer) => {
        const before = await visibleCollection(writer, key, params.collectionId);
        requireVersion(before.version);
        const after = await storedRecords.change(writer, before, { name: body.name }, key, clock.now());
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
    summary: 'Archives an empty collection',
    scope: 'prompts.delete',
    audit: 'delete',
    params: Params,
    reply: Type.Object({}),
    async handle({ params, key, role, write, requireVersion }) {
      promptTemplates.requireAccess({ key, role }, directory, 'Write');
      await write(async (writer) => {
        const before = await visibleCollection(writer, key, params.collectionId);
        const { id, workspaceId } = before;
        requireVersion(before.version);
        if (before.data.isDefault)
          throw new GatewayError('resource_conflict', 'The default collection of a workspace stays.');
        await requireEmpty(writer, before);
        await storedRecords.change(writer, before, { status: 'archived' }, key, clock.now());
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
    for await (const record of storedRecords.each(reader, kind, organisationId, {
      parentId: id,
      status: 'active',
    })) {
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
  key: Parameters<typeof storedRecords.visible>[1],
  idOrSlug: string,
): Promise<StoredRecord<'collection'>> {
  const record = await storedRecords.visible(reader, key, {
    kind: 'collection',
    noun: 'collection',
    idOrSlug,
  });
  if (record.status === 'active') return record;
  throw storedRecords.noSuch('collection', idOrSlug);
}
