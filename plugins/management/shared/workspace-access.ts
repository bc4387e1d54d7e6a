import { hasScope, reachOf } from '../../../core/access/scopes.ts';
import { isUsableIn } from '../../../core/access/integration-access.ts';
import { GatewayError } from '../../../core/pipeline/plugin.ts';
import type { KeyRecord } from '../../../core/ports/directory.ts';
import type { StoredRecord } from '../../../core/ports/records.ts';
import type { ResourcesReader, WorkspaceRecord } from '../../../core/ports/resources.ts';
import type { Page, Paged } from '../../../core/ports/page.ts';
import { refusedBody } from './fields.ts';
import { storedRecords } from './records.ts';

/** Kinds of records that belong to one workspace, or to the organisation, which shares them with workspaces. */
export type SharedKind = 'integration' | 'mcp_integration';

/** Action on such a record; the second part of its scope. */
type SharedAction = 'create' | 'read' | 'update' | 'delete' | 'list';

/** Reference to such a record in a request. */
interface NamedShared {
  readonly slug: string;
  /** Id or slug of the workspace in the query or the body. */
  readonly workspace?: string | undefined;
}

/** Selection of a list. */
interface ListedShared extends Page {
  /** Undefined for every workspace within reach. */
  readonly workspaceId: string | undefined;
  readonly type: 'workspace' | 'organisation' | 'all';
  /** Part of the name or the slug, in any case. */
  readonly search?: string | undefined;
}

type Reader = Pick<ResourcesReader, 'records' | 'workspaces'>;

/** Access rules for the records of one kind. */
interface SharedAccess<K extends SharedKind> {
  /** Scopes for an action; the caller needs one of them. */
  scopes(action: SharedAction): readonly string[];
  /** Throws `scope_missing` when the key lacks the scope for records of the workspace, or of the organisation. */
  require(key: KeyRecord, action: SharedAction, workspaceId: string | undefined): void;
  /**
   * The record with this slug or id. Throws `resource_not_found` for one that the key does not see, `scope_missing`
   * without the scope for records of a workspace, or of the organisation.
   */
  visible(reader: Reader, key: KeyRecord, named: NamedShared, action: SharedAction): Promise<StoredRecord<K>>;
  /** A page of the records that the key's scopes cover and that its workspace, if any, may use; oldest first. */
  seen(
    reader: Pick<ResourcesReader, 'records'>,
    key: KeyRecord,
    wanted: ListedShared,
  ): Promise<Paged<StoredRecord<K>>>;
  /** The record that a body names at `path`. Throws `invalid_request` for one that is unknown or not usable there. */
  usable(
    reader: Pick<ResourcesReader, 'records'>,
    workspace: WorkspaceRecord,
    named: string,
    path: string,
  ): Promise<StoredRecord<K>>;
}

/** `noun` names a record in messages (`integration`), `resource` in scopes (`integrations`). */
export function sharedAccess<K extends SharedKind>(
  kind: K,
  { noun, resource }: { readonly noun: string; readonly resource: string },
): SharedAccess<K> {
  const scopeFor = (action: SharedAction, workspaceId: string | undefined): string =>
    `${workspaceId === undefined ? 'organisation' : 'workspace'}_${resource}.${action}`;
  const required = (key: KeyRecord, action: SharedAction, workspaceId: string | undefined): void => {
    const scope = scopeFor(action, workspaceId);
    if (hasScope(key, scope)) return;
    throw new GatewayError('scope_missing', `The key "${key.name}" lacks the scope "${scope}".`);
  };

  return {
    scopes: (action) => [`organisation_${resource}.${action}`, `workspace_${resource}.${action}`],
    require: required,
    async visible(reader, key, { slug, workspace }, action) {
      const found = await storedRecords.visible(reader, key, { kind, noun, idOrSlug: slug, workspace });
      const { workspaceId } = reachOf(key);
      if (workspaceId !== undefined && !isUsableIn(found, workspaceId))
        throw storedRecords.noSuch(noun, slug);
      required(key, action, found.workspaceId);
      return found;
    },
    // The access of workspaces is part of each record, so the search reads all records.
    async seen(reader, key, { workspaceId, type, search, offset, limit }) {
      const reach = reachOf(key).workspaceId;
      const data: StoredRecord<K>[] = [];
      let total = 0;
      const filter = search === undefined ? {} : { search };
      for await (const record of storedRecords.each(reader, kind, key.organisationId, filter)) {
        const ofOrganisation = record.workspaceId === undefined;
        if (type !== 'all' && (type === 'organisation') !== ofOrganisation) continue;
        if (workspaceId !== undefined && !isUsableIn(record, workspaceId)) continue;
        if (reach !== undefined && !isUsableIn(record, reach)) continue;
        if (!hasScope(key, scopeFor('list', record.workspaceId))) continue;
        if (total >= offset && data.length < limit) data.push(record);
        total += 1;
      }
      return { total, data };
    },
    async usable({ records }, { organisationId, id: workspaceId }, named, path) {
      const found = await records.find(kind, { organisationId, workspaceId }, named);
      if (found?.status === 'active' && isUsableIn(found, workspaceId)) return found;
      const message = `names no ${noun} that the workspace may use; check its id or slug, and the workspaces that it is enabled for`;
      throw refusedBody([{ path, message }]);
    },
  };
}

/** Throws `resource_conflict` for a record of one workspace, which cannot be shared. */
export function requireShared({ name, workspaceId }: StoredRecord<SharedKind>, noun: string): void {
  if (workspaceId === undefined) return;
  throw new GatewayError(
    'resource_conflict',
    `The ${noun} "${name}" belongs to one workspace, which alone may use it. Make one of the organisation to share it.`,
  );
}

/**
 * The entries of `/workspaces` in a body, by workspace id; each entry names one by id or slug. Throws `invalid_request`
 * for an unknown, archived or repeated workspace.
 */
export async function namedWorkspaces<T extends { readonly id: string }>(
  { workspaces }: Pick<ResourcesReader, 'workspaces'>,
  organisationId: string,
  named: readonly T[],
): Promise<ReadonlyMap<string, T>> {
  const said = new Map<string, T>();
  for (const [index, one] of named.entries()) {
    const path = `/workspaces/${index}/id`;
    const found = await workspaces.find(organisationId, one.id);
    if (found?.status !== 'active')
      throw refusedBody([{ path, message: 'names no workspace of this organisation; check its id or slug' }]);
    if (said.has(found.id)) throw refusedBody([{ path, message: 'is there twice; keep one' }]);
    said.set(found.id, one);
  }
  return said;
}

/** Path of the routes of workspaces, with the suffix of their operation ids. */
export interface WorkspacePlace {
  readonly path: '/admin/workspaces' | '/workspaces';
  /** Suffix of the operation ids. */
  readonly suffix: '' | '_plain';
}

/** Both paths of workspaces and their members, settings and so on. */
export const workspacePlaces: readonly WorkspacePlace[] = [
  { path: '/admin/workspaces', suffix: '' },
  { path: '/workspaces', suffix: '_plain' },
];
