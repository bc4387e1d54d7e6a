import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { calcPrice } from '@pydantic/genai-prices';
import fc from 'fast-check';
import type { Usage } from '../../core/dialects/usage.ts';
import type { Log } from '../../core/ports/log.ts';
import { createPrices } from './genai-prices.ts';

const logged: string[] = [];
const log: Log = {
  debug: (message) => void logged.push(message),
  info: () => undefined,
  warn: (message) => void logged.push(message),
  error: () => undefined,
  child: () => log,
};
const prices = createPrices({ log });
const now = Date.UTC(2026, 10, 21, 12);

function usage(parts: Partial<Usage>): Usage {
  const { promptTokens = 0, completionTokens = 0 } = parts;
  return {
    promptTokens,
    completionTokens,
    totalTokens: promptTokens + completionTokens,
    cachedTokens: 0,
    cacheWriteTokens: 0,
    reasoningTokens: 0,
    inputAudioTokens: 0,
    outputAudioTokens: 0,
    ...parts,
  };
}

/** What the library itself says, from floating point. */
function libraryPrice(parts: Usage, provider: string, model: string, at: number): number {
  const result = calcPrice(
    {
      input_tokens: parts.promptTokens,
      cache_read_tokens: parts.cachedTokens,
      cache_write_tokens: parts.cacheWriteTokens,
      input_audio_tokens: parts.inputAudioTokens,
      output_tokens: parts.completionTokens,
      output_audio_tokens: parts.outputAudioTokens,
      output_reasoning_tokens: parts.reasoningTokens,
    },
    model,
    { providerId: provider, timestamp: new Date(at) },
  );
  assert.ok(result !== null, `${provider}/${model}`);
  return result.total_price;
}

describe('prices', () => {
  const known: [string, string, Partial<Usage>, string][] = [
    ['openai', 'gpt-4o-mini', { promptTokens: 1_000, completionTokens: 500 }, '0.000450000000'],
    ['openai', 'gpt-4o-2024-08-06', { promptTokens: 1, completionTokens: 0 }, '0.000002500000'],
    ['openai', 'gpt-4o', { promptTokens: 1_000, cachedTokens: 400, completionTokens: 3 }, '0.002030000000'],
    [
      'anthropic',
      'claude-sonnet-4-5',
      { promptTokens: 100, cacheWriteTokens: 40, cachedTokens: 50, completionTokens: 10 },
      '0.000345000000',
    ],
    ['anthropic', 'claude-sonnet-4-5', { promptTokens: 200_000, completionTokens: 1 }, '0.600015000000'],
    ['anthropic', 'claude-sonnet-4-5', { promptTokens: 200_001, completionTokens: 1 }, '1.200028500000'],
    ['perplexity-ai', 'sonar', { promptTokens: 10, completionTokens: 10 }, '0.012020000000'],
    [
      'mock',
      'mock-model',
      { promptTokens: 1_000_000, cachedTokens: 500_000, completionTokens: 1_000_000 },
      '0.712500000000',
    ],
    ['mock', 'anything:status=500', { promptTokens: 1 }, '0.000000150000'],
    ['openrouter', 'deepseek/deepseek-r1:free', { promptTokens: 10 }, '0.000000000000'],
    ['openai', 'gpt-4o', { promptTokens: 400_000_000_000, completionTokens: 7 }, '1000000.000070000000'],
  ];
  for (const [provider, model, parts, cost] of known) {
    it(`are exact: ${provider} ${model} ${JSON.stringify(parts)}`, () => {
      const price = prices.price(usage(parts), provider, model, now);
      assert.deepEqual([price.cost, price.status], [cost, 'priced']);
    });
  }

  it('have the edition of the data', () => {
    assert.match(prices.price(undefined, 'openai', 'gpt-4o', now).version, /^\d+\.\d+\.\d+$/);
  });

  it('change with the time of the request', () => {
    const tokens = usage({ promptTokens: 1_000_000 });
    const day = (text: string): string =>
      prices.price(tokens, 'deepseek', 'deepseek-chat', Date.parse(text)).cost;
    assert.equal(day('2025-03-01T12:00:00Z'), '0.270000000000');
    assert.equal(day('2025-03-01T16:30:00Z'), '0.135000000000');
    assert.equal(day('2025-03-01T00:29:59.999Z'), '0.135000000000');
    const tiered = usage({ promptTokens: 300_000 });
    const at = (text: string): string =>
      prices.price(tiered, 'anthropic', 'claude-opus-4-6', Date.parse(text)).cost;
    assert.equal(at('2026-03-12T23:59:59Z'), '3.000000000000');
    assert.equal(at('2026-03-13T00:00:00Z'), '1.500000000000');
  });

  const unknown: [string, string, Partial<Usage>][] = [
    ['openai', 'no-such-model', { promptTokens: 1 }],
    ['my-own-host', 'gpt-4o', { completionTokens: 1 }],
    ['not-openai-at-all', 'gpt-4o', { promptTokens: 1 }],
    ['openai', 'whisper-1', { promptTokens: 5 }],
    ['openai', 'text-embedding-3-small', { promptTokens: 5, completionTokens: 1 }],
    ['openai', 'gpt-4o', { totalTokens: 9 }],
    ['constructor', 'x', { promptTokens: 1 }],
    ['openai', 'g'.repeat(10_000), { promptTokens: 1 }],
  ];
  for (const [provider, model, parts] of unknown) {
    it(`are never silently zero: ${provider} ${model.slice(0, 30)} ${JSON.stringify(parts)}`, () => {
      const price = prices.price(usage(parts), provider, model, now);
      assert.deepEqual([price.cost, price.status], ['0.000000000000', 'unpriced']);
    });
  }

  it('are none without usage, and without tokens of an unknown model', () => {
    assert.equal(prices.price(undefined, 'openai', 'gpt-4o', now).status, 'none');
    assert.equal(prices.price(usage({}), 'openai', 'no-such-model', now).status, 'none');
    assert.equal(prices.price(usage({}), 'openai', 'gpt-4o', now).status, 'priced');
  });

  it('say once that a model has none', () => {
    logged.length = 0;
    for (let i = 0; i < 3; i += 1) prices.price(usage({ promptTokens: 1 }), 'openai', 'said-once', now);
    assert.deepEqual(logged, ['no price is known for this model']);
  });

  it('survive numbers that make no sense', () => {
    for (const tokens of [-5, Number.NaN, Infinity, 1.5]) {
      const price = prices.price(
        usage({ promptTokens: tokens, totalTokens: 0, completionTokens: 1 }),
        'openai',
        'gpt-4o',
        now,
      );
      assert.match(price.cost, /^\d+\.\d{12}$/);
    }
    const doubled = usage({ promptTokens: 10, cachedTokens: 30, completionTokens: 5, reasoningTokens: 50 });
    assert.equal(prices.price(doubled, 'openai', 'gpt-4o', now).cost, '0.000062500000');
  });

  it('charge audio that came from the cache once', () => {
    const parts = { promptTokens: 100, inputAudioTokens: 100, cachedTokens: 60 };
    assert.equal(prices.price(usage(parts), 'openai', 'gpt-realtime', now).cost, '0.001304000000');
  });
});

