import type { Outcome, RequestContext } from '../pipeline/context.ts';
import { callerKey } from '../pipeline/keys.ts';
import type { Directory, KeyRecord } from '../ports/directory.ts';

type Settings = Pick<Directory, 'settingsIn'>;

/**
 * Whether anything may be kept, or told elsewhere, of what a request said and was answered: nothing of a stranger's, and
 * nothing where anybody who may say so says no.
 */
export function keepsBodies(
  directory: Settings,
  context: RequestContext,
  { error }: Pick<Outcome, 'error'>,
): boolean {
  if (error?.type === 'authentication_error') return false;
  if (context.service('debug')?.toLowerCase() === 'false') return false;
  return isAllowed(directory, context.facts, context.get(callerKey)?.defaults);
}

/** The same of requests that a key reports, without what only proxied ones can say. */
export function keepsReportedBodies(directory: Settings, key: KeyRecord): boolean {
  return isAllowed(directory, key, key.defaults);
}

function isAllowed(
  directory: Settings,
  { organisationId, workspaceId }: Pick<KeyRecord, 'organisationId' | 'workspaceId'>,
  defaults: KeyRecord['defaults'],
): boolean {
  if (defaults?.logBodies === false) return false;
  return directory.settingsIn(organisationId, workspaceId).logging.mode === 'full';
}
