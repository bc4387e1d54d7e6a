import { reachOf } from '../../core/access/access.ts';
import { GatewayError } from '../../core/pipeline/plugin.ts';
import type { KeyRecord } from '../../core/ports/directory.ts';
import type { StoredRecord } from '../../core/ports/records.ts';
import type { ResourcesReader, WorkspaceRecord } from '../../core/ports/resources.ts';
import { refusedBody } from './refused-body.ts';

/** What a body says of where a record belongs. */
export interface NamedPlace {
  readonly workspace_id?: string | undefined;
  readonly organisation_id?: string | undefined;
}

/**
 * The workspace that a new record is for: the named one, or that of the key; undefined for a record of the whole
 * organisation, which keys of organisations alone can make. Throws `invalid_request` with the place in the body for
 * what is not within reach, and for bearers of tokens who leave something out; `resource_conflict` for an archived
 * workspace.
 */
export async function placeOfNew(
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

/** Throws `invalid_request` when another organisation than that of the key is named, in a body or a query. */
export function requireOrganisation({ organisationId }: KeyRecord, named: string | undefined): void {
  if (named === undefined || named === organisationId) return;
  const message = 'is not your organisation; leave it out';
  throw refusedBody([{ path: '/organisation_id', message }]);
}

/** Throws `scope_missing` when a key of a workspace is about to change what belongs to its organisation. */
export function requireOwn(key: KeyRecord, record: StoredRecord, noun: string): void {
  if (reachOf(key).workspaceId === undefined || record.workspaceId !== undefined) return;
  throw new GatewayError(
    'scope_missing',
    `The ${noun} "${record.name}" belongs to the organisation, and keys of workspaces cannot change it. Use a key of the organisation.`,
  );
}

function missing(path: string, what: string): GatewayError {
  return refusedBody([{ path, message: `is needed where a token authenticates: the ${what}` }]);
}
