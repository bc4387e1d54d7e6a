import { GatewayError, type Static } from '../../core/pipeline/plugin.ts';
import type {
  OrganisationSettings,
  SecuritySettings,
  SettingsCategory,
  UserKeyRules,
  WorkspaceSettings,
} from '../../core/ports/organisation-settings.ts';
import { refusedBody } from './refused-body.ts';
import type { GivenCategories, GivenLogging, GivenSecurity, GivenUserKeys } from './settings-schema.ts';

/** What a body says of an organisation's settings. */
export interface GivenSettings {
  readonly security?: Static<typeof GivenSecurity>;
  readonly user_api_keys?: Static<typeof GivenUserKeys>;
  readonly logging?: Static<typeof GivenLogging>;
}

/** The settings with what the body says; what it does not say stays. Throws `invalid_request` for what cannot be. */
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
 * The overrides of a workspace with what the body says. A category that it did not override begins with what the
 * organisation says. Throws `resource_conflict` for categories that may not be overridden, `invalid_request` for what
 * cannot be.
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

/** What is given of a category, over what was there; null takes the override away. */
function override<C extends object>(
  organisation: C,
  before: C | undefined,
  given: Partial<C> | null | undefined,
): C | undefined {
  if (given === undefined) return before;
  return given === null ? undefined : { ...(before ?? organisation), ...given };
}

/** The members of `given` that have a name of the category. */
function only<C extends object>(category: C, given: object): Partial<C> {
  return Object.fromEntries(Object.entries(given).filter(([name]) => name in category)) as Partial<C>;
}

function withRules(before: UserKeyRules, given: Static<typeof GivenUserKeys>, pointer: string): UserKeyRules {
  const { max_per_workspace: most, default_days: usual, max_days: longest } = given;
  const rules = {
    maxPerWorkspace: most === undefined ? before.maxPerWorkspace : (most ?? undefined),
    defaultDays: usual === undefined ? before.defaultDays : (usual ?? undefined),
    maxDays: longest === undefined ? before.maxDays : (longest ?? undefined),
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
