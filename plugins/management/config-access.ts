import { GatewayError } from '../../core/pipeline/plugin.ts';
import type { ConfigAccess } from '../../core/ports/organisation-settings.ts';
import type { Actor } from './api-key-access.ts';
import { settingsFor, type SettingsSource } from './data-visibility.ts';

const settings = {
  manager: { view: 'managersViewConfigs', write: 'managersWriteConfigs' },
  member: { view: 'membersViewConfigs', write: 'membersWriteConfigs' },
} as const satisfies Readonly<Record<string, Readonly<Record<string, keyof ConfigAccess>>>>;

/** Throws `scope_missing`, naming the setting, when the caller's role may not do this with configs of its workspace. */
export function requireConfigAccess(
  { key, role }: Actor,
  directory: SettingsSource,
  wanted: 'view' | 'write',
): void {
  const inForce = settingsFor({ key, role }, directory);
  if (inForce === undefined) return;
  const name = settings[role === 'manager' ? 'manager' : 'member'][wanted];
  if (inForce.configs[name]) return;
  const what = wanted === 'view' ? 'shown to' : 'changed by';
  throw new GatewayError(
    'scope_missing',
    `The key "${key.name}" acts as ${role}, and configs are not ${what} ${role}s of its workspace: the setting ${name} is off. An owner or admin of the organisation changes it.`,
  );
}
