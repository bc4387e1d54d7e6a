import { reachOf, type Role } from '../../../core/access/scopes.ts';
import { GatewayError, type Scope } from '../../../core/pipeline/plugin.ts';
import type { RequestFilter, TimeWindow, Visibility } from '../../../core/ports/analytics.ts';
import type { Directory, KeyRecord } from '../../../core/ports/directory.ts';
import type { SecuritySettings } from '../../../core/ports/organisation-settings.ts';
import type { Actor } from '../api-keys/access.ts';
import { places } from './records.ts';
import { type FilterValues, readFilter } from './request-filter.ts';

/** Source of settings and users. */
export type SettingsSource = Pick<Directory, 'settingsIn' | 'user'>;

/** Workspace of a query; either member takes an id or a slug. */
export interface NamedWorkspace {
  readonly workspace_id?: string;
  readonly workspace_slug?: string;
}

/**
 * Rows that the caller may read: those in reach of its key, or only those of its own keys when the settings of the
 * workspace require it.
 */
export function dataVisibility({ key, role }: Actor, directory: SettingsSource): Visibility {
  const reach = { ...reachOf(key), asker: key.id };
  const settings = settingsFor({ key, role }, directory)?.data_visibility;
  if (settings === undefined) return reach;
  if (role === 'manager' ? settings.managersViewAllData : settings.membersViewAllData) return reach;
  return key.userId === '' ? { ...reach, apiKeyId: key.id } : { ...reach, userId: key.userId };
}

/**
 * `dataVisibility`, restricted to the workspace that the query names. Throws `resource_not_found`, with the same
 * message for an unknown workspace and for one out of reach; `invalid_request` for two different ones.
 */
export function visibilityIn(
  actor: Actor,
  directory: SettingsSource & Pick<Directory, 'workspaceId'>,
  query: NamedWorkspace,
): Visibility {
  const visibility = dataVisibility(actor, directory);
  const ids = [query.workspace_id, query.workspace_slug].flatMap((named) =>
    named === undefined ? [] : [workspaceWithin(visibility, directory, named)],
  );
  const [workspaceId = visibility.workspaceId, other] = ids;
  if (other !== undefined && other !== workspaceId) {
    const message = '"workspace_slug" and "workspace_id" name two workspaces. Give one of them.';
    throw new GatewayError('invalid_request', message, { param: 'workspace_slug' });
  }
  return workspaceId === undefined ? visibility : { ...visibility, workspaceId };
}

function workspaceWithin(
  { organisationId, workspaceId }: Visibility,
  directory: Pick<Directory, 'workspaceId'>,
  named: string,
): string {
  // A key's own workspace is accepted even when the directory does not know it.
  const id = named === workspaceId ? named : directory.workspaceId(organisationId, named);
  if (id !== undefined && (workspaceId === undefined || id === workspaceId)) return id;
  throw places.noSuch(named);
}

/** Throws `scope_missing`, naming the setting, when the caller's role may not view analytics in the workspace. */
function requireAnalytics({ key, role }: Actor, directory: SettingsSource): void {
  const settings = settingsFor({ key, role }, directory)?.data_visibility;
  if (settings === undefined) return;
  const name = role === 'manager' ? 'managersViewAnalytics' : 'membersViewAnalytics';
  if (settings[name]) return;
  throw new GatewayError(
    'scope_missing',
    `The key "${key.name}" acts as ${role}, and analytics are not shown to ${role}s of its workspace: the setting ${name} is off. An owner or admin of the organisation changes it.`,
  );
}

/** Settings that restrict the caller; undefined for owners and admins, also with their user keys of a workspace. */
export function settingsFor({ key, role }: Actor, directory: SettingsSource): SecuritySettings | undefined {
  if (role === 'owner' || role === 'admin') return undefined;
  const { organisationId, workspaceId, userId } = key;
  const user = userId === '' ? undefined : directory.user(organisationId, userId);
  if (user !== undefined && user.role !== 'member') return undefined;
  return directory.settingsIn(organisationId, workspaceId);
}

/** Selection of requests by a `filterQuery`, the base of every query to the analytics store. */
interface AnalyticsQuestion {
  readonly window: TimeWindow;
  readonly visibility: Visibility;
  readonly filter: RequestFilter;
}

/**
 * Selection for a call, restricted to the rows that its key may see. Throws `scope_missing` when its role may not view
 * analytics, `invalid_request` for an invalid filter, `resource_not_found` for a workspace out of reach.
 */
export function analyticsQuestion(
  { query, key, role }: { readonly query: FilterValues; readonly key: KeyRecord; readonly role: Role },
  { clock, directory }: Pick<Scope, 'clock' | 'directory'>,
): AnalyticsQuestion {
  requireAnalytics({ key, role }, directory);
  return {
    ...readFilter(query, clock.now()),
    visibility: visibilityIn({ key, role }, directory, query),
  };
}
