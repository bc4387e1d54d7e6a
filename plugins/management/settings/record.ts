import { GatewayError, type Static, Type } from '../../../core/pipeline/plugin.ts';
import { Metadata, orNull, refusedBody, strict } from '../shared/fields.ts';
import {
  defaultSecurity,
  type OrganisationSettings,
  type SecuritySettings,
  type SettingsCategory,
  type UserKeyRules,
  type WorkspaceSettings,
} from '../../../core/ports/organisation-settings.ts';
import { settingsIn } from '../../../core/organisation/settings-in.ts';
import type { Features } from '../../../core/access/features.ts';
import type { ResourcesReader } from '../../../core/ports/resources.ts';
import { showGuardrails } from '../workspaces/record.ts';

const flag = (description: string) => Type.Boolean({ description });
/** Upper bound of days, within the range of dates. */
const maxDays = 36_500;

const dataVisibility = {
  membersViewAllData: flag('If false, members see only logs and analytics of their own keys.'),
  managersViewAllData: flag('If false, managers see only logs and analytics of their own keys.'),
  membersViewAnalytics: flag('Members may view analytics.'),
  managersViewAnalytics: flag('Managers may view analytics.'),
};
const prompts = {
  membersViewPrompts: flag('Members may view prompts.'),
  membersWritePrompts: flag('Members may edit prompts.'),
  managersViewPrompts: flag('Managers may view prompts.'),
  managersWritePrompts: flag('Managers may edit prompts.'),
};
const configs = {
  membersViewConfigs: flag('Members may view configs.'),
  membersWriteConfigs: flag('Members may edit configs.'),
  managersViewConfigs: flag('Managers may view configs.'),
  managersWriteConfigs: flag('Managers may edit configs.'),
};

const MostKeys = Type.Integer({
  minimum: 0,
  maximum: 1_000_000,
  description: 'Most user keys in each workspace, without expired ones; null for no limit.',
});
const DefaultDays = Type.Integer({
  minimum: 1,
  maximum: maxDays,
  description: 'Default lifetime of a key in days; null for `max_days`.',
});
const MostDays = Type.Integer({
  minimum: 1,
  maximum: maxDays,
  description: 'Longest lifetime of a key in days, from its creation; null for no limit.',
});
const RotationDays = Type.Integer({
  minimum: 1,
  maximum: 365,
  description:
    'Secrets of keys are replaced every so many days, or more often where their rotation_policy says so; null: only there.',
});
const userKeys = {
  max_per_workspace: orNull(MostKeys),
  default_days: orNull(DefaultDays),
  max_days: orNull(MostDays),
  rotation_days: orNull(RotationDays),
};

const logging = {
  mode: Type.Union([Type.Literal('full'), Type.Literal('metadata')], {
    description:
      '`full`: bodies of requests and answers are also logged, unless the request, its key or the configuration prevents it. `metadata`: bodies are never logged.',
  }),
};

const all = { ...dataVisibility, ...prompts, ...configs };

/** The twelve settings of an organisation, by their names there. */
const Security = Type.Object(all);
/** A subset of them. */
export const GivenSecurity = Type.Partial(Type.Object(all), strict);
/** Limits of user keys. */
const UserKeys = Type.Object(userKeys);
/** A subset of them. */
export const GivenUserKeys = Type.Partial(Type.Object(userKeys), strict);

/** Settings of request logging. */
const Logging = Type.Object(logging);
/** A subset of them. */
export const GivenLogging = Type.Partial(Type.Object(logging), strict);

/** Settings by category. */
const Categories = {
  data_visibility: Type.Object(dataVisibility),
  prompts: Type.Object(prompts),
  configs: Type.Object(configs),
  user_api_keys: UserKeys,
  logging: Logging,
};
/** Subsets of the settings by category; null removes the override. */
export const GivenCategories = Type.Object(
  {
    data_visibility: Type.Optional(orNull(Type.Partial(Categories.data_visibility, strict))),
    prompts: Type.Optional(orNull(Type.Partial(Categories.prompts, strict))),
    configs: Type.Optional(orNull(Type.Partial(Categories.configs, strict))),
    user_api_keys: Type.Optional(orNull(GivenUserKeys)),
    logging: Type.Optional(orNull(GivenLogging)),
  },
  strict,
);

/** Categories that workspaces may override. */
export const Overridable = Type.Array(
  Type.Union([
    Type.Literal('data_visibility'),
    Type.Literal('prompts'),
    Type.Literal('configs'),
    Type.Literal('user_api_keys'),
    Type.Literal('logging'),
  ]),
  { maxItems: 5, uniqueItems: true, description: 'Categories that workspaces may override.' },
);

const ChangedAt = orNull(Type.String({ description: 'Null before the first change.' }));

/** An organisation's settings in the API. */
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
        'Retention of logs and metrics in days, 0 for no end: `retention` of the configuration, unless the operator sets another value to show.',
    },
  ),
  last_updated_at: ChangedAt,
});

/** Defaults of an organisation's requests in the API. */
export const OrganisationDefaultsReply = Type.Object({
  object: Type.Literal('organisation-defaults'),
  metadata: Metadata,
  config_id: orNull(Type.String()),
  input_guardrails: Type.Array(Type.String()),
  output_guardrails: Type.Array(Type.String()),
  last_updated_at: ChangedAt,
});

/** A workspace's settings in the API. */
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
    { description: 'Settings of the workspace itself; null if it has none.' },
  ),
  effective: Type.Object(Categories, { description: 'Effective settings in the workspace.' }),
  allow_workspace_overrides: Overridable,
  last_updated_at: ChangedAt,
});

/** Converts an organisation's settings to the API's shape. */
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

