import {
  changedContent,
  emptyIntegration,
  type IntegrationContent,
  mappableFields,
  modelHeaders,
  modelOf,
} from './integrations.ts';
import { givenRateLimits, givenUsageLimit } from './providers.ts';
import type { Block } from './organisation-block.ts';
import type { ProviderRow } from '../providers/provider-row.ts';
import type { IntegrationAccess, IntegrationData, SecretMapping } from '../ports/record-kinds.ts';
import type { Mistake } from '../base/json.ts';

/** An integration of the configuration as a record; `workspaceId` resolves a name to its id. */
export function integrationOfFile(
  block: Block<'integration'>,
  workspaceId: (name: string) => string,
): Pick<IntegrationContent, 'data' | 'plain'> {
  const { content } = settingsOfFile(block, {});
  const models = block.models ?? [];
  const headers = models.flatMap(({ slug, configurations }) => {
    const custom = configurations?.custom_headers;
    return custom === undefined ? [] : [[modelHeaders(slug), JSON.stringify(custom)] as const];
  });
  const data: IntegrationData = {
    ...content.data,
    allowAllModels: block.allow_all_models ?? true,
    models: models.map((model) => modelOf(model, undefined)),
    globalAccess: accessOf(block.global_workspace_access ?? { enabled: false }),
    workspaces: Object.fromEntries(
      (block.workspaces ?? []).map((one) => [workspaceId(one.id), accessOf(one)] as const),
    ),
  };
  return { data, plain: { ...content.plain, ...Object.fromEntries(headers) } };
}

/** Violations in the settings of an integration that its schema cannot detect. Paths begin within the block. */
export function settingIssues(block: Block<'integration'>, row: ProviderRow): readonly Mistake[] {
  return settingsOfFile(block, row).issues;
}

function settingsOfFile(block: Block<'integration'>, row: ProviderRow) {
  const { key, configurations = {}, secret_mappings: mappings } = block;
  const fields = mappableFields(block.ai_provider_id);
  const secretMappings = (mappings ?? []).map((one): SecretMapping => ({
    targetField: fields.canonical(one.target_field),
    // An id or slug: resolved when a request needs it.
    secretReferenceId: one.secret_reference_id,
    secretKey: one.secret_key ?? '',
    valueFormat: one.value_format ?? 'string',
  }));
  return changedContent(block, emptyIntegration(block.name, block.ai_provider_id), {
    key: key ?? undefined,
    configurations,
    secretMappings,
    row,
    machineIdentity: block.workspace === undefined,
  });
}

type GivenAccess = NonNullable<Block<'integration'>['global_workspace_access']>;

function accessOf({ enabled, usage_limits: usage, rate_limits: rates }: GivenAccess): IntegrationAccess {
  const { limit } = givenUsageLimit(usage ?? null, '');
  return {
    enabled,
    usageLimits: limit === undefined ? [] : [limit],
    rateLimits: givenRateLimits(rates ?? null, '').limits,
  };
}
