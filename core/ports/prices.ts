import type { Usage } from '../dialects/usage.ts';

export interface Price {
  /** US dollars as a decimal string with 12 digits after the point; `"0"` when nothing is known. */
  readonly cost: string;
  /** `unpriced` means that tokens were used and no price is known: never read it as free. */
  readonly status: 'priced' | 'unpriced' | 'none';
  /** The edition of the price data. */
  readonly version: string;
}

/** Prices of models. Pure: the same arguments give the same answer. */
export interface Prices {
  /** `at` is milliseconds since the epoch (prices change over time). */
  price(usage: Usage | undefined, provider: string, model: string, at: number): Price;
}