/** Converts an organisation's defaults to the API's shape. */
export function showOrganisationDefaults({
  defaults,
  updatedAt,
  version,
}: OrganisationSettings): Static<typeof OrganisationDefaultsReply> {
  return {
    object: 'organisation-defaults',
    metadata: { ...defaults.metadata },
    config_id: defaults.configId ?? null,
    ...showGuardrails(defaults),
    last_updated_at: changedAt(updatedAt, version),
  };
}

/** Converts a workspace's settings to the API's shape. */
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

function showRules(rules: UserKeyRules): Static<typeof UserKeys> {
  const { maxPerWorkspace, defaultDays, maxDays, rotationDays } = rules;
  return {
    max_per_workspace: maxPerWorkspace ?? null,
    default_days: defaultDays ?? null,
    max_days: maxDays ?? null,
    rotation_days: rotationDays ?? null,
  };
}

function changedAt(at: number, version: number): string | null {
  return version === 0 ? null : new Date(at).toISOString();
}

/** Settings of an organisation in a body. */
interface GivenSettings {
  readonly security?: Static<typeof GivenSecurity>;
  readonly user_api_keys?: Static<typeof GivenUserKeys>;
  readonly logging?: Static<typeof GivenLogging>;
}

/** The settings after the change by the body; absent ones stay. Throws `invalid_request` for contradictory limits. */
export function changedSecurity(
  { security = {}, user_api_keys: userKeys = {}, logging = {} }: GivenSettings,
  before: SecuritySettings,
): SecuritySettings {
  return {
    data_visibility: { ...before.data_visibility, ...only(before.data_visibility, security) },
    prompts: { ...before.prompts, ...only(before.prompts, security) },
    configs: { ...before.configs, ...only(before.configs, security) },
    user_api_keys: withRules(before.user_api_keys, userKeys, '/user_api_keys'),
    logging: { ...before.logging, ...logging },
  };
}

/**
 * The overrides of a workspace after the change by the body. A new override of a category starts from the
 * organisation's values. Throws `resource_conflict` for categories that may not be overridden, `invalid_request` for
 * contradictory limits.
 */
export function changedOverrides(
  given: Static<typeof GivenCategories>,
  before: WorkspaceSettings['overrides'],
  { security, overridable }: Pick<OrganisationSettings, 'security' | 'overridable'>,
): WorkspaceSettings['overrides'] {
  const names = Object.keys(given) as SettingsCategory[];
  const refused = names.filter((name) => given[name] !== null && !overridable.includes(name));
  if (refused.length > 0) throw notOverridable(refused);
  const rules = given.user_api_keys;
  return present({
    data_visibility: override(security.data_visibility, before.data_visibility, given.data_visibility),
    prompts: override(security.prompts, before.prompts, given.prompts),
    configs: override(security.configs, before.configs, given.configs),
    logging: override(security.logging, before.logging, given.logging),
    user_api_keys: rules
      ? withRules(before.user_api_keys ?? security.user_api_keys, rules, '/overrides/user_api_keys')
      : override(security.user_api_keys, before.user_api_keys, rules),
  });
}

function present(overrides: WorkspaceSettings['overrides']): WorkspaceSettings['overrides'] {
  return Object.fromEntries(Object.entries(overrides).filter(([, one]) => one !== undefined));
}

/** Override of a category: the given members over the previous ones; null removes the override. */
function override<C extends object>(
  organisation: C,
  before: C | undefined,
  given: Partial<C> | null | undefined,
): C | undefined {
  if (given === undefined) return before;
  return given === null ? undefined : { ...(before ?? organisation), ...given };
}

/** The members of `given` that belong to the category. */
function only<C extends object>(category: C, given: object): Partial<C> {
  return Object.fromEntries(Object.entries(given).filter(([name]) => name in category)) as Partial<C>;
}

function withRules(before: UserKeyRules, given: Static<typeof GivenUserKeys>, pointer: string): UserKeyRules {
  const { max_per_workspace: most, default_days: usual, max_days: longest, rotation_days: rotation } = given;
  const rotationDays = rotation === undefined ? before.rotationDays : (rotation ?? undefined);
  const rules = {
    maxPerWorkspace: most === undefined ? before.maxPerWorkspace : (most ?? undefined),
    defaultDays: usual === undefined ? before.defaultDays : (usual ?? undefined),
    maxDays: longest === undefined ? before.maxDays : (longest ?? undefined),
    ...(rotationDays !== undefined && { rotationDays }),
  };
  const { defaultDays, maxDays } = rules;
  if (defaultDays === undefined || maxDays === undefined || defaultDays <= maxDays) return rules;
  const field = usual === undefined ? 'max_days' : 'default_days';
  const message = `would leave a default of ${defaultDays} days and a maximum of ${maxDays}; the default must not be longer`;
  throw refusedBody([{ path: `${pointer}/${field}`, message }]);
}

function notOverridable(names: readonly SettingsCategory[]): GatewayError {
  const named = names.map((name) => `"${name}"`).join(', ');
  return new GatewayError(
    'resource_conflict',
    `The organisation does not let its workspaces override ${named}. Put it into allow_workspace_overrides of the organisation's settings first.`,
    { param: `/overrides/${names[0] ?? ''}` },
  );
}

/** Effective settings of a workspace, read in the transaction; the directory may lag by a second. */
export async function settingsInForce(
  { settings }: Pick<ResourcesReader, 'settings'>,
  organisationId: string,
  workspaceId: string,
): Promise<SecuritySettings> {
  const organisation = await settings.ofOrganisation(organisationId);
  const { overrides } = await settings.ofWorkspace(organisationId, workspaceId);
  return settingsIn(organisation, overrides);
}
