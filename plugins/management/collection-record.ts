import { randomUUID } from 'node:crypto';
import { Type, type Static } from '../../core/pipeline/plugin.ts';
import type { KeyRecord } from '../../core/ports/directory.ts';
import type { StoredRecord } from '../../core/ports/records.ts';
import type { ResourcesReader, ResourcesWriter, WorkspaceRecord } from '../../core/ports/resources.ts';
import { refusedBody } from './refused-body.ts';
import { Instant, orNull } from './text-schema.ts';
import { eachRecord } from './visible-record.ts';

const Details = Type.Object({
  child_collections_count: Type.Integer(),
  prompts_count: Type.Integer(),
  child_collections_last_updated_at: orNull(Instant('When one of them was changed last.')),
  prompts_last_updated_at: orNull(Instant('When one of them was changed last.')),
});

/** A collection, as answers show it. */
export const CollectionReply = Type.Object({
  id: Type.String(),
  object: Type.Literal('collection'),
  name: Type.String(),
  slug: Type.String(),
  workspace_id: Type.String(),
  parent_collection_id: orNull(Type.String()),
  is_default: Type.Boolean(),
  status: Type.Union([Type.Literal('active'), Type.Literal('archived')]),
  created_at: Instant('When it was made.'),
  last_updated_at: Instant('When it was changed last.'),
});

/** What is in a collection, as lists show it. */
export const CollectionDetails = Type.Object({ collection_details: Details });

/** A collection without what is in it. */
export function showCollection(record: StoredRecord<'collection'>): Static<typeof CollectionReply> {
  return {
    ...{ id: record.id, object: 'collection', name: record.name, slug: record.slug },
    workspace_id: record.workspaceId ?? '',
    parent_collection_id: record.parentId || null,
    ...{ is_default: record.data.isDefault, status: record.status },
    created_at: new Date(record.createdAt).toISOString(),
    last_updated_at: new Date(record.updatedAt).toISOString(),
  };
}

/** How much is in a collection, and when that was changed. */
export async function collectionDetails(
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
  for await (const { updatedAt } of eachRecord(reader, kind, organisationId, {
    ...{ parentId: id, status: 'active' },
  })) {
    count++;
    latest = Math.max(latest, updatedAt);
  }
  return { count, updatedAt: count === 0 ? null : new Date(latest).toISOString() };
}

/** Slug of the collection that every workspace has as soon as something is put there. */
export const defaultCollectionSlug = 'default';

/** Where a collection is wanted, by whom and when. */
export interface WantedCollection {
  readonly workspace: Pick<WorkspaceRecord, 'id' | 'organisationId'>;
  readonly key: KeyRecord;
  readonly now: number;
  /** Field of the body that names it. */
  readonly pointer?: string;
}

/**
 * The active collection of the workspace with this id or slug; the default one, made when it is not there yet, for
 * `default` and for undefined. Throws `invalid_request` with the place in the body.
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
  const by = key.userId || key.id;
  const record: StoredRecord<'collection'> = {
    ...{ kind: 'collection', id: randomUUID(), organisationId, workspaceId },
    ...{ slug: defaultCollectionSlug, name: 'Default', status: 'active', parentId: '' },
    ...{ data: { isDefault: true }, secrets: {}, createdBy: by, updatedBy: by },
    ...{ createdAt: now, updatedAt: now, version: 1 },
  };
  await writer.records.insert(record);
  return record;
}
