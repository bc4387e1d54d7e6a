// What the log says that requests have cost, beside what their providers have reported: the same to the last digit.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createPrices } from '../../../adapters/pricing/genai-prices.ts';
import { recordingLog } from '../../../core/lifecycle/recording-services.test-support.ts';
import type { RequestRow } from '../../../core/ports/request-row.ts';
import cache from '../../../plugins/cache/index.ts';
import logger from '../../../plugins/logger/index.ts';
import { providerPlugin } from '../../kit/gateway-kit.ts';
import { startPlanGateway } from '../../kit/plan-kit.ts';
import { TestJournal } from '../../kit/plugin-kit.ts';
import * as up from '../../kit/upstream-scenes.ts';

/** In 10⁻¹² dollars for a token. */
const rates = { a: { input: 3_100_007n, output: 12_500_003n }, b: { input: 700_001n, output: 900_011n } };
const own = (['a', 'b'] as const).map((provider) => ({
  ...{ provider, model: '*' },
  input: Number(rates[provider].input) / 1e6,
  output: Number(rates[provider].output) / 1e6,
}));
const priced = (provider: 'a' | 'b', prompt: number, completion: number): bigint =>
  BigInt(prompt) * rates[provider].input + BigInt(completion) * rates[provider].output;
const picos = (cost: string): bigint => BigInt(cost.replace('.', ''));

test('the sum of costs is that of the usage, over success, failure, retry, fallback, hedge, cache and a client that leaves', async (t) => {
  const said = (prompt: number, completion: number) =>
    up.answers(200, {
      ...{ id: 'x', object: 'chat.completion', model: 'm' },
      choices: [{ index: 0, message: { role: 'assistant', content: 'Yes' }, finish_reason: 'stop' }],
      usage: { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion },
    });
  const both = [{ provider: '@a' }, { provider: '@b' }];
  const fallback = { strategy: { mode: 'fallback' }, targets: both };
  const hedge = { ...fallback, hedge: { after_ms: 300, max: 1 } };
  const retry = { provider: '@a', retry: { attempts: 1, on_status_codes: [500] } };
  const cached = { provider: '@a', cache: { mode: 'simple' } };
  const journal = new TestJournal();
  const kit = await startPlanGateway(
    t,
    {
      a: [
        ...[said(11, 7), up.fails(400), up.fails(500), said(13, 5), up.fails(500)],
        ...[up.silent(), said(101, 3), up.silent()],
      ],
      b: [said(17, 19), said(23, 29)],
    },
    {
      journal,
      prices: createPrices({ log: recordingLog([]), own }),
      plugins: [cache, providerPlugin(), logger],
    },
  );
  // Another question each time, but for the one that the cache answers.
  const question = (seed: number) => ({ body: { seed } });
  const configs = [{ provider: '@a' }, { provider: '@a' }, retry, fallback, hedge, cached];
  for (const [seed, config] of configs.entries()) await kit.answer(config, question(seed));
  await kit.answer(cached, question(configs.length - 1));
  const left = await kit.ask({ provider: '@a' }, question(configs.length));
  left.abort();
  await left.settled();

  const rows = journal.rows<Partial<RequestRow>>('requests');
  assert.equal(rows.length, 8);
  const last = rows.at(-1);
  assert.deepEqual([last?.usage_estimated, last?.outcome], [true, 'cancelled']);
  const [prompt = 0, completion = 0] = [last?.prompt_tokens, last?.completion_tokens];
  assert.ok(prompt > 0);
  const expected = [
    ...[priced('a', 11, 7), 0n, priced('a', 13, 5), priced('b', 17, 19), priced('b', 23, 29)],
    ...[priced('a', 101, 3), 0n, priced('a', prompt, completion)],
  ];
  assert.deepEqual(
    rows.map(({ cost = '0' }) => picos(cost)),
    expected,
  );
  const [, , , , hedged] = rows;
  // The loser had been sent the request: its price stands beside the cost, and is none of it.
  assert.ok(Number(hedged?.lost_cost) > 0);
});
