import type {
  OrganisationSettings,
  SecuritySettings,
  WorkspaceSettings,
} from '../ports/organisation-settings.ts';

/** What holds in a workspace: the organisation's settings, and instead of them what it may override and does. */
export function settingsIn(
  { security, overridable }: Pick<OrganisationSettings, 'security' | 'overridable'>,
  overrides: WorkspaceSettings['overrides'] = {},
): SecuritySettings {
  const merged: { -readonly [K in keyof SecuritySettings]: SecuritySettings[K] } = { ...security };
  for (const category of overridable)
    Object.assign(merged, overrides[category] && { [category]: overrides[category] });
  return merged;
}
