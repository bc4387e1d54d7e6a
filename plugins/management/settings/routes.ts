import type { RouteDefinition } from '../../../core/pipeline/define-route.ts';
import { defineRoute, GatewayError, type Scope, type Static, Type } from '../../../core/pipeline/plugin.ts';
import {
  defaultSecurity,
  defaultSettings,
  type OrganisationSettings,
  type SecuritySettings,
  type SettingsCategory,
  type UserKeyRules,
  type WorkspaceSettings,
} from '../../../core/ports/organisation-settings.ts';
import { places, storedRecords } from '../shared/records.ts';
import { Identifier, orNull, refusedBody, strict } from '../shared/fields.ts';
import { type WorkspacePlace, workspacePlaces } from '../shared/workspace-access.ts';
import { ChangedAt, changedAt, changeSettings, organisationDefaultsRoutes } from './defaults.ts';
import { settingsIn } from '../../../core/organisation/settings-in.ts';
import type { Features } from '../../../core/access/features.ts';
import type { ResourcesReader } from '../../../core/ports/resources.ts';

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
const GivenSecurity = Type.Partial(Type.Object(all), strict);
/** Limits of user keys. */
const UserKeys = Type.Object(userKeys);
/** A subset of them. */
const GivenUserKeys = Type.Partial(Type.Object(userKeys), strict);

/** Settings of request logging. */
const Logging = Type.Object(logging);
/** A subset of them. */
const GivenLogging = Type.Partial(Type.Object(logging), strict);

