import type {
  OrganisationSettings,
  SecuritySettings,
  WorkspaceSettings,
} from '../ports/organisation-settings.ts';

/** Settings in force in a workspace: the organisation's, with the overrides that it permits. */
export function settingsIn(
  { security, overridable }: Pick<OrganisationSettings, 'security' | 'overridable'>,
  overrides: WorkspaceSettings['overrides'] = {},
): SecuritySettings {
  const merged: { -readonly [K in keyof SecuritySettings]: SecuritySettings[K] } = { ...security };
  for (const category of overridable)
    Object.assign(merged, overrides[category] && { [category]: overrides[category] });
  return merged;
}
