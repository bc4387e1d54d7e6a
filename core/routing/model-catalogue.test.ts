import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { send, startUpstream, type Answering } from '../../tests/kit/http-kit.ts';
import { providerPlugin, startTestGateway } from '../../tests/kit/gateway-kit.ts';

const json =
  (value: unknown, status = 200): Answering =>
  (_request, response) => {
    response.writeHead(status, { 'content-type': 'application/json' });
    response.end(JSON.stringify(value));
  };
const models = async (url: string, headers: Record<string, string> = {}) =>
  send(url, { method: 'GET', path: '/v1/models', headers });

describe('GET /models', () => {
  test('without a provider: the models of all configured ones, and who could not be asked', async (t) => {
    const chat = await startUpstream(t, json({ data: [{ id: 'gpt-x', created: 7, owned_by: 'org' }] }));
    const gemini = await startUpstream(t, json({ models: [{ name: 'models/gemini-x' }] }));
    const broken = await startUpstream(t, json({ error: 'no' }, 500));
    const gateway = await startTestGateway(t, {
      plugins: [providerPlugin()],
      providers: {
        chat: { base_url: `${chat.url}/v1`, api_key: 'sk-held' },
        gem: { dialect: 'google-gemini', base_url: gemini.url, credentials: 'x-goog-api-key', api_key: 'g' },
        broken: { base_url: broken.url },
      },
    });
    const { status, text } = await models(gateway.url);
    assert.equal(status, 200);
    assert.deepEqual(JSON.parse(text), {
      object: 'list',
      data: [
        { id: '@chat/gpt-x', object: 'model', created: 7, owned_by: 'org' },
        { id: '@gem/gemini-x', object: 'model', created: 0, owned_by: 'gem' },
      ],
      unavailable: ['broken'],
    });
    assert.equal(chat.requests.at(-1)?.headers['authorization'], 'Bearer sk-held');
    assert.equal(gemini.requests.at(-1)?.url, '/v1beta/models?pageSize=1000');
    assert.equal(gemini.requests.at(-1)?.headers['x-goog-api-key'], 'g');
    await models(gateway.url);
    assert.equal(chat.requests.length, 1, 'the list is kept');
  });

  test('with a provider: its own list as it is, or in the known shape where it stands elsewhere', async (t) => {
    const own = { data: [{ id: 'a', extra: 1 }] };
    const chat = await startUpstream(t, json(own));
    const cohere = await startUpstream(t, json({ models: [{ name: 'command-x' }] }));
    const gateway = await startTestGateway(t, {
      plugins: [providerPlugin()],
      providers: {
        chat: { base_url: `${chat.url}/v1` },
        co: { dialect: 'cohere-v2', base_url: cohere.url, api_key: 'c' },
      },
    });
    assert.deepEqual(JSON.parse((await models(gateway.url, { 'x-service-provider': '@chat' })).text), own);
    assert.deepEqual(JSON.parse((await models(gateway.url, { 'x-service-provider': '@co' })).text), {
      object: 'list',
      data: [{ id: 'command-x', object: 'model', created: 0, owned_by: 'co' }],
    });
    const all = await models(gateway.url, {
      'x-service-provider': '@chat',
      'x-service-fetch-integrated-models': 'true',
    });
    assert.deepEqual(
      (JSON.parse(all.text) as { data: { id: string }[] }).data.map(({ id }) => id),
      ['@chat/a', '@co/command-x'],
    );
  });
});
