import { type CheckPhase, GatewayError, type Scope } from '../../../core/pipeline/plugin.ts';
import type { ConfigAccess } from '../../../core/ports/organisation-settings.ts';
import type { RecordPlace, StoredRecord } from '../../../core/ports/records.ts';
import type { Actor } from '../api-keys/access.ts';
import { settingsFor, type SettingsSource } from '../shared/data-visibility.ts';
import { storedRecords } from '../shared/records.ts';
import type { ApiKeyFilter, ResourcesReader } from '../../../core/ports/resources.ts';

/** Uses of configs by name. */
export const configUses = {
  requireAccess: requireConfigAccess,
  someNode,
  namesIn,
  namesOfOrganisation,
  requireUnused,
};

const settings = {
  manager: { view: 'managersViewConfigs', write: 'managersWriteConfigs' },
  member: { view: 'membersViewConfigs', write: 'membersWriteConfigs' },
} as const satisfies Readonly<Record<string, Readonly<Record<string, keyof ConfigAccess>>>>;

/** Throws `scope_missing`, naming the setting, when the caller's role may not do this with configs of its workspace. */
function requireConfigAccess(
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

/** True when the predicate holds for a config or for a target in it. */
function someNode(config: object, isMeant: (node: Readonly<Record<string, unknown>>) => boolean): boolean {
  const node = config as Readonly<Record<string, unknown>>;
  if (isMeant(node)) return true;
  const { targets } = node;
  if (!Array.isArray(targets)) return false;
  return targets.some(
    (target: unknown) => typeof target === 'object' && target !== null && someNode(target, isMeant),
  );
}

type Named = Pick<Scope['router'], 'missingConfig' | 'unusableGuardrail'>;

/** Checks of names in defaults: the reason why a config or guardrail cannot be used; undefined when it can. */
export interface DefaultNames {
  missingConfig(slug: string): string | undefined;
  unusableGuardrail(name: string, phase: CheckPhase): string | undefined;
}

/** Names for defaults of a workspace: configs of the configuration, and records saved in the workspace. */
function namesIn(router: Named, place: RecordPlace): DefaultNames {
  return {
    missingConfig: (slug) => router.missingConfig(slug, place),
    unusableGuardrail: (name, phase) => router.unusableGuardrail(name, phase, place),
  };
}

/** Names for defaults of the organisation: configs available in every workspace, and its own guardrails. */
function namesOfOrganisation(router: Named, organisationId: string): DefaultNames {
  return { ...namesIn(router, { organisationId }), missingConfig: (slug) => router.missingConfig(slug) };
}

type Reader = Pick<ResourcesReader, 'apiKeys' | 'records' | 'settings' | 'workspaces'>;

/**
 * Throws `resource_conflict`, listing up to 10 uses, when keys, workspaces, the organisation or other configs of its
 * workspace name the config. Keys expired at `now` do not count.
 */
async function requireUnused(reader: Reader, record: StoredRecord<'config'>, now: number): Promise<void> {
  const users = usersOf(reader, record, now);
  await storedRecords.requireNobody(`The config "${record.slug}"`, users, 'Let them name another one first.');
}

async function* usersOf(reader: Reader, record: StoredRecord<'config'>, now: number): AsyncGenerator<string> {
  const { organisationId, workspaceId, id, slug } = record;
  const isMeant = (name: unknown): boolean => name === id || name === slug;
  const { defaults } = await reader.settings.ofOrganisation(organisationId);
  if (isMeant(defaults.configId)) yield 'the organisation';
  const workspace =
    workspaceId === undefined ? undefined : await reader.workspaces.find(organisationId, workspaceId);
  if (workspace !== undefined && isMeant(workspace.defaults.configId))
    yield `the workspace "${workspace.name}"`;
  const filters: readonly ApiKeyFilter[] = [
    { ...(workspaceId !== undefined && { workspaceId }), aliveAt: now },
    { types: ['organisation-service'], aliveAt: now },
  ];
  for (const filter of filters)
    for await (const { name, defaults } of storedRecords.eachOf((page) =>
      reader.apiKeys.list(organisationId, filter, page),
    ))
      if (isMeant(defaults.configId)) yield `the key "${name}"`;
  const alike = { ...(workspaceId !== undefined && { workspaceId }), status: 'active' as const };
  for await (const other of storedRecords.each(reader, 'config', organisationId, alike))
    if (other.id !== id && someNode(other.data.config, ({ config }) => isMeant(config)))
      yield `the config "${other.slug}"`;
}
