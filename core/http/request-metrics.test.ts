import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { createMetrics } from '../../adapters/telemetry/prometheus.ts';
import { startTestGateway } from '../../tests/kit/gateway-kit.ts';
import { testKey, testOutcome } from '../../tests/kit/plugin-kit.ts';
import { send } from '../../tests/kit/http-kit.ts';
import { noUsage } from '../dialects/usage.ts';
import type { Outcome } from '../pipeline/context.ts';
import type { RequestFacts } from '../pipeline/facts.ts';
import { callerKey } from '../pipeline/keys.ts';
import { definePlugin } from '../pipeline/plugin.ts';
import type { Exchange } from '../pipeline/exchange.ts';
import type { TelemetrySettings } from '../base/trace-context.ts';
import { jsonAnswer } from '../pipeline/settle.ts';
import { createRequestMetrics } from './request-metrics.ts';

/** Metrics, an exchange to count again and again, and what a scrape then says. */
async function start(t: TestContext, settings?: TelemetrySettings['metrics']) {
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
  exchange.facts.provider = 'up';
  const metrics = createMetrics();
  const settled = createRequestMetrics(metrics, settings);
  const count = (facts: Partial<RequestFacts> = {}, outcome: Partial<Outcome> = {}): void => {
    Object.assign(exchange.facts, facts);
    settled(exchange, testOutcome(outcome));
  };
  const lines = async (name: string): Promise<string[]> =>
    (await metrics.render()).text.split('\n').filter((line) => line.startsWith(`${name}{`));
  /** The sum of the series with all of these labels. */
  const value = async (name: string, ...labels: string[]): Promise<number> =>
    (await lines(name))
      .filter((line) => labels.every((label) => line.includes(label)))
      .reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
  return { exchange, count, lines, value };
}

const usage = { ...noUsage, promptTokens: 3, completionTokens: 4, totalTokens: 7 };
const price = { cost: '0.250000000000', status: 'priced', version: '1' } as const;
const both = 'provider="up",endpoint="chat.completions"';

test('every settled request is counted by provider, endpoint, status and outcome', async (t) => {
  const { exchange, count, value } = await start(t);
  count({}, { latencyMs: 40 });
  const firstTokenAt = exchange.startedMonotonic + 20;
  count({ upstreamStartedAt: 100, upstreamEndedAt: 130, firstTokenAt, usage }, { latencyMs: 40, price });
  const refused = { kind: 'refused', status: 446, latencyMs: 1 } as const;
  count({}, { ...refused, price: { ...price, status: 'unpriced' } });
  assert.equal(await value('weir_requests_total', `${both},status="200",outcome="completed"`), 2);
  assert.equal(await value('weir_requests_total', `${both},status="446",outcome="refused"`), 1);
  assert.equal(await value('weir_tokens_total', `${both},kind="prompt"`), 6);
  assert.equal(await value('weir_tokens_total', `${both},kind="completion"`), 8);
  assert.equal(await value('weir_cost_usd_total', both), 0.25, 'an unpriced request is not in it');
  assert.equal(await value('weir_request_duration_seconds_count', both), 3);
  assert.equal(await value('weir_request_duration_seconds_count', both, 'code="4xx"'), 1);
  assert.equal(await value('weir_gateway_duration_seconds_count', both), 2);
  const gateway = await value('weir_gateway_duration_seconds_sum', both);
  assert.ok(Math.abs(gateway - 0.01) < 1e-9, '40 − 30 ms, and never below 0');
  assert.ok(Math.abs((await value('weir_time_to_first_token_seconds_sum', both)) - 0.04) < 1e-9);
});

test('the time of a request is told in its parts', async (t) => {
  const { exchange, count, value, lines } = await start(t);
  const at = (ms: number): number => exchange.startedMonotonic + ms;
  count({}, { latencyMs: 5 });
  assert.deepEqual(await lines('weir_provider_duration_seconds_count'), [], 'nobody was asked');
  const sent = { attempts: 1, upstreamStartedAt: at(10), firstByteAt: at(110), upstreamEndedAt: at(310) };
  count({ ...sent, stream: true }, { latencyMs: 315 });
  count({ attempts: 2, stream: false }, { latencyMs: 315 });
  const sum = async (name: string): Promise<number> =>
    Math.round((await value(`weir_${name}_seconds_sum`, both)) * 1e6) / 1e3;
  assert.deepEqual(
    [await sum('provider_duration'), await sum('provider_first_byte'), await sum('provider_last_byte_diff')],
    [600, 200, 400],
  );
  assert.deepEqual([await sum('pre_request_duration'), await sum('post_request_duration')], [10, 10]);
  assert.equal(await value('weir_provider_duration_seconds_count', 'stream="true"'), 1);
});

