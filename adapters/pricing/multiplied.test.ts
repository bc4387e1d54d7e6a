import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { Usage } from '../../core/dialects/usage.ts';
import type { Log } from '../../core/ports/log.ts';
import type { PricedModels } from '../../core/ports/prices.ts';
import { createPrices } from './genai-prices.ts';

const log: Log = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
  child: () => log,
};
const prices = createPrices({ log });
const now = Date.UTC(2026, 10, 21);

const usage = (promptTokens: number, completionTokens: number, cachedTokens = 0): Usage => ({
  promptTokens,
  completionTokens,
  totalTokens: promptTokens + completionTokens,
  cachedTokens,
  cacheWriteTokens: 0,
  reasoningTokens: 0,
  inputAudioTokens: 0,
  outputAudioTokens: 0,
});
const rule = (more: Partial<PricedModels>): PricedModels => ({
  service: 'openai',
  model: '',
  own: undefined,
  multiplier: 1,
  ...more,
});

describe('prices of an integration', () => {
  const own = [{ requestToken: 0.000003, responseToken: 0.000015 }];
  const rows: readonly [string, PricedModels, string, string][] = [
    ['nothing of its own', rule({}), 'gpt-4o-mini', '0.000450000000'],
    ['the model that it is made from', rule({ model: 'gpt-4o-mini' }), 'ft:mine', '0.000450000000'],
    ['a factor', rule({ multiplier: 1.1 }), 'gpt-4o-mini', '0.000495000000'],
    ['a factor on the base', rule({ model: 'gpt-4o-mini', multiplier: 0.5 }), 'mine', '0.000225000000'],
    ['its own dollars a token', rule({ own }), 'mine', '0.010500000000'],
    ['its own, and a factor', rule({ own, multiplier: 2 }), 'mine', '0.021000000000'],
    ['free', rule({ own: [{ requestToken: 0, responseToken: 0 }] }), 'mine', '0.000000000000'],
    ['a factor of nothing', rule({ multiplier: 0 }), 'gpt-4o-mini', '0.000000000000'],
  ];
  for (const [name, priced, model, cost] of rows) {
    it(name, () => {
      const found = prices.price(usage(1000, 500), priced, model, now);
      assert.deepEqual([found.cost, found.status], [cost, 'priced']);
    });
  }

  it('hold from their dates on, and what is known otherwise before', () => {
    const dated = rule({
      own: [
        { requestToken: 0.000003, responseToken: 0, from: now },
        { requestToken: 0.000002, responseToken: 0, from: now + 10 },
      ],
      multiplier: 1,
      laterMultipliers: [{ from: now + 5, factor: 2 }],
    });
    const costs = [-1, 0, 5, 10].map(
      (later) => prices.price(usage(1000, 0), dated, 'gpt-4o-mini', now + later).cost,
    );
    assert.deepEqual(costs, ['0.000150000000', '0.003000000000', '0.006000000000', '0.004000000000']);
  });

  it('say that nothing is known of a base that has no price', () => {
    assert.equal(prices.price(usage(1, 1), rule({ model: 'no-such' }), 'gpt-4o', now).status, 'unpriced');
  });

  it('of its own charge cached tokens like all others', () => {
    assert.equal(prices.price(usage(1000, 0, 900), rule({ own }), 'm', now).cost, '0.003000000000');
  });

  it('with a factor stay exact to the twelfth digit', () => {
    fc.assert(
      fc.property(
        fc.nat({ max: 1_000_000 }),
        fc.nat({ max: 1_000_000 }),
        fc.integer({ min: 0, max: 10_000_000 }),
        (input, output, parts) => {
          const { cost } = prices.price(
            usage(input, output),
            rule({ own, multiplier: parts / 1_000_000 }),
            'm',
            now,
          );
          const picos = BigInt(input) * 3_000_000n + BigInt(output) * 15_000_000n;
          assert.equal(BigInt(cost.replace('.', '')), (picos * BigInt(parts) + 500_000n) / 1_000_000n);
        },
      ),
    );
  });
});
