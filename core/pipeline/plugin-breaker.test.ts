import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import { createMetrics } from '../../adapters/telemetry/prometheus.ts';
import { ManualClock } from '../../tests/conformance/manual-clock.ts';
import { providerPlugin, startTestGateway } from '../../tests/kit/gateway-kit.ts';
import { send } from '../../tests/kit/http-kit.ts';
import { recordingLog, type Line } from '../lifecycle/recording-services.test-support.ts';
import { callCheck, callHook, type PluginInstance } from './call-hook.ts';
import { definePlugin, GatewayError, type Hooks } from './plugin.ts';
import { PluginBreakers, PluginWork, type PluginBreakerSettings } from './plugin-breaker.ts';

const usual: PluginBreakerSettings = { failureThreshold: 3, cooldownMs: 30_000, whenOpen: 'bypass' };

function breakersOn(clock: ManualClock) {
  const lines: Line[] = [];
  const metrics = createMetrics();
  const breakers = new PluginBreakers({ clock, metrics, log: recordingLog(lines) });
  return { lines, metrics, breakers };
}

function bench(settings: Partial<PluginBreakerSettings> = {}, onError: 'fail' | 'skip' = 'skip') {
  const clock = new ManualClock();
  const { lines, metrics, breakers } = breakersOn(clock);
  const breaker = breakers.create('one', { ...usual, ...settings });
  const instance: PluginInstance = {
    definition: definePlugin({ name: 'one', create: () => ({}) }),
    name: 'one',
    hooks: {},
    onError,
    timeoutMs: 100,
    breaker,
    builtIn: false,
  };
  const runtime = { clock, log: recordingLog([]), countPluginError: () => undefined };
  const work = new PluginWork({ clock, metrics, log: recordingLog(lines) });
  let calls = 0;
  const call = <T>(run: () => T | Promise<T>, hook = 'request') =>
    callHook(instance, hook, runtime, () => {
      calls += 1;
      return run();
    });
  const series = async (name: string): Promise<string[]> =>
    (await metrics.render()).text.split('\n').filter((line) => line.startsWith(name));
  const check = <T>(run: () => T | Promise<T>, signal = new AbortController().signal) =>
    callCheck(instance, 'acme.one', { ...runtime, work }, { signal: () => signal, call: run });
  return { clock, lines, breakers, breaker, call, check, series, calls: () => calls };
}

const breakDown = (): never => {
  throw new TypeError('broken');
};
const fine = (): string => 'fine';

describe('the breaker of a plugin', () => {
  it('leaves a hook alone after so many failures, and lets one call try after the cooldown', async () => {
    const { call, calls, clock, lines, breakers } = bench();
    for (let i = 0; i < 5; i += 1) void call(breakDown);
    assert.equal(calls(), 3);
    assert.equal(call(fine), undefined);
    assert.deepEqual(breakers.tripped, [
      { plugin: 'one', hook: 'request', state: 'open', when_open: 'bypass' },
    ]);
    await clock.pass(30_000);
    assert.equal(breakers.tripped[0]?.state, 'half-open');
    void call(breakDown);
    void call(fine);
    assert.equal(calls(), 4);
    await clock.pass(30_000);
    assert.equal(call(fine), 'fine');
    assert.equal(call(fine), 'fine');
    assert.deepEqual(breakers.tripped, []);
    assert.deepEqual(
      lines.map(({ level, message }) => `${level} ${message}`),
      [
        'warn breaker of plugin "one" is open: 3 failures within a minute',
        'info breaker of plugin "one" is half-open: the cooldown is over, one request tries',
        'warn breaker of plugin "one" is open: the request that tried failed again',
        'info breaker of plugin "one" is half-open: the cooldown is over, one request tries',
        'info breaker of plugin "one" is closed: the request that tried came out well',
      ],
    );
  });

  it('passes over a hook while another call of it tries', async () => {
    const { call, calls, clock } = bench();
    for (let i = 0; i < 3; i += 1) void call(breakDown);
    await clock.pass(30_000);
    let answer: (said: string) => void = () => undefined;
    const trying = call(() => new Promise<string>((resolve) => (answer = resolve)));
    assert.equal(call(fine), undefined);
    answer('tried');
    assert.equal(await trying, 'tried');
    assert.equal(call(fine), 'fine');
    assert.equal(calls(), 5);
  });

  it('counts what comes too late, not what is refused, and forgets failures after a minute', async () => {
    const { call, clock, breakers } = bench();
    const refuse = (): never => {
      throw new GatewayError('hooks_failed', 'No.');
    };
    for (let i = 0; i < 5; i += 1) assert.throws(() => call(refuse));
    for (let i = 0; i < 2; i += 1) {
      const late = call(() => new Promise(() => undefined));
      await clock.pass(100);
      await late;
    }
    await clock.pass(60_000);
    void call(breakDown);
    assert.deepEqual(breakers.tripped, []);
    for (let i = 0; i < 2; i += 1) {
      const late = call(() => new Promise(() => undefined));
      await clock.pass(100);
      await late;
    }
    assert.equal(breakers.tripped.length, 1);
  });

  it('when_open: refuse says which plugin, and when to try again', () => {
    const { call } = bench({ whenOpen: 'refuse' }, 'fail');
    for (let i = 0; i < 3; i += 1) assert.throws(() => call(breakDown), { code: 'plugin_failed' });
    assert.throws(
      () => call(fine),
      (error) =>
        GatewayError.is(error) &&
        error.code === 'plugin_unavailable' &&
        error.status === 503 &&
        error.plugin === 'one' &&
        error.headers.join() === 'retry-after,30' &&
        error.message.startsWith('The plugin "one" keeps failing and is left alone for now'),
    );
  });

  it('has a breaker for each hook', () => {
    const { call } = bench();
    for (let i = 0; i < 3; i += 1) void call(breakDown, 'settled');
    assert.equal(call(fine, 'request'), 'fine');
    assert.equal(call(fine, 'settled'), undefined);
  });

  it('is told in the metrics, and forgotten with its plugin', async () => {
    const { call, series, breakers, breaker } = bench();
    for (let i = 0; i < 5; i += 1) void call(breakDown);
    const labels = '{plugin="one",hook="request"';
    assert.deepEqual(await series('weir_plugin_breaker'), [
      `weir_plugin_breaker_turns_total${labels},to="open"} 1`,
      `weir_plugin_breaker_passed_total${labels}} 2`,
      `weir_plugin_breaker_open${labels}} 1`,
    ]);
    breakers.release(breaker);
    assert.deepEqual(breakers.tripped, []);
    assert.deepEqual(await series('weir_plugin_breaker_open'), [`weir_plugin_breaker_open${labels}} 0`]);
  });
});

