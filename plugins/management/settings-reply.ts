import { settingsIn } from '../../core/organisation/settings-in.ts';
import type { Features } from '../../core/access/features.ts';
import { Type, type Static } from '../../core/pipeline/plugin.ts';
import {
  defaultSecurity,
  type OrganisationSettings,
  type SecuritySettings,
  type UserKeyRules,
  type WorkspaceSettings,
} from '../../core/ports/organisation-settings.ts';
import { Categories, Logging, Overridable, Security, UserKeys } from './settings-schema.ts';
import { Metadata, orNull } from './text-schema.ts';

const ChangedAt = orNull(Type.String({ description: 'Null while nobody has changed anything.' }));

/** An organisation's settings as the API shows them. */
export const OrganisationSettingsReply = Type.Object({
  object: Type.Literal('organisation-settings'),
  security: Security,
  user_api_keys: UserKeys,
  logging: Logging,
  allow_workspace_overrides: Overridable,
  retention: Type.Object(
    { logs_days: Type.Integer(), metrics_days: Type.Integer() },
    {
      description:
        'How many days logs and metrics are kept, 0 for ever: `retention` of the configuration, unless the operator has another figure shown.',
    },
  ),
  last_updated_at: ChangedAt,
});

/** What requests of an organisation begin with, as the API shows it. */
export const OrganisationDefaultsReply = Type.Object({
  object: Type.Literal('organisation-defaults'),
  metadata: Metadata,
  config_id: orNull(Type.String()),
  last_updated_at: ChangedAt,
});

/** A workspace's settings as the API shows them. */
export const WorkspaceSettingsReply = Type.Object({
  object: Type.Literal('workspace-settings'),
  workspace_id: Type.String(),
  overrides: Type.Object(
    {
      data_visibility: orNull(Categories.data_visibility),
      prompts: orNull(Categories.prompts),
      configs: orNull(Categories.configs),
      user_api_keys: orNull(Categories.user_api_keys),
      logging: orNull(Categories.logging),
    },
    { description: 'What the workspace says itself; null: nothing.' },
  ),
  effective: Type.Object(Categories, { description: 'What holds in the workspace.' }),
  allow_workspace_overrides: Overridable,
  last_updated_at: ChangedAt,
});

/** Puts an organisation's settings into the shape of the API. */
export function showOrganisationSettings(
  { security, overridable, updatedAt, version }: OrganisationSettings,
  { logRetentionDays, metricsRetentionDays }: Features,
): Static<typeof OrganisationSettingsReply> {
  return {
    object: 'organisation-settings',
    security: { ...security.data_visibility, ...security.prompts, ...security.configs },
    user_api_keys: showRules(security.user_api_keys),
    logging: { ...security.logging },
    allow_workspace_overrides: [...overridable],
    retention: { logs_days: logRetentionDays, metrics_days: metricsRetentionDays },
    last_updated_at: changedAt(updatedAt, version),
  };
}

/** Puts an organisation's defaults into the shape of the API. */
export function showOrganisationDefaults({
  defaults,
  updatedAt,
  version,
}: OrganisationSettings): Static<typeof OrganisationDefaultsReply> {
  return {
    object: 'organisation-defaults',
    metadata: { ...defaults.metadata },
    config_id: defaults.configId ?? null,
    last_updated_at: changedAt(updatedAt, version),
  };
}

/** Puts a workspace's settings into the shape of the API. */
export function showWorkspaceSettings(
  { workspaceId, overrides, updatedAt, version }: WorkspaceSettings,
  organisation: Pick<OrganisationSettings, 'security' | 'overridable'>,
): Static<typeof WorkspaceSettingsReply> {
  const { user_api_keys: rules } = overrides;
  return {
    object: 'workspace-settings',
    workspace_id: workspaceId,
    overrides: {
      data_visibility: overrides.data_visibility ?? null,
      prompts: overrides.prompts ?? null,
      configs: overrides.configs ?? null,
      user_api_keys: rules === undefined ? null : showRules(rules),
      logging: overrides.logging ?? null,
    },
    effective: showSecurity(settingsIn(organisation, overrides)),
    allow_workspace_overrides: [...organisation.overridable],
    last_updated_at: changedAt(updatedAt, version),
  };
}

/** For the examples of the reference. */
export const shownDefaults = showSecurity(defaultSecurity);

function showSecurity(security: SecuritySettings) {
  return { ...security, user_api_keys: showRules(security.user_api_keys) };
}

function showRules({ maxPerWorkspace, defaultDays, maxDays }: UserKeyRules): Static<typeof UserKeys> {
  return {
    max_per_workspace: maxPerWorkspace ?? null,
    default_days: defaultDays ?? null,
    max_days: maxDays ?? null,
  };
}

function changedAt(at: number, version: number): string | null {
  return version === 0 ? null : new Date(at).toISOString();
}
