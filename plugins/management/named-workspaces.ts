import type { ResourcesReader } from '../../core/ports/resources.ts';
import { refusedBody } from './refused-body.ts';

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