describe('a guardrail whose breaker is open', () => {
  /** Status and verdicts of a request after the guardrail has failed three times. */
  async function afterwards(
    t: TestContext,
    hooks: Hooks,
    {
      whenOpen,
      stream = false,
      mode,
    }: { whenOpen: 'bypass' | 'refuse'; stream?: boolean; mode?: 'hold' | 'window' },
  ) {
    const { breakers } = breakersOn(new ManualClock());
    const breaker = breakers.create('guard', { ...usual, whenOpen });
    const plugin = definePlugin({
      name: 'guard',
      capabilities: { guardrail: true, ...(mode !== undefined && { stream: mode }) },
      create: () => hooks,
    });
    const gateway = await startTestGateway(t, { plugins: [{ plugin, breaker }, providerPlugin()] });
    const ask = () =>
      send(`${gateway.url}/v1/chat/completions`, {
        method: 'POST',
        headers: { 'x-service-provider': 'mock', 'content-type': 'application/json' },
        body: { model: 'mock-gpt', messages: [{ role: 'user', content: 'Hi' }], stream },
      });
    for (let i = 0; i < 3; i += 1) await ask();
    const answer = await ask();
    const { facts } = await gateway.untilSettled(4);
    return { answer, said: facts.verdicts.map(({ hook, verdict }) => `${hook} ${verdict}`) };
  }

  it('is logged as skipped when requests go on without it', async (t) => {
    const { answer, said } = await afterwards(t, { request: breakDown }, { whenOpen: 'bypass' });
    assert.deepEqual([answer.status, said], [200, ['request skipped']]);
  });

  it('is logged as failed when they are refused', async (t) => {
    const { answer, said } = await afterwards(t, { request: breakDown }, { whenOpen: 'refuse' });
    assert.deepEqual([answer.status, said], [503, ['request failed']]);
    assert.match(answer.text, /"code":"plugin_unavailable"/);
    assert.equal(answer.headers['retry-after'], '30');
  });

  for (const [mode, hooks] of [
    ['hold', { response: breakDown }],
    ['window', { response: () => undefined, stream: () => ({ event: breakDown }) }],
  ] as const) {
    it(`lets streams pass that it would ${mode}, and is logged as skipped`, async (t) => {
      const options = { whenOpen: 'bypass', stream: true, mode } as const;
      const { answer, said } = await afterwards(t, hooks, options);
      assert.deepEqual([answer.status, said], [200, ['stream skipped']]);
      assert.match(answer.text, /data: \[DONE\]/);
    });
  }
});

describe('the breaker of a check that a plugin offers', () => {
  it('is open for each of its failures, and then the check breaks without being asked', async () => {
    const { check, clock, breakers, series } = bench({ whenOpen: 'bypass' });
    assert.throws(() => check(breakDown), /broken/);
    await assert.rejects(async () =>
      check(() => Promise.reject(new GatewayError('overloaded', 'Too much.'))),
    );
    const time = new AbortController();
    const late = check(() => new Promise(() => undefined), time.signal);
    time.abort(new DOMException('late', 'TimeoutError'));
    assert.ok(late instanceof Promise);
    assert.deepEqual(breakers.tripped, [
      { plugin: 'one', hook: 'acme.one', state: 'open', when_open: 'bypass' },
    ]);
    assert.throws(
      () => check(() => assert.fail('it was asked')),
      (error) => GatewayError.is(error) && error.code === 'plugin_unavailable',
    );
    await clock.pass(30_000);
    assert.equal(await check(() => Promise.resolve('fine')), 'fine');
    assert.deepEqual(breakers.tripped, []);
    const [count] = await series('weir_plugin_hook_seconds_count');
    assert.match(count ?? '', /hook="acme\.one"\} 4$/);
  });

  it('is not opened by clients that leave', () => {
    const { check, breakers } = bench();
    for (let i = 0; i < 5; i += 1) {
      const client = new AbortController();
      void check(() => new Promise(() => undefined), client.signal);
      client.abort();
    }
    assert.deepEqual(breakers.tripped, []);
  });
});
