import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { definePlugin, type OptionFault } from '../../core/pipeline/plugin.ts';
import { ManualClock } from '../../tests/conformance/manual-clock.ts';
import { providerPlugin } from '../../tests/kit/gateway-kit.ts';
import { RecordingMetrics } from '../../core/lifecycle/recording-services.test-support.ts';
import { optionErrors, testScope } from '../../tests/kit/plugin-kit.ts';
import auth from '../auth/index.ts';
import rateLimit from '../rate-limit/index.ts';
import { cachedGateway } from '../../tests/kit/cache-kit.ts';
import cache from './index.ts';

describe('a hit', () => {
  test('is the answer of before, without a call', async (t) => {
    const { ask, upstream } = await cachedGateway(t);
    const first = await ask();
    const second = await ask();
    assert.equal(first.headers['x-service-cache-status'], 'MISS');
    assert.equal(first.headers.age, undefined);
    assert.equal(second.headers['x-service-cache-status'], 'HIT');
    assert.equal(second.headers.age, '0');
    assert.equal(second.status, 200);
    assert.equal(second.text, first.text);
    assert.equal(upstream.requests.length, 1);
  });

  test('has the headers that describe the answer, and none of the delivery of before', async (t) => {
    const { ask } = await cachedGateway(t);
    const first = await ask();
    const { headers } = await ask();
    assert.equal(headers['content-type'], 'application/json');
    assert.equal(headers['openai-version'], '2020-10-01');
    assert.equal(headers['content-length'], String(first.body.length));
    for (const name of ['x-request-id', 'set-cookie', 'x-ratelimit-remaining-requests'])
      assert.equal(headers[name], undefined, name);
    assert.notEqual(headers['x-service-request-id'], first.headers['x-service-request-id']);
  });

  test('costs no tokens, asks nobody, and keeps its provider and model', async (t) => {
    const { ask, gateway } = await cachedGateway(t);
    await ask();
    await ask();
    const [{ facts: before }, { facts, outcome }] = [
      await gateway.untilSettled(1),
      await gateway.untilSettled(2),
    ];
    assert.deepEqual([before.cacheStatus, before.usage?.totalTokens, before.attempts], ['MISS', 7, 1]);
    assert.deepEqual([facts.cacheStatus, facts.usage, facts.attempts], ['HIT', undefined, 0]);
    assert.deepEqual([facts.upstreamStartedAt, facts.upstreamHost], [0, '']);
    assert.deepEqual([facts.provider, facts.modelRequested, facts.modelAnswered], ['up', 'm', 'm-1']);
    assert.deepEqual([facts.finishReason, outcome.kind, outcome.status], ['stop', 'completed', 200]);
  });

  test('passes the response hooks of the plugins in front', async (t) => {
    const judging = definePlugin({
      name: 'judging',
      capabilities: { changes: ['response.json'], stream: 'ignore' },
      create: () => ({ response: ({ response }) => response.set(['judged'], response.source) }),
    });
    const { told, ask } = await cachedGateway(t, {
      plugins: [auth, judging, cache, providerPlugin({ default: 'up' })],
    });
    assert.equal((await ask()).json().judged, 'provider');
    assert.equal((await ask()).json().judged, 'provider');
    assert.equal(await told(), 'HIT answer 1', 'what was kept is what the provider said');
  });

  test('lasts for max_age seconds, tells its age, and not a millisecond longer', async (t) => {
    const clock = new ManualClock();
    const { ask, told } = await cachedGateway(t, { clock, cache: { max_age: 60 } });
    await told();
    clock.advance(59_999);
    const late = await ask();
    assert.equal(late.headers['x-service-cache-status'], 'HIT');
    assert.equal(late.headers.age, '59');
    clock.advance(1);
    assert.equal(await told(), 'MISS answer 2');
    assert.equal(await told(), 'HIT answer 2');
  });
});

