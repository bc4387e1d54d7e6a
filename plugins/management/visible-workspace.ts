import { reachOf } from '../../core/access/access.ts';
import { GatewayError } from '../../core/pipeline/plugin.ts';
import type { KeyRecord } from '../../core/ports/directory.ts';
import type { ResourcesReader, WorkspaceRecord } from '../../core/ports/resources.ts';

/**
 * The workspace with this id or slug. Throws `resource_not_found`, in the same words, whether there is none or it is
 * not within the key's reach.
 */
export async function visibleWorkspace(
  { workspaces }: Pick<ResourcesReader, 'workspaces'>,
  key: KeyRecord,
  idOrSlug: string,
): Promise<WorkspaceRecord> {
  const { organisationId, workspaceId } = reachOf(key);
  const found = await workspaces.find(organisationId, idOrSlug);
  if (found !== undefined && (workspaceId === undefined || found.id === workspaceId)) return found;
  throw noSuchWorkspace(idOrSlug);
}

/** In the same words whether there is none or it is not within the key's reach. */
export function noSuchWorkspace(idOrSlug: string): GatewayError {
  return new GatewayError(
    'resource_not_found',
    `No workspace "${idOrSlug.slice(0, 64)}" is visible to this key. Check its id or slug.`,
  );
}

/**
 * Where a list looks: in the workspace that is named (id or slug), else in the key's own; keys of the organisation that
 * name none see all of it (`workspaceId` undefined). Throws like `visibleWorkspace`.
 */
export async function placeOfList(
  reader: Pick<ResourcesReader, 'workspaces'>,
  key: KeyRecord,
  named: string | undefined,
): Promise<{ readonly organisationId: string; readonly workspaceId: string | undefined }> {
  const { organisationId, workspaceId } = reachOf(key);
  if (named === undefined) return { organisationId, workspaceId };
  return { organisationId, workspaceId: (await visibleWorkspace(reader, key, named)).id };
}
