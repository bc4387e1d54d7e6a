import { mappableFields } from '../organisation/integrations.ts';
import type { LimitIssue } from '../organisation/limits.ts';
import { givenRateLimits, givenUsageLimit } from '../organisation/providers.ts';
import type { IntegrationBlock } from '../organisation/organisation-block.ts';
import { settingIssues } from '../organisation/file-integration.ts';
import type { ProviderRow } from '../providers/provider-row.ts';

/**
 * What is wrong with one integration that its schema lets through, whatever stands beside it: settings that its provider
 * does not take (known with its `row` alone), mappings, models and limits. Paths begin within the block.
 */
export function integrationIssues(block: IntegrationBlock, row: ProviderRow | undefined): LimitIssue[] {
  const { global_workspace_access: all, workspaces } = block;
  return [
    ...(row === undefined ? [] : settingIssues(block, row)),
    ...(row === undefined ? [] : mappingIssues(block)),
    ...modelIssues(block),
    ...(all === undefined ? [] : accessIssues(all, '/global_workspace_access')),
    ...(workspaces ?? []).flatMap((one, index) => accessIssues(one, `/workspaces/${index}`)),
  ];
}

function mappingIssues({
  ai_provider_id: provider,
  secret_mappings: mappings,
}: IntegrationBlock): LimitIssue[] {
  const fields = mappableFields(provider);
  const seen = new Set<string>();
  return (mappings ?? []).flatMap(({ target_field: target }, index) => {
    const path = `/secret_mappings/${index}/target_field`;
    const field = fields.canonical(target);
    const refusal = fields.refusal(field) ?? (seen.has(field) ? 'is mapped already; keep one' : undefined);
    seen.add(field);
    return refusal === undefined ? [] : [{ path, message: refusal }];
  });
}

function modelIssues({ models = [] }: IntegrationBlock): LimitIssue[] {
  const seen = new Set<string>();
  return models.flatMap(({ slug }, index) => {
    if (!seen.has(slug)) return (seen.add(slug), []);
    return [{ path: `/models/${index}/slug`, message: 'is there twice; keep one' }];
  });
}

function accessIssues(
  { usage_limits: usage, rate_limits: rates }: NonNullable<IntegrationBlock['global_workspace_access']>,
  pointer: string,
): readonly LimitIssue[] {
  return [
    ...givenUsageLimit(usage ?? null, `${pointer}/usage_limits`).issues,
    ...givenRateLimits(rates ?? null, `${pointer}/rate_limits`).issues,
  ];
}
