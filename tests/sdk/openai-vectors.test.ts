// Embeddings of the `openai` SDK, which asks for packed numbers unless it is told otherwise.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import OpenAI, { BadRequestError } from 'openai';
import { vectorOf } from './fake-vectors.ts';
import { serviceKey, startSdkSetting } from './sdk-setting.ts';

const hosts = [
  ['v-google-gemini', 'gemini-embedding-001', /:batchEmbedContents$/],
  ['v-cohere-v2', 'embed-v4.0', /^\/v2\/embed$/],
  ['v-bedrock-converse', 'cohere.embed-multilingual-v3', /\/invoke$/],
  ['v-bedrock-converse', 'amazon.titan-embed-text-v2:0', /\/invoke$/],
] as const;

for (const [provider, model, path] of hosts) {
  test(`embeddings of ${model} from ${provider}`, async (t) => {
    const setting = await startSdkSetting(t);
    const openai = new OpenAI({
      apiKey: serviceKey,
      baseURL: setting.baseUrl,
      maxRetries: 0,
      defaultHeaders: { 'x-service-provider': `@${provider}` },
    });
    // Titan embeds one text a request.
    const input = model.startsWith('amazon') ? ['Danube'] : ['Danube', 'Rhine'];
    for (const format of [undefined, 'float', 'base64'] as const) {
      const answer = await openai.embeddings.create({
        model,
        input,
        ...(format === undefined ? {} : { encoding_format: format }),
      });
      assert.equal(answer.object, 'list');
      assert.equal(answer.data.length, input.length);
      for (const [index, text] of input.entries()) {
        const one = answer.data[index];
        assert.equal(one?.index, index);
        const numbers = format === 'base64' ? unpacked(one.embedding as unknown as string) : one.embedding;
        assert.deepEqual([...numbers], vectorOf(text), `${format}`);
      }
      assert.match(decodeURIComponent(setting.vectorRequests.at(-1)?.url ?? ''), path);
    }
    const [single] = (await openai.embeddings.create({ model, input: 'Elbe' })).data;
    assert.deepEqual([...(single?.embedding ?? [])], vectorOf('Elbe'));
    const named = await new OpenAI({ apiKey: serviceKey, baseURL: setting.baseUrl }).embeddings.create({
      model: `@${provider}/${model}`,
      input: 'Elbe',
    });
    assert.equal(named.data.length, 1);
  });
}

function unpacked(base64: string): Float32Array {
  const bytes = Buffer.from(base64, 'base64');
  return new Float32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4);
}

test('a wire without embeddings says so', async (t) => {
  const setting = await startSdkSetting(t);
  setting.play('grid-text');
  const openai = new OpenAI({
    apiKey: serviceKey,
    baseURL: setting.baseUrl,
    maxRetries: 0,
    defaultHeaders: { 'x-service-provider': '@p-anthropic-messages' },
  });
  const error: unknown = await openai.embeddings
    .create({ model: 'claude-sonnet-4-5', input: 'Elbe' })
    .catch((thrown: unknown) => thrown);
  assert.ok(error instanceof BadRequestError, String(error));
  assert.match(error.message, /embeddings/);
  assert.equal(setting.seen().length, 0);
});

test('a ranking through the SDK’s own post', async (t) => {
  const setting = await startSdkSetting(t);
  const openai = new OpenAI({
    apiKey: serviceKey,
    baseURL: setting.baseUrl,
    maxRetries: 0,
    defaultHeaders: { 'x-service-provider': '@v-cohere-v2' },
  });
  const ranking = await openai.post<{ results: { index: number; relevance_score: number }[] }>('/rerank', {
    body: { model: 'rerank-v3.5', query: 'river', documents: ['A mountain.', 'The Elbe.'], top_n: 2 },
  });
  assert.deepEqual(
    ranking.results.map(({ index }) => index),
    [1, 0],
  );
  assert.equal(setting.vectorRequests.at(-1)?.body.top_n, 2);
});
