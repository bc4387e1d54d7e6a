import { holds, reachOf } from '../../../core/access/scopes.ts';
import { isUsableIn } from '../../../core/access/integration-access.ts';
import { GatewayError } from '../../../core/pipeline/plugin.ts';
import type { KeyRecord } from '../../../core/ports/directory.ts';
import type { StoredRecord } from '../../../core/ports/records.ts';
import type { ResourcesReader, WorkspaceRecord } from '../../../core/ports/resources.ts';
import type { Page, Paged } from '../../../core/ports/page.ts';
import { refusedBody } from './fields.ts';
import { eachRecord, noSuchRecord, visibleRecord } from './records.ts';

/** Kinds of records of one workspace, or of the organisation, which says what workspaces may use them. */
export type SharedKind = 'integration' | 'mcp_integration';

/** What can be done with such a record; the second part of its scope. */
type SharedAction = 'create' | 'read' | 'update' | 'delete' | 'list';

/** How a path names such a record. */
interface NamedShared {
  readonly slug: string;
  /** Id or slug of the workspace that the query or the body says. */
  readonly workspace?: string | undefined;
}

/** Which of them are listed. */
interface ListedShared extends Page {
  /** Undefined: those of every workspace within reach. */
  readonly workspaceId: string | undefined;
  readonly type: 'workspace' | 'organisation' | 'all';
  /** Part of the name or the slug, in any case. */
  readonly search?: string | undefined;
}

type Reader = Pick<ResourcesReader, 'records' | 'workspaces'>;

/** Who may do what with the records of one kind. */
interface SharedAccess<K extends SharedKind> {
  /** The scopes one of which is needed. */
  scopes(action: SharedAction): readonly string[];
  /** Throws `scope_missing` when the key may not do this with what is of the workspace, or of the organisation. */
  require(key: KeyRecord, action: SharedAction, workspaceId: string | undefined): void;
  /**
   * The record of this slug or id. Throws `resource_not_found` for one that the key does not see, `scope_missing`
   * without the scope for what is of a workspace, or of the organisation.
   */
  visible(reader: Reader, key: KeyRecord, named: NamedShared, action: SharedAction): Promise<StoredRecord<K>>;
  /** What the key's scopes are for, and of its organisation what its workspace may use; oldest first. */
  seen(
    reader: Pick<ResourcesReader, 'records'>,
    key: KeyRecord,
    wanted: ListedShared,
  ): Promise<Paged<StoredRecord<K>>>;
  /** The record that a body names at `path`. Throws `invalid_request` for one that the workspace may not use, as for none. */
  usable(
    reader: Pick<ResourcesReader, 'records'>,
    workspace: WorkspaceRecord,
    named: string,
    path: string,
  ): Promise<StoredRecord<K>>;
}

/** `noun` is what messages call a record (`integration`), `resource` what its scopes end with (`integrations`). */
export function sharedAccess<K extends SharedKind>(
  kind: K,
  { noun, resource }: { readonly noun: string; readonly resource: string },
): SharedAccess<K> {
  const scopeFor = (action: SharedAction, workspaceId: string | undefined): string =>
    `${workspaceId === undefined ? 'organisation' : 'workspace'}_${resource}.${action}`;
  const required = (key: KeyRecord, action: SharedAction, workspaceId: string | undefined): void => {
    const scope = scopeFor(action, workspaceId);
    if (holds(key, scope)) return;
    throw new GatewayError('scope_missing', `The key "${key.name}" lacks the scope "${scope}".`);
  };

  return {
    scopes: (action) => [`organisation_${resource}.${action}`, `workspace_${resource}.${action}`],
    require: required,
    async visible(reader, key, { slug, workspace }, action) {
      const found = await visibleRecord(reader, key, { kind, noun, idOrSlug: slug, workspace });
      const { workspaceId } = reachOf(key);
      if (workspaceId !== undefined && !isUsableIn(found, workspaceId)) throw noSuchRecord(noun, slug);
      required(key, action, found.workspaceId);
      return found;
    },
    // The records themselves say which workspaces may use them, so all of them are looked at.
    async seen(reader, key, { workspaceId, type, search, offset, limit }) {
      const reach = reachOf(key).workspaceId;
      const data: StoredRecord<K>[] = [];
      let total = 0;
      const filter = search === undefined ? {} : { search };
      for await (const record of eachRecord(reader, kind, key.organisationId, filter)) {
        const ofOrganisation = record.workspaceId === undefined;
        if (type !== 'all' && (type === 'organisation') !== ofOrganisation) continue;
        if (workspaceId !== undefined && !isUsableIn(record, workspaceId)) continue;
        if (reach !== undefined && !isUsableIn(record, reach)) continue;
        if (!holds(key, scopeFor('list', record.workspaceId))) continue;
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

/** Throws `resource_conflict` for a record that belongs to one workspace, and is shared with no other. */
export function requireShared({ name, workspaceId }: StoredRecord<SharedKind>, noun: string): void {
  if (workspaceId === undefined) return;
  throw new GatewayError(
    'resource_conflict',
    `The ${noun} "${name}" belongs to one workspace, which alone may use it. Make one of the organisation to share it.`,
  );
}

/**
 * What a body says of workspaces at `/workspaces`, by their ids; each names one by id or slug. Throws `invalid_request`
 * for one that is not there, archived, or there twice.
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
