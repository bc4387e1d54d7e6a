import type { Usage } from '../dialects/usage.ts';

export interface Price {
  /** US dollars as a decimal string with 12 digits after the point; `"0"` when nothing is known. */
  readonly cost: string;
  /** `unpriced` means that tokens were used and no price is known: never read it as free. */
  readonly status: 'priced' | 'unpriced' | 'none';
  /** The edition of the price data; `file` for a price of the configuration. */
  readonly version: string;
}

/** What an integration says of the prices of its models. */
export interface PricedModels {
  /** Kind of provider, as in `price`. */
  readonly service: string;
  /** The model whose prices hold; empty for the one that was used. */
  readonly model: string;
  /** Instead of what is known, in the order of time; the last one that holds. Undefined for nothing. */
  readonly own: readonly DatedTokenPrice[] | undefined;
  /** Factor on the cost; 1 for none. */
  readonly multiplier: number;
  /** Factors that take its place from a moment on, in the order of time. Absent for none. */
  readonly laterMultipliers?: readonly DatedFactor[];
}

/** US dollars for a token, from a moment on. */
export interface DatedTokenPrice {
  readonly requestToken: number;
  readonly responseToken: number;
  /** Milliseconds since the epoch; absent: always. */
  readonly from?: number;
}

/** A factor on prices, from a moment on (milliseconds since the epoch). */
export interface DatedFactor {
  readonly from: number;
  readonly factor: number;
}

/** A price, or a factor on prices, that the configuration says: instead of what the price data says, from a date on. */
export interface OwnPrice {
  /** Kind of provider (`openai`); `*` for every one. */
  readonly provider: string;
  /** The name of a model; with a `*` at its end the beginning of one. */
  readonly model: string;
  /** A day (UTC) or a moment, ISO 8601; absent: always. */
  readonly from?: string;
  /** US dollars per million tokens. An absent member has no price of its own. */
  readonly input?: number;
  readonly output?: number;
  readonly cache_read?: number;
  readonly cache_write?: number;
  readonly input_audio?: number;
  readonly cache_audio_read?: number;
  readonly output_audio?: number;
  readonly reasoning?: number;
  /** US dollars per request. */
  readonly request?: number;
  /** Instead of prices: what is known otherwise is multiplied by it. */
  readonly factor?: number;
}

/** What a model costs, in US dollars for a token. Undefined: not priced on its own. Of prices by size, the lowest size. */
export interface TokenRates {
  readonly input: number | undefined;
  readonly output: number | undefined;
  readonly cacheRead: number | undefined;
  readonly cacheWrite: number | undefined;
  readonly inputAudio: number | undefined;
  readonly outputAudio: number | undefined;
  readonly reasoning: number | undefined;
  /** For each request. */
  readonly request: number;
}

/** Prices of models. Pure: the same arguments give the same answer. */
export interface Prices {
  /**
   * `provider` is its kind (`openai`), or what an integration says instead; `at` is milliseconds since the epoch (prices
   * change over time).
   */
  price(usage: Usage | undefined, provider: string | PricedModels, model: string, at: number): Price;
  /** What the model of a kind of provider costs at a time; undefined when no price is known. */
  rates(provider: string, model: string, at: number): TokenRates | undefined;
}

/** A row of a request. */
export interface RequestPlace {
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
  readonly id: string;
}

/** A request that used tokens while no price was known. */
export interface UnpricedRequest extends RequestPlace {
  readonly organisationId: string;
  readonly workspaceId: string;
  /** The kind of provider. */
  readonly service: string;
  /** The provider as addressed, without an `@`. */
  readonly provider: string;
  /** Whether it was told of by somebody else, and not served here. */
  readonly isReported: boolean;
  /** As the provider was asked for it. */
  readonly requested: string;
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
