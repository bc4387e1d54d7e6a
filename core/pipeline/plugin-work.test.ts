import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { createMetrics } from '../../adapters/telemetry/prometheus.ts';
import { recordingLog, type Line } from '../lifecycle/recording-services.test-support.ts';
import { callHook, type PluginInstance } from './call-hook.ts';
import { definePlugin, GatewayError } from './plugin.ts';
import { PluginWork } from './plugin-breaker.ts';

function bench() {
  const lines: Line[] = [];
  const time = { now: 0 };
  const clock = { now: () => 1e12 + time.now, monotonic: () => time.now, after: () => () => undefined };
  const log = recordingLog(lines);
  const metrics = createMetrics();
  const work = new PluginWork({ metrics, log, clock });
  const runtime = { clock, log, work, countPluginError: () => undefined };
  const call = <T>(run: () => T | Promise<T>, change: Partial<PluginInstance> = {}, hook = 'request') =>
    callHook(
      {
        definition: definePlugin({ name: 'one', create: () => ({}) }),
        name: 'one',
        hooks: {},
        onError: 'skip',
        timeoutMs: 0,
        builtIn: false,
        ...change,
      },
      hook,
      runtime,
      run,
    );
  const series = async (name: string): Promise<string[]> =>
    (await metrics.render()).text.split('\n').filter((line) => line.startsWith(name));
  return { time, lines, work, call, series };
}

describe('what third-party plugins take', () => {
  it('counts the time on the event loop, and the time with all waiting, by plugin and hook', async () => {
    const { time, call, series } = bench();
    void call(() => void (time.now += 5));
    let answer = (): void => undefined;
    const waiting = call(() => {
      time.now += 10;
      return new Promise<void>((resolve) => (answer = resolve));
    });
    time.now += 1000;
    answer();
    await waiting;
    void call(() => void (time.now += 3), {}, 'settled');
    assert.deepEqual(await series('weir_plugin_loop_seconds_total'), [
      'weir_plugin_loop_seconds_total{plugin="one",hook="request"} 0.015',
      'weir_plugin_loop_seconds_total{plugin="one",hook="settled"} 0.003',
    ]);
    assert.deepEqual(await series('weir_plugin_hook_seconds_sum'), [
      'weir_plugin_hook_seconds_sum{plugin="one",hook="request"} 1.015',
      'weir_plugin_hook_seconds_sum{plugin="one",hook="settled"} 0.003',
    ]);
    assert.deepEqual(await series('weir_plugin_hook_seconds_count{plugin="one",hook="request"}'), [
      'weir_plugin_hook_seconds_count{plugin="one",hook="request"} 2',
    ]);
  });

  it('measures hooks that throw, also those that refuse', async () => {
    const { time, call, series } = bench();
    const late = (error: Error) => (): never => {
      time.now += 500;
      throw error;
    };
    void call(late(new Error('broken')));
    assert.throws(() => call(late(new GatewayError('hooks_failed', 'No.'))));
    await call(() => Promise.reject(new Error('broken')));
    assert.deepEqual(await series('weir_plugin_hook_seconds_count'), [
      'weir_plugin_hook_seconds_count{plugin="one",hook="request"} 3',
    ]);
    assert.deepEqual(await series('weir_plugin_loop_blocks_total'), [
      'weir_plugin_loop_blocks_total{plugin="one",hook="request"} 2',
    ]);
  });

  it('names a call that holds the event loop for more than 200 ms, and logs one in 10 s', () => {
    const { time, call, lines, work } = bench();
    for (const ms of [200, 201, 300, 400, 10_000, 250]) void call(() => void (time.now += ms));
    assert.deepEqual(
      lines.map(({ level, message, fields }) => [level, message, fields['ms'], fields['unlogged']]),
      [
        ['warn', 'A plugin held the event loop', 201, 0],
        ['warn', 'A plugin held the event loop', 10_000, 2],
      ],
    );
    assert.deepEqual(
      work.blocks.map(({ ms }) => ms),
      [250, 10_000, 400, 300, 201],
    );
    assert.deepEqual(work.blocks.at(-1), { plugin: 'one', hook: 'request', ms: 201, at: 1e12 + 401 });
  });

  it('remembers the newest 20', () => {
    const { time, call, work } = bench();
    for (let i = 1; i <= 25; i++) void call(() => void (time.now += 1000 + i));
    assert.equal(work.blocks.length, 20);
    assert.equal(work.blocks[0]?.ms, 1025);
  });

  it('spares plugins of the gateway itself the measuring', async () => {
    const { time, call, work, series } = bench();
    void call(() => void (time.now += 500), { builtIn: true });
    assert.deepEqual(work.blocks, []);
    assert.deepEqual(await series('weir_plugin_loop_seconds_total'), []);
  });
});
