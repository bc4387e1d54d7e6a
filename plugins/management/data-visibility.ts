import { reachOf } from '../../core/access/access.ts';
import { GatewayError } from '../../core/pipeline/plugin.ts';
import type { Visibility } from '../../core/ports/analytics.ts';
import type { Directory } from '../../core/ports/directory.ts';
import type { SecuritySettings } from '../../core/ports/organisation-settings.ts';
import type { Actor } from './api-key-access.ts';

/** Where settings and people are looked up. */
export type SettingsSource = Pick<Directory, 'settingsIn' | 'user'>;

/**
 * Whose rows the caller may read: what its key reaches, and of that only what its own keys sent when the settings of the
 * workspace say so.
 */
export function dataVisibility({ key, role }: Actor, directory: SettingsSource): Visibility {
  const reach = reachOf(key);
  const settings = settingsFor({ key, role }, directory)?.data_visibility;
  if (settings === undefined) return reach;
  if (role === 'manager' ? settings.managersViewAllData : settings.membersViewAllData) return reach;
  return key.userId === '' ? { ...reach, apiKeyId: key.id } : { ...reach, userId: key.userId };
}

/** Throws `scope_missing`, naming the setting, when the caller's role may not view analytics in the workspace. */
export function requireAnalytics({ key, role }: Actor, directory: SettingsSource): void {
  const settings = settingsFor({ key, role }, directory)?.data_visibility;
  if (settings === undefined) return;
  const name = role === 'manager' ? 'managersViewAnalytics' : 'membersViewAnalytics';
  if (settings[name]) return;
  throw new GatewayError(
    'scope_missing',
    `The key "${key.name}" acts as ${role}, and analytics are not shown to ${role}s of its workspace: the setting ${name} is off. An owner or admin of the organisation changes it.`,
  );
}

/** The settings that bind the caller; undefined for owners and admins, their own keys in a workspace included. */
export function settingsFor({ key, role }: Actor, directory: SettingsSource): SecuritySettings | undefined {
  if (role === 'owner' || role === 'admin') return undefined;
  const { organisationId, workspaceId, userId } = key;
  const user = userId === '' ? undefined : directory.user(organisationId, userId);
  if (user !== undefined && user.role !== 'member') return undefined;
  return directory.settingsIn(organisationId, workspaceId);
}
