// Gateways behind a balancer that repeats nothing, replaced one after the other under load: no request fails.
import assert from 'node:assert/strict';
import path from 'node:path';
import { afterEach, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { haproxyMissing, startHaproxy, startStandIn, type Balancer } from '../kit/balancer.ts';
import { freePort } from '../kit/free-port.ts';
import type { GatewayProcess } from '../kit/gateway-process.ts';
import { send } from '../kit/http-kit.ts';
import {
  eventually,
  ownerKey,
  startWeir,
  stopEverything,
  temporaryFolder,
  type WeirProcess,
} from '../kit/process-kit.ts';
import { SteadyLoad } from '../kit/steady-load.ts';

const configuration = {
  version: 1,
  storage: { analytics: { url: 'none:' } },
  pipelines: [{ name: 'gateway', match: { path: '/**' }, plugins: ['auth', 'provider'] }],
};
/** Many times what the balancers need to notice: the machine may be busy. */
const drainDelayMs = 8000;

async function start(port: number, data: string): Promise<WeirProcess> {
  return startWeir({ yaml: configuration, port, data, env: { WEIR_DRAIN_DELAY_MS: String(drainDelayMs) } });
}

/** What the load needs of a gateway: here the balancer stands for all of them. */
function asGateway({ url }: Balancer): GatewayProcess {
  const ask: GatewayProcess['ask'] = async ({ model = 'mock-gpt', stream = false } = {}) => {
    const response = await send(`${url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'x-service-api-key': ownerKey, 'x-service-provider': 'mock' },
      body: { model, messages: [{ role: 'user', content: 'Hello' }], stream },
    });
    return { status: response.status, headers: new Headers(), text: response.text };
  };
  return { url, ask } as GatewayProcess;
}

describe('a rolling restart behind a balancer that repeats nothing', { timeout: 400_000 }, () => {
  afterEach(stopEverything);

  for (const [name, startBalancer, skip] of [
    ['HAProxy', startHaproxy, haproxyMissing],
    ['a balancer of our own', startStandIn, false],
  ] as const) {
    test(`${name}: no request fails`, { skip }, async (t) => {
      const folder = await temporaryFolder();
      const ports = [await freePort(), await freePort()];
      const gateways = await Promise.all(
        ports.map((port, index) => start(port, path.join(folder, String(index)))),
      );
      const balancer = await startBalancer(ports);
      t.after(() => balancer.stop());
      const allUp = (): Promise<true> =>
        eventually(async () => (await balancer.up()) === ports.length || undefined);
      await allUp();
      const load = new SteadyLoad(asGateway(balancer), { perSecond: 50, streams: 4 });
      await pause(500);
      for (const [index, gateway] of gateways.entries()) {
        const ended = await gateway.stop();
        assert.equal(ended.code, 0, ended.stderr);
        gateways[index] = await start(ports[index]!, path.join(folder, String(index)));
        await allUp();
        await pause(500);
      }
      await load.stop();
      assert.deepEqual(load.failures.slice(0, 5), [], `${load.failures.length} failed`);
      assert.ok(
        load.answered > 200 && load.streamed > 4,
        `${load.answered} answered, ${load.streamed} streamed`,
      );
      t.diagnostic(`${load.answered} requests and ${load.streamed} streams, none failed`);
    });
  }
});

describe('the end of a gateway', { timeout: 60_000 }, () => {
  afterEach(stopEverything);

  const begin = async (): Promise<{ weir: WeirProcess; ended: ReturnType<WeirProcess['stop']> }> => {
    const weir = await startWeir({ yaml: configuration, env: { WEIR_DRAIN_DELAY_MS: '30000' } });
    return { weir, ended: weir.stop() };
  };

  test('is announced: /readyz is 503 at once, and everything is served with the end of the connection', async () => {
    const { weir, ended } = await begin();
    const refused = await eventually(async () => {
      const ready = await send(`${weir.url}/readyz`);
      return ready.status === 503 ? ready : undefined;
    });
    assert.equal(refused.json().status, 'draining');
    for (const page of ['/readyz', '/healthz', '/v1/models'])
      assert.equal((await send(`${weir.url}${page}`)).headers['connection'], 'close', page);
    const answer = await send(`${weir.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'x-service-api-key': ownerKey, 'x-service-provider': 'mock' },
      body: { model: 'mock-gpt', messages: [{ role: 'user', content: 'Hello' }] },
    });
    assert.deepEqual([answer.status, answer.headers['connection']], [200, 'close']);
    await pause(400);
    weir.child.kill('SIGTERM');
    const { code, signal, stderr } = await ended;
    assert.deepEqual([code, signal], [0, null], stderr);
    assert.match(stderr, /at once: a second signal \(SIGTERM\)/);
  });

  test('one Ctrl-C that arrives three times is one signal', async () => {
    const { weir, ended } = await begin();
    weir.child.kill('SIGTERM');
    weir.child.kill('SIGINT');
    await pause(500);
    assert.equal((await send(`${weir.url}/healthz`)).status, 200, 'it still listens');
    weir.child.kill('SIGINT');
    assert.equal((await ended).code, 0);
  });
});
