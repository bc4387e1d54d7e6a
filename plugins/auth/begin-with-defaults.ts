import { matchedRoute } from '../../core/pipeline/keys.ts';
import type { RequestContext } from '../../core/pipeline/context.ts';
import type { Directory, KeyRecord } from '../../core/ports/directory.ts';

/**
 * Puts the default metadata of a request's organisation, workspace and key into its metadata, as soon as its key is
 * known: what the workspace says counts before what the organisation says, then the key, then the request itself. So
 * nobody escapes a limit by saying something else. Administration routes are left as they are.
 */
export function beginWithDefaults(
  context: RequestContext,
  key: KeyRecord,
  directory: Pick<Directory, 'defaultsOf'>,
): void {
  const own = key.defaults?.metadata;
  const above = directory.defaultsOf(key.organisationId, key.workspaceId).metadata;
  if (own === undefined && above === undefined) return;
  if (context.get(matchedRoute) !== undefined) return;
  const { facts } = context;
  // Object.assign would lose a member called __proto__.
  facts.metadata = { ...facts.metadata, ...own, ...above };
}
