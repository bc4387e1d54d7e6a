// The `openai` SDK's chat completions, served by providers of other dialects. It knows a base URL, a key and headers.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import OpenAI from 'openai';
import { zodResponseFormat } from 'openai/helpers/zod';
import { z } from 'zod';
import {
  mockHeaders,
  modelOf,
  providerHeaders,
  riverText,
  serviceKey,
  signature,
  startSdkSetting,
  type ProviderWire,
} from './sdk-setting.ts';

const wires: readonly ProviderWire[] = [
  'anthropic-messages',
  'google-gemini',
  'bedrock-converse',
  'cohere-v2',
  'openai-responses',
];

function clientOf(baseURL: string, defaultHeaders: Record<string, string>): OpenAI {
  return new OpenAI({ apiKey: serviceKey, baseURL, maxRetries: 0, defaultHeaders });
}

const weather = {
  type: 'function' as const,
  function: {
    name: 'get_weather',
    description: 'The weather of a city.',
    parameters: {
      type: 'object',
      properties: {
        city: { type: 'string', description: 'Name of the city' },
        unit: { type: 'string', enum: ['celsius', 'fahrenheit'] },
      },
      required: ['city'],
      additionalProperties: false,
    },
  },
};
const tide = {
  type: 'function' as const,
  function: {
    name: 'get_tide',
    description: 'The tide of a harbour.',
    parameters: {
      type: 'object',
      properties: { harbour: { type: 'string' }, days: { type: 'array', items: { type: 'integer' } } },
      required: ['harbour'],
    },
  },
};
const bothCalls = [
  ['get_weather', { city: 'Lübeck' }],
  ['get_tide', { harbour: 'Travemünde', days: [1, 2] }],
];

function callsOf(message: OpenAI.ChatCompletionMessage | undefined): unknown[] {
  return (message?.tool_calls ?? []).map((call) => {
    assert.ok(call.type === 'function');
    assert.match(call.id, /./);
    return [call.function.name, JSON.parse(call.function.arguments)];
  });
}

