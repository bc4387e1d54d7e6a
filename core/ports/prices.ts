import type { Usage } from '../dialects/usage.ts';

export interface Price {
  /** US dollars as a decimal string with 12 digits after the point; `"0"` when no price is known. */
  readonly cost: string;
  /** `unpriced`: tokens were used and no price is known; it does not mean free. */
  readonly status: 'priced' | 'unpriced' | 'none';
  /** The edition of the price data; `file` for a price of the configuration. */
  readonly version: string;
}

/** Prices of an integration's model. */
export interface PricedModels {
  /** Kind of provider, as in `price`. */
  readonly service: string;
  /** The model whose prices apply; empty for the one that was used. */
  readonly model: string;
  /** Replaces the known prices: the last entry in force, in the order of time. Undefined for none. */
  readonly own: readonly DatedTokenPrice[] | undefined;
  /** Factor on the cost; 1 for none. */
  readonly multiplier: number;
  /** Factors that replace it from a moment on, in the order of time. Absent for none. */
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

/** A price, or a factor on prices, in the configuration. From its date on it replaces the price data. */
export interface OwnPrice {
  /** Kind of provider (`openai`); `*` for every one. */
  readonly provider: string;
  /** The name of a model; with a `*` at its end a prefix. */
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
  /** Instead of prices: multiplies the price that is known otherwise. */
  readonly factor?: number;
}

/** Prices of a model in US dollars per token. Undefined: no price of its own. Of prices by size, the lowest size. */
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

/**
 * Kinds of tokens that have prices of their own, and `request` for the price of each request, in the order in which they
 * are told.
 */
export const costKinds = [
  'input',
  'cached_input',
  'cache_write',
  'input_audio',
  'cached_input_audio',
  'output',
  'reasoning',
  'output_audio',
  'request',
] as const;

/** One of them. */
export type CostKind = (typeof costKinds)[number];

/** Tokens of one kind in the cost of a request. A token is in one part only. */
export interface CostPart {
  readonly kind: CostKind;
  /** Tokens at this price; 0 for `request`. */
  readonly tokens: number;
  /** US dollars per million tokens after all factors, at the size of this request; undefined for `request`. */
  readonly perMillion: number | undefined;
  /** US dollars with 12 digits after the point. */
  readonly cost: string;
}

/** A price with its parts, whose costs add up to it to the last digit. */
interface PriceParts {
  readonly price: Price;
  /** In the order of `costKinds`, without kinds that were not used. */
  readonly parts: readonly CostPart[];
}

/** Prices of models. Pure: the same arguments give the same answer. */
export interface Prices {
  /**
   * `provider` is its kind (`openai`), or the prices of an integration; `at` is milliseconds since the epoch (prices
   * change over time).
   */
  price(usage: Usage | undefined, provider: string | PricedModels, model: string, at: number): Price;
  /** The same price and what it is made of; undefined unless its status is `priced`. For a look, not for each request. */
  parts(
    usage: Usage | undefined,
    provider: string | PricedModels,
    model: string,
    at: number,
  ): PriceParts | undefined;
  /** Rates of a model at a time, by kind of provider; undefined when no price is known. */
  rates(provider: string, model: string, at: number): TokenRates | undefined;
}

/** Position of a request's row. */
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
  /** True for a request that was reported to the gateway, not served by it. */
  readonly isReported: boolean;
  /** Model name that was sent to the provider. */
  readonly requested: string;
  /** As answered. */
  readonly model: string;
  readonly usage: Usage;
}

/** Query for requests without a price, in the order of time, then of ids. */
export interface UnpricedQuery {
  /** Milliseconds since the epoch, `to` is exclusive. */
  readonly window: { readonly from: number; readonly to: number };
  /** Kinds of providers, and models as answered. Default: all. */
  readonly services?: readonly string[] | undefined;
  readonly models?: readonly string[] | undefined;
  /** Begin after this one. */
  readonly after?: RequestPlace | undefined;
  /** 1 to `maxPriceChanges`. */
  readonly limit: number;
}

/** The price of a request that had none. */
export interface PriceChange extends RequestPlace {
  /** US dollars with 12 digits after the point. */
  readonly cost: string;
  /** The edition of the price data. */
  readonly version: string;
}

/** Upper bound of changes in one batch. */
export const maxPriceChanges = 4000;

/** Permission for one change of prices; no earlier change is half done. */
export interface RepricingTurn {
  /** Whether this turn completed a batch that an earlier command had begun. */
  readonly completed: boolean;
  /**
   * Sets prices of requests that `unpriced` has returned since the turn began, all of one month (UTC) and at most
   * `maxPriceChanges`, in their rows and in the roll-ups, and uses up the turn. Resolves to false and changes nothing
   * when another command has had its turn since. After an error, or an end of the process at any point, the next turn
   * finds the change either complete or not begun.
   */
  change(changes: readonly PriceChange[]): Promise<boolean>;
}

/** Prices requests that were recorded without a price. All methods reject like a query of the analytics store. */
export interface Repricing {
  /** Requests that have no price. */
  unpriced(query: UnpricedQuery): Promise<readonly UnpricedRequest[]>;
  /** Completes a half-done change of an earlier command, then begins a turn. */
  turn(): Promise<RepricingTurn>;
}
