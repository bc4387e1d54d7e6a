// The built-in provider and the official SDKs, as on the quick start: a key, an address and nothing else.
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import net from 'node:net';
import { describe, test, type TestContext } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import { GoogleGenAI } from '@google/genai';
import OpenAI, { toFile } from 'openai';
import { OpenAIRealtimeWS } from 'openai/realtime/ws';
import { parse } from 'yaml';
import auth from '../../plugins/auth/index.ts';
import { providerPlugin, startTestGateway } from '../kit/gateway-kit.ts';
import { failureOf, serviceKey } from './sdk-setting.ts';

const key = {
  id: 'key-1',
  name: 'quick start',
  kind: 'workspace-service' as const,
  organisationId: 'org',
  workspaceId: 'ws',
  userId: '',
  scopes: ['completions.write'],
  expiresAt: null,
};
const messages = [{ role: 'user' as const, content: 'Hello' }];
const sentence = /You said: "Hello"/;

/** The gateway with the options of the shipped configuration, or with a provider that none of them names. */
async function start(t: TestContext, options: Record<string, unknown> = { default: 'mock' }) {
  const { url, port } = await startTestGateway(t, {
    plugins: [auth, providerPlugin(options)],
    keys: { [serviceKey]: key },
  });
  const noRetries = { apiKey: serviceKey, maxRetries: 0 };
  return {
    port,
    openai: new OpenAI({ ...noRetries, baseURL: `${url}/v1` }),
    anthropic: new Anthropic({ ...noRetries, baseURL: url }),
    gemini: new GoogleGenAI({ apiKey: serviceKey, httpOptions: { baseUrl: url } }),
  };
}

test('the shipped configuration names it as default', async () => {
  const file = await readFile(new URL('../../gateway.config.yaml', import.meta.url), 'utf8');
  const { pipelines } = parse(file) as { pipelines: { name: string; plugins: unknown[] }[] };
  const provider = pipelines
    .find(({ name }) => name === 'gateway')
    ?.plugins.find((one) => typeof one === 'object' && one !== null && 'provider' in one);
  assert.deepEqual(provider, { provider: { default: 'mock' } });
});

