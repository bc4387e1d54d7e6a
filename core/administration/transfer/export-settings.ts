import type { Static } from 'typebox';
import {
  defaultSecurity,
  type OrganisationSettings,
  type SecuritySettings,
  type UserKeyRules,
  type WorkspaceSettings,
} from '../../ports/organisation-settings.ts';
import { readDefaults, showDefaults } from './export-records.ts';
import type { ExportedOverrides, ExportedSettings } from './export-schema.ts';

type ShownSecurity = Static<typeof ExportedSettings>['security'];
type ShownRules = ShownSecurity['user_api_keys'];

/** What the settings say as it stands in the file; undefined while nobody has changed any. */
export function showSettings(settings: OrganisationSettings): Static<typeof ExportedSettings> | undefined {
  if (settings.version === 0) return undefined;
  const { security, overridable, defaults } = settings;
  const { user_api_keys: rules, ...switches } = security;
  return {
    security: { ...switches, user_api_keys: showRules(rules) },
    overridable: [...overridable],
    defaults: showDefaults(defaults),
  };
}

/** What the settings of the file say. */
export function readSettings(
  shown: Static<typeof ExportedSettings>,
): Pick<OrganisationSettings, 'security' | 'overridable' | 'defaults'> {
  const { security, overridable, defaults } = shown;
  const { user_api_keys: rules, logging = defaultSecurity.logging, ...switches } = security;
  return {
    security: { ...switches, user_api_keys: readRules(rules), logging },
    overridable,
    defaults: readDefaults(defaults),
  };
}

/** What a workspace overrides as it stands in the file. */
export function showOverrides({
  workspaceId,
  overrides,
}: Pick<WorkspaceSettings, 'workspaceId' | 'overrides'>): Static<typeof ExportedOverrides> {
  const { user_api_keys: rules, ...switches } = overrides;
  return {
    workspace_id: workspaceId,
    overrides: { ...switches, ...(rules !== undefined && { user_api_keys: showRules(rules) }) },
  };
}

/** What a workspace of the file overrides. */
export function readOverrides({ overrides }: Static<typeof ExportedOverrides>): Partial<SecuritySettings> {
  const { user_api_keys: rules, ...switches } = overrides;
  return { ...switches, ...(rules !== undefined && { user_api_keys: readRules(rules) }) };
}

function showRules({ maxPerWorkspace, defaultDays, maxDays }: UserKeyRules): ShownRules {
  return {
    ...(maxPerWorkspace !== undefined && { maxPerWorkspace }),
    ...(defaultDays !== undefined && { defaultDays }),
    ...(maxDays !== undefined && { maxDays }),
  };
}

function readRules({ maxPerWorkspace, defaultDays, maxDays }: ShownRules): UserKeyRules {
  return { maxPerWorkspace, defaultDays, maxDays };
}
