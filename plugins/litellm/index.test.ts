import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { providerPlugin, startTestGateway } from '../../tests/kit/gateway-kit.ts';
import { testKey } from '../../tests/kit/plugin-kit.ts';
import type { TokenRates } from '../../core/ports/prices.ts';
import auth from '../auth/index.ts';
import management from '../management/index.ts';
import litellm from './index.ts';

const secret = 'wk_litellm_0123456789';

function rates(input: number): TokenRates {
  const none = { cacheRead: undefined, cacheWrite: undefined, inputAudio: undefined, outputAudio: undefined };
  return { input, output: 2 * input, ...none, reasoning: undefined, request: 0 };
}

describe("the plugin for clients of LiteLLM's proxy", () => {
  test('headers, tags, models and health', async (t) => {
    const gateway = await startTestGateway(t, {
      keys: { [secret]: testKey() },
      server: { header_aliases: ['x-litellm'] },
      prices: {
        price: () => ({ cost: '0', status: 'unpriced', version: 'file' }),
        parts: () => undefined,
        rates: (provider, model) =>
          provider === 'openai' ? rates(model === 'gpt-large' ? 0.000002 : 0.000001) : undefined,
      },
      pipelines: [
        // As the importer writes them: /model/new of management is in the way of /model/info, unless it is a route.
        {
          match: { routes: 'contributed' },
          plugins: [auth, { plugin: management, options: { litellm: true } }],
        },
        {
          plugins: [
            auth,
            {
              plugin: litellm,
              options: {
                models: [
                  'small',
                  { name: 'large', provider: 'openai', model: 'gpt-large', mode: 'chat', id: 'east' },
                  { name: 'large', provider: 'openai', max_input_tokens: 8000, max_output_tokens: 1000 },
                ],
              },
            },
            providerPlugin({ default: 'mock' }),
          ],
        },
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
    const read = async (path: string): Promise<Record<string, unknown>[]> => {
      const found = await fetch(`${gateway.url}${path}`, { headers });
      const text = await found.text();
      assert.equal(found.status, 200, text);
      return (JSON.parse(text) as { data: Record<string, unknown>[] }).data;
    };
    const infos = await read('/model/info');
    assert.deepEqual(await read('/v1/model/info'), infos);
    assert.deepEqual(
      infos.map((one) => [one['model_name'], one['litellm_params']]),
      [
        ['small', { model: 'small' }],
        ['large', { model: 'openai/gpt-large' }],
        ['large', { model: 'openai/large' }],
      ],
    );
    assert.deepEqual(infos[1]?.['model_info'], {
      ...{ id: 'east', db_model: false, key: 'gpt-large', litellm_provider: 'openai', mode: 'chat' },
      ...{ max_tokens: null, max_input_tokens: null, max_output_tokens: null },
      ...{ input_cost_per_token: 0.000002, output_cost_per_token: 0.000004 },
      ...{ cache_read_input_token_cost: null, cache_creation_input_token_cost: null },
    });
    assert.equal((await read('/model/info?litellm_model_id=east')).length, 1);
    assert.deepEqual(await read('/model_group/info?model_group=large'), [
      {
        ...{ model_group: 'large', providers: ['openai'], mode: 'chat' },
        ...{ max_input_tokens: 8000, max_output_tokens: 1000 },
        ...{ input_cost_per_token: 0.000002, output_cost_per_token: 0.000004 },
      },
    ]);
    assert.equal((await fetch(`${gateway.url}/model/info`)).status, 401);
    const asked = await fetch(`${gateway.url}/health`, { headers });
    assert.deepEqual([asked.status, /Call GET \/readyz/.test(await asked.text())], [400, true]);
    assert.equal((await fetch(`${gateway.url}/v1/models`)).status, 401);
    const health = await fetch(`${gateway.url}/health/liveliness`);
    assert.deepEqual([health.status, await health.json()], [200, { status: 'alive' }]);
  });

  test('an answer with a known price says what it cost', async (t) => {
    const gateway = await startTestGateway(t, {
      keys: { [secret]: testKey() },
      prices: {
        price: () => ({ cost: '0.000120000000', status: 'priced', version: 'file' }),
        parts: () => undefined,
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
