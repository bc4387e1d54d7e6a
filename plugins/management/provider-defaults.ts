import { randomUUID } from 'node:crypto';
import { accessTo } from '../../core/access/integration-access.ts';
import { plainProvider } from '../../core/organisation/provider-schema.ts';
import type { ProviderData } from '../../core/ports/record-kinds.ts';
import type { StoredRecord } from '../../core/ports/records.ts';
import type { ResourcesWriter } from '../../core/ports/resources.ts';
import { newSlug } from './record-slug.ts';

/** What makes a provider record. */
export interface NewProvider {
  readonly workspaceId: string;
  readonly slug: string;
  readonly name: string;
  readonly data: ProviderData;
  /** Id of the user or of the key. */
  readonly by: string;
  readonly now: number;
}

/** The record of a new provider of this integration. */
export function providerOf(
  { id, organisationId }: StoredRecord<'integration'>,
  { workspaceId, slug, name, data, by, now }: NewProvider,
): StoredRecord<'provider'> {
  return {
    ...{ kind: 'provider', id: randomUUID(), organisationId, workspaceId, slug, name, status: 'active' },
    ...{ parentId: id, data, secrets: {}, createdBy: by, updatedBy: by },
    ...{ createdAt: now, updatedAt: now, version: 1 },
  };
}

/** How default providers are made. */
export interface DefaultProvider {
  /** Default: the slug of the integration, or one made of its name where that is taken. */
  readonly slug?: string | undefined;
  readonly by: string;
  readonly now: number;
}

/**
 * Gives a workspace a provider of this integration, unless it has one or may not use the integration. Rejects with
 * `already_exists` when the slug that was asked for is taken there.
 */
export async function addDefaultProvider(
  { records }: Pick<ResourcesWriter, 'records'>,
  integration: StoredRecord<'integration'>,
  workspaceId: string,
  { slug: wanted, by, now }: DefaultProvider,
): Promise<void> {
  const { organisationId, id: parentId, name, slug: own } = integration;
  if (accessTo(integration, workspaceId) === undefined) return;
  const one = { offset: 0, limit: 1 };
  if ((await records.list('provider', organisationId, { workspaceId, parentId }, one)).total > 0) return;
  const isTaken =
    wanted === undefined &&
    (await records.find('provider', { organisationId, workspaceId }, own)) !== undefined;
  const slug = wanted ?? (isTaken ? newSlug('', name) : own);
  await records.insert(providerOf(integration, { workspaceId, slug, name, data: plainProvider, by, now }));
}
