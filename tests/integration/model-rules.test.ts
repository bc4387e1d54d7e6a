// A rule over models holds wherever a model is said: what it blocks reaches no provider.
import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import fc from 'fast-check';
import requestParameters from '../../plugins/request-parameters/index.ts';
import { providerPlugin, startTestGateway } from '../kit/gateway-kit.ts';
import { send, startUpstream } from '../kit/http-kit.ts';
import { openSocket } from '../kit/websocket-provider.ts';

const blocked = 'secret-model';
const allowed = 'public-model';

/** A request that says its model at one place. */
interface Saying {
  readonly path: string;
  readonly headers?: Record<string, string>;
  readonly body?: object | string;
  /** Of the shipped rules, those that let the allowed model through here. */
  readonly onlyBlocks?: boolean;
}
type Place = (model: string) => Saying;

const messages = [{ role: 'user', content: 'Hi' }];
const contents = [{ role: 'user', parts: [{ text: 'Hi' }] }];
const at = (provider: string): Record<string, string> => ({ 'x-service-provider': provider });
const config = (value: object): Record<string, string> => ({ 'x-service-config': JSON.stringify(value) });
const chat = { path: '/v1/chat/completions' };
const plain = { model: allowed, messages };
const form = (model: string): Pick<Saying, 'headers' | 'body'> => ({
  headers: { ...at('@chat'), 'content-type': 'multipart/form-data; boundary=B' },
  body: `--B\r\nContent-Disposition: form-data; name="model"\r\n\r\n${model}\r\n--B\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\nRIFF\r\n--B--\r\n`,
});

const places: Readonly<Record<string, Place>> = {
  'the body': (model) => ({ ...chat, headers: at('@chat'), body: { model, messages } }),
  'the body behind @slug/': (model) => ({ ...chat, body: { model: `@chat/${model}`, messages } }),
  'a body of Messages': (model) => ({
    path: '/v1/messages',
    headers: at('@chat'),
    body: { model, messages, max_tokens: 5 },
  }),
  'a body without a content type': (model) => ({
    ...chat,
    headers: { ...at('@chat'), 'content-type': '' },
    body: JSON.stringify({ model, messages }),
  }),
  'a body that the gateway does not model': (model) => ({
    path: '/v1/videos',
    headers: at('@chat'),
    body: { model, prompt: 'x' },
  }),
  'a body of images behind @slug/': (model) => ({
    path: '/v1/images/generations',
    body: { model: `@chat/${model}`, prompt: 'x' },
  }),
  'the fallbacks of a body': (model) => ({
    ...chat,
    headers: at('@chat'),
    body: { ...plain, models: [allowed, model] },
  }),
  'a form': (model) => ({ path: '/v1/audio/transcriptions', ...form(model) }),
  "Gemini's path": (model) => ({
    path: `/v1beta/models/${model}:generateContent`,
    headers: at('@gem'),
    body: { contents },
  }),
  "Gemini's path, streamed": (model) => ({
    path: `/v1beta/models/${model}:streamGenerateContent`,
    headers: at('@gem'),
    body: { contents },
  }),
  "Gemini's path behind @slug/": (model) => ({
    path: `/v1beta/models/@gem/${model}:generateContent`,
    body: { contents },
  }),
  "Gemini's path, encoded": (model) => ({
    path: `/v1beta/models/${model.replace('-', '%2D')}:generateContent`,
    headers: at('@gem'),
    body: { contents },
  }),
  "Gemini's path of an operation": (model) => ({
    path: `/v1beta/models/${model}:countTokens`,
    headers: at('@gem'),
    body: { contents },
  }),
  "Gemini's path, translated to a chat": (model) => ({
    path: `/v1beta/models/${model}:generateContent`,
    headers: at('@chat'),
    body: { contents },
  }),
  "Azure's path": (model) => ({
    path: `/v1/openai/deployments/${model}/chat/completions?api-version=2024-10-21`,
    headers: at('@chat'),
    body: { messages },
  }),
  "Bedrock's path": (model) => ({
    path: `/v1/model/${model}/converse`,
    headers: at('@chat'),
    body: { messages: [] },
  }),
  'a query': (model) => ({
    path: `/v1/audio/speech?model=${model}`,
    headers: at('@chat'),
    body: { ...plain, input: 'x' },
  }),
  'override_params of a config': (model) => ({
    ...chat,
    headers: config({ provider: '@chat', override_params: { model } }),
    body: plain,
  }),
  "override_params of a config, at Gemini's path": (model) => ({
    path: `/v1beta/models/${allowed}:generateContent`,
    headers: config({ provider: '@gem', override_params: { model } }),
    body: { contents },
  }),
  'override_params of the second target': (model) => ({
    ...chat,
    body: plain,
    headers: config({
      strategy: { mode: 'fallback' },
      targets: [{ provider: '@down' }, { provider: '@chat', override_params: { model } }],
    }),
  }),
  'default_params of a config': (model) => ({
    ...chat,
    body: { messages },
    headers: config({ provider: '@chat', default_params: { model } }),
  }),
  'a config of the file': (model) => ({
    ...chat,
    headers: { 'x-service-config': `says-${model}` },
    body: plain,
  }),
  'the deployment of a provider': (model) => ({
    ...chat,
    headers: at(`@azure-${model}`),
    body: plain,
    onlyBlocks: true,
  }),
};

const rules = {
  blockedValues: { params: { values: { model: { blockedValues: [blocked] } } } },
  allowedValues: { params: { values: { model: { allowedValues: [allowed] } } } },
};

