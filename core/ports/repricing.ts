import type { Usage } from '../dialects/usage.ts';

/** A row of a request. */
export interface RequestPlace {
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
  readonly id: string;
}

/** A request that used tokens while no price was known. */
export interface UnpricedRequest extends RequestPlace {
  /** The kind of provider. */
  readonly service: string;
  /** As answered. */
  readonly model: string;
  readonly usage: Usage;
}

/** Requests without a price, in the order of time, ids deciding between equal times. */
export interface UnpricedQuery {
  /** Milliseconds since the epoch, `to` is exclusive. */
  readonly window: { readonly from: number; readonly to: number };
  /** Kinds of providers, and models as answered. Default: all. */
  readonly services?: readonly string[] | undefined;
  readonly models?: readonly string[] | undefined;
  /** Begin behind this one. */
  readonly after?: RequestPlace | undefined;
  /** 1 to `mostPriceChanges`. */
  readonly limit: number;
}

/** The price of a request that had none. */
export interface PriceChange extends RequestPlace {
  /** US dollars with 12 digits after the point. */
  readonly cost: string;
  /** The edition of the price data. */
  readonly version: string;
}

/** What a batch of changes holds at the most. */
export const mostPriceChanges = 4000;

/** A moment at which no change of prices is half done. */
export interface RepricingTurn {
  /** Whether a batch was completed that an earlier command had begun. */
  readonly completed: boolean;
  /**
   * Gives prices to requests that `unpriced` has told since the turn began, all of one month (UTC) and `mostPriceChanges` at the
   * most, in their rows and in the roll-ups, and uses up the turn. Resolves to false, with nothing changed, when another command
   * has had its turn since. After an error, or an end of the process at whatever point, the next turn begins with the change
   * complete or not begun.
   */
  change(changes: readonly PriceChange[]): Promise<boolean>;
}

/** Gives prices to requests that were recorded without one. Everything rejects like a query of the analytics store. */
export interface Repricing {
  /** Requests that have no price. */
  unpriced(query: UnpricedQuery): Promise<readonly UnpricedRequest[]>;
  /** Completes what an earlier command has left half done. */
  turn(): Promise<RepricingTurn>;
}
