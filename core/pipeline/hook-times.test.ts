import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createMetrics } from '../../adapters/telemetry/prometheus.ts';
import { startTestGateway, providerPlugin } from '../../tests/kit/gateway-kit.ts';
import { send } from '../../tests/kit/http-kit.ts';
import { createHookTimes } from './call-hook.ts';
import { definePlugin, GatewayError } from './plugin.ts';

const passing = definePlugin({ name: 'passing', create: () => ({ request: () => undefined }) });
const waiting = definePlugin({
  name: 'waiting',
  create: () => ({ request: () => new Promise<undefined>((resolve) => setImmediate(resolve, undefined)) }),
});
const refusing = definePlugin({
  name: 'refusing',
  create: () => ({
    request(context) {
      if (context.header('x-refuse') !== undefined) throw new GatewayError('hooks_failed', 'No.');
    },
  }),
});

test('hooks of one request in 32 are timed, those of the plugin that answers excepted', async (t) => {
  const metrics = createMetrics();
  const gateway = await startTestGateway(t, {
    plugins: [passing, waiting, refusing, providerPlugin({ default: 'mock' })],
    hookTimes: createHookTimes(metrics),
  });
  for (let i = 0; i < 33; i++) {
    const headers: Record<string, string> = i === 32 ? { 'x-refuse': '1' } : {};
    await send(gateway.url, { path: '/v1/models', method: 'GET', headers });
  }
  const { text } = await metrics.render();
  const counts = [...text.matchAll(/^weir_plugin_duration_seconds_count\{plugin="(\w+)"\} (\d+)$/gm)];
  assert.deepEqual(
    counts.map(([, plugin, count]) => [plugin, count]),
    [
      ['passing', '2'],
      ['waiting', '2'],
      ['refusing', '1'],
    ],
  );
});
