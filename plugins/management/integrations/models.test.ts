import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createPrices } from '../../../adapters/pricing/genai-prices.ts';
import { testRouteInput, testScope } from '../../../tests/kit/plugin-kit.ts';
import { modelPricingRoute } from './models.ts';

function ask(provider: string, model: string): unknown {
  const { scope } = testScope();
  const route = modelPricingRoute({ ...scope, prices: createPrices({ log: scope.log }) });
  return route.handle(testRouteInput({ params: { provider, model } }));
}

test('a model has its prices in cents for a token', () => {
  assert.deepEqual(ask('openai', 'gpt-4o'), {
    pay_as_you_go: {
      request_token: { price: 0.00025 },
      response_token: { price: 0.001 },
      cache_read_input_token: { price: 0.000125 },
    },
    currency: 'USD',
    object: 'model-pricing',
  });
});

test('a price for each request stands beside them', () => {
  const { pay_as_you_go: prices } = ask('perplexity-ai', 'sonar') as { pay_as_you_go: object };
  assert.deepEqual(Reflect.get(prices, 'request'), { price: 1.2 });
});

for (const [provider, model] of [
  ['openai', 'no-such-model'],
  ['my-own-host', 'gpt-4o'],
  ['constructor', 'x'],
] as const) {
  test(`nothing is invented for ${provider} ${model}`, () =>
    assert.throws(() => ask(provider, model), {
      code: 'resource_not_found',
      message: new RegExp(`model "${model}" at the provider "${provider}"`),
    }));
}
