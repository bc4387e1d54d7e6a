import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { noUsage } from '../dialects/usage.ts';
import type { RequestFacts } from './facts.ts';
import fc from 'fast-check';
import type { Price, Prices } from '../ports/prices.ts';
import type { Limiter } from '../ports/counters.ts';
import { countedUsage, learnedUsageOf, unfinishedUsage } from './estimated-usage.ts';

const body = { model: 'm', messages: [{ role: 'user', content: 'x'.repeat(4000) }] };
const bytes = Buffer.from(JSON.stringify(body));
type Given = Parameters<typeof unfinishedUsage>[0];

function exchange(facts: Partial<Given['facts']>, request: Partial<Given['body']> = {}): Given {
  return {
    body: { loaded: true, bytes, json: body, ...request } as Given['body'],
    endpoint: { id: 'chat.completions', dialect: 'openai-chat', modelled: true },
    facts: {
      ...{ attempts: 1, cacheStatus: 'DISABLED', usage: undefined, finishReason: '' },
      ...{ upstreamStartedAt: 5, firstTokenAt: 9, responseBytes: 0, ...facts },
    },
  };
}

const sse = (...events: readonly unknown[]): Buffer =>
  Buffer.from(events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join(''));
const words = 'so many words '.repeat(40);

describe('what an answer that was broken off has used', () => {
  const streams: [name: string, sent: Buffer, letters: number][] = [
    [
      'of chat completions',
      sse(
        { id: 'c', object: 'chat.completion.chunk', choices: [{ index: 0, delta: { role: 'assistant' } }] },
        { id: 'c', choices: [{ index: 0, delta: { content: words } }] },
        { id: 'c', choices: [{ index: 0, delta: { reasoning_content: words } }] },
        { id: 'c', choices: [{ delta: { tool_calls: [{ function: { arguments: words } }] } }] },
      ),
      3 * words.length,
    ],
    [
      'of messages',
      sse(
        { type: 'message_start', message: { id: 'm', role: 'assistant', model: 'claude', content: [] } },
        { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: words } },
        { type: 'content_block_delta', index: 1, delta: { type: 'thinking_delta', thinking: words } },
        { type: 'content_block_delta', delta: { type: 'input_json_delta', partial_json: words } },
      ),
      3 * words.length,
    ],
    [
      'of responses',
      sse(
        { type: 'response.created', response: { id: 'r', instructions: 'x'.repeat(900) } },
        { type: 'response.output_text.delta', delta: words },
      ),
      words.length,
    ],
    [
      'of Gemini',
      sse({ candidates: [{ content: { parts: [{ text: words }], role: 'model' } }] }),
      words.length,
    ],
    [
      'with a last event that was cut',
      Buffer.concat([
        sse({ choices: [{ delta: { content: words } }] }),
        Buffer.from('data: {"choices":[{"de'),
      ]),
      words.length,
    ],
  ];
  for (const [name, sent, letters] of streams) {
    test(`is told from the text ${name}`, () => {
      const found = unfinishedUsage(exchange({ responseBytes: sent.length }), 'cancelled', sent);
      assert.equal(found?.completionTokens, Math.ceil(letters / 4));
      const { promptTokens = 0, totalTokens = 0, completionTokens = 0 } = found ?? {};
      assert.ok(promptTokens >= 1000 && promptTokens < 1100, String(promptTokens));
      assert.equal(totalTokens, promptTokens + completionTokens);
    });
  }

  test('keeps what was reported, where that is more', () => {
    const usage = { ...noUsage, promptTokens: 7, completionTokens: 1, totalTokens: 8, cachedTokens: 3 };
    const sent = sse({ choices: [{ delta: { content: 'x'.repeat(400) } }] });
    const found = unfinishedUsage(exchange({ usage, responseBytes: sent.length }), 'cancelled', sent);
    assert.deepEqual(found, { ...usage, completionTokens: 100, totalTokens: 107 });
    const more = { ...usage, completionTokens: 500, totalTokens: 507 };
    assert.deepEqual(unfinishedUsage(exchange({ usage: more }), 'cancelled', sent), more);
  });

  test('takes a part of the text for the whole in proportion', () => {
    const sent = sse({ choices: [{ delta: { content: 'x'.repeat(400) } }] });
    const found = unfinishedUsage(exchange({ responseBytes: 10 * sent.length }), 'failed', sent);
    assert.equal(found?.completionTokens, 1000);
  });

  test('without text that was kept, is told from the size', () => {
    const found = unfinishedUsage(exchange({ responseBytes: 10_000 }), 'cancelled', undefined);
    assert.equal(found?.completionTokens, 100);
  });

  test('of a request that no token answered is its prompt; images are not taken for text', () => {
    const image = { type: 'image_url', image_url: { url: `data:image/png;base64,${'A'.repeat(400_000)}` } };
    const asked = {
      model: 'm',
      messages: [{ role: 'user', content: [{ type: 'text', text: 'x'.repeat(400) }, image] }],
    };
    const given = exchange(
      { firstTokenAt: 0 },
      {
        json: asked,
        bytes: Buffer.from(JSON.stringify(asked)),
      },
    );
    const found = unfinishedUsage(given, 'cancelled', undefined);
    assert.ok(found !== undefined && found.promptTokens >= 100 && found.promptTokens < 200);
    assert.equal(found.completionTokens, 0);
  });

  const nothing: [string, Partial<Given['facts']>, Parameters<typeof unfinishedUsage>[1]][] = [
    ['a whole answer', {}, 'completed'],
    ['a refused request', {}, 'refused'],
    ['one that was never sent', { attempts: 0, upstreamStartedAt: 0 }, 'cancelled'],
    ['one that waits for its first attempt', { upstreamStartedAt: 0 }, 'cancelled'],
    ['a failure before the first token', { firstTokenAt: 0 }, 'failed'],
    ['an answer of the cache', { cacheStatus: 'HIT' }, 'cancelled'],
    [
      'one whose usage was reported at its end',
      { usage: { ...noUsage, totalTokens: 3 }, finishReason: 'stop' },
      'cancelled',
    ],
  ];
  for (const [name, facts, kind] of nothing)
    test(`is not estimated: ${name}`, () =>
      assert.equal(unfinishedUsage(exchange(facts), kind, undefined), undefined));
});

