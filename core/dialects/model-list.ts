import type { HostFacts } from './host-facts.ts';

/** One model that a host offers. */
export interface ListedModel {
  readonly id: string;
  /** Unix seconds, when the host tells. */
  readonly created?: number;
  readonly ownedBy?: string;
}

/** How a host of a dialect lists its models. */
export interface ModelListing {
  /** Below the base URL, with its query. */
  path(host: HostFacts): string;
  /** The models of an answer. Throws GatewayError `upstream_invalid` for anything else. */
  read(body: Buffer): readonly ListedModel[];
}
