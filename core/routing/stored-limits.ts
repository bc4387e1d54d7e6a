import { accessTo } from '../access/integration-access.ts';
import { LimitCharges } from '../access/limit-charge.ts';
import type { StoredRecord } from '../ports/records.ts';
import type { ProviderPlace } from './stored-secrets.ts';

/**
 * What tries at a provider are counted in: its own limits, and those of what its workspace may use of its integration,
 * which all providers of that workspace share. Undefined for no limit.
 */
export function storedLimits(
  { id, slug, data }: StoredRecord<'provider'>,
  integration: StoredRecord<'integration'>,
  { organisationId, workspaceId }: ProviderPlace,
): LimitCharges | undefined {
  const shared = accessTo(integration, workspaceId)?.rateLimits ?? [];
  if (data.rateLimits.length === 0 && shared.length === 0) return undefined;
  const charges = new LimitCharges();
  const prefix = `provider:${organisationId}:${id}`;
  charges.addLimits(data.rateLimits, { prefix, organisationId, name: `provider "@${slug}"` });
  charges.addLimits(shared, {
    prefix: `integration:${organisationId}:${integration.id}:${workspaceId}`,
    organisationId,
    name: `integration "${integration.slug}" in this workspace`,
  });
  return charges;
}