/** Settings by category. */
const Categories = {
  data_visibility: Type.Object(dataVisibility),
  prompts: Type.Object(prompts),
  configs: Type.Object(configs),
  user_api_keys: UserKeys,
  logging: Logging,
};
/** Subsets of the settings by category; null removes the override. */
const GivenCategories = Type.Object(
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
const Overridable = Type.Array(
  Type.Union([
    Type.Literal('data_visibility'),
    Type.Literal('prompts'),
    Type.Literal('configs'),
    Type.Literal('user_api_keys'),
    Type.Literal('logging'),
  ]),
  { maxItems: 5, uniqueItems: true, description: 'Categories that workspaces may override.' },
);

/** An organisation's settings in the API. */
const OrganisationSettingsReply = Type.Object({
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

/** A workspace's settings in the API. */
const WorkspaceSettingsReply = Type.Object({
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
function showOrganisationSettings(
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

/** Converts a workspace's settings to the API's shape. */
function showWorkspaceSettings(
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
const shownDefaults = showSecurity(defaultSecurity);

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

/** Settings of an organisation in a body. */
interface GivenSettings {
  readonly security?: Static<typeof GivenSecurity>;
  readonly user_api_keys?: Static<typeof GivenUserKeys>;
  readonly logging?: Static<typeof GivenLogging>;
}

/** The settings after the change by the body; absent ones stay. Throws `invalid_request` for contradictory limits. */
function changedSecurity(
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
function changedOverrides(
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

const Params = Type.Object({ workspaceId: Identifier });

const OverridesBody = Type.Object({ overrides: GivenCategories }, strict);

const { data_visibility: visibility } = shownDefaults;
const stricter = { ...visibility, membersViewAllData: false };
const workspaceExample: Static<typeof WorkspaceSettingsReply> = {
  object: 'workspace-settings',
  workspace_id: '0198a1c2-7b3e-7c4d-8e5f-6a7b8c9d0e1f',
  overrides: { data_visibility: stricter, prompts: null, configs: null, user_api_keys: null, logging: null },
  effective: { ...shownDefaults, data_visibility: stricter },
  allow_workspace_overrides: ['data_visibility'],
  last_updated_at: '2026-11-21T09:00:00.000Z',
};

/** Routes of a workspace's overrides of settings, under both paths of workspaces. */
function workspaceSettingsRoutes(scope: Scope): readonly RouteDefinition[] {
  return workspacePlaces.flatMap((place) => [getOverridesRoute(place), updateOverridesRoute(scope, place)]);
}

function getOverridesRoute({ path, suffix }: WorkspacePlace): RouteDefinition {
  return defineRoute({
    id: `workspace_settings.get${suffix}`,
    method: 'GET',
    path: `${path}/{workspaceId}/settings`,
    summary: 'Settings by which a workspace overrides its organisation, and its effective settings',
    scope: 'organisation_settings.read',
    // Reads only.
    audit: null,
    params: Params,
    reply: WorkspaceSettingsReply,
    examples: { response: workspaceExample },
    async handle({ params, key, read, sendVersion }) {
      const { organisation, workspace } = await read(async (reader) => {
        const { organisationId, id } = await places.visible(reader, key, params.workspaceId);
        return {
          organisation: await reader.settings.ofOrganisation(organisationId),
          workspace: await reader.settings.ofWorkspace(organisationId, id),
        };
      });
      sendVersion(workspace.version);
      return showWorkspaceSettings(workspace, organisation);
    },
  });
}

function updateOverridesRoute({ clock }: Scope, { path, suffix }: WorkspacePlace): RouteDefinition {
  return defineRoute({
    id: `workspace_settings.update${suffix}`,
    method: 'PUT',
    path: `${path}/{workspaceId}/settings`,
    summary:
      'Updates the settings by which a workspace overrides its organisation; omitted fields stay unchanged',
    scope: 'organisation_settings.update',
    audit: 'update',
    params: Params,
    body: OverridesBody,
    reply: WorkspaceSettingsReply,
    examples: {
      request: { overrides: { data_visibility: { membersViewAllData: false }, prompts: null } },
      response: workspaceExample,
    },
    async handle({ params, body, key, write, requireVersion, sendVersion }) {
      const { organisation, workspace } = await write(async (writer) => {
        const record = await places.visible(writer, key, params.workspaceId);
        const { organisationId, id } = record;
        const { settings } = writer;
        const before = await settings.ofWorkspace(organisationId, id);
        requireVersion(before.version);
        storedRecords.requireActive(record);
        const organisation = await settings.ofOrganisation(organisationId);
        const after: WorkspaceSettings = {
          ...before,
          overrides: changedOverrides(body.overrides, before.overrides, organisation),
          updatedAt: clock.now(),
          version: before.version + 1,
        };
        if (!(await settings.replaceWorkspace(after))) throw storedRecords.stale();
        return { id, workspaceId: id, result: { organisation, workspace: after } };
      });
      sendVersion(workspace.version);
      return showWorkspaceSettings(workspace, organisation);
    },
  });
}

const path = '/admin/organisation/settings';

const Body = Type.Object(
  {
    security: Type.Optional(GivenSecurity),
    user_api_keys: Type.Optional(GivenUserKeys),
    logging: Type.Optional(GivenLogging),
    allow_workspace_overrides: Type.Optional(Overridable),
  },
  strict,
);

/** The routes of the settings of organisations and of their workspaces. */
export function settingsRoutes(scope: Scope): readonly RouteDefinition[] {
  return [
    getRoute(scope),
    updateRoute(scope),
    ...organisationDefaultsRoutes(scope),
    ...workspaceSettingsRoutes(scope),
  ];
}

function getRoute({ features }: Scope): RouteDefinition {
  return defineRoute({
    id: 'organisation_settings.get',
    method: 'GET',
    path,
    summary: 'Settings of the organisation: rights of members and managers, limits of user keys, and logging',
    scope: 'organisation_settings.read',
    // Reads only.
    audit: null,
    reply: OrganisationSettingsReply,
    examples: { response: showOrganisationSettings(defaultSettings(''), features) },
    async handle({ key, read, sendVersion }) {
      const found = await read(({ settings }) => settings.ofOrganisation(key.organisationId));
      sendVersion(found.version);
      return showOrganisationSettings(found, features);
    },
  });
}

function updateRoute({ clock, features }: Scope): RouteDefinition {
  return defineRoute({
    id: 'organisation_settings.update',
    method: 'PUT',
    path,
    summary: 'Updates the settings of the organisation; omitted fields stay unchanged',
    scope: 'organisation_settings.update',
    audit: 'update',
    body: Body,
    reply: OrganisationSettingsReply,
    examples: {
      request: {
        security: { membersViewAllData: false },
        user_api_keys: { max_per_workspace: 20, default_days: 90, max_days: 365 },
        allow_workspace_overrides: ['data_visibility'],
      },
      response: showOrganisationSettings(defaultSettings(''), features),
    },
    async handle(call) {
      const { body } = call;
      const changed = await changeSettings(call, clock, ({ security, overridable }) => ({
        security: changedSecurity(body, security),
        overridable: body.allow_workspace_overrides ?? overridable,
      }));
      return showOrganisationSettings(changed, features);
    },
  });
}
