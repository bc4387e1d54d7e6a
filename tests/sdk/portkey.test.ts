// The `portkey-ai` SDK: its own headers (`x-portkey-…`) are an alias prefix of the gateway's.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Portkey } from 'portkey-ai';
import { vectorOf } from './fake-vectors.ts';
import { modelOf, riverText, serviceKey, startSdkSetting, type ProviderWire } from './sdk-setting.ts';

const wires: readonly ProviderWire[] = [
  'openai-responses',
  'anthropic-messages',
  'google-gemini',
  'bedrock-converse',
  'cohere-v2',
];

function clientOf(baseURL: string, provider: string | undefined): Portkey {
  return new Portkey({
    apiKey: serviceKey,
    baseURL,
    strictOpenAiCompliance: true,
    ...(provider === undefined ? {} : { provider }),
  });
}

for (const wire of wires) {
  const model = modelOf[wire];
  test(`chat completions from ${wire}`, async (t) => {
    const setting = await startSdkSetting(t);
    const portkey = clientOf(setting.baseUrl, `@p-${wire}`);
    const messages = [{ role: 'user', content: 'Name a river.' }];

    await t.test('a whole answer', async () => {
      setting.play('grid-text');
      const completion = await portkey.chat.completions.create({ model, messages });
      assert.equal(completion.choices?.[0]?.message?.content, riverText);
      assert.equal(completion.choices[0].finish_reason, 'stop');
      assert.equal(completion.usage?.total_tokens, 38);
      const { headers } = setting.lastSeen();
      assert.deepEqual(
        Object.keys(headers).filter((name) => name.startsWith('x-portkey')),
        [],
        'headers for the gateway went to the provider',
      );
    });

    await t.test('a stream', async () => {
      setting.play('grid-text');
      const stream = await portkey.chat.completions.create({ model, messages, stream: true });
      let text = '';
      let finish: string | null | undefined;
      for await (const chunk of stream) {
        const content: unknown = chunk.choices?.[0]?.delta?.content;
        if (typeof content === 'string') text += content;
        finish = chunk.choices?.[0]?.finish_reason ?? finish;
      }
      assert.equal(text, riverText);
      assert.equal(finish, 'stop');
    });

    await t.test('tools', async () => {
      setting.play('grid-tool-call');
      const completion = await portkey.chat.completions.create({
        model,
        messages: [{ role: 'user', content: 'How warm is it in Lübeck?' }],
        tools: [
          {
            type: 'function',
            function: {
              name: 'get_weather',
              parameters: { type: 'object', properties: { city: { type: 'string' } } },
            },
          },
        ],
      });
      const [call] = completion.choices?.[0]?.message?.tool_calls ?? [];
      assert.ok(call !== undefined && 'function' in call);
      assert.deepEqual(JSON.parse(call.function.arguments), { city: 'Lübeck', unit: 'celsius' });
      assert.equal(completion.choices?.[0]?.finish_reason, 'tool_calls');
    });

    await t.test('an error keeps its status', async () => {
      setting.play('grid-text', { kind: 'error', status: 429, retryAfter: '0' });
      const error: unknown = await portkey.chat.completions
        .create({ model, messages })
        .catch((e: unknown) => e);
      assert.ok(error instanceof Error);
      assert.equal((error as Error & { status?: number }).status, 429);
      assert.match(error.message, /The sluice is jammed\./);
    });

    await t.test('the provider as part of the model’s name', async () => {
      setting.play('grid-text');
      const completion = await clientOf(setting.baseUrl, undefined).chat.completions.create({
        model: `@p-${wire}/${model}`,
        messages,
      });
      assert.equal(completion.choices?.[0]?.message?.content, riverText);
    });
  });
}

// Without being told otherwise, this SDK asks for what the providers say beyond OpenAI's shape.
test('the provider’s own words come where they are wanted, and responses and embeddings', async (t) => {
  const setting = await startSdkSetting(t);
  const portkey = new Portkey({
    apiKey: serviceKey,
    baseURL: setting.baseUrl,
    provider: '@p-anthropic-messages',
    traceID: 'trace-1',
    metadata: { _user: 'kim' },
  });
  setting.play('grid-reasoning');
  const completion = await portkey.chat.completions.create({
    model: modelOf['anthropic-messages'],
    messages: [{ role: 'user', content: 'What is 3 × 17 − 9?' }],
  });
  const message = completion.choices?.[0]?.message as { content_blocks?: { type: string }[] } | undefined;
  assert.deepEqual(
    message?.content_blocks?.map(({ type }) => type),
    ['thinking', 'text'],
  );
  assert.equal(completion.choices?.[0]?.finish_reason, 'end_turn');
  const other = new Portkey({
    apiKey: serviceKey,
    baseURL: setting.baseUrl,
    provider: '@p-openai-responses',
  });
  setting.play('grid-tool-call');
  const called = await other.chat.completions.create({
    model: 'gpt-5.1',
    messages: [{ role: 'user', content: 'How warm is it in Lübeck?' }],
  });
  assert.equal(called.choices?.[0]?.finish_reason, 'tool_calls');
  setting.play('grid-text');
  const response = (await portkey.responses.create({
    model: modelOf['anthropic-messages'],
    input: 'Name a river.',
  })) as { output_text?: string };
  assert.equal(response.output_text, riverText);
  const vectors = await clientOf(setting.baseUrl, '@v-cohere-v2').embeddings.create({
    model: 'embed-v4.0',
    input: 'Elbe',
    encoding_format: 'float',
  });
  assert.deepEqual(vectors.data?.[0]?.embedding, vectorOf('Elbe'));
});
