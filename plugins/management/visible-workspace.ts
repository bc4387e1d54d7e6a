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
  throw new GatewayError(
    'resource_not_found',
    `No workspace "${idOrSlug.slice(0, 64)}" is visible to this key. Check its id or slug.`,
  );
}
