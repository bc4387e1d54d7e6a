import { reachOf } from '../../../core/access/scopes.ts';
import { GatewayError } from '../../../core/pipeline/plugin.ts';
import type { KeyRecord } from '../../../core/ports/directory.ts';
import type { Page, Paged } from '../../../core/ports/page.ts';
import type { RecordFilter, RecordKind, RecordVersion, StoredRecord } from '../../../core/ports/records.ts';
import type { ResourcesReader, ResourcesWriter, WorkspaceRecord } from '../../../core/ports/resources.ts';
import { refusedBody } from './fields.ts';
import { randomBytes, randomUUID } from 'node:crypto';

/** Reads and changes records of every kind. */
export const storedRecords = {
  requireNoUsers,
  requireNobody,
  noSuch: noSuchRecord,
  visible: visibleRecord,
  eachOf,
  each: eachRecord,
  every: everyRecord,
  newSlug,
  create: newRecord,
  keepVersion,
  changed: changedRecord,
  change: changeRecord,
  stale: staleVersion,
  requireActive,
};

/** The organisation or workspace that a request is about. */
export const places = {
  ofBody: workspaceOfBody,
  required: requiredWorkspace,
  visible: visibleWorkspace,
  noSuch: noSuchWorkspace,
  ofList: placeOfList,
  ofNew: placeOfNew,
  requireOrganisation,
  requireOwn,
};

const maxNamed = 10;

/** Slugs of the users of a record, by their noun in messages: `MCP servers`. */
type Users = Readonly<Record<string, readonly string[]>>;

/** Throws `resource_conflict` when anything uses it, listing ten users of each kind and counting the rest. */
function requireNoUsers(what: string, users: Users, remedy: string): void {
  const named = Object.entries(users).filter(([, slugs]) => slugs.length > 0);
  if (named.length === 0) return;
  const kinds = named.map(([kind, slugs]) => `the ${kind} ${quotedList(slugs)}`);
  throw new GatewayError('resource_conflict', `${what} is in use by ${kinds.join(' and ')}. ${remedy}`);
}

/** Throws `resource_conflict` when there are users, listing the first ten; each is a phrase. */
async function requireNobody(what: string, users: AsyncIterable<string>, remedy: string): Promise<void> {
  const found: string[] = [];
  for await (const user of users) {
    found.push(user);
    if (found.length > maxNamed) break;
  }
  if (found.length === 0) return;
  const named = found.slice(0, maxNamed).join(', ');
  const more = found.length > maxNamed ? ', and more' : '';
  throw new GatewayError('resource_conflict', `${what} is in use by ${named}${more}. ${remedy}`);
}

function quotedList(slugs: readonly string[]): string {
  const shown = slugs.slice(0, maxNamed).map((slug) => `"${slug}"`);
  const more = slugs.length - shown.length;
  return `${shown.join(', ')}${more > 0 ? ` and ${more} more` : ''}`;
}

/** Reference to a record in a request. */
interface NamedRecord<K extends RecordKind> {
  readonly kind: K;
  /** Noun in messages: `integration`. */
  readonly noun: string;
  readonly idOrSlug: string;
  /** Id or slug of the workspace in the query or the body; undefined without one. */
  readonly workspace?: string | undefined;
}

type Reader = Pick<ResourcesReader, 'records' | 'workspaces'>;

/** `resource_not_found`, with the same message for an unknown record and for one out of reach. */
function noSuchRecord(noun: string, idOrSlug: string): GatewayError {
  return new GatewayError(
    'resource_not_found',
    `No ${noun} "${idOrSlug.slice(0, 64)}" is visible to this key. Check its id or slug.`,
  );
}

/**
 * The record with this id or slug, in the key's workspace or its organisation; for keys of the organisation, in the
 * named workspace, or in any. Throws `resource_not_found`, and `invalid_request` when several workspaces have the slug
 * and the request names none.
 */
