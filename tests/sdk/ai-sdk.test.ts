// The Vercel AI SDK with its OpenAI and Anthropic providers, each served by a provider of another dialect.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAI } from '@ai-sdk/openai';
import {
  APICallError,
  embedMany,
  generateText,
  Output,
  stepCountIs,
  streamText,
  tool,
  type LanguageModel,
} from 'ai';
import { z } from 'zod';
import { vectorOf } from './fake-vectors.ts';
import {
  mockHeaders,
  modelOf,
  providerHeaders,
  riverText,
  serviceKey,
  signature,
  startSdkSetting,
  type ProviderWire,
  type SdkSetting,
} from './sdk-setting.ts';

type Headers = Record<string, string>;

/** The wires that the SDK speaks, and those that serve it in another one. */
const clients: readonly {
  readonly name: string;
  readonly wires: readonly ProviderWire[];
  /** Whether a proof of what was thought comes back in the next turn. */
  readonly signs: boolean;
  model(setting: SdkSetting, headers: Headers, model: string): LanguageModel;
}[] = [
  {
    name: 'OpenAI chat',
    wires: ['anthropic-messages', 'google-gemini', 'bedrock-converse', 'cohere-v2', 'openai-responses'],
    signs: false,
    model: (setting, headers, model) =>
      createOpenAI({ apiKey: serviceKey, baseURL: setting.baseUrl, headers }).chat(model),
  },
  {
    name: 'OpenAI responses',
    wires: ['openai-chat', 'anthropic-messages', 'google-gemini', 'bedrock-converse', 'cohere-v2'],
    signs: true,
    model: (setting, headers, model) =>
      createOpenAI({ apiKey: serviceKey, baseURL: setting.baseUrl, headers }).responses(model),
  },
  {
    name: 'Anthropic',
    wires: ['openai-chat', 'openai-responses', 'google-gemini', 'bedrock-converse', 'cohere-v2'],
    signs: true,
    model: (setting, headers, model) =>
      createAnthropic({ apiKey: serviceKey, baseURL: setting.baseUrl, headers })(model),
  },
];

/** The two tools of the fixtures; what they were called with is noted. */
function toolsOf(setting: SdkSetting, ran: unknown[]) {
  const run =
    (result: string) =>
    (input: unknown): Promise<string> => {
      ran.push(input);
      setting.play('grid-tool-results');
      return Promise.resolve(result);
    };
  return {
    get_weather: tool({
      description: 'The weather of a city.',
      inputSchema: z.object({ city: z.string(), unit: z.enum(['celsius', 'fahrenheit']).optional() }),
      execute: run('14 °C'),
    }),
    get_tide: tool({
      description: 'The tide of a harbour.',
      inputSchema: z.object({ harbour: z.string(), days: z.array(z.number()).optional() }),
      execute: run('16:40'),
    }),
  };
}
/** Without it, the SDK names earlier texts by their ids, which only OpenAI itself could look up. */
const unstored = { openai: { store: false } };
const bothInputs = [{ city: 'Lübeck' }, { harbour: 'Travemünde', days: [1, 2] }];
const finalText = 'Lübeck has 14 °C; the tide is high at 16:40.';

