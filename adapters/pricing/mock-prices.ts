import { plainPrice, type ModelPrices } from './model-prices.ts';

/**
 * Invented prices for every model of the built-in mock provider, so that a trial run shows money in its log:
 * 0.15 dollars per million input tokens, 0.075 when cached, 0.60 per million output tokens.
 */
export const mockPrices: ModelPrices = [
  {
    applies: () => true,
    list: {
      input: plainPrice(0.15),
      cacheRead: plainPrice(0.075),
      cacheWrite: undefined,
      inputAudio: undefined,
      cacheAudioRead: undefined,
      output: plainPrice(0.6),
      outputAudio: undefined,
      reasoning: undefined,
      request: 0n,
      requestPicos: 0,
    },
  },
];
