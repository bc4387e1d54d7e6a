// The `@google/genai` SDK against providers of other dialects. It sends its key as `x-goog-api-key`.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  ApiError,
  FinishReason,
  FunctionCallingConfigMode,
  GoogleGenAI,
  type Content,
  type FunctionDeclaration,
  type GenerateContentResponse,
} from '@google/genai';
import { vectorOf } from './fake-vectors.ts';
import {
  failureOf,
  modelOf,
  providerHeaders,
  riverText,
  serviceKey,
  signature,
  startSdkSetting,
  type ProviderWire,
} from './sdk-setting.ts';

const wires: readonly ProviderWire[] = [
  'openai-chat',
  'openai-responses',
  'anthropic-messages',
  'bedrock-converse',
  'cohere-v2',
];
/** Wires that give a proof of what was thought. */
const signing: ReadonlySet<ProviderWire> = new Set([
  'openai-responses',
  'anthropic-messages',
  'bedrock-converse',
]);

function clientOf(baseUrl: string, headers: Record<string, string>, apiKey = serviceKey): GoogleGenAI {
  return new GoogleGenAI({ apiKey, httpOptions: { baseUrl, headers } });
}

const functionDeclarations: FunctionDeclaration[] = [
  {
    name: 'get_weather',
    description: 'The weather of a city.',
    parametersJsonSchema: {
      type: 'object',
      properties: { city: { type: 'string' } },
      required: ['city'],
    },
  },
  {
    name: 'get_tide',
    description: 'The tide of a harbour.',
    parametersJsonSchema: {
      type: 'object',
      properties: { harbour: { type: 'string' }, days: { type: 'array', items: { type: 'integer' } } },
      required: ['harbour'],
    },
  },
];
const bothCalls = [
  ['get_weather', { city: 'Lübeck' }],
  ['get_tide', { harbour: 'Travemünde', days: [1, 2] }],
];

/** A streamed answer in one piece: the parts of all chunks, and what the last ones say beside them. */
async function joined(chunks: AsyncIterable<GenerateContentResponse>) {
  const whole = {
    text: '',
    content: { role: 'model', parts: [] as NonNullable<Content['parts']> },
    calls: 0,
  };
  let finish: FinishReason | undefined;
  let usage: GenerateContentResponse['usageMetadata'];
  for await (const chunk of chunks) {
    const [candidate] = chunk.candidates ?? [];
    const parts = candidate?.content?.parts ?? [];
    for (const part of parts) if (part.thought !== true) whole.text += part.text ?? '';
    whole.content.parts.push(...parts);
    finish = candidate?.finishReason ?? finish;
    usage = chunk.usageMetadata ?? usage;
  }
  return { ...whole, finish, usage };
}

function callsOf(content: Content | undefined): unknown[] {
  return (content?.parts ?? []).flatMap(({ functionCall: call }) =>
    call ? [[call.name, call.args ?? {}]] : [],
  );
}