describe('prices and the library', () => {
  const models: [string, string, string][] = [
    ['openai', 'openai', 'gpt-4o'],
    ['openai', 'openai', 'gpt-4o-mini-realtime-preview'],
    ['anthropic', 'anthropic', 'claude-opus-4-6'],
    ['google', 'google', 'gemini-2.5-pro'],
    ['together-ai', 'together', 'meta-llama/Llama-3.3-70B-Instruct-Turbo'],
    ['mistral-ai', 'mistral', 'mistral-large-latest'],
    ['deepseek', 'deepseek', 'deepseek-chat'],
    ['deepseek', 'deepseek', 'deepseek-v4-pro'],
    ['perplexity-ai', 'perplexity', 'sonar-deep-research'],
    ['x-ai', 'x-ai', 'grok-4'],
    ['groq', 'groq', 'llama-3.3-70b-versatile'],
    ['openrouter', 'openrouter', 'google/gemini-2.5-flash-image'],
  ];
  const count = fc.nat({ max: 500_000 });
  const parts = fc
    .record({ text: count, cached: count, written: count, output: count, reasoning: count })
    .map(({ text, cached, written, output, reasoning }) =>
      usage({
        promptTokens: text + cached + written,
        cachedTokens: cached,
        cacheWriteTokens: written,
        completionTokens: output + reasoning,
        reasoningTokens: reasoning,
      }),
    );
  const time = fc.integer({ min: Date.UTC(2024, 0, 1), max: Date.UTC(2028, 0, 1) });
  for (const [service, provider, model] of models) {
    it(`agree to a billionth of a dollar: ${service} ${model}`, () => {
      fc.assert(
        fc.property(parts, time, (tokens, at) => {
          const price = prices.price(tokens, service, model, at);
          assert.equal(price.status, 'priced');
          assert.ok(Math.abs(Number(price.cost) - libraryPrice(tokens, provider, model, at)) < 1e-9);
        }),
        { numRuns: 50 },
      );
    });
  }

  it('agree on audio', () => {
    const tokens = usage({
      promptTokens: 900,
      inputAudioTokens: 500,
      completionTokens: 70,
      outputAudioTokens: 60,
    });
    const price = prices.price(tokens, 'openai', 'gpt-realtime', now);
    const expected = libraryPrice(tokens, 'openai', 'gpt-realtime', now);
    assert.ok(Math.abs(Number(price.cost) - expected) < 1e-9);
  });
});
