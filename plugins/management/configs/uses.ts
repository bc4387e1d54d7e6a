import { type CheckPhase, GatewayError, type Scope } from '../../../core/pipeline/plugin.ts';
import type { ConfigAccess } from '../../../core/ports/organisation-settings.ts';
import type { RecordPlace } from '../../../core/ports/records.ts';
import type { Actor } from '../api-keys/access.ts';
import { settingsFor, type SettingsSource } from '../shared/data-visibility.ts';

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

/** True when the predicate holds for a config or for a target in it. */
export function someNode(
  config: object,
  isMeant: (node: Readonly<Record<string, unknown>>) => boolean,
): boolean {
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
export function namesIn(router: Named, place: RecordPlace): DefaultNames {
  return {
    missingConfig: (slug) => router.missingConfig(slug, place),
    unusableGuardrail: (name, phase) => router.unusableGuardrail(name, phase, place),
  };
}

/** Names for defaults of the organisation: configs available in every workspace, and its own guardrails. */
export function namesOfOrganisation(router: Named, organisationId: string): DefaultNames {
  return { ...namesIn(router, { organisationId }), missingConfig: (slug) => router.missingConfig(slug) };
}