describe('without any header', () => {
  test('openai', async (t) => {
    const { openai } = await start(t);
    for (const model of ['mock-gpt', '@mock/mock-gpt']) {
      const answer = await openai.chat.completions.create({ model, messages });
      assert.match(answer.choices[0]?.message.content ?? '', sentence);
    }
    const image = await openai.images.generate({ model: '@mock/mock-image', prompt: 'x' });
    assert.ok(image.data?.[0]?.b64_json);
    const models: string[] = [];
    for await (const { id } of openai.models.list()) models.push(id);
    assert.ok(models.includes('mock-gpt') && models.includes('@mock/mock-gpt'));
    assert.equal((await openai.models.retrieve('@mock/mock-gpt')).id, '@mock/mock-gpt');
    const files: string[] = [];
    for await (const { id } of openai.files.list({ limit: 4 })) files.push(id);
    assert.deepEqual([files.length, new Set(files).size], [15, 15]);
    const file = await openai.files.create({
      file: await toFile(Buffer.from('{}'), 'a.jsonl'),
      purpose: 'batch',
    });
    const pages = await openai.files.list({ limit: 1, order: 'desc' });
    assert.deepEqual([pages.data[0]?.id, pages.has_more], [file.id, true]);
  });

  test('anthropic', async (t) => {
    const { anthropic } = await start(t);
    const request = { model: '@mock/mock-gpt', messages, system: 'Be brief.' };
    const answer = await anthropic.messages.create({ ...request, max_tokens: 200 });
    assert.match(answer.content[0]?.type === 'text' ? answer.content[0].text : '', sentence);
    const tools = [{ name: 'get_weather', input_schema: { type: 'object' as const, properties: {} } }];
    for (const more of [{}, { tools }]) {
      const { usage } = await anthropic.messages.create({ ...request, ...more, max_tokens: 200 });
      const counted = await anthropic.messages.countTokens({ ...request, ...more });
      assert.equal(counted.input_tokens, usage.input_tokens);
    }
    const models: string[] = [];
    for await (const { id, type, display_name: name } of anthropic.models.list({ limit: 5 })) {
      assert.ok(type === 'model' && name !== '');
      models.push(id);
    }
    assert.ok(models.includes('mock-gpt') && models.includes('@mock/mock-gpt'));
    assert.equal((await anthropic.models.retrieve('mock-gpt')).type, 'model');
  });

  test('google genai', async (t) => {
    const { gemini } = await start(t);
    for (const model of ['mock-gpt', '@mock/mock-gpt']) {
      const { text, usageMetadata } = await gemini.models.generateContent({ model, contents: 'Hello' });
      assert.match(text ?? '', sentence);
      const counted = await gemini.models.countTokens({ model, contents: 'Hello' });
      assert.equal(counted.totalTokens, usageMetadata?.promptTokenCount);
    }
    const models: string[] = [];
    for await (const { name } of await gemini.models.list({ config: { pageSize: 4 } }))
      models.push(name ?? '');
    assert.ok(models.includes('models/mock-gpt') && models.includes('models/@mock/mock-gpt'));
    assert.equal((await gemini.models.get({ model: 'mock-gpt' })).name, 'models/mock-gpt');
    const { embeddings } = await gemini.models.embedContent({
      model: 'mock-embedding',
      contents: ['a', 'b'],
      config: { outputDimensionality: 8 },
    });
    assert.deepEqual(
      embeddings?.map(({ values }) => values?.length),
      [8, 8],
    );
  });

  test('a route that is not played says so, once', async (t) => {
    const { openai } = await start(t);
    openai.maxRetries = 2;
    const failure = await failureOf(
      openai.audio.transcriptions.create({
        model: 'mock-speech',
        file: await toFile(Buffer.from('RIFF'), 'a.wav'),
      }),
    );
    assert.match(failure.message, /501 The mock provider does not play POST \/audio\/transcriptions/);
    for (const ask of [() => openai.batches.list(), () => openai.beta.assistants.list()])
      assert.match((await failureOf(ask())).message, /501 The mock provider does not play GET/);
  });

  test('realtime over plain WebSocket, to which the SDK is led by its socket', async (t) => {
    const { openai, port } = await start(t);
    const model = 'mock-realtime';
    const socket = { createConnection: () => net.connect(port, '127.0.0.1') };
    const realtime = new OpenAIRealtimeWS({ model, options: socket }, openai);
    let text = '';
    const said = new Promise<string>((resolve, reject) => {
      realtime.on('error', reject);
      realtime.on('session.created', () => {
        const content = [{ type: 'input_text' as const, text: 'Hello' }];
        realtime.send({ type: 'conversation.item.create', item: { type: 'message', role: 'user', content } });
        realtime.send({ type: 'response.create' });
      });
      realtime.on('response.output_text.delta', ({ delta }) => (text += delta));
      realtime.on('response.done', ({ response }) => {
        realtime.close();
        resolve(`${response.status}: ${text}`);
      });
    });
    assert.match(await said, /^completed: You said: "Hello"/);
  });
});

test('without a default, the slug is enough', async (t) => {
  const { openai } = await start(t, {});
  const answer = await openai.chat.completions.create({ model: '@mock/mock-gpt', messages });
  assert.match(answer.choices[0]?.message.content ?? '', sentence);
  const { data } = await openai.models.list();
  assert.deepEqual(data, []);
  const headers = { 'x-service-provider': '@mock' };
  const named = await openai.chat.completions.create({ model: 'mock-gpt', messages }, { headers });
  assert.match(named.choices[0]?.message.content ?? '', sentence);
  const config = { 'x-service-config': JSON.stringify({ provider: '@mock' }) };
  const planned = await openai.chat.completions.create({ model: 'mock-gpt', messages }, { headers: config });
  assert.match(planned.choices[0]?.message.content ?? '', sentence);
});