describe('what a request says about the cache', () => {
  test('force-refresh asks anew and keeps the new answer', async (t) => {
    const { told } = await cachedGateway(t);
    await told();
    const headers = { 'x-service-cache-force-refresh': 'true' };
    assert.equal(await told({ headers }), 'REFRESH answer 2');
    assert.equal(await told(), 'HIT answer 2');
  });

  test('only "true" forces a refresh, and what is neither true nor false is refused', async (t) => {
    const { told } = await cachedGateway(t);
    await told();
    for (const [value, expected] of [
      ['false', 'HIT answer 1'],
      ['0', 'nothing 400'],
      ['yes', 'nothing 400'],
    ] as const)
      assert.equal(await told({ headers: { 'x-service-cache-force-refresh': value } }), expected, value);
  });

  test('debug: false is neither answered from the cache nor kept', async (t) => {
    const { told, gateway } = await cachedGateway(t);
    const headers = { 'x-service-debug': 'false' };
    assert.equal(await told({ headers }), 'DISABLED answer 1');
    assert.equal(await told(), 'MISS answer 2');
    assert.equal(await told({ headers }), 'DISABLED answer 3');
    assert.equal((await gateway.untilSettled(1)).facts.cacheStatus, 'DISABLED');
  });

  test('an endpoint that is not listed, or not modelled, is not cached', async (t) => {
    const { told, ask } = await cachedGateway(t, { cache: { endpoints: ['embeddings'] } });
    assert.equal(await told(), 'DISABLED answer 1');
    assert.equal(await told(), 'DISABLED answer 2');
    for (let i = 0; i < 2; i++) {
      const files = await ask({ path: '/v1/files' });
      assert.equal(files.headers['x-service-cache-status'], 'DISABLED');
    }
  });

  test('limits are counted in front of the cache', async (t) => {
    const { told } = await cachedGateway(t, {
      plugins: [
        auth,
        { plugin: rateLimit, options: { requests_per_minute: 2 } },
        cache,
        providerPlugin({ default: 'up' }),
      ],
    });
    assert.equal(await told(), 'MISS answer 1');
    assert.equal(await told(), 'HIT answer 1');
    assert.equal(await told(), 'nothing 429');
  });
});

test('options', () => {
  assert.equal(optionErrors(cache, {}), '');
  assert.equal(
    optionErrors(cache, {
      mode: 'simple',
      max_age: 60,
      max_value_bytes: 4096,
      max_wait_ms: 0,
      endpoints: ['messages'],
    }),
    '',
  );
  for (const [wrong, options] of [
    [/anyOf/, { mode: 'vague' }],
    [/provider/, { semantic: {} }],
    [/<= 1/, { semantic: { provider: 'openai', threshold: 1.1 } }],
    [/additional/, { semantic: { provider: 'openai', url: 'x' } }],
    [/<= 7776000/, { max_age_limit: 7_776_001 }],
    [/>= 1/, { max_age: 0 }],
    [/<= 7776000/, { max_age: 7_776_001 }],
    [/integer/, { max_age: 1.5 }],
    [/anyOf/, { endpoints: ['files'] }],
    [/fewer than 1/, { endpoints: [] }],
    [/additional/, { ttl: 1 }],
  ] as const) {
    assert.match(optionErrors(cache, options), wrong);
  }
});

describe('options that do not fit are refused when they are read', () => {
  const refusal = (options: Parameters<typeof cache.create>[0], problem?: string): RegExp | string => {
    const embeddings = { problem: () => problem, embed: () => Promise.reject(new Error('not asked')) };
    try {
      void cache.create(options, testScope({ embeddings, metrics: new RecordingMetrics() }).scope);
      return 'taken';
    } catch (error) {
      return (error as Error).message;
    }
  };
  const semantic = { provider: 'openai' };

  test('semantic without a provider', () => {
    const [fault] = cache.check?.({ mode: 'semantic' }) as readonly OptionFault[];
    assert.equal(fault?.path, '/mode');
    assert.match(fault.message, /needs a provider .* semantic: \{ provider: openai \}/);
    assert.deepEqual(cache.check?.({ mode: 'semantic', semantic }), []);
    assert.deepEqual(cache.check?.({ mode: 'simple' }), []);
  });

  test('a provider that makes no vectors', () => {
    assert.equal(refusal({ mode: 'semantic', semantic }, 'There is none.'), 'semantic: There is none.');
    assert.equal(refusal({ semantic }, 'There is none.'), 'semantic: There is none.');
  });

  test('the others are taken', () => {
    assert.equal(refusal({ mode: 'semantic', semantic }), 'taken');
    assert.equal(refusal({ mode: 'config', semantic }), 'taken');
    assert.equal(refusal({ mode: 'config' }), 'taken');
  });
});

test('without a known caller there is no cache', () => {
  assert.deepEqual(cache.capabilities?.needs, ['key']);
});