async function start(t: TestContext, options: object) {
  const answer = JSON.stringify({
    id: 'x',
    object: 'chat.completion',
    created: 1,
    model: 'm',
    choices: [],
    usage: {},
    candidates: [],
  });
  const upstream = await startUpstream(t, (request, response) => {
    const isDown = request.url?.startsWith('/down') === true;
    response.writeHead(isDown ? 503 : 200, { 'content-type': 'application/json' });
    response.end(answer);
  });
  const base_url = `${upstream.url}/v1`;
  const azure = (name: string): object => ({
    dialect: 'azure-openai',
    base_url: upstream.url,
    api_key: 'k',
    azure_deployment_id: name,
    azure_api_version: '2024-10-21',
  });
  const gateway = await startTestGateway(t, {
    plugins: [{ plugin: requestParameters, options: { ...options } }, providerPlugin()],
    providers: {
      chat: { base_url, api_key: 'k' },
      down: { base_url: `${upstream.url}/down`, api_key: 'k' },
      gem: { dialect: 'google-gemini', base_url: upstream.url, api_key: 'k', credentials: 'x-goog-api-key' },
      [`azure-${blocked}`]: azure(blocked),
      [`azure-${allowed}`]: azure(allowed),
    },
    configs: {
      [`says-${blocked}`]: { provider: '@chat', override_params: { model: blocked } },
      [`says-${allowed}`]: { provider: '@chat', override_params: { model: allowed } },
    },
  });
  const ask = async ({ path, headers = {}, body }: Saying) => {
    const before = upstream.requests.length;
    const { status, text } = await send(gateway.url, { method: 'POST', path, headers, body });
    const seen = upstream.requests.slice(before).map((one) => `${one.url} ${one.body.toString()}`);
    return { status, text, seen };
  };
  return { ask, gateway };
}

for (const [list, options] of Object.entries(rules))
  describe(`model.${list}`, () => {
    for (const [name, place] of Object.entries(places)) {
      if (list === 'allowedValues' && place(allowed).onlyBlocks === true) continue;
      test(`in ${name}`, async (t) => {
        const { ask } = await start(t, options);
        const passed = await ask(place(allowed));
        assert.ok(passed.seen.length > 0, `the allowed model was refused: ${passed.text}`);
        assert.notEqual(passed.status, 446);
        const refused = await ask(place(blocked));
        assert.equal(refused.status, 446, refused.text);
        assert.match(refused.text, /"param":"model"|params\.values\.model/);
        assert.deepEqual(
          refused.seen.filter((one) => decodeURIComponent(one).includes(blocked)),
          [],
        );
      });
    }

    test('the query of a request for WebSocket', async (t) => {
      const { gateway } = await start(t, options);
      const open = (model: string) =>
        openSocket(`${gateway.url}/v1/realtime?model=${model}`, { headers: at('mock') });
      (await open(allowed)).socket.close();
      await assert.rejects(open(blocked));
    });

    test('a model that cannot be told reaches nobody, where one must be known', async (t) => {
      const { ask } = await start(t, options);
      for (const saying of [
        { path: '/v1/batches', headers: at('@chat'), body: { input_file_id: 'file-1' } },
        { path: '/v1/anything', headers: at('@chat'), body: `[{"model":"${blocked}"}]` },
      ]) {
        const { status, text, seen } = await ask(saying);
        assert.deepEqual([status, seen], [446, []], text);
        assert.match(text, /cannot be told/);
      }
      const named = await ask({ path: '/v1/moderations', headers: at('@chat'), body: { input: 'x' } });
      assert.equal(named.seen.length, 1, 'a request that names no model is none of the rule');
      const upload = { 'content-type': 'application/octet-stream' };
      const file = await ask({ path: '/v1/files', headers: { ...at('@chat'), ...upload }, body: 'data' });
      assert.equal(file.seen.length, 1);
    });
  });

test('whatever a request says at several places, a blocked model reaches no provider', async (t) => {
  const { ask } = await start(t, rules.blockedValues);
  const model = fc.constantFrom(blocked, allowed, `@chat/${blocked}`, `@chat/${allowed}`, `@gem/${blocked}`);
  const maybe = fc.option(model, { nil: undefined });
  const target = fc.record({
    override: maybe,
    fallback: maybe,
    provider: fc.constantFrom('@chat', '@gem', '@down'),
  });
  await fc.assert(
    fc.asyncProperty(
      fc.boolean(),
      maybe,
      model,
      fc.option(fc.array(target, { minLength: 1, maxLength: 3 }), { nil: undefined }),
      async (isGemini, inBody, inPath, targets) => {
        const headers: Record<string, string> =
          targets === undefined
            ? {}
            : config({
                strategy: { mode: 'fallback' },
                targets: targets.map(({ override, fallback, provider }) => ({
                  provider,
                  ...(override !== undefined && { override_params: { model: override } }),
                  ...(fallback !== undefined && { default_params: { model: fallback } }),
                })),
              });
        const body = isGemini ? { contents } : { messages };
        const { seen } = await ask({
          path: isGemini ? `/v1beta/models/${inPath}:generateContent` : '/v1/chat/completions',
          headers,
          body: inBody === undefined ? body : { ...body, model: inBody },
        });
        assert.deepEqual(
          seen.filter((one) => decodeURIComponent(one).includes(blocked)),
          [],
        );
      },
    ),
    { numRuns: 60 },
  );
});

test('a rule over another parameter holds for what a config adds', async (t) => {
  const { ask } = await start(t, { params: { blockedKeys: ['logit_bias'] } });
  for (const member of ['override_params', 'default_params']) {
    const headers = config({ provider: '@chat', [member]: { logit_bias: {} } });
    const { status, seen } = await ask({ ...chat, headers, body: plain });
    assert.deepEqual([status, seen], [446, []], member);
  }
});
