// What Python clients send, byte for byte where it matters: LiteLLM, portkey-ai and the Python SDKs of the vendors.
import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import auth from '../../plugins/auth/index.ts';
import { providerPlugin, startTestGateway } from '../kit/gateway-kit.ts';
import { send, startUpstream } from '../kit/http-kit.ts';
import { serviceKey } from './sdk-setting.ts';

const key = {
  id: 'key-1',
  name: 'python',
  kind: 'workspace-service' as const,
  organisationId: 'org',
  workspaceId: 'ws',
  userId: '',
  scopes: ['completions.write'],
  expiresAt: null,
};
/** As `litellm.rerank(model="cohere/…", api_base=GATEWAY)` sends it. */
const litellm = {
  'user-agent': 'litellm/1.110.2',
  accept: 'application/json',
  'content-type': 'application/json',
  authorization: `Bearer ${serviceKey}`,
};
const ranked = { id: 'r', results: [{ index: 0, relevance_score: 0.5 }], meta: { billed_units: {} } };

async function start(t: TestContext) {
  const upstream = await startUpstream(t, (_request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify(ranked));
  });
  const gateway = await startTestGateway(t, {
    plugins: [auth, providerPlugin({ default: 'mock' })],
    keys: { [serviceKey]: key },
    providers: {
      plain: { base_url: `${upstream.url}/v1`, api_key: 'sk-held' },
      cohere: { dialect: 'cohere-v2', base_url: upstream.url, api_key: 'sk-held' },
    },
  });
  const rerank = (path: string, model: string, headers: Record<string, string> = {}) =>
    send(gateway.url, {
      path,
      headers: { ...litellm, ...headers },
      body: { model, query: 'a', documents: ['a', 'b'], return_documents: true },
    });
  return { gateway, upstream, rerank };
}

describe("LiteLLM's rerank in Cohere's shape", () => {
  for (const [provider, asked, path] of [
    ['plain', '/v1/rerank', '/v1/rerank'],
    ['plain', '/v2/rerank', '/v1/rerank'],
    ['cohere', '/v1/rerank', '/v2/rerank'],
    ['cohere', '/v2/rerank', '/v2/rerank'],
  ] as const) {
    const naming = [
      ['by its header', 'rerank-x', { 'x-service-provider': `@${provider}` }],
      ['by its model, where LiteLLM sends no header', `@${provider}/rerank-x`, {}],
    ] as const;
    for (const [how, model, headers] of naming)
      test(`${asked} reaches ${provider}, named ${how}`, async (t) => {
        const { rerank, upstream, gateway } = await start(t);
        const { status, text } = await rerank(asked, model, headers);
        assert.equal(status, 200, text);
        assert.equal(JSON.parse(text).results[0].relevance_score, 0.5);
        const [seen] = upstream.requests;
        assert.deepEqual([seen?.url, seen?.headers['authorization']], [path, 'Bearer sk-held']);
        assert.equal(JSON.parse(seen?.body.toString() ?? '').model, 'rerank-x');
        const { facts } = await gateway.untilSettled();
        assert.deepEqual([facts.provider, facts.modelRequested], [provider, 'rerank-x']);
      });
  }

  test('without any name the default answers', async (t) => {
    const { rerank } = await start(t);
    const { status, text } = await rerank('/v2/rerank', 'mock-rerank');
    assert.deepEqual([status, JSON.parse(text).results[0].document], [200, { text: 'a' }]);
  });
});

test('portkey-ai for Python: responses.input_tokens.count', async (t) => {
  const { gateway } = await start(t);
  const { status, text } = await send(gateway.url, {
    path: '/v1/responses/input_tokens',
    headers: { 'x-portkey-api-key': serviceKey, 'x-portkey-provider': 'mock' },
    body: { model: 'mock-gpt', input: 'Hello there' },
  });
  assert.deepEqual([status, JSON.parse(text)], [200, { object: 'response.input_tokens', input_tokens: 7 }]);
});