for (const client of clients) {
  for (const wire of client.wires) {
    test(`${client.name} from ${wire}`, async (t) => {
      const setting = await startSdkSetting(t);
      const model = client.model(setting, providerHeaders(wire), modelOf[wire]);
      const river = { model, prompt: 'Name a river.', maxRetries: 0, providerOptions: unstored };

      await t.test('text', async () => {
        setting.play('grid-text');
        const { text, finishReason, usage } = await generateText({ ...river, instructions: 'Be terse.' });
        assert.equal(text, riverText);
        assert.equal(finishReason, 'stop');
        assert.equal(usage.inputTokens, 21);
        assert.equal(usage.outputTokens, 17);
        assert.match(JSON.stringify(setting.lastSeen().body), /Be terse\./);
      });

      await t.test('streamed text', async () => {
        setting.play('grid-text');
        const result = streamText(river);
        let text = '';
        for await (const delta of result.textStream) text += delta;
        assert.equal(text, riverText);
        assert.equal(await result.finishReason, 'stop');
        assert.equal((await result.usage).totalTokens, 38);
      });

      await t.test('tools in several steps', async () => {
        const ran: unknown[] = [];
        setting.play('grid-parallel-tools');
        const { text, steps, finishReason } = await generateText({
          ...river,
          prompt: 'Weather in Lübeck and tide in Travemünde?',
          tools: toolsOf(setting, ran),
          stopWhen: stepCountIs(3),
        });
        assert.deepEqual(ran, bothInputs);
        assert.equal(steps.length, 2);
        assert.equal(steps[0]?.finishReason, 'tool-calls');
        assert.equal(text, finalText);
        assert.equal(finishReason, 'stop');
        const said = JSON.stringify(setting.lastSeen().body);
        for (const one of ['14 °C', '16:40', 'Travemünde']) assert.ok(said.includes(one), one);
      });

      await t.test('streamed tools in several steps', async () => {
        const ran: unknown[] = [];
        setting.play('grid-parallel-tools');
        const result = streamText({
          ...river,
          prompt: 'Weather in Lübeck and tide in Travemünde?',
          tools: toolsOf(setting, ran),
          stopWhen: stepCountIs(3),
        });
        const inputs = new Map<string, string>();
        const called: unknown[] = [];
        for await (const part of result.stream) {
          if (part.type === 'error') throw part.error;
          if (part.type === 'tool-input-delta') {
            inputs.set(part.id, (inputs.get(part.id) ?? '') + part.delta);
          }
          if (part.type === 'tool-call') called.push([part.toolName, part.input]);
        }
        assert.deepEqual(
          [...inputs.values()].map((text) => JSON.parse(text) as unknown),
          bothInputs,
        );
        assert.deepEqual(called, [
          ['get_weather', bothInputs[0]],
          ['get_tide', bothInputs[1]],
        ]);
        assert.deepEqual(ran, bothInputs);
        assert.equal(await result.finalStep.then(({ text }) => text), finalText);
      });

      await t.test('an object of a schema', async () => {
        const output = Output.object({ schema: z.object({ river: z.string(), length_km: z.number() }) });
        setting.play('grid-structured');
        const whole = await generateText({ ...river, prompt: 'The Danube as JSON.', output });
        assert.deepEqual(whole.output, { river: 'Danube', length_km: 2850 });
        setting.play('grid-structured');
        const streamed = streamText({ ...river, prompt: 'The Danube as JSON.', output });
        await streamed.consumeStream();
        assert.deepEqual(await streamed.output, { river: 'Danube', length_km: 2850 });
      });

      await t.test('reasoning, and its proof in the next turn', async () => {
        const providerOptions = {
          openai: {
            reasoningEffort: 'medium',
            reasoningSummary: 'auto',
            store: false,
            forceReasoning: true,
            include: ['reasoning.encrypted_content'],
          },
          anthropic: { thinking: { type: 'enabled' as const, budgetTokens: 1024 } },
        };
        setting.play('grid-reasoning');
        const asked = { ...river, prompt: 'What is 3 × 17 − 9?', maxOutputTokens: 4096, providerOptions };
        const first = streamText(asked);
        await first.consumeStream();
        assert.equal(await first.text, 'The answer is 42.');
        assert.equal((await first.usage).outputTokens, 45);
        if (!client.signs) return;
        assert.equal(
          await first.finalStep.then((step) => step.reasoningText),
          '3 × 17 is 51; minus 9 is 42.',
        );
        const { messages } = await first.response;
        setting.play('grid-text');
        await generateText({
          model,
          maxRetries: 0,
          maxOutputTokens: 4096,
          providerOptions,
          messages: [
            { role: 'user', content: asked.prompt },
            ...messages,
            { role: 'user', content: 'And plus 1?' },
          ],
        });
        const said = JSON.stringify(setting.lastSeen().body);
        assert.match(said, /And plus 1\?/);
        if (wire === 'bedrock-converse' || wire === 'anthropic-messages' || wire === 'openai-responses') {
          assert.ok(said.includes(signature), said);
        }
      });

      await t.test('an error keeps its status', async () => {
        for (const status of [400, 401, 429, 500]) {
          setting.play('grid-text', { kind: 'error', status });
          const error: unknown = await generateText(river).catch((thrown: unknown) => thrown);
          assert.ok(APICallError.isInstance(error), String(error));
          assert.equal(error.statusCode, status);
          assert.match(error.message, /The sluice is jammed\./);
        }
      });

      await t.test('an error in a stream is no good end', async () => {
        for (const kind of ['error-event', 'cut', 'no-end'] as const) {
          setting.play('grid-text', { kind });
          const errors: unknown[] = [];
          const result = streamText({ ...river, onError: ({ error }) => void errors.push(error) });
          await result.consumeStream();
          assert.ok(errors.length > 0, kind);
          if (kind === 'error-event') {
            assert.match(JSON.stringify(errors[0], errorText) ?? '', /The sluice is jammed\./);
          }
          const finish = await result.finishReason.then(
            (reason) => reason,
            () => 'error' as const,
          );
          assert.notEqual(finish, 'stop', kind);
        }
      });

      await t.test('the provider as part of the model’s name', async () => {
        setting.play('grid-text');
        const named = client.model(setting, {}, `@p-${wire}/${modelOf[wire]}`);
        assert.equal((await generateText({ ...river, model: named })).text, riverText);
      });
    });
  }
}