for (const wire of wires) {
  const model = modelOf[wire];
  test(`contents from ${wire}`, async (t) => {
    const setting = await startSdkSetting(t);
    const { models } = clientOf(setting.url, providerHeaders(wire));
    const river = { model, contents: 'Name a river.' };

    await t.test('a whole answer', async () => {
      setting.play('grid-text');
      const answer = await models.generateContent({ ...river, config: { systemInstruction: 'Be terse.' } });
      assert.equal(answer.text, riverText);
      assert.equal(answer.candidates?.[0]?.finishReason, FinishReason.STOP);
      assert.equal(answer.candidates[0].content?.role, 'model');
      assert.equal(answer.usageMetadata?.promptTokenCount, 21);
      assert.equal(answer.usageMetadata.candidatesTokenCount, 17);
      assert.equal(answer.usageMetadata.totalTokenCount, 38);
      assert.match(JSON.stringify(setting.lastSeen().body), /Be terse\./);
    });

    await t.test('a stream', async () => {
      setting.play('grid-text');
      const { text, finish, usage } = await joined(await models.generateContentStream(river));
      assert.equal(text, riverText);
      assert.equal(finish, FinishReason.STOP);
      assert.equal(usage?.totalTokenCount, 38);
    });

    await t.test('functions, streamed and whole, and their responses', async () => {
      const question = { role: 'user', parts: [{ text: 'Weather in Lübeck and tide in Travemünde?' }] };
      const config = { tools: [{ functionDeclarations }] };
      for (const streamed of [false, true]) {
        setting.play('grid-parallel-tools');
        const body = { model, contents: [question], config };
        const content = streamed
          ? (await joined(await models.generateContentStream(body))).content
          : (await models.generateContent(body)).candidates?.[0]?.content;
        assert.ok(content);
        assert.deepEqual(callsOf(content), bothCalls);
        setting.play('grid-tool-results');
        const parts = (content.parts ?? []).flatMap(({ functionCall: call }) =>
          call
            ? [
                {
                  functionResponse: {
                    ...(call.id === undefined ? {} : { id: call.id }),
                    ...(call.name === undefined ? {} : { name: call.name }),
                    response: { output: call.name === 'get_weather' ? '14 °C' : '16:40' },
                  },
                },
              ]
            : [],
        );
        const second = await models.generateContent({
          model,
          config,
          contents: [question, content, { role: 'user', parts }],
        });
        assert.equal(second.text, 'Lübeck has 14 °C; the tide is high at 16:40.');
        const said = JSON.stringify(setting.lastSeen().body);
        for (const text of ['14 °C', '16:40', 'Travemünde']) assert.ok(said.includes(text), text);
      }
    });

    await t.test('a function without arguments', async () => {
      setting.play('grid-tool-no-arguments');
      const answer = await models.generateContent({
        model,
        contents: 'Which harbours do you know?',
        config: {
          tools: [{ functionDeclarations: [{ name: 'list_harbours', description: 'All harbours.' }] }],
          toolConfig: { functionCallingConfig: { mode: FunctionCallingConfigMode.ANY } },
        },
      });
      assert.deepEqual(
        answer.functionCalls?.map(({ name, args }) => [name, args]),
        [['list_harbours', {}]],
      );
    });

    await t.test('a chat remembers, with what was thought', async () => {
      setting.play('grid-reasoning');
      const chat = clientOf(setting.url, providerHeaders(wire)).chats.create({
        model,
        config: { thinkingConfig: { includeThoughts: true, thinkingBudget: 2048 }, maxOutputTokens: 4096 },
      });
      const first = await joined(await chat.sendMessageStream({ message: 'What is 3 × 17 − 9?' }));
      assert.equal(first.text, 'The answer is 42.');
      const thoughts = first.content.parts.filter(({ thought }) => thought === true);
      assert.equal(thoughts.map(({ text }) => text).join(''), '3 × 17 is 51; minus 9 is 42.');
      assert.equal(
        (first.usage?.candidatesTokenCount ?? 0) + (first.usage?.thoughtsTokenCount ?? 0),
        45,
        JSON.stringify(first.usage),
      );
      setting.play('grid-text');
      const second = await chat.sendMessage({ message: 'And plus 1?' });
      assert.equal(second.text, riverText);
      const said = JSON.stringify(setting.lastSeen().body);
      for (const text of ['3 × 17 − 9?', 'The answer is 42.', 'And plus 1?'])
        assert.ok(said.includes(text), said);
      if (signing.has(wire)) assert.ok(said.includes(signature), said);
    });

    await t.test('JSON of a schema', async () => {
      setting.play('grid-structured');
      const answer = await models.generateContent({
        model,
        contents: 'The Danube as JSON.',
        config: {
          responseMimeType: 'application/json',
          responseJsonSchema: {
            type: 'object',
            properties: { river: { type: 'string' }, length_km: { type: 'integer' } },
            required: ['river', 'length_km'],
            additionalProperties: false,
          },
        },
      });
      assert.deepEqual(JSON.parse(answer.text ?? ''), { river: 'Danube', length_km: 2850 });
      assert.match(JSON.stringify(setting.lastSeen().body), /length_km/);
    });

    await t.test('the length ends an answer', async () => {
      setting.play('grid-max-tokens');
      const config = { maxOutputTokens: 16 };
      const whole = await models.generateContent({ ...river, config });
      assert.equal(whole.candidates?.[0]?.finishReason, FinishReason.MAX_TOKENS);
      setting.play('grid-max-tokens');
      const streamed = await joined(await models.generateContentStream({ ...river, config }));
      assert.equal(streamed.finish, FinishReason.MAX_TOKENS);
    });

    for (const status of [400, 401, 429, 500]) {
      await t.test(`${status} is an ApiError`, async () => {
        setting.play('grid-text', { kind: 'error', status });
        const whole = await failureOf(models.generateContent(river));
        setting.play('grid-text', { kind: 'error', status });
        const streamed = await failureOf(models.generateContentStream(river));
        for (const error of [whole, streamed]) {
          assert.ok(error instanceof ApiError, String(error));
          assert.equal(error.status, status);
          assert.match(error.message, /The sluice is jammed\./);
        }
      });
    }

    await t.test('an error in a stream is thrown', async () => {
      for (const kind of ['error-event', 'cut', 'no-end'] as const) {
        setting.play('grid-text', { kind });
        let text = '';
        let finish: FinishReason | undefined;
        const reading = async (): Promise<void> => {
          for await (const chunk of await models.generateContentStream(river)) {
            text += chunk.text ?? '';
            finish = chunk.candidates?.[0]?.finishReason ?? finish;
          }
        };
        const error = await failureOf(reading());
        if (kind === 'error-event') assert.match(error.message, /The sluice is jammed\./);
        assert.equal(finish, undefined);
        assert.ok(riverText.startsWith(text), `${kind}: ${text}`);
      }
    });

    await t.test('the provider as part of the model’s name', async () => {
      setting.play('grid-text');
      const plain = clientOf(setting.url, {}).models;
      const answer = await plain.generateContent({ ...river, model: `@p-${wire}/${model}` });
      assert.equal(answer.text, riverText);
      setting.play('grid-text');
      const stream = await plain.generateContentStream({ ...river, model: `@p-${wire}/${model}` });
      assert.equal((await joined(stream)).text, riverText);
    });
  });
}

test('embeddings of Google itself pass through', async (t) => {
  const setting = await startSdkSetting(t);
  const { models } = clientOf(setting.url, { 'x-service-provider': '@v-google-gemini' });
  const answer = await models.embedContent({
    model: 'gemini-embedding-001',
    contents: ['Danube', 'Elbe'],
  });
  assert.deepEqual(
    answer.embeddings?.map(({ values }) => values),
    [vectorOf('Danube'), vectorOf('Elbe')],
  );
  assert.equal(setting.vectorRequests.at(-1)?.headers['x-goog-api-key'], 'sk-held-by-the-gateway');
});

test('a wrong key is refused in the shape of the SDK', async (t) => {
  const setting = await startSdkSetting(t);
  const { models } = clientOf(setting.url, providerHeaders('openai-chat'), 'wk_unknown');
  const error = await failureOf(models.generateContent({ model: 'gpt-5.1', contents: 'Hi' }));
  assert.ok(error instanceof ApiError);
  assert.equal(error.status, 401);
  assert.match(error.message, /service key/);
});
