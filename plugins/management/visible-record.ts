import { reachOf } from '../../core/access/access.ts';
import { GatewayError } from '../../core/pipeline/plugin.ts';
import type { KeyRecord } from '../../core/ports/directory.ts';
import type { RecordFilter, RecordKind, StoredRecord } from '../../core/ports/records.ts';
import type { ResourcesReader, WorkspaceRecord } from '../../core/ports/resources.ts';
import { refusedBody } from './refused-body.ts';
import { requireActive } from './require-active.ts';
import { visibleWorkspace } from './visible-workspace.ts';

/** How a path names a record. */
export interface NamedRecord<K extends RecordKind> {
  readonly kind: K;
  /** What messages call it: `integration`. */
  readonly noun: string;
  readonly idOrSlug: string;
  /** Id or slug of the workspace that the query or the body says; undefined when neither does. */
  readonly workspace?: string | undefined;
}

type Reader = Pick<ResourcesReader, 'records' | 'workspaces'>;

/** Nothing of this name is visible: in the same words whether it is not there or not within reach. */
export function noSuchRecord(noun: string, idOrSlug: string): GatewayError {
  return new GatewayError(
    'resource_not_found',
    `No ${noun} "${idOrSlug.slice(0, 64)}" is visible to this key. Check its id or slug.`,
  );
}

/**
 * The record of this id or slug: of the key's workspace or of its organisation; for keys of the organisation, of the
 * workspace that is said, or of any. Throws `resource_not_found`, and `invalid_request` when a slug is that of records
 * of several workspaces and nobody says which.
 */
export async function visibleRecord<K extends RecordKind>(
  reader: Reader,
  key: KeyRecord,
  { kind, noun, idOrSlug, workspace }: NamedRecord<K>,
): Promise<StoredRecord<K>> {
  const { organisationId, workspaceId: own } = reachOf(key);
  const workspaceId = workspace === undefined ? own : (await visibleWorkspace(reader, key, workspace)).id;
  const found =
    (await reader.records.find(kind, { organisationId, workspaceId }, idOrSlug)) ??
    (workspaceId === undefined
      ? await bySlugAnywhere(reader, { kind, noun, idOrSlug }, organisationId)
      : undefined);
  const isWithin =
    found !== undefined &&
    (workspaceId === undefined || found.workspaceId === undefined || found.workspaceId === workspaceId);
  if (!isWithin) throw noSuchRecord(noun, idOrSlug);
  return found;
}

async function bySlugAnywhere<K extends RecordKind>(
  reader: Reader,
  { kind, noun, idOrSlug }: NamedRecord<K>,
  organisationId: string,
): Promise<StoredRecord<K> | undefined> {
  const alike = await everyRecord(reader, kind, organisationId, { search: idOrSlug });
  const [found, ...others] = alike.filter(({ slug }) => slug === idOrSlug);
  if (others.length === 0) return found;
  throw new GatewayError(
    'invalid_request',
    `Several workspaces have the ${noun} "${idOrSlug.slice(0, 64)}". Say which with workspace_id, or name its id.`,
    { param: 'workspace_id' },
  );
}

const pageSize = 100;

/** Every record of a kind that passes the filter, oldest first, read page by page. */
export async function* eachRecord<K extends RecordKind>(
  { records }: Pick<ResourcesReader, 'records'>,
  kind: K,
  organisationId: string,
  filter: RecordFilter,
): AsyncGenerator<StoredRecord<K>> {
  for (let offset = 0; ; offset += pageSize) {
    const { data } = await records.list(kind, organisationId, filter, { offset, limit: pageSize });
    yield* data;
    if (data.length < pageSize) return;
  }
}

/** The same as a list; for what there is not much of. */
export async function everyRecord<K extends RecordKind>(
  reader: Pick<ResourcesReader, 'records'>,
  kind: K,
  organisationId: string,
  filter: RecordFilter,
): Promise<readonly StoredRecord<K>[]> {
  const found: StoredRecord<K>[] = [];
  for await (const record of eachRecord(reader, kind, organisationId, filter)) found.push(record);
  return found;
}

/**
 * The workspace that a new record belongs to: the key's own, or for keys of the organisation what the body says at
 * `/workspace_id`; undefined when that says nothing. Throws `invalid_request` for one that is not within reach,
 * `resource_conflict` for an archived one.
 */
export async function workspaceOfBody(
  { workspaces }: Pick<ResourcesReader, 'workspaces'>,
  key: KeyRecord,
  said: string | null | undefined,
): Promise<WorkspaceRecord | undefined> {
  const { organisationId, workspaceId: own } = reachOf(key);
  const named = said ?? own;
  if (named === undefined) return undefined;
  const found = await workspaces.find(organisationId, named);
  if (found === undefined || (own !== undefined && found.id !== own)) {
    const message = 'names no workspace that is visible to this key; check its id or slug';
    throw refusedBody([{ path: '/workspace_id', message }]);
  }
  requireActive(found);
  return found;
}

/** The same for what belongs to a workspace in any case. */
export async function requiredWorkspace(
  reader: Pick<ResourcesReader, 'workspaces'>,
  key: KeyRecord,
  said: string | null | undefined,
): Promise<WorkspaceRecord> {
  const found = await workspaceOfBody(reader, key, said);
  if (found !== undefined) return found;
  throw refusedBody([
    { path: '/workspace_id', message: 'is missing: a key of the organisation says here whose it is' },
  ]);
}
