import { holds, reachOf } from '../../core/access/access.ts';
import { accessTo } from '../../core/access/integration-access.ts';
import { GatewayError } from '../../core/pipeline/plugin.ts';
import type { KeyRecord } from '../../core/ports/directory.ts';
import type { StoredRecord } from '../../core/ports/records.ts';
import type { ResourcesReader } from '../../core/ports/resources.ts';
import { noSuchRecord, visibleRecord } from './visible-record.ts';

/** What can be done with an integration; the second part of its scope. */
export type IntegrationAction = 'create' | 'read' | 'update' | 'delete' | 'list';

function scopeFor(action: IntegrationAction, workspaceId: string | undefined): string {
  return workspaceId === undefined
    ? `organisation_integrations.${action}`
    : `workspace_integrations.${action}`;
}

/** The scopes one of which is needed to do something with integrations. */
export function integrationScopes(action: IntegrationAction): readonly string[] {
  return [`organisation_integrations.${action}`, `workspace_integrations.${action}`];
}

/** Throws `scope_missing` when the key may not do this with integrations of the workspace, or of the organisation. */
export function requireIntegrationScope(
  key: KeyRecord,
  action: IntegrationAction,
  workspaceId: string | undefined,
): void {
  const scope = scopeFor(action, workspaceId);
  if (holds(key, scope)) return;
  throw new GatewayError('scope_missing', `The key "${key.name}" lacks the scope "${scope}".`);
}

/** Whether a key sees this integration, for a list: what its scopes are for, and of its organisation what its workspace may use. */
export function seesIntegration(key: KeyRecord, record: StoredRecord<'integration'>): boolean {
  if (!holds(key, scopeFor('list', record.workspaceId))) return false;
  const { workspaceId } = reachOf(key);
  return workspaceId === undefined || accessTo(record, workspaceId) !== undefined;
}

/** How a path names an integration. */
export interface NamedIntegration {
  readonly slug: string;
  /** Id or slug of the workspace that the query or the body says. */
  readonly workspace?: string | undefined;
}

/**
 * The integration of this slug or id. Throws `resource_not_found` for one that the key does not see, `scope_missing`
 * without the scope for what is of a workspace, or of the organisation.
 */
export async function visibleIntegration(
  reader: Pick<ResourcesReader, 'records' | 'workspaces'>,
  key: KeyRecord,
  { slug, workspace }: NamedIntegration,
  action: IntegrationAction,
): Promise<StoredRecord<'integration'>> {
  const named = { kind: 'integration', noun: 'integration', idOrSlug: slug, workspace } as const;
  const found = await visibleRecord(reader, key, named);
  const { workspaceId } = reachOf(key);
  if (workspaceId !== undefined && accessTo(found, workspaceId) === undefined)
    throw noSuchRecord('integration', slug);
  requireIntegrationScope(key, action, found.workspaceId);
  return found;
}
