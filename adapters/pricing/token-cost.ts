import type { Usage } from '../../core/dialects/usage.ts';
import type { PriceList, TokenPrice } from './model-prices.ts';

/**
 * What a usage costs, in 10⁻¹⁸ dollars; undefined when tokens were used in a direction that has no price.
 *
 * Each token is charged once, at the most specific price that there is: cached input before input, reasoning before
 * output. Details that add up to more than their total are cut to it.
 */
export function tokenCost(usage: Usage, prices: PriceList): bigint | undefined {
  const input = count(usage.promptTokens);
  const output = count(usage.completionTokens);
  if (input + output === 0 && count(usage.totalTokens) > 0) return undefined;
  if (input > 0 && prices.input === undefined) return undefined;
  if (output > 0 && prices.output === undefined) return undefined;
  return prices.request + inputCost(usage, input, prices) + outputCost(usage, output, input, prices);
}

/** Whether any token was used. */
export function usesTokens(usage: Usage): boolean {
  return count(usage.promptTokens) + count(usage.completionTokens) + count(usage.totalTokens) > 0;
}

function inputCost(usage: Usage, input: number, prices: PriceList): bigint {
  const share = shares(input);
  const audio = prices.inputAudio === undefined ? 0 : Math.min(count(usage.inputAudioTokens), input);
  const cached = prices.cacheRead === undefined ? 0 : Math.min(count(usage.cachedTokens), input);
  const written = prices.cacheWrite === undefined ? 0 : count(usage.cacheWriteTokens);
  // What exceeds the whole must have been counted twice: audio that came from the cache.
  const cachedAudio = Math.min(Math.max(0, audio + cached + written - input), audio, cached);
  return (
    charge(share(cachedAudio), prices.cacheAudioRead ?? prices.cacheRead, input) +
    charge(share(cached - cachedAudio), prices.cacheRead, input) +
    charge(share(written), prices.cacheWrite, input) +
    charge(share(audio - cachedAudio), prices.inputAudio, input) +
    charge(share(input), prices.input, input)
  );
}

function outputCost(usage: Usage, output: number, input: number, prices: PriceList): bigint {
  const share = shares(output);
  const audio = prices.outputAudio === undefined ? 0 : count(usage.outputAudioTokens);
  const reasoning = prices.reasoning === undefined ? 0 : count(usage.reasoningTokens);
  return (
    charge(share(audio), prices.outputAudio, input) +
    charge(share(reasoning), prices.reasoning, input) +
    charge(share(output), prices.output, input)
  );
}

/** Hands out parts of `whole`, never more than is left of it. */
function shares(whole: number): (wanted: number) => number {
  let left = whole;
  return (wanted) => {
    const given = Math.min(wanted, left);
    left -= given;
    return given;
  };
}

/** `context` is the size of the whole input, by which tiers are chosen. */
function charge(tokens: number, price: TokenPrice | undefined, context: number): bigint {
  if (tokens === 0 || price === undefined) return 0n;
  let rate = price.base;
  for (const tier of price.tiers) {
    if (context > tier.above) rate = tier.price;
  }
  return BigInt(tokens) * rate;
}

/** Providers' numbers are taken for what they are: whole, not negative, finite. */
function count(tokens: number): number {
  return tokens > 0 ? Math.min(Math.round(tokens), Number.MAX_SAFE_INTEGER) : 0;
}
