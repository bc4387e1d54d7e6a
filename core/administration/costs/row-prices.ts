import { RecentMap } from '../../base/recent-map.ts';
import type { PricedModels, UnpricedRequest } from '../../ports/prices.ts';
import type { StoredRecord } from '../../ports/records.ts';
import type { Resources } from '../../ports/resources.ts';
import type { ProviderTable } from '../../providers/provider-row.ts';
import { StoredModels } from '../../routing/stored-models.ts';

/** Sources of data about the providers of rows. */
interface RowPricesParts {
  /** Where providers and their integrations stand; undefined: nowhere. */
  readonly resources: Pick<Resources, 'read'> | undefined;
  /** Providers of the configuration, by name: requests find them first. */
  readonly configured: Readonly<Record<string, unknown>>;
  /** The built-in ones. */
  readonly table: ProviderTable;
}

/** Finds the prices of a request (see `Prices.price`), or why they are unknown. Rejects when the relational store does. */
export type RowPrices = (request: UnpricedRequest) => Promise<string | PricedModels | UntoldPrice>;

/** The prices of a request are unknown. */
interface UntoldPrice {
  /** Completes the sentence `the request has no price: …`. */
  readonly reason: string;
}

/** Providers that are kept, by workspace and slug. */
const maxProviders = 1000;

/** The provider that a slug stands for now. */
interface Found {
  readonly provider: StoredRecord<'provider'>;
  readonly models: StoredModels;
}

/**
 * Finds the prices for the requests of rows, as when they were served: by the integration of the provider that they were
 * sent to, or else by its kind. Rows do not record whether a name stood with an `@`: a built-in provider is taken for
 * the one of the workspace that has its name and kind.
 */
export function rowPrices({ resources, configured, table }: RowPricesParts): RowPrices {
  const known = new RecentMap<Promise<Found | undefined>>(maxProviders);
  return async (request) => {
    const { service, provider: slug, isReported, requested, createdAt } = request;
    if (isReported || slug === '' || Object.hasOwn(configured, slug)) return service;
    const { organisationId, workspaceId } = request;
    const name = `${organisationId}\n${workspaceId}\n${slug}`;
    let finding = known.touch(name);
    if (finding === undefined) known.set(name, (finding = find(organisationId, workspaceId, slug)));
    const found = await finding;
    const isMeant = found?.models.service === service && !isYounger(found.provider, createdAt);
    if (found !== undefined && isMeant) return found.models.pricedBy(requested);
    if (table.has(slug)) return service;
    if (found === undefined) return { reason: `there is no provider "@${slug}" any more` };
    return { reason: `the provider "@${slug}" of today is another one than that of the request` };
  };

  async function find(organisationId: string, workspaceId: string, slug: string): Promise<Found | undefined> {
    const place = { organisationId, workspaceId };
    return resources?.read(async ({ records }) => {
      const provider = await records.find('provider', place, slug);
      const integration = provider && (await records.find('integration', place, provider.parentId));
      if (provider === undefined || integration === undefined) return undefined;
      const models = new StoredModels(provider, integration, table.get(integration.data.aiProviderId));
      return { provider, models };
    });
  }
}

/** Records of a file are as old as the reading of it. */
function isYounger({ createdAt, managedBy }: StoredRecord, at: number): boolean {
  return managedBy === undefined && createdAt > at;
}
