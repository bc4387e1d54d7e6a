import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import auth from '../../plugins/auth/index.ts';
import { providerPlugin, startTestGateway, type TestGatewayOptions } from '../../tests/kit/gateway-kit.ts';
import { send } from '../../tests/kit/http-kit.ts';
import { testKey } from '../../tests/kit/plugin-kit.ts';
import { realClock } from '../lifecycle/recording-services.test-support.ts';
import type { Clock } from '../ports/clock.ts';
import type { KeyRecord } from '../ports/directory.ts';
import { DecisionTrace } from './decision-trace.ts';
import type { Exchange } from './exchange.ts';
import { emptyFacts } from './facts.ts';
import { callerKey } from './keys.ts';
import { definePlugin, GatewayError, type Hooks } from './plugin.ts';

const key = 'wk_0123456789abcdef';

async function gatewayWith(
  t: TestContext,
  plugins: NonNullable<TestGatewayOptions['plugins']>,
  record: Partial<KeyRecord> = {},
  clock: Clock = realClock,
) {
  const gateway = await startTestGateway(t, { plugins, keys: { [key]: testKey(record) }, clock });
  const ask = (headers: Record<string, string> = {}, named = 'x-service-explain') =>
    send(gateway.url, {
      path: '/v1/chat/completions',
      headers: { [named]: 'true', 'x-service-provider': 'mock', ...headers },
      body: { model: 'mock-gpt', messages: [{ role: 'user', content: 'x' }] },
    });
  const withKey = (headers: Record<string, string> = {}) => ask({ 'x-service-api-key': key, ...headers });
  const decision = async () => (await gateway.untilSettled()).facts.decision;
  return { gateway, ask, withKey, decision };
}

const plugin = (name: string, hooks: Hooks) =>
  definePlugin({ name, capabilities: { stream: 'ignore' }, create: () => hooks });

describe('who may ask why', () => {
  const cases: readonly [Partial<KeyRecord>, allowed: boolean][] = [
    [{ kind: 'owner', scopes: ['completions.write'] }, true],
    [{ scopes: ['*'] }, true],
    [{ scopes: ['completions.write', 'logs.view'] }, true],
    [{ scopes: ['completions.write', 'logs.views'] }, false],
    [{ kind: 'organisation-service', scopes: ['completions.write'] }, false],
  ];
  for (const [record, allowed] of cases) {
    test(`${record.kind ?? 'a key'} with ${JSON.stringify(record.scopes)}: ${allowed ? 'yes' : 'no'}`, async (t) => {
      let asked = 0;
      const counting = plugin('counting', { request: () => void asked++ });
      const { withKey, decision } = await gatewayWith(t, [auth, counting, providerPlugin()], record);
      const received = await withKey();
      assert.equal(received.status, allowed ? 200 : 403);
      assert.equal(asked, allowed ? 1 : 0);
      assert.equal(received.headers['x-service-explain'] !== undefined, allowed);
      assert.equal((await decision()) !== '', allowed);
      if (!allowed) assert.equal(received.json().error.param, 'explain');
    });
  }

  test('nobody without a key, before a provider is asked', async (t) => {
    const { ask, decision, gateway } = await gatewayWith(t, [providerPlugin()]);
    const received = await ask();
    assert.equal(received.status, 403);
    assert.match(received.json().error.message, /this request came without one/);
    assert.equal(await decision(), '');
    assert.equal(gateway.settled[0]?.facts.attempts, 0);
  });

  test('an answer that needed no provider tells nothing to nobody', async (t) => {
    const answering = definePlugin({
      name: 'answering',
      capabilities: { answers: true, stream: 'ignore' },
      create: () => ({ request: () => ({ status: 200, headers: [], body: Buffer.from('hello') }) }),
    });
    const { ask, decision } = await gatewayWith(t, [answering]);
    const received = await ask();
    assert.deepEqual([received.status, received.headers['x-service-explain']], [200, undefined]);
    assert.equal(await decision(), '');
  });

  test('no trace is kept of a request that does not ask', async (t) => {
    const { gateway } = await gatewayWith(t, [auth, providerPlugin()]);
    const received = await send(gateway.url, {
      path: '/v1/chat/completions',
      headers: { 'x-service-api-key': key, 'x-service-provider': 'mock' },
      body: { model: 'mock-gpt', messages: [{ role: 'user', content: 'x' }] },
    });
    assert.equal(received.headers['x-service-explain'], undefined);
    assert.equal((await gateway.untilSettled()).facts.decision, '');
  });
});

