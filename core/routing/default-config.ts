import { directoryBehind, GatewayError } from '../errors/gateway-error.ts';
import type { Directory, KeyRecord } from '../ports/directory.ts';
import type { StoredRecord } from '../ports/records.ts';

/** Source of the defaults of workspaces and organisations, and of saved configs. */
export type Defaults = Pick<Directory, 'standing' | 'defaultsOf' | 'record' | 'records'>;

/** Slug of the default config of the workspace, by its list of records. */
const defaultSlugs = new WeakMap<readonly StoredRecord<'config'>[], string>();

/**
 * Name of the default config for requests of this key: the key's own, else that in the defaults of its workspace, else
 * the saved config with `isDefault` of the workspace, else that of the organisation.
 */
export function defaultConfigOf(key: KeyRecord | undefined, defaults: Defaults): string | undefined {
  if (key === undefined) return undefined;
  const own = key.defaults?.configId;
  if (own !== undefined) return own;
  const { configId, own: ofWorkspace } = defaults.defaultsOf(key.organisationId, key.workspaceId);
  if (ofWorkspace?.configId !== undefined) return configId;
  return defaultConfigSlug(defaults.records('config', key), key.workspaceId) ?? configId;
}

/** Slug of the workspace's default among its saved configs. The directory returns the same list until one changes. */
function defaultConfigSlug(
  records: readonly StoredRecord<'config'>[],
  workspaceId: string,
): string | undefined {
  if (records.length === 0) return undefined;
  let slug = defaultSlugs.get(records);
  if (slug === undefined) {
    const found = records.find((one) => one.data.isDefault && one.workspaceId === workspaceId);
    defaultSlugs.set(records, (slug = found?.slug ?? ''));
  }
  return slug === '' ? undefined : slug;
}

/** The refusal of a request whose key forbids it to choose its config. */
export function overrideDenied(key: KeyRecord): GatewayError {
  return new GatewayError(
    'config_override_denied',
    `The ${named(key)} does not let its requests bring a config of their own. Leave the config header out, or use a key that allows it (defaults.allow_config_override).`,
    { param: 'config' },
  );
}

/** The refusal of a request whose default config no longer exists. */
export function defaultMissing(slug: string, key: KeyRecord, defaults: Defaults): GatewayError {
  if (defaults.standing() !== 'current') return directoryBehind(`config ${JSON.stringify(slug)}`);
  const owner = ownerOf(slug, key, defaults);
  return new GatewayError(
    'config_unknown',
    `There is no config ${JSON.stringify(slug)}, with which requests of the ${owner} begin. Define it under "configs" in the configuration, name another one in the defaults of the ${owner} (config_id), or send a config with the request.`,
    { param: 'config' },
  );
}

function ownerOf(slug: string, key: KeyRecord, defaults: Defaults): string {
  if (key.defaults?.configId === slug) return named(key);
  const { organisationId, workspaceId } = key;
  const isOrganisations = defaults.defaultsOf(organisationId, '').configId === slug;
  return isOrganisations ? `organisation ${organisationId}` : `workspace ${workspaceId}`;
}

function named({ name, isToken }: KeyRecord): string {
  return `${isToken === true ? 'token' : 'service key'} "${name}"`;
}