async function visibleRecord<K extends RecordKind>(
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

/** All entries of a list, read page by page. */
async function* eachOf<T>(list: (page: Page) => Promise<Paged<T>>): AsyncGenerator<T> {
  for (let offset = 0; ; offset += pageSize) {
    const { data } = await list({ offset, limit: pageSize });
    yield* data;
    if (data.length < pageSize) return;
  }
}

/** Every record of a kind that passes the filter, oldest first. */
function eachRecord<K extends RecordKind>(
  { records }: Pick<ResourcesReader, 'records'>,
  kind: K,
  organisationId: string,
  filter: RecordFilter,
): AsyncGenerator<StoredRecord<K>> {
  return eachOf((page) => records.list(kind, organisationId, filter, page));
}

/** The same as a list; for small numbers of records. */
async function everyRecord<K extends RecordKind>(
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
 * Workspace of a new record: the key's own, or for keys of the organisation the `/workspace_id` of the body; undefined
 * without one. Throws `invalid_request` for a workspace out of reach, `resource_conflict` for an archived one.
 */
async function workspaceOfBody(
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

/** The same for records that always belong to a workspace. */
async function requiredWorkspace(
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

/**
 * The workspace with this id or slug. Throws `resource_not_found`, with the same message for an unknown workspace and
 * for one out of reach.
 */
async function visibleWorkspace(
  { workspaces }: Pick<ResourcesReader, 'workspaces'>,
  key: KeyRecord,
  idOrSlug: string,
): Promise<WorkspaceRecord> {
  const { organisationId, workspaceId } = reachOf(key);
  const found = await workspaces.find(organisationId, idOrSlug);
  if (found !== undefined && (workspaceId === undefined || found.id === workspaceId)) return found;
  throw noSuchWorkspace(idOrSlug);
}

/** `resource_not_found`, with the same message for an unknown workspace and for one out of reach. */
function noSuchWorkspace(idOrSlug: string): GatewayError {
  return new GatewayError(
    'resource_not_found',
    `No workspace "${idOrSlug.slice(0, 64)}" is visible to this key. Check its id or slug.`,
  );
}

/**
 * Place of a list: the named workspace (id or slug), else the key's own; for keys of the organisation without a named
 * one, the whole organisation (`workspaceId` undefined). Throws like `visibleWorkspace`.
 */
async function placeOfList(
  reader: Pick<ResourcesReader, 'workspaces'>,
  key: KeyRecord,
  named: string | undefined,
): Promise<{ readonly organisationId: string; readonly workspaceId: string | undefined }> {
  const { organisationId, workspaceId } = reachOf(key);
  if (named === undefined) return { organisationId, workspaceId };
  return { organisationId, workspaceId: (await visibleWorkspace(reader, key, named)).id };
}

/** Owner of a record in a body. */
interface NamedPlace {
  readonly workspace_id?: string | undefined;
  readonly organisation_id?: string | undefined;
}

/**
 * Workspace of a new record: the named one, or that of the key; undefined for a record of the whole organisation, which
 * only keys of organisations can create. Throws `invalid_request` with the place in the body for a workspace or
 * organisation out of reach, and for a token whose body omits either; `resource_conflict` for an archived workspace.
 */
async function placeOfNew(
  { workspaces }: Pick<ResourcesReader, 'workspaces'>,
  key: KeyRecord,
  { workspace_id: workspace, organisation_id: organisation }: NamedPlace,
): Promise<WorkspaceRecord | undefined> {
  const { organisationId, workspaceId: reach } = reachOf(key);
  if (key.isToken === true) {
    if (workspace === undefined) throw missing('/workspace_id', 'id or slug of the workspace');
    if (organisation === undefined) throw missing('/organisation_id', 'id of the organisation');
  }
  requireOrganisation(key, organisation);
  const wanted = workspace ?? reach;
  if (wanted === undefined) return undefined;
  const found = await workspaces.find(organisationId, wanted);
  if (found === undefined || (reach !== undefined && found.id !== reach)) {
    const message = `names "${wanted.slice(0, 64)}", and no such workspace is visible to this key`;
    throw refusedBody([{ path: '/workspace_id', message }]);
  }
  if (found.status === 'active') return found;
  throw new GatewayError(
    'resource_conflict',
    `The workspace "${found.name}" is archived and gets nothing new.`,
  );
}

/** Throws `invalid_request` when a body or a query names another organisation than the key's. */
function requireOrganisation({ organisationId }: KeyRecord, named: string | undefined): void {
  if (named === undefined || named === organisationId) return;
  const message = 'is not your organisation; leave it out';
  throw refusedBody([{ path: '/organisation_id', message }]);
}

/** Throws `scope_missing` when a workspace's key tries to change a record of its organisation. */
function requireOwn(key: KeyRecord, record: StoredRecord, noun: string): void {
  if (reachOf(key).workspaceId === undefined || record.workspaceId !== undefined) return;
  throw new GatewayError(
    'scope_missing',
    `The ${noun} "${record.name}" belongs to the organisation, and keys of workspaces cannot change it. Use a key of the organisation.`,
  );
}

function missing(path: string, what: string): GatewayError {
  return refusedBody([{ path, message: `is needed where a token authenticates: the ${what}` }]);
}

/**
 * A new slug: the prefix (`ws-`, `pc-`, or nothing), the URL-safe letters of the name, and six random letters that make
 * it unique.
 */
function newSlug(prefix: string, name: string): string {
  const words = name
    .toLowerCase()
    .normalize('NFKD')
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-|-$/g, '')
    .slice(0, 40);
  const letters = [...randomBytes(6)].map((byte) => String.fromCharCode(97 + (byte % 26))).join('');
  return words === '' ? `${prefix}${letters}` : `${prefix}${words}-${letters}`;
}

/** Members of a new record; `id`, `parentId` and `secrets` have defaults. */
type NewRecord<K extends RecordKind> = Pick<
  StoredRecord<K>,
  'kind' | 'organisationId' | 'workspaceId' | 'slug' | 'name' | 'data'
> &
  Partial<Pick<StoredRecord<K>, 'id' | 'parentId' | 'secrets'>>;

/** An active record in its first version. `by` is the id of the user or of the key that creates it. */
function newRecord<K extends RecordKind>(
  { kind, id = randomUUID(), parentId = '', secrets = {}, ...given }: NewRecord<K>,
  by: string,
  now: number,
): StoredRecord<K> {
  const stamp = { createdBy: by, updatedBy: by, createdAt: now, updatedAt: now, version: 1 };
  return { kind, id, ...given, status: 'active', parentId, secrets, ...stamp };
}

/** Stores a version of the record, by default with the record's own data. */
function keepVersion<K extends RecordKind>(
  { records }: Pick<ResourcesWriter, 'records'>,
  { kind, organisationId, id, name, updatedBy, updatedAt, ...record }: StoredRecord<K>,
  { data = record.data, description = '' }: Partial<Pick<RecordVersion<K>, 'data' | 'description'>> = {},
): Promise<RecordVersion<K>> {
  return records.addVersion(kind, organisationId, {
    id: randomUUID(),
    recordId: id,
    name,
    data,
    description,
    labelId: '',
    createdBy: updatedBy,
    createdAt: updatedAt,
  });
}

/** Members of a record that a change can set. */
export type RecordChange<K extends RecordKind> = Partial<
  Pick<StoredRecord<K>, 'name' | 'slug' | 'status' | 'parentId' | 'data' | 'secrets'>
>;

/** The record after a change by this key, in its next version. */
function changedRecord<K extends RecordKind>(
  before: StoredRecord<K>,
  change: RecordChange<K>,
  { userId, id }: KeyRecord,
  now: number,
): StoredRecord<K> {
  const stamp = { updatedBy: userId || id, updatedAt: now, version: before.version + 1 };
  return { ...before, ...change, ...stamp };
}

/** Stores the result of `changedRecord`. Throws `version_mismatch` when the record was changed in between. */
async function changeRecord<K extends RecordKind>(
  { records }: Pick<ResourcesWriter, 'records'>,
  before: StoredRecord<K>,
  change: RecordChange<K>,
  key: KeyRecord,
  now: number,
): Promise<StoredRecord<K>> {
  const after = changedRecord(before, change, key, now);
  if (!(await records.replace(after))) throw staleVersion();
  return after;
}

/** `version_mismatch`: another request changed or removed the record in between. */
function staleVersion(): GatewayError {
  return new GatewayError(
    'version_mismatch',
    'The record was changed or removed while your change was on its way. Read it again, then repeat your change.',
  );
}

/** Throws `resource_conflict` for an archived workspace: neither it nor its records can be changed. */
function requireActive({ name, status }: WorkspaceRecord): void {
  if (status === 'active') return;
  throw new GatewayError(
    'resource_conflict',
    `The workspace "${name}" is archived and cannot be changed any more.`,
  );
}
