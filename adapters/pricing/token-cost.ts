import type { Usage } from '../../core/dialects/usage.ts';
import type { ExactPrice, PriceList, TokenPrice } from './model-prices.ts';

/**
 * Cost of a usage: a safe integer of 10⁻¹² dollars, or, when that is not exact, a bigint of 10⁻¹⁸ dollars. Undefined
 * when tokens were used in a direction without a price.
 *
 * Each token is charged once, at its most specific price: cached input before input, reasoning before output. Details
 * that exceed their total are cut to it.
 */
export function tokenCost(usage: Usage, prices: PriceList): number | bigint | undefined {
  const input = count(usage.promptTokens);
  const output = count(usage.completionTokens);
  if (input + output === 0 && count(usage.totalTokens) > 0) return undefined;
  if (input > 0 && prices.input === undefined) return undefined;
  if (output > 0 && prices.output === undefined) return undefined;
  const fast = new PicoTally();
  chargeAll(fast, usage, prices);
  if (Number.isSafeInteger(fast.sum)) return fast.sum;
  const exact = new ExactTally();
  chargeAll(exact, usage, prices);
  return exact.sum;
}

/** Adds up amounts. */
interface Tally {
  add(count: number, price: ExactPrice, picos: number): void;
}

/**
 * Uses doubles, several times as fast as bigints: exact while every price is a multiple of 10⁻¹² dollars and the sum is
 * a safe integer. Any other price makes the sum NaN.
 */
class PicoTally implements Tally {
  sum = 0;

  add(count: number, _price: ExactPrice, picos: number): void {
    this.sum += count * picos;
  }
}

class ExactTally implements Tally {
  sum = 0n;

  add(count: number, price: ExactPrice): void {
    this.sum += BigInt(count) * price;
  }
}

function chargeAll(tally: Tally, usage: Usage, prices: PriceList): void {
  const input = count(usage.promptTokens);
  tally.add(1, prices.request, prices.requestPicos);
  chargeInput(tally, usage, prices, input);
  chargeOutput(tally, usage, prices, input);
}

/** True when any token was used. */
export function usesTokens(usage: Usage): boolean {
  return count(usage.promptTokens) + count(usage.completionTokens) + count(usage.totalTokens) > 0;
}

function chargeInput(tally: Tally, usage: Usage, prices: PriceList, input: number): void {
  const share = shares(input);
  const audio = prices.inputAudio === undefined ? 0 : Math.min(count(usage.inputAudioTokens), input);
  const cached = prices.cacheRead === undefined ? 0 : Math.min(count(usage.cachedTokens), input);
  const written = prices.cacheWrite === undefined ? 0 : count(usage.cacheWriteTokens);
  // An excess over the input was counted twice: audio from the cache.
  const cachedAudio = Math.min(Math.max(0, audio + cached + written - input), audio, cached);
  charge(tally, share(cachedAudio), prices.cacheAudioRead ?? prices.cacheRead, input);
  charge(tally, share(cached - cachedAudio), prices.cacheRead, input);
  charge(tally, share(written), prices.cacheWrite, input);
  charge(tally, share(audio - cachedAudio), prices.inputAudio, input);
  charge(tally, share(input), prices.input, input);
}

/** `input` is the size of the whole input, which selects the tier. */
function chargeOutput(tally: Tally, usage: Usage, prices: PriceList, input: number): void {
  const output = count(usage.completionTokens);
  const share = shares(output);
  const audio = prices.outputAudio === undefined ? 0 : count(usage.outputAudioTokens);
  const reasoning = prices.reasoning === undefined ? 0 : count(usage.reasoningTokens);
  charge(tally, share(audio), prices.outputAudio, input);
  charge(tally, share(reasoning), prices.reasoning, input);
  charge(tally, share(output), prices.output, input);
}

/** Allocates parts of `whole`, never more than the remainder. */
function shares(whole: number): (wanted: number) => number {
  let left = whole;
  return (wanted) => {
    const given = Math.min(wanted, left);
    left -= given;
    return given;
  };
}

/** `context` is the size of the whole input, which selects the tier. */
function charge(tally: Tally, tokens: number, price: TokenPrice | undefined, context: number): void {
  if (tokens === 0 || price === undefined) return;
  let { base: rate, picos } = price;
  for (const tier of price.tiers) {
    if (context > tier.above) ({ price: rate, picos } = tier);
  }
  tally.add(tokens, rate, picos);
}

/** Sanitises a provider's number: an integer, not negative, finite. */
function count(tokens: number): number {
  return tokens > 0 ? Math.min(Math.round(tokens), Number.MAX_SAFE_INTEGER) : 0;
}
