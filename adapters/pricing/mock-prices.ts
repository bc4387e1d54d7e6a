import { exactPrice } from './exact-price.ts';
import type { ModelPrices, TokenPrice } from './model-prices.ts';

const perMillion = (dollars: number): TokenPrice => ({ base: exactPrice(dollars), tiers: [] });

/**
 * Invented prices for every model of the built-in mock provider, so that a trial run shows money in its log:
 * 0.15 dollars per million input tokens, 0.075 when cached, 0.60 per million output tokens.
 */
export const mockPrices: ModelPrices = [
  {
    applies: () => true,
    list: {
      input: perMillion(0.15),
      cacheRead: perMillion(0.075),
      cacheWrite: undefined,
      inputAudio: undefined,
      cacheAudioRead: undefined,
      output: perMillion(0.6),
      outputAudio: undefined,
      reasoning: undefined,
      request: 0n,
    },
  },
];