test('what is estimated counts against limits; before the first token, what was reserved if that is more', () => {
  const usage = { ...noUsage, promptTokens: 10, completionTokens: 5, totalTokens: 15 };
  const counted = (firstTokenAt: number) =>
    countedUsage(
      {
        facts: {
          ...exchange({ usage, firstTokenAt }).facts,
          lostCost: 0,
          isUsageEstimated: true,
        } as RequestFacts,
      },
      { kind: 'cancelled', price: { cost: '0.5', status: 'priced', version: '1' } },
      { cost: 2, tokens: 100, requests: 1 },
    );
  assert.deepEqual(counted(9), { cost: 0.5, tokens: 15, requests: 1 });
  assert.deepEqual(counted(0), { cost: 2, tokens: 100, requests: 1 });
});

describe('what a request will probably use', () => {
  const learned = () => {
    const limiter: Limiter = { admit: () => undefined };
    return learnedUsageOf(limiter);
  };
  const asked = (model: string, bytes: number, bound?: number) => ({
    body: {
      loaded: true,
      bytes: Buffer.alloc(bytes),
      json: { model, ...(bound !== undefined && { max_tokens: bound }) },
    } as unknown as Given['body'],
    endpoint: exchange({}).endpoint,
  });
  const used = (promptTokens: number, completionTokens: number, more: Partial<RequestFacts> = {}) => {
    const usage = { ...noUsage, promptTokens, completionTokens };
    return { facts: { usage, isUsageEstimated: false, cacheStatus: 'MISS', ...more } as RequestFacts };
  };

  const costs = (cost = '0', status: Price['status'] = 'priced') => ({
    price: { cost, status, version: '1' },
  });
  /** Prices of one model: a dollar for a token of a request, ten for one of an answer. */
  const prices: Pick<Prices, 'price'> = {
    price: (usage, provider, model) =>
      provider === 'there' && model === 'm'
        ? costs(String((usage?.promptTokens ?? 0) + 10 * (usage?.completionTokens ?? 0))).price
        : costs('0', 'unpriced').price,
  };
  const at = (provider?: string, isOneOfSeveral = false, model = 'm') => ({
    prices,
    price: provider === undefined ? undefined : { provider, model, isOneOfSeveral },
    at: 0,
  });

  test('costs what the price of the one target says, by what its model usually uses', () => {
    const known = learned();
    assert.deepEqual(known.expectedOf(asked('m', 400, 50), at('there')), { tokens: 150, cost: 600 });
    assert.deepEqual(known.expectedOf(asked('m', 400, 50)), { tokens: 150, cost: undefined });
    known.learn({ ...asked('m', 400), ...used(100, 7) }, costs('1'));
    assert.deepEqual(known.expectedOf(asked('m', 400, 50), at('there')), { tokens: 107, cost: 170 });
  });

  test('costs what requests of its model have cost where no price is known, or one of several targets is asked', () => {
    const known = learned();
    assert.equal(known.expectedOf(asked('m', 400, 50), at()).cost, undefined);
    assert.equal(known.expectedOf(asked('m', 400, 50), at('elsewhere')).cost, undefined);
    assert.equal(known.expectedOf(asked('m', 400, 50), at('there', true)).cost, 600, 'of the first target');
    known.learn({ ...asked('m', 400), ...used(100, 50) }, costs('300'));
    for (const one of [at(), at('elsewhere'), at('there', true)])
      assert.equal(known.expectedOf(asked('m', 400, 50), one).cost, 300);
    for (let count = 0; count < 200; count++)
      known.learn({ ...asked('m', 400), ...used(100, 50) }, costs('0', 'unpriced'));
    const { cost = NaN } = known.expectedOf(asked('m', 400, 50), at());
    assert.ok(cost >= 0 && cost < 0.001, 'models without a price cost nothing');
  });

  test('is told from its size and its bound until requests of its model have ended', () => {
    const known = learned();
    assert.equal(known.expectedOf(asked('new', 400)).tokens, 100 + 512);
    assert.equal(known.expectedOf(asked('new', 400, 50)).tokens, 100 + 50);
    known.learn({ ...asked('other', 400), ...used(10, 10) }, costs());
    assert.equal(known.expectedOf(asked('new', 400)).tokens, 100 + 512);
  });

  test('comes to what requests of its model use, within the bound', () => {
    const known = learned();
    known.learn({ ...asked('m', 900), ...used(10, 5000) }, costs());
    for (let count = 0; count < 100; count++) known.learn({ ...asked('m', 600), ...used(200, 80) }, costs());
    assert.ok(Math.abs(known.expectedOf(asked('m', 600)).tokens - 280) <= 3);
    assert.ok(Math.abs(known.expectedOf(asked('m', 600, 20)).tokens - 220) <= 3);
    assert.ok(Math.abs(known.expectedOf(asked('m', 600, 100_000)).tokens - 280) <= 3);
  });

  test('is not told by estimates, by the cache, or by requests without usage', () => {
    const known = learned();
    known.learn({ ...asked('m', 600), ...used(1, 1, { isUsageEstimated: true }) }, costs());
    known.learn({ ...asked('m', 600), ...used(1, 1, { cacheStatus: 'HIT' }) }, costs());
    known.learn({ ...asked('m', 600), ...used(1, 1, { usage: undefined }) }, costs());
    assert.equal(known.expectedOf(asked('m', 400)).tokens, 100 + 512);
  });

  test('property: is a whole number from 1 on that is bounded, whatever was reported and asked', () => {
    const reported = fc.oneof(fc.integer({ min: -5, max: 10 ** 9 }), fc.double());
    const size = fc.integer({ min: 0, max: 5000 });
    const bound = fc.option(fc.oneof(fc.integer(), fc.double()), { nil: undefined });
    const step = fc.record({
      model: fc.constantFrom('a', 'b'),
      bytes: size,
      prompt: reported,
      said: reported,
      bound,
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 50 }), (steps) => {
        const known = learned();
        for (const { model, bytes, prompt, said, bound: most } of steps) {
          known.learn({ ...asked(model, bytes), ...used(prompt, said) }, costs());
          const tokens = known.expectedOf(asked(model, bytes, most)).tokens;
          assert.ok(
            Number.isInteger(tokens) && tokens >= 1 && tokens <= 10_000_000 + 4 * 5000,
            String(tokens),
          );
          if (most !== undefined && most >= 0) assert.ok(tokens <= 4 * bytes + 1 + Math.ceil(most) + 1);
        }
      }),
    );
  });

  test('is remembered of 1,000 models, those that were used last', () => {
    const known = learned();
    for (let count = 0; count < 1500; count++)
      known.learn({ ...asked(`m${count}`, 40), ...used(10, 7) }, costs());
    assert.equal(known.expectedOf(asked('m1499', 40)).tokens, 17);
    assert.equal(known.expectedOf(asked('m0', 40)).tokens, 10 + 512);
  });
});
