import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createMetrics } from '../../adapters/telemetry/prometheus.ts';
import { startTestGateway } from '../../tests/kit/gateway-kit.ts';
import { testOutcome } from '../../tests/kit/plugin-kit.ts';
import { send } from '../../tests/kit/http-kit.ts';
import { definePlugin } from '../pipeline/plugin.ts';
import type { Exchange } from '../pipeline/exchange.ts';
import { jsonAnswer } from './reply.ts';
import { createRequestMetrics } from './request-metrics.ts';

test('every settled request is counted by provider, endpoint, status and outcome', async (t) => {
  const exchanges: Exchange[] = [];
  const catching = definePlugin({
    name: 'catching',
    create: () => ({
      request(context) {
        exchanges.push(context as Exchange);
        return jsonAnswer(200, {});
      },
    }),
  });
  const gateway = await startTestGateway(t, { plugins: [catching] });
  await send(gateway.url, { path: '/v1/chat/completions', body: {} });
  const [exchange] = exchanges;
  assert.ok(exchange);
  const metrics = createMetrics();
  const count = createRequestMetrics(metrics);
  const { facts } = exchange;
  facts.provider = 'up';
  count(exchange, testOutcome({ latencyMs: 40 }));
  Object.assign(facts, { upstreamStartedAt: 100, upstreamEndedAt: 130 });
  facts.firstTokenAt = exchange.startedMonotonic + 20;
  facts.usage = {
    ...{ promptTokens: 3, completionTokens: 4, totalTokens: 7, cachedTokens: 0, cacheWriteTokens: 0 },
    ...{ reasoningTokens: 0, inputAudioTokens: 0, outputAudioTokens: 0 },
  };
  const price = { cost: '0.250000000000', status: 'priced', version: '1' } as const;
  count(exchange, testOutcome({ latencyMs: 40, price }));
  count(
    exchange,
    testOutcome({ kind: 'refused', status: 446, latencyMs: 1, price: { ...price, status: 'unpriced' } }),
  );
  const { text } = await metrics.render();
  const value = (name: string, labels: string): number => {
    const line = text.split('\n').find((one) => one.startsWith(`${name}{`) && one.includes(labels));
    return Number(line?.split(' ').at(-1));
  };
  const both = 'provider="up",endpoint="chat.completions"';
  assert.equal(value('weir_requests_total', `${both},status="200",outcome="completed"`), 2);
  assert.equal(value('weir_requests_total', `${both},status="446",outcome="refused"`), 1);
  assert.equal(value('weir_tokens_total', `${both},kind="prompt"`), 6);
  assert.equal(value('weir_tokens_total', `${both},kind="completion"`), 8);
  assert.equal(value('weir_cost_usd_total', both), 0.25, 'an unpriced request is not in it');
  assert.equal(value('weir_request_duration_seconds_count', both), 3);
  assert.equal(value('weir_gateway_duration_seconds_count', both), 2);
  assert.ok(
    Math.abs(value('weir_gateway_duration_seconds_sum', both) - 0.01) < 1e-9,
    '40 − 30 ms, and never below 0',
  );
  assert.ok(Math.abs(value('weir_time_to_first_token_seconds_sum', both) - 0.04) < 1e-9);
});
