import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { noUsage, type Usage } from '../../core/dialects/usage.ts';
import type { OwnPrice } from '../../core/ports/prices.ts';
import { recordingLog } from '../../core/lifecycle/recording-services.test-support.ts';
import { createPrices } from './genai-prices.ts';

const now = Date.UTC(2026, 10, 21);
const whole: OwnPrice = {
  ...{ provider: 'house', model: 'whole', input: 3, cache_read: 0.3, cache_write: 3.75, input_audio: 40 },
  ...{ cache_audio_read: 2.5, output: 15, output_audio: 80, reasoning: 20, request: 0.01 },
};
const own: readonly OwnPrice[] = [
  whole,
  { provider: 'house', model: 'plain', input: 3, output: 15 },
  { ...whole, model: 'cheap' },
  { provider: 'house', model: 'cheap', factor: 0.123457 },
];
const prices = createPrices({ log: recordingLog([]), own });
const full: Usage = {
  ...{ promptTokens: 1000, completionTokens: 500, totalTokens: 1500, cachedTokens: 400 },
  ...{ cacheWriteTokens: 100, reasoningTokens: 200, inputAudioTokens: 50, outputAudioTokens: 30 },
};

function partsOf(model: string, usage = full) {
  return prices.parts(usage, 'house', model, now)?.parts.map((one) => Object.values(one));
}

describe('parts of a cost', () => {
  it('each kind of tokens has its own, at its price', () => {
    assert.deepEqual(partsOf('whole'), [
      ['input', 450, 3, '0.001350000000'],
      ['cached_input', 400, 0.3, '0.000120000000'],
      ['cache_write', 100, 3.75, '0.000375000000'],
      ['input_audio', 50, 40, '0.002000000000'],
      ['output', 270, 15, '0.004050000000'],
      ['reasoning', 200, 20, '0.004000000000'],
      ['output_audio', 30, 80, '0.002400000000'],
      ['request', 0, undefined, '0.010000000000'],
    ]);
    const audioOnly = {
      ...noUsage,
      promptTokens: 10,
      cachedTokens: 10,
      inputAudioTokens: 10,
      totalTokens: 10,
    };
    assert.deepEqual(partsOf('whole', audioOnly)?.[0], ['cached_input_audio', 10, 2.5, '0.000025000000']);
  });

  it('a kind without a price of its own is in the one that includes it', () => {
    assert.deepEqual(partsOf('plain'), [
      ['input', 1000, 3, '0.003000000000'],
      ['output', 500, 15, '0.007500000000'],
    ]);
  });

  it('prices are those of the size of the request, and after all factors', () => {
    const of = (promptTokens: number) => {
      const usage = { ...noUsage, promptTokens, totalTokens: promptTokens };
      return prices.parts(usage, 'google', 'gemini-2.5-pro', now)?.parts[0]?.perMillion;
    };
    assert.deepEqual([of(1000), of(300_000)], [1.25, 2.5]);
    const by = { service: 'house', model: 'plain', own: undefined, multiplier: 0.5 };
    assert.deepEqual(prices.parts(full, by, 'any', now)?.parts.map(Object.values), [
      ['input', 1000, 1.5, '0.001500000000'],
      ['output', 500, 7.5, '0.003750000000'],
    ]);
  });

  it('there are none without a price', () => {
    assert.equal(prices.parts(full, 'house', 'unknown', now), undefined);
    assert.equal(prices.parts(undefined, 'house', 'whole', now), undefined);
  });

  it('they add up to the price to the last digit, whatever was used', () => {
    const count = fc.oneof(fc.nat(2000), fc.nat(1_000_000_000_000));
    const usages: fc.Arbitrary<Usage> = fc.record({
      ...{ promptTokens: count, completionTokens: count, totalTokens: count, cachedTokens: count },
      ...{
        cacheWriteTokens: count,
        reasoningTokens: count,
        inputAudioTokens: count,
        outputAudioTokens: count,
      },
    });
    const units = (cost: string): bigint => BigInt(cost.replace('.', ''));
    fc.assert(
      fc.property(usages, fc.constantFrom('whole', 'plain', 'cheap'), (usage, model) => {
        const price = prices.price(usage, 'house', model, now);
        const found = prices.parts(usage, 'house', model, now);
        if (price.status !== 'priced') return assert.equal(found, undefined);
        assert.deepEqual(found?.price, price);
        const sum = found.parts.reduce((all, { cost }) => all + units(cost), 0n);
        assert.equal(sum, units(price.cost));
        assert.ok(found.parts.every(({ cost }) => !cost.startsWith('-')));
      }),
      { numRuns: 300 },
    );
  });
});