for (const wire of wires) {
  const model = modelOf[wire];
  test(`chat completions from ${wire}`, async (t) => {
    const setting = await startSdkSetting(t);
    const openai = clientOf(setting.baseUrl, providerHeaders(wire));
    const river = { model, messages: [{ role: 'user' as const, content: 'Name a river.' }] };

    await t.test('a whole answer', async () => {
      setting.play('grid-text');
      const completion = await openai.chat.completions.create(river);
      assert.equal(completion.object, 'chat.completion');
      assert.match(completion.id, /./);
      const [choice] = completion.choices;
      assert.equal(choice?.message.role, 'assistant');
      assert.equal(choice.message.content, riverText);
      assert.equal(choice.finish_reason, 'stop');
      assert.equal(completion.usage?.prompt_tokens, 21);
      assert.equal(completion.usage.completion_tokens, 17);
      assert.equal(completion.usage.total_tokens, 38);
      assert.match(JSON.stringify(setting.lastSeen().body), /Name a river\./);
    });

    await t.test('a stream that is read chunk by chunk', async () => {
      setting.play('grid-text');
      const stream = await openai.chat.completions.create({
        ...river,
        stream: true,
        stream_options: { include_usage: true },
      });
      let text = '';
      const finishes: string[] = [];
      const usages: OpenAI.CompletionUsage[] = [];
      for await (const chunk of stream) {
        assert.equal(chunk.object, 'chat.completion.chunk');
        text += chunk.choices[0]?.delta.content ?? '';
        if (chunk.choices[0]?.finish_reason) finishes.push(chunk.choices[0].finish_reason);
        if (chunk.usage) usages.push(chunk.usage);
      }
      assert.equal(text, riverText);
      assert.deepEqual(finishes, ['stop']);
      assert.deepEqual(
        usages.map((usage) => [usage.prompt_tokens, usage.completion_tokens, usage.total_tokens]),
        [[21, 17, 38]],
      );
    });

    await t.test('usage stays away when nobody asks for it', async () => {
      setting.play('grid-text');
      for await (const chunk of await openai.chat.completions.create({ ...river, stream: true })) {
        assert.equal(chunk.choices.length, 1);
        assert.equal(chunk.usage ?? undefined, undefined);
      }
    });

    await t.test('the stream helper', async () => {
      setting.play('grid-text');
      const stream = openai.chat.completions.stream({ ...river, stream_options: { include_usage: true } });
      let deltas = '';
      let chunks = 0;
      let snapshot = '';
      stream.on('content', (delta, whole) => {
        deltas += delta;
        snapshot = whole;
      });
      stream.on('chunk', () => chunks++);
      const completion = await stream.finalChatCompletion();
      assert.equal(deltas, riverText);
      assert.equal(snapshot, riverText);
      assert.ok(chunks > 2);
      assert.equal(completion.choices[0]?.message.content, riverText);
      assert.equal(completion.choices[0].finish_reason, 'stop');
      assert.equal((await stream.totalUsage()).total_tokens, 38);
    });

    await t.test('parallel tools', async () => {
      const body = {
        model,
        messages: [{ role: 'user' as const, content: 'Weather in Lübeck and tide in Travemünde?' }],
        tools: [weather, tide],
      };
      setting.play('grid-parallel-tools');
      const whole = await openai.chat.completions.create(body);
      assert.equal(whole.choices[0]?.finish_reason, 'tool_calls');
      assert.deepEqual(callsOf(whole.choices[0].message), bothCalls);
      assert.equal(new Set(whole.choices[0].message.tool_calls?.map(({ id }) => id)).size, 2);
      setting.play('grid-parallel-tools');
      const stream = openai.chat.completions.stream(body);
      const ended: unknown[] = [];
      stream.on('tool_calls.function.arguments.done', ({ name, index, arguments: text }) =>
        ended.push([index, name, JSON.parse(text)]),
      );
      const streamed = await stream.finalChatCompletion();
      assert.equal(streamed.choices[0]?.finish_reason, 'tool_calls');
      assert.deepEqual(callsOf(streamed.choices[0].message), bothCalls);
      assert.deepEqual(
        ended,
        bothCalls.map((call, index) => [index, ...call]),
      );
    });

    await t.test('a call without arguments', async () => {
      setting.play('grid-tool-no-arguments');
      const stream = openai.chat.completions.stream({
        model,
        messages: [{ role: 'user', content: 'Which harbours do you know?' }],
        tools: [{ type: 'function', function: { name: 'list_harbours', description: 'All harbours.' } }],
      });
      const completion = await stream.finalChatCompletion();
      assert.deepEqual(callsOf(completion.choices[0]?.message), [['list_harbours', {}]]);
    });

    for (const stream of [false, true]) {
      await t.test(`the loop of tools, ${stream ? 'streamed' : 'whole'}`, async () => {
        setting.play('grid-parallel-tools');
        const ran: unknown[] = [];
        const parse = (text: string): unknown => JSON.parse(text);
        const run =
          (result: string) =>
          (input: unknown): string => {
            ran.push(input);
            setting.play('grid-tool-results');
            return result;
          };
        const body = {
          model,
          messages: [{ role: 'user' as const, content: 'Weather in Lübeck and tide in Travemünde?' }],
          tools: [
            { ...weather, function: { ...weather.function, parse, function: run('14 °C') } },
            { ...tide, function: { ...tide.function, parse, function: run('16:40') } },
          ],
        };
        const runner = stream
          ? openai.chat.completions.runTools({ ...body, stream: true as const })
          : openai.chat.completions.runTools(body);
        assert.equal(await runner.finalContent(), 'Lübeck has 14 °C; the tide is high at 16:40.');
        assert.deepEqual(
          ran,
          bothCalls.map(([, input]) => input),
        );
        const { messages } = runner;
        assert.deepEqual(
          messages.map(({ role }) => role),
          ['user', 'assistant', 'tool', 'tool', 'assistant'],
        );
        const said = JSON.stringify(setting.lastSeen().body);
        for (const text of ['14 °C', '16:40', 'Travemünde']) assert.ok(said.includes(text), text);
      });
    }

    await t.test('a parsed answer of a schema', async () => {
      const format = zodResponseFormat(z.object({ river: z.string(), length_km: z.number().int() }), 'river');
      const body = {
        model,
        messages: [{ role: 'user' as const, content: 'The Danube as JSON.' }],
        response_format: format,
      };
      setting.play('grid-structured');
      const whole = await openai.chat.completions.parse(body);
      assert.deepEqual(whole.choices[0]?.message.parsed, { river: 'Danube', length_km: 2850 });
      assert.match(JSON.stringify(setting.lastSeen().body), /length_km/);
      setting.play('grid-structured');
      const streamed = await openai.chat.completions.stream(body).finalChatCompletion();
      assert.deepEqual(streamed.choices[0]?.message.parsed, { river: 'Danube', length_km: 2850 });
      assert.equal(streamed.choices[0].finish_reason, 'stop');
    });

    await t.test('thinking does not get into the text', async () => {
      const body = {
        model,
        messages: [{ role: 'user' as const, content: 'What is 3 × 17 − 9?' }],
        reasoning_effort: 'medium' as const,
      };
      setting.play('grid-reasoning');
      const whole = await openai.chat.completions.create(body);
      const message = whole.choices[0]?.message as { content?: string; reasoning_content?: string };
      assert.equal(message.content, 'The answer is 42.');
      assert.equal(message.reasoning_content, '3 × 17 is 51; minus 9 is 42.');
      assert.equal(whole.usage?.completion_tokens, 45);
      setting.play('grid-reasoning');
      let text = '';
      let thought = '';
      for await (const { choices } of await openai.chat.completions.create({ ...body, stream: true })) {
        const delta: { content?: string | null; reasoning_content?: string } | undefined = choices[0]?.delta;
        text += delta?.content ?? '';
        thought += delta?.reasoning_content ?? '';
      }
      assert.equal(text, 'The answer is 42.');
      assert.equal(thought, '3 × 17 is 51; minus 9 is 42.');
    });

    await t.test('the length ends an answer', async () => {
      setting.play('grid-max-tokens');
      const whole = await openai.chat.completions.create({ ...river, max_completion_tokens: 16 });
      assert.equal(whole.choices[0]?.finish_reason, 'length');
      assert.equal(whole.choices[0].message.content, 'The Danube rises in the Black');
      setting.play('grid-max-tokens');
      let finish: string | null | undefined;
      const stream = await openai.chat.completions.create({ ...river, max_tokens: 16, stream: true });
      for await (const chunk of stream) finish = chunk.choices[0]?.finish_reason ?? finish;
      assert.equal(finish, 'length');
    });

    await t.test('tokens from a cache are counted beside', async () => {
      setting.play('grid-usage-details');
      const { usage } = await openai.chat.completions.create(river);
      assert.equal(usage?.prompt_tokens, 2048);
      assert.equal(usage.prompt_tokens_details?.cached_tokens, 1920);
      assert.equal(usage.completion_tokens, 300);
    });

    await t.test('the provider as part of the model’s name', async () => {
      setting.play('grid-text');
      const plain = clientOf(setting.baseUrl, {});
      const completion = await plain.chat.completions.create({ ...river, model: `@p-${wire}/${model}` });
      assert.equal(completion.choices[0]?.message.content, riverText);
      setting.play('grid-text');
      const stream = plain.chat.completions.stream({ ...river, model: `@p-${wire}/${model}` });
      assert.equal(await stream.finalContent(), riverText);
    });
  });
}