describe('what a trace holds', () => {
  test('every hook with its time and its attempt, those that refuse with why', async (t) => {
    let skippedMs = 0;
    const clock: Clock = {
      now: () => realClock.now(),
      monotonic: () => realClock.monotonic() + skippedMs,
      after: (ms, run) => realClock.after(ms, run),
    };
    const wait = async () => {
      await Promise.resolve();
      skippedMs += 5000;
    };
    const steady = plugin('steady', {
      request: wait,
      attempt: () => undefined,
      attempted: () => undefined,
      response: wait,
    });
    const refusing = plugin('refusing', {
      response() {
        throw new GatewayError('hooks_failed', 'No.');
      },
    });
    const { withKey, decision } = await gatewayWith(t, [auth, steady, refusing, providerPlugin()], {}, clock);
    assert.equal((await withKey()).status, 446);
    const { plugins, attempts, timings } = JSON.parse(await decision());
    const notes = plugins.map(({ ms, ...note }: { ms: number }) => [Number.isFinite(ms), note]);
    assert.deepEqual(notes, [
      [true, { plugin: 'auth', hook: 'request' }],
      [true, { plugin: 'steady', hook: 'request' }],
      [true, { plugin: 'provider', hook: 'request' }],
      [true, { plugin: 'steady', hook: 'attempt', attempt: 1 }],
      [true, { plugin: 'steady', hook: 'attempted', attempt: 1 }],
      [true, { plugin: 'refusing', hook: 'response', error: 'hooks_failed' }],
      [true, { plugin: 'steady', hook: 'response' }],
    ]);
    assert.ok(plugins[1].ms >= 5000 && plugins[6].ms >= 5000, JSON.stringify(plugins));
    assert.deepEqual([attempts.length, attempts[0].status, attempts[0].error], [1, 446, 'hooks_failed']);
    assert.ok(timings.upstream_started_ms >= 5000 && timings.end_ms >= 10_000);
  });

  /** A trace of its own, and what becomes of it. */
  function trace(facts: object = {}) {
    let now = 1000;
    const made = new DecisionTrace({ prefix: 'x-service-', link: '/v1/logs/1', now: () => now++ });
    const responseHeaders = ['x-service-ratelimit-limit', '5', 'x-other-ratelimit-limit', '6'];
    const exchange = {
      facts: { ...emptyFacts(), ...facts },
      startedAt: 0,
      startedMonotonic: 900,
      responseHeaders,
      get: (slot: unknown) => (slot === callerKey ? testKey() : undefined),
      addResponseHeader: () => undefined,
    } as unknown as Exchange;
    made.require(exchange);
    const json = (): string => made.json(exchange, 200, '');
    return { made, exchange, json };
  }

  test('at most 512 candidates, and what is left says so', () => {
    const { made, json } = trace();
    const candidates = Array.from({ length: 300 }, (_, index) => ({ path: `t${index}` }));
    for (const place of ['a', 'b', 'c']) made.branch({ path: place, mode: 'fallback', candidates });
    const { plan, truncated } = JSON.parse(json());
    assert.deepEqual(
      plan.map((one: { candidates: object[] }) => one.candidates.length),
      [300, 212],
    );
    assert.equal(truncated, true);
  });

  test('at most 256 hooks', () => {
    const { made, json } = trace();
    for (let i = 0; i < 300; i++) void made.measure(made.begin('p', 'request', undefined), () => undefined);
    const { plugins, truncated } = JSON.parse(json());
    assert.deepEqual([plugins.length, truncated], [256, true]);
  });

  test('at most 64 KiB, whatever names it is given', () => {
    const { made, json } = trace({
      attemptRecords: Array.from({ length: 64 }, () => ({
        option: 'config',
        provider: 'é'.repeat(9000),
        model: '"'.repeat(9000),
        status: 200,
        error: '',
        startedMs: 0,
        endedMs: 1,
        lost: false,
      })),
    });
    const candidates = Array.from({ length: 60 }, () => ({ path: 'p', name: 'ñ'.repeat(9000) }));
    for (let i = 0; i < 8; i++) made.branch({ path: 'config', mode: 'fallback', candidates });
    const text = json();
    assert.ok(Buffer.byteLength(text) <= 65_536);
    const value = JSON.parse(text);
    assert.equal(value.truncated, true);
    assert.ok(value.attempts.length > 40);
  });

  test('limits of this gateway alone, and only moments that came', () => {
    const { made, json } = trace({ upstreamStartedAt: 950, provider: 'p', modelRequested: 'm' });
    made.config('main');
    made.bodyRead();
    const value = JSON.parse(json());
    assert.deepEqual(value.limits, { limit: '5' });
    assert.deepEqual([value.config, value.cache, value.truncated], ['main', 'DISABLED', undefined]);
    assert.deepEqual(value.timings, {
      accepted: '1970-01-01T00:00:00.000Z',
      body_read_ms: 100,
      upstream_started_ms: 50,
      end_ms: 101,
    });
    const [only] = value.attempts;
    assert.deepEqual([only.start_ms, only.end_ms, only.model], [50, 101, 'm']);
  });
});
