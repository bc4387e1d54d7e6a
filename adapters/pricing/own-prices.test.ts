import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { noUsage, type Usage } from '../../core/dialects/usage.ts';
import type { OwnPrice } from '../../core/ports/prices.ts';
import { recordingLog } from '../../storage/embedded/chdb-fixture.ts';
import { createPrices } from './genai-prices.ts';

const log = recordingLog();
const million = 1_000_000;
const used: Usage = {
  ...noUsage,
  promptTokens: 2 * million,
  completionTokens: million,
  totalTokens: 3 * million,
  cachedTokens: million,
};
const at = (text: string): number => Date.parse(text);
const now = at('2026-11-25T12:00:00Z');
const open = (...own: readonly OwnPrice[]) => createPrices({ log, own });
const dollars = (
  prices: ReturnType<typeof open>,
  provider: string,
  model: string,
  when = now,
  usage = used,
) => {
  const { cost, status } = prices.price(usage, provider, model, when);
  return status === 'priced' ? Number(cost) : status;
};

describe('prices of the configuration', () => {
  test('give a price to models that the price data does not know', () => {
    const prices = open({ provider: 'openai', model: 'house-model', input: 3, cache_read: 0.5, output: 10 });
    assert.equal(dollars(prices, 'openai', 'house-model'), 3 + 0.5 + 10);
    assert.equal(dollars(prices, 'openai', 'other-model'), 'unpriced');
    assert.equal(dollars(prices, 'anthropic', 'house-model'), 'unpriced');
    assert.equal(prices.price(used, 'openai', 'house-model', now).version, 'file');
  });

  test('replace what the price data says, whole', () => {
    const prices = open({ provider: 'openai', model: 'gpt-4o', input: 1, output: 1 });
    assert.equal(dollars(prices, 'openai', 'gpt-4o'), 3, 'no price of the data is mixed in');
    assert.notEqual(dollars(prices, 'openai', 'gpt-4o-mini'), 3);
  });

  test('hold from their date on; before it holds what was before', () => {
    const data = dollars(open(), 'openai', 'gpt-4o');
    const prices = open(
      { provider: 'openai', model: 'gpt-4o', from: '2027-01-01', input: 7, output: 7 },
      { provider: 'openai', model: 'gpt-4o', from: '2026-12-01T08:00:00Z', input: 5, output: 5 },
      { provider: 'openai', model: 'house', from: '2026-12-01', input: 1, output: 1 },
    );
    const moments: [string, number | string][] = [
      ['2026-12-01T07:59:59.999Z', data],
      ['2026-12-01T08:00:00Z', 15],
      ['2026-12-31T23:59:59.999Z', 15],
      ['2027-01-01T00:00:00Z', 21],
    ];
    for (const [moment, expected] of moments)
      assert.equal(dollars(prices, 'openai', 'gpt-4o', at(moment)), expected, moment);
    assert.equal(dollars(prices, 'openai', 'house', at('2026-11-30T23:59:59.999Z')), 'unpriced');
    assert.equal(dollars(prices, 'openai', 'house', at('2026-12-01T00:00:00Z')), 3);
  });

  test('a whole name counts before a beginning, and a longer beginning before a shorter one', () => {
    const prices = open(
      { provider: 'openai', model: 'house-large', input: 1, output: 1 },
      { provider: 'openai', model: 'house-la*', input: 2, output: 2 },
      { provider: 'openai', model: 'house-*', input: 3, output: 3 },
      { provider: '*', model: '*', input: 4, output: 4 },
    );
    const found = ['house-large', 'house-late', 'house-small', 'elsewhere'].map((model) =>
      dollars(prices, 'openai', model),
    );
    assert.deepEqual(found, [3, 6, 9, 12]);
    assert.equal(dollars(prices, 'unheard-of', 'm'), 12);
  });

  test('a factor adjusts what is known, from its date on', () => {
    const data = dollars(open(), 'openai', 'gpt-4o') as number;
    const prices = open(
      { provider: 'openai', model: 'gpt-4o*', factor: 0.8 },
      { provider: 'openai', model: 'gpt-4o*', from: '2027-01-01', factor: 0.5 },
      { provider: 'openai', model: 'house', input: 1, output: 1 },
      { provider: 'openai', model: 'house', factor: 2 },
    );
    assert.ok(Math.abs((dollars(prices, 'openai', 'gpt-4o') as number) - data * 0.8) < 1e-12);
    assert.ok(
      Math.abs((dollars(prices, 'openai', 'gpt-4o', at('2027-01-01')) as number) - data * 0.5) < 1e-12,
    );
    assert.equal(dollars(prices, 'openai', 'house'), 6);
    const own = {
      service: 'openai',
      model: '',
      own: [{ requestToken: 1e-6, responseToken: 1e-6 }],
      multiplier: 1,
    };
    assert.equal(Number(prices.price(used, own, 'gpt-4o', now).cost), 3, 'an integration says its own price');
  });

  test('price a request, kinds of tokens, and what is free', () => {
    const prices = open(
      { provider: 'openai', model: 'per-call', request: 0.01, input: 0, output: 0 },
      { provider: 'openai', model: 'thinks', input: 1, output: 2, reasoning: 5, input_audio: 10 },
    );
    assert.equal(dollars(prices, 'openai', 'per-call'), 0.01);
    const kinds = { ...used, cachedTokens: 0, reasoningTokens: million / 2, inputAudioTokens: million };
    assert.equal(dollars(prices, 'openai', 'thinks', now, kinds), 1 + 10 + 2.5 + 1);
    assert.equal(prices.rates('openai', 'per-call', now)?.request, 0.01);
  });
});
