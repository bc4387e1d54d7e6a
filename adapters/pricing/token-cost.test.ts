import assert from 'node:assert/strict';
import { it } from 'node:test';
import fc from 'fast-check';
import type { Usage } from '../../core/dialects/usage.ts';
import { modelPrices, type PriceList, type TokenPrice } from './model-prices.ts';
import { tokenCost, formatAmount } from './genai-prices.ts';

const prices: PriceList = {
  input: {
    ...modelPrices.plain(0.15),
    tiers: [{ above: 1000, price: modelPrices.plain(0.3).base, picos: 300_000 }],
  },
  cacheRead: modelPrices.plain(0.075),
  cacheWrite: modelPrices.plain(0.1875),
  inputAudio: modelPrices.plain(40),
  cacheAudioRead: undefined,
  output: modelPrices.plain(0.6),
  outputAudio: modelPrices.plain(80),
  reasoning: undefined,
  request: 0n,
  requestPicos: 0,
};

/** The same prices, of which none can be added up in doubles. */
const slow = Object.fromEntries(
  Object.entries(prices).map(([name, price]: [string, TokenPrice | bigint | number | undefined]) => [
    name,
    typeof price === 'object'
      ? { ...price, picos: NaN, tiers: price.tiers.map((tier) => ({ ...tier, picos: NaN })) }
      : price,
  ]),
) as unknown as PriceList;

const count = fc.oneof(fc.nat(2000), fc.nat(1_000_000_000_000));
const usages: fc.Arbitrary<Usage> = fc.record({
  promptTokens: count,
  completionTokens: count,
  totalTokens: count,
  cachedTokens: count,
  cacheWriteTokens: count,
  reasoningTokens: count,
  inputAudioTokens: count,
  outputAudioTokens: count,
});

it('a cost is the same to the last digit, in doubles and in bigints', () => {
  let inDoubles = 0;
  fc.assert(
    fc.property(usages, (usage) => {
      const fast = tokenCost(usage, prices);
      const exact = tokenCost(usage, slow);
      if (fast === undefined || exact === undefined) return assert.equal(fast, exact);
      if (typeof fast === 'number') inDoubles++;
      if (usage.promptTokens + usage.completionTokens > 0) assert.equal(typeof exact, 'bigint');
      assert.equal(formatAmount(fast), formatAmount(exact));
    }),
    { numRuns: 500 },
  );
  assert.ok(inDoubles > 100, `${inDoubles} of 500 were added up in doubles`);
});
