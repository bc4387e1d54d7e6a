import type { HostFacts } from './host-facts.ts';

/** One model that a host offers. */
export interface ListedModel {
  readonly id: string;
  /** Unix seconds, when the host reports it. */
  readonly created?: number;
  readonly ownedBy?: string;
}

/** Model listing of a dialect's hosts. */
export interface ModelListing {
  /** Relative to the base URL, with its query. */
  path(host: HostFacts): string;
  /** The models of an answer. Throws GatewayError `upstream_invalid` for anything else. */
  read(body: Buffer): readonly ListedModel[];
}
