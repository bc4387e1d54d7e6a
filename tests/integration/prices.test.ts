// Prices that an operator writes into the configuration, as they act on a gateway that runs.
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, test } from 'node:test';
import { chat, makePremises, operate } from '../kit/operator.ts';
import { eventually, startWeir, stopEverything, temporaryFolder } from '../kit/process-kit.ts';

const configured = (models: readonly object[]) =>
  JSON.stringify({
    version: 1,
    storage: { resources: { url: 'pglite:' }, analytics: { url: 'none:' } },
    prices: { models },
    pipelines: [
      { name: 'admin', match: { routes: 'contributed' }, plugins: ['auth', 'management'] },
      { name: 'gateway', match: { path: '/**' }, plugins: ['auth', 'policies', 'provider'] },
    ],
  });
const pricing = '/model-configs/pricing/mock/mock-gpt';

after(() => stopEverything());

test('prices of the file are told, count against budgets, and follow a reload', async () => {
  const config = path.join(await temporaryFolder(), 'gateway.yaml');
  await writeFile(config, configured([{ provider: 'mock', model: 'mock-*', input: 0, request: 3 }]));
  const weir = await startWeir({ config });
  const { pay_as_you_go: price } = await operate(weir.url, { path: pricing });
  assert.deepEqual([price.request, price.request_token], [{ price: 300 }, { price: 0 }]);

  await writeFile(
    config,
    configured([
      { provider: 'mock', model: 'mock-gpt', input: 0, output: 0, request: 4, from: '2026-01-01' },
    ]),
  );
  await weir.untilStderr('configuration reloaded');
  assert.deepEqual((await operate(weir.url, { path: pricing })).pay_as_you_go.request, { price: 400 });

  const { keyId, key } = await makePremises(weir.url, 'Priced');
  const limits = { usage_limits: { type: 'cost', credit_limit: 7 } };
  await operate(weir.url, { method: 'PUT', path: `/api-keys/${keyId}`, body: limits });
  const ask = () => chat(weir.url, { key, model: 'mock-gpt', headers: { 'x-service-provider': 'mock' } });
  await eventually(async () => ((await ask()).status === 412 ? true : undefined));
  const { current_usage: used } = await operate(weir.url, { path: `/api-keys/${keyId}` });
  assert.ok(used >= 8 && used % 4 === 0, String(used));
});

test('what is wrong with a price is told with its place', async () => {
  const config = path.join(await temporaryFolder(), 'gateway.yaml');
  const cases: [object, RegExp][] = [
    [{ provider: 'mock', model: 'm' }, /"input"/],
    [{ provider: 'mock', model: 'm', input: -1 }, /"input": expected a number from 0/],
    [{ provider: 'mock', model: 'm', input: 1, from: 'soon' }, /"from": expected a date such as/],
    [{ provider: 'mock', model: 'm', input: 1, cached: 1 }, /cached/],
    [{ provider: 'mock', model: 'm', input: 1, factor: 2 }, /factor|input/],
  ];
  for (const [entry, message] of cases) {
    await writeFile(config, configured([entry]));
    await assert.rejects(startWeir({ config }), (error: Error) => {
      assert.match(error.message, message);
      return true;
    });
  }
});
