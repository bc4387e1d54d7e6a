import { exactPrice, picosPerUnit } from './exact-price.ts';
import type { PriceList, TokenPrice } from './model-prices.ts';

/** Factors count to the sixth digit after the point. */
const parts = 1_000_000;

/** A cost (a number of 10⁻¹² dollars, or a bigint of 10⁻¹⁸) times a factor, in the bigint that keeps it exact. */
export function multiplied(cost: number | bigint, factor: number): number | bigint {
  if (factor === 1) return cost;
  const exact = typeof cost === 'number' ? BigInt(cost) * 1_000_000n : cost;
  return (exact * BigInt(Math.round(factor * parts))) / BigInt(parts);
}

/** The price list of a model of which only this is known: US dollars for each token of the request and of the answer. */
export function ownPrices(requestToken: number, responseToken: number): PriceList {
  return {
    input: perToken(requestToken),
    cacheRead: undefined,
    cacheWrite: undefined,
    inputAudio: undefined,
    cacheAudioRead: undefined,
    output: perToken(responseToken),
    outputAudio: undefined,
    reasoning: undefined,
    request: 0n,
    requestPicos: 0,
  };
}

function perToken(dollars: number): TokenPrice {
  const base = exactPrice(dollars * 1_000_000);
  return { base, picos: picosPerUnit(base), tiers: [] };
}
