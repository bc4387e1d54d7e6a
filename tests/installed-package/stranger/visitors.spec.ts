import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startGateway } from 'weir-gateway/testing';

const plugin = new URL('./visitors.ts', import.meta.url);

test('counts, tells and bounds', async (t) => {
  const gateway = await startGateway({ plugin, options: { most: 2 }, t });
  await gateway.ask();
  await gateway.ask({ wire: 'gemini', stream: true });
  const refused = await gateway.ask();
  assert.deepEqual([refused.status, refused.row['status_code'] ?? refused.row['status']], [429, 429]);
  const answer = await gateway.fetch('/v1/visitors?model=test-model');
  assert.deepEqual(await answer.json(), { visitors: [{ model: 'test-model', count: 2 }] });
  assert.equal(
    (await gateway.fetch('/v1/visitors', { headers: { 'x-service-api-key': 'wk_none' } })).status,
    401,
  );
  assert.equal(await gateway.metric('visitors_total', { model: 'test-model' }), 2);
});

test('lets everybody in while the store that counts is away', async (t) => {
  const gateway = await startGateway({ plugin, options: { most: 1 }, stores: 'away', t });
  assert.deepEqual([(await gateway.ask()).status, (await gateway.ask()).status], [200, 200]);
});