/** Errors show nothing of themselves in JSON. */
function errorText(_name: string, value: unknown): unknown {
  return value instanceof Error ? `${value.message} ${JSON.stringify({ ...value })}` : value;
}

test('a reference to a stored answer is refused, with the remedy', async (t) => {
  const setting = await startSdkSetting(t);
  const openai = createOpenAI({
    apiKey: serviceKey,
    baseURL: setting.baseUrl,
    headers: providerHeaders('anthropic-messages'),
  });
  setting.play('grid-parallel-tools');
  const error: unknown = await generateText({
    model: openai.responses('claude-sonnet-4-5'),
    maxRetries: 0,
    stopWhen: stepCountIs(3),
    prompt: 'Weather in Lübeck and tide in Travemünde?',
    tools: toolsOf(setting, []),
  }).catch((thrown: unknown) => thrown);
  assert.ok(APICallError.isInstance(error), String(error));
  assert.equal(error.statusCode, 400);
  assert.match(error.message, /"store": false/);
});

test('embeddings from Cohere', async (t) => {
  const setting = await startSdkSetting(t);
  const headers = { 'x-service-provider': '@v-cohere-v2' };
  const openai = createOpenAI({ apiKey: serviceKey, baseURL: setting.baseUrl, headers });
  const { embeddings } = await embedMany({
    model: openai.embeddingModel('embed-v4.0'),
    values: ['Danube', 'Elbe'],
  });
  assert.deepEqual(embeddings, [vectorOf('Danube'), vectorOf('Elbe')]);
});

test('the built-in provider runs a loop of tools', async (t) => {
  const setting = await startSdkSetting(t);
  for (const { name, model } of clients) {
    const ran: unknown[] = [];
    const { text } = await generateText({
      model: model(setting, mockHeaders, 'mock-gpt'),
      prompt: 'Please get weather in Lübeck',
      tools: { get_weather: toolsOf(setting, ran).get_weather },
      stopWhen: stepCountIs(3),
    });
    assert.equal(ran.length, 1, name);
    assert.match(text, /14 °C/, name);
  }
});