test('tokens are told by kind, and kinds that nobody uses have no series', async (t) => {
  const { count, value, lines } = await start(t);
  count({ usage });
  assert.equal((await lines('weir_tokens_total')).length, 2);
  count({
    usage: { ...usage, cachedTokens: 1, cacheWriteTokens: 2, reasoningTokens: 3, inputAudioTokens: 4 },
  });
  for (const [kind, tokens] of Object.entries({ cached: 1, cache_write: 2, reasoning: 3, input_audio: 4 }))
    assert.equal(await value('weir_tokens_total', `kind="${kind}"`), tokens);
  assert.equal((await lines('weir_tokens_total')).length, 6);
});

test('requests tell who answered them, by which method and out of which cache', async (t) => {
  const { exchange, count, value } = await start(t);
  count({ cacheStatus: 'MISS', upstreamStartedAt: 1 });
  count({ cacheStatus: 'HIT', upstreamStartedAt: 0 });
  count({ cacheStatus: '' }, { status: 429, kind: 'refused' });
  Object.assign(exchange, { method: 'PROPFIND' });
  count();
  for (const labels of [
    'method="POST",stream="false",cache_status="MISS",source="provider"',
    'method="POST",stream="false",cache_status="HIT",source="cache"',
    'status="429",outcome="refused",method="POST",stream="false",cache_status="",source="gateway"',
    'method="other"',
  ])
    assert.equal(await value('weir_requests_total', labels), 1, labels);
});

describe('labels that the configuration asks for', () => {
  const settings = {
    labels: ['model', 'config', 'api_key_name', 'metadata.team', 'metadata.te-am', 'metadata.te.am'],
    max_label_values: 3,
  };

  test('stand on every family, under names that Prometheus takes', async (t) => {
    const { exchange, count, value } = await start(t, settings);
    exchange.set(callerKey, testKey({ name: 'first "key"' }));
    const sent = { upstreamStartedAt: 1, upstreamEndedAt: 2, firstByteAt: 1, firstTokenAt: 1, attempts: 1 };
    const metadata = { team: 'a', 'te-am': 'b', 'te.am': 'c' };
    count({ ...sent, usage, metadata, modelRequested: 'asked', config: 'c' }, { price });
    count({ modelAnswered: 'answered' }, { price });
    const labels = [
      ...['config="c"', 'api_key_name="first \\"key\\""', 'metadata_team="a"', 'metadata_te_am="b"'],
      'metadata_te_am_2="c"',
    ];
    for (const model of ['asked', 'answered']) {
      for (const family of [
        ...['requests_total', 'tokens_total', 'cost_usd_total', 'request_duration_seconds_count'],
        ...['gateway_duration_seconds_count', 'time_to_first_token_seconds_count'],
        ...['provider_duration_seconds_count', 'provider_first_byte_seconds_count'],
        ...['provider_last_byte_diff_seconds_count', 'pre_request_duration_seconds_count'],
        'post_request_duration_seconds_count',
      ])
        assert.ok((await value(`weir_${family}`, `model="${model}"`, ...labels)) > 0, family);
    }
  });

  test('a caller that invents models and metadata makes no more series than that', async (t) => {
    const { count, lines, value } = await start(t, { ...settings, labels: ['model', 'metadata.team'] });
    const sent = { upstreamStartedAt: 1, upstreamEndedAt: 2, firstByteAt: 1, firstTokenAt: 1, usage };
    for (let i = 0; i < 500; i++) {
      count({ ...sent, modelRequested: `m${i}`, metadata: { team: `t${i}` } }, { status: 404 });
      count({ modelRequested: `m${i}`, metadata: { team: `t${i * 7}` } });
    }
    count({ modelRequested: 'm'.repeat(200) });
    const series = await lines('weir_requests_total');
    assert.ok(series.length <= 4 * 4 * 2, `${series.length} series`);
    assert.ok((await lines('weir_request_duration_seconds_count')).length <= 4 * 4 * 2);
    assert.ok((await lines('weir_tokens_total')).length <= 4 * 4 * 2);
    assert.equal(await value('weir_requests_total'), 1001, 'nothing is lost');
    const models = new Set(series.map((line) => /model="([^"]*)"/.exec(line)?.[1]));
    assert.deepEqual([...models].sort(), ['m0', 'm1', 'm2', 'other'], 'those that were answered first');
  });

  test('models that nobody answered for take no room from those that are used', async (t) => {
    const { count, value } = await start(t, { labels: ['model'], max_label_values: 1 });
    for (let i = 0; i < 10; i++) count({ modelRequested: `junk${i}` }, { status: 404, kind: 'refused' });
    count({ modelRequested: 'used' });
    count({ modelRequested: 'used' }, { status: 500 });
    assert.equal(await value('weir_requests_total', 'model="used"'), 2);
    assert.equal(await value('weir_requests_total', 'model="other"'), 10);
  });
});
