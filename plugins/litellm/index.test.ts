import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { providerPlugin, startTestGateway } from '../../tests/kit/gateway-kit.ts';
import { testKey } from '../../tests/kit/plugin-kit.ts';
import auth from '../auth/index.ts';
import litellm from './index.ts';

const secret = 'wk_litellm_0123456789';

describe("the plugin for clients of LiteLLM's proxy", () => {
  test('headers, tags, models and health', async (t) => {
    const gateway = await startTestGateway(t, {
      keys: { [secret]: testKey() },
      server: { header_aliases: ['x-litellm'] },
      plugins: [
        auth,
        { plugin: litellm, options: { models: ['small', 'large'] } },
        providerPlugin({ default: 'mock' }),
      ],
    });
    const headers = { 'x-litellm-api-key': secret, 'content-type': 'application/json' };
    const body = {
      model: 'mock-gpt',
      messages: [{ role: 'user', content: 'Hello' }],
      metadata: { tags: ['a', 'b'] },
    };
    const answer = await fetch(`${gateway.url}/v1/chat/completions`, {
      method: 'POST',
      headers,
      body: JSON.stringify(body),
    });
    assert.equal(answer.status, 200, await answer.text());
    const { id, facts } = await gateway.untilSettled(1);
    assert.equal(answer.headers.get('x-litellm-call-id'), id);
    assert.equal(answer.headers.get('x-litellm-model-id'), 'config');
    assert.equal(answer.headers.get('x-litellm-model-group'), 'mock-gpt');
    assert.equal(facts.metadata['tags'], 'a,b');
    const echo = await fetch(`${gateway.url}/v1/anything`, {
      method: 'POST',
      headers,
      body: '{"metadata":{"tags":["a"],"b":"c"}}',
    });
    assert.equal(((await echo.json()) as { body_bytes: number }).body_bytes, '{"metadata":{"b":"c"}}'.length);

    const models = (await (await fetch(`${gateway.url}/v1/models`, { headers })).json()) as {
      data: { id: string }[];
    };
    assert.deepEqual(
      models.data.map((one) => one.id),
      ['small', 'large'],
    );
    const info = (await (await fetch(`${gateway.url}/model/info`, { headers })).json()) as {
      data: { model_name: string }[];
    };
    assert.deepEqual(
      info.data.map((one) => one.model_name),
      ['small', 'large'],
    );
    assert.equal((await fetch(`${gateway.url}/v1/models`)).status, 401);
    const health = await fetch(`${gateway.url}/health/liveliness`);
    assert.deepEqual([health.status, await health.json()], [200, { status: 'alive' }]);
  });

  test('an answer with a known price says what it cost', async (t) => {
    const gateway = await startTestGateway(t, {
      keys: { [secret]: testKey() },
      prices: {
        price: () => ({ cost: '0.000120000000', status: 'priced', version: 'file' }),
        rates: () => undefined,
      },
      plugins: [auth, litellm, providerPlugin({ default: 'mock' })],
    });
    const headers = { authorization: `Bearer ${secret}`, 'content-type': 'application/json' };
    const body = JSON.stringify({ model: 'mock-gpt', messages: [{ role: 'user', content: 'Hello' }] });
    const answer = await fetch(`${gateway.url}/v1/chat/completions`, { method: 'POST', headers, body });
    assert.equal(answer.headers.get('x-litellm-response-cost'), '0.00012');
    const stream = await fetch(`${gateway.url}/v1/chat/completions`, {
      method: 'POST',
      headers,
      body: body.replace('{', '{"stream":true,'),
    });
    assert.match(await stream.text(), /\[DONE\]/);
    assert.equal(stream.headers.get('x-litellm-response-cost'), null);
  });
});
