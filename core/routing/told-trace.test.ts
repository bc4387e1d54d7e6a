import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { providerPlugin, startTestGateway } from '../../tests/kit/gateway-kit.ts';
import { send, startUpstream } from '../../tests/kit/http-kit.ts';
import type { GatewayConfig } from '../config/schema.ts';

const traceId = '4bf92f3577b34da6a3ce929d0e0e4736';
const traceparent = (flags: string): string => `00-${traceId}-00f067aa0ba902b7-${flags}`;
const answer = { id: '1', object: 'chat.completion', model: 'm', choices: [] };
const otlp = {
  url: 'http://127.0.0.1:9/v1/traces',
  headers: {},
  service_name: 'weir',
  resource: {},
  content: false,
  sample_ratio: 1,
  timeout_ms: 100,
  queue: 1,
};

async function start(t: TestContext, telemetry: Partial<GatewayConfig['telemetry']>, dialect: string) {
  const upstream = await startUpstream(t, (_, response) => response.end(JSON.stringify(answer)));
  const row = dialect === 'chat' ? {} : { dialect: 'anthropic-messages' as const };
  const gateway = await startTestGateway(t, {
    plugins: [providerPlugin({ default: 'up' })],
    providers: { up: { base_url: upstream.url, api_key: 'sk', ...row } },
    telemetry,
  });
  return async (headers: Readonly<Record<string, string>>) => {
    const body = { model: 'm', messages: [{ role: 'user', content: 'x' }] };
    await send(gateway.url, { path: '/v1/chat/completions', headers, body });
    const { id } = await gateway.untilSettled(upstream.requests.length);
    const { traceparent: parent, tracestate: state, baggage } = upstream.requests.at(-1)?.headers ?? {};
    return { id, told: { parent, state, baggage } };
  };
}

const own = (id: string): string => id.replaceAll('-', '').slice(0, 16);

for (const dialect of ['chat', 'claude']) {
  describe(`what a provider (${dialect}) is told of a trace`, () => {
    test('nothing by default', async (t) => {
      const ask = await start(t, {}, dialect);
      const { told } = await ask({ traceparent: traceparent('01'), tracestate: 'a=1', baggage: 'user=jo' });
      assert.deepEqual(told, { parent: undefined, state: undefined, baggage: undefined });
    });

    test('the span of the gateway, with the flag as it came, when traces are propagated', async (t) => {
      const ask = await start(t, { propagate: true }, dialect);
      for (const flags of ['01', '00']) {
        const { id, told } = await ask({
          traceparent: traceparent(flags),
          tracestate: 'a=1',
          baggage: 'b=2',
        });
        assert.deepEqual(told, { parent: `00-${traceId}-${own(id)}-${flags}`, state: 'a=1', baggage: 'b=2' });
      }
    });

    test('a trace that begins here, recorded when spans are sent; a state without a parent says nothing', async (t) => {
      for (const [settings, flags] of [
        [{ propagate: true }, '00'],
        [{ propagate: true, otlp }, '01'],
      ] as const) {
        const ask = await start(t, settings, dialect);
        const { id, told } = await ask({ traceparent: 'junk', tracestate: 'a=1' });
        const parent = `00-${id.replaceAll('-', '')}-${own(id)}-${flags}`;
        assert.deepEqual(told, { parent, state: undefined, baggage: undefined });
      }
    });
  });
}
