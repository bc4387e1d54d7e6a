import type { Directory, KeyRecord } from '../../core/ports/directory.ts';

/**
 * Whether bodies of requests that a key reports are kept: the same that decides about bodies of requests that were
 * proxied, without what only those can say.
 */
export function keepsBodies(
  directory: Pick<Directory, 'settingsIn'>,
  { organisationId, workspaceId, defaults }: KeyRecord,
): boolean {
  if (defaults?.logBodies === false) return false;
  return directory.settingsIn(organisationId, workspaceId).logging.mode === 'full';
}