test('a signed thought goes out and comes back', async (t) => {
  const setting = await startSdkSetting(t);
  const openai = clientOf(setting.baseUrl, {
    ...providerHeaders('anthropic-messages'),
    'x-service-strict-open-ai-compliance': 'false',
  });
  setting.play('grid-reasoning');
  const question = { role: 'user' as const, content: 'What is 3 × 17 − 9?' };
  const body = { model: modelOf['anthropic-messages'], reasoning_effort: 'medium' as const };
  const first = await openai.chat.completions.create({ ...body, messages: [question] });
  const message = first.choices[0]?.message;
  assert.ok(message);
  assert.match(JSON.stringify(message), new RegExp(signature));
  setting.play('grid-text');
  await openai.chat.completions.create({
    ...body,
    messages: [question, message, { role: 'user', content: 'And plus 1?' }],
  });
  const sent = setting.lastSeen().body.messages as { role: string; content: Record<string, unknown>[] }[];
  assert.deepEqual(sent[1]?.content[0], {
    type: 'thinking',
    thinking: '3 × 17 is 51; minus 9 is 42.',
    signature,
  });
});

test('the tools of the built-in provider run in a loop', async (t) => {
  const setting = await startSdkSetting(t);
  const openai = clientOf(setting.baseUrl, mockHeaders);
  const runner = openai.chat.completions.runTools({
    model: 'mock-gpt',
    messages: [{ role: 'user', content: 'Please get weather in Lübeck' }],
    tools: [{ ...weather, function: { ...weather.function, function: () => 'Rain, 12 degrees' } }],
  });
  assert.match((await runner.finalContent()) ?? '', /Rain, 12 degrees/);
});
