import { policyRulesOf, type GivenRules, type PolicyKey } from '../../core/organisation/policy-schema.ts';
import type { Scope } from '../../core/pipeline/plugin.ts';
import type { PolicyRules } from '../../core/ports/record-kinds.ts';
import type { ResourcesReader } from '../../core/ports/resources.ts';
import { refusedBody } from './refused-body.ts';

/** Where a policy belongs; without a workspace, to the organisation. */
export interface PolicyPlace {
  readonly organisationId: string;
  readonly workspaceId: string | undefined;
}

/** What names are looked up in. */
export interface NameSources extends PolicyPlace {
  readonly reader: Pick<ResourcesReader, 'records' | 'apiKeys' | 'workspaces'>;
  readonly router: Pick<Scope['router'], 'missingConfig'>;
}

/** The name as it is stored, or undefined when there is nothing of that name within the policy's place. */
type LookUp = (value: string, sources: NameSources) => Promise<string | undefined> | string | undefined;

/** Keys whose values are names of records. Models and metadata are what requests say. */
const lookUps: Readonly<Partial<Record<PolicyKey, LookUp>>> = {
  async api_key(value, { reader, organisationId, workspaceId }) {
    const found = await reader.apiKeys.find(organisationId, value);
    return workspaceId === undefined || found?.workspaceId === workspaceId ? found?.id : undefined;
  },
  async workspace_id(value, { reader, organisationId, workspaceId }) {
    const found = await reader.workspaces.find(organisationId, value);
    return workspaceId === undefined || found?.id === workspaceId ? found?.id : undefined;
  },
  organisation_id: (value, { organisationId }) => (value === organisationId ? value : undefined),
  async config(value, sources) {
    const found = await sources.reader.records.find('config', sources, value);
    if (found !== undefined) return found.slug;
    return sources.router.missingConfig(value) === undefined ? value : undefined;
  },
  async prompt(value, sources) {
    return (await sources.reader.records.find('prompt', sources, value))?.slug;
  },
  virtual_key: providerName,
  provider: providerName,
};

const words: Readonly<Partial<Record<PolicyKey, string>>> = {
  api_key: 'key',
  workspace_id: 'workspace',
  organisation_id: 'organisation',
  config: 'config',
  prompt: 'prompt',
};

/**
 * The rules with every name as requests are told by it: ids of keys and workspaces, slugs of the rest. Throws
 * `invalid_request`, with every mistake and its place, for names of which there is nothing where the policy belongs.
 */
export async function namedRules(rules: PolicyRules, sources: NameSources): Promise<PolicyRules> {
  const mistakes: { path: string; message: string }[] = [];
  const conditions: { key: string; value: string }[] = [];
  for (const [index, { key, value }] of rules.conditions.entries()) {
    const lookUp = value.endsWith('*') || !isNamed(key) ? undefined : lookUps[key];
    const found = lookUp === undefined ? value : await lookUp(value, sources);
    conditions.push({ key, value: found ?? value });
    if (found !== undefined || !isNamed(key)) continue;
    const message = `names "${value.slice(0, 64)}", and there is no such ${words[key] ?? key} where the policy belongs`;
    mistakes.push({ path: `/conditions/${index}/value`, message });
  }
  if (mistakes.length > 0) throw refusedBody(mistakes);
  return { conditions, groupBy: rules.groupBy };
}

/** The rules after a change, what is not given as it was. Throws like `namedRules`. */
export async function changedRules(
  said: GivenRules,
  before: PolicyRules,
  sources: NameSources,
): Promise<PolicyRules> {
  const given = policyRulesOf({ conditions: said.conditions ?? [], group_by: said.group_by ?? [] });
  const named = said.conditions === undefined ? before : await namedRules(given, sources);
  return {
    conditions: named.conditions,
    groupBy: said.group_by === undefined ? before.groupBy : given.groupBy,
  };
}

function isNamed(key: string): key is PolicyKey {
  return Object.hasOwn(lookUps, key);
}

/** A provider of the configuration file is named like a stored one, and is not known here: other names stay. */
async function providerName(value: string, sources: NameSources): Promise<string> {
  const name = value.startsWith('@') ? value.slice(1) : value;
  return (await sources.reader.records.find('provider', sources, name))?.slug ?? name;
}
