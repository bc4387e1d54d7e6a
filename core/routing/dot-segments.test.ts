import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { providerPlugin, startTestGateway } from '../../tests/kit/gateway-kit.ts';
import { send, startUpstream } from '../../tests/kit/http-kit.ts';

describe('a model that becomes a part of the path', () => {
  for (const dialect of ['bedrock-converse', 'google-gemini', 'workers-ai'] as const) {
    for (const model of ['..', '.', '../admin', 'a/../../admin', '..\\admin', 'a/..']) {
      test(`${dialect} is not asked for ${model}`, async (t) => {
        const upstream = await startUpstream(t, (_request, response) => void response.end('{}'));
        const { url } = await startTestGateway(t, {
          plugins: [providerPlugin({ default: 'up' })],
          providers: { up: { base_url: `${upstream.url}/below`, dialect } },
        });
        const body = JSON.stringify({ model, messages: [{ role: 'user', content: 'Hi' }] });
        const answer = await send(url, { path: '/v1/chat/completions', body });
        const { error } = answer.json();
        assert.deepEqual(
          [answer.status, error.code, error.param],
          [400, 'invalid_request', 'model'],
          error.message,
        );
        assert.equal(upstream.requests.length, 0);
      });
    }
  }

  test('may hold dots and slashes that lead nowhere', async (t) => {
    const upstream = await startUpstream(t, (_request, response) => void response.end('{}'));
    const { url } = await startTestGateway(t, {
      plugins: [providerPlugin({ default: 'up' })],
      providers: { up: { base_url: upstream.url, dialect: 'bedrock-converse' } },
    });
    const body = JSON.stringify({ model: 'arn:x/y.v1/..z', messages: [{ role: 'user', content: 'Hi' }] });
    await send(url, { path: '/v1/chat/completions', body });
    assert.deepEqual(
      upstream.requests.map((request) => request.url),
      ['/model/arn%3Ax%2Fy.v1%2F..z/converse'],
    );
  });
});
