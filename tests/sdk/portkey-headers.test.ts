// What the `portkey-ai` SDK reads of an answer's headers: those under its own prefix, which is an alias of the gateway's.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Portkey } from 'portkey-ai';
import { cachedGateway } from '../kit/cache-kit.ts';

test('an answer tells trace, provider, cache, retries and option', async (t) => {
  const { gateway, upstream } = await cachedGateway(t);
  const portkey = new Portkey({
    apiKey: 'wk_one',
    baseURL: `${gateway.url}/v1`,
    provider: '@up',
    traceID: 'trace-7',
    spanId: 'span-7',
    spanName: 'ask',
    metadata: { _user: 'kim' },
  });
  const ask = async () => {
    const completion = await portkey.chat.completions.create({
      model: 'm',
      messages: [{ role: 'user', content: 'Hello' }],
    });
    return completion.getHeaders() ?? {};
  };
  for (const [count, cache] of [
    [1, 'MISS'],
    [2, 'HIT'],
  ] as const) {
    const { 'request-id': id, ...said } = await ask();
    const { id: settled, facts } = await gateway.untilSettled(count);
    assert.equal(id, settled);
    assert.deepEqual(said, {
      'trace-id': 'trace-7',
      provider: 'up',
      'cache-status': cache,
      'retry-attempt-count': '0',
      'last-used-option-index': 'config',
    });
    assert.deepEqual([facts.traceId, facts.spanId, facts.spanName], ['trace-7', 'span-7', 'ask']);
    assert.deepEqual(facts.metadata, { _user: 'kim' });
  }
  assert.equal(upstream.requests.length, 1);
});

test('an error carries them too', async (t) => {
  const { gateway } = await cachedGateway(t, {
    answer: (_request, response) => {
      response.writeHead(400, { 'content-type': 'application/json' });
      response.end('{"error":{"message":"No.","type":"invalid_request_error"}}');
    },
  });
  const portkey = new Portkey({ apiKey: 'wk_one', baseURL: `${gateway.url}/v1`, provider: '@up' });
  const error: unknown = await portkey.chat.completions
    .create({ model: 'm', messages: [{ role: 'user', content: 'Hello' }] })
    .catch((failure: unknown) => failure);
  const { headers } = error as { headers: Readonly<Record<string, string>> };
  assert.equal(headers['x-portkey-provider'], 'up');
  assert.equal(headers['x-portkey-last-used-option-index'], 'config');
});
