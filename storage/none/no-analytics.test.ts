import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createNoAnalytics } from './no-analytics.ts';

test('without a store: queries say why and what to do, nothing is stored, and all is well', async () => {
  const analytics = createNoAnalytics();
  const window = { from: 0, to: 1 };
  const visibility = { organisationId: 'o' };
  const refusal = {
    code: 'store_unavailable',
    message:
      'There is no analytics store: storage.analytics.url is "none:". Set it to "chdb:" to query logs.',
  };
  await assert.rejects(analytics.insert('requests', new Uint8Array(), 'token'), refusal);
  await assert.rejects(
    analytics.groups({ by: 'model', columns: [], window, visibility, limit: 1, offset: 0 }),
    refusal,
  );
  await assert.rejects(analytics.requestById('id', window, visibility), refusal);
  await assert.rejects(analytics.feedbackById('id', window, visibility), refusal);
  await analytics.ping();
  await analytics.close();
});
