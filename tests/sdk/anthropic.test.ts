// The `@anthropic-ai/sdk` against providers of other dialects. It sends its key as a bearer;
// earlier ones sent it as `x-api-key`.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import { betaZodTool } from '@anthropic-ai/sdk/helpers/beta/zod';
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
  'openai-chat',
  'openai-responses',
  'google-gemini',
  'bedrock-converse',
  'cohere-v2',
];
/** Wires that prove their thoughts; Google proves the text after them, where a message has no place for it. */
const signing: ReadonlySet<ProviderWire> = new Set(['openai-responses', 'bedrock-converse']);

function clientOf(url: string, defaultHeaders: Record<string, string>): Anthropic {
  return new Anthropic({ apiKey: serviceKey, baseURL: url, maxRetries: 0, defaultHeaders });
}

const tools: Anthropic.Tool[] = [
  {
    name: 'get_weather',
    description: 'The weather of a city.',
    input_schema: {
      type: 'object',
      properties: { city: { type: 'string' }, unit: { type: 'string', enum: ['celsius', 'fahrenheit'] } },
      required: ['city'],
    },
  },
  {
    name: 'get_tide',
    description: 'The tide of a harbour.',
    input_schema: {
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

function callsOf(message: Anthropic.Message): unknown[] {
  return message.content.flatMap((block) => (block.type === 'tool_use' ? [[block.name, block.input]] : []));
}

function textOf(message: Anthropic.Message): string {
  return message.content.map((block) => (block.type === 'text' ? block.text : '')).join('');
}

for (const wire of wires) {
  const model = modelOf[wire];
  test(`messages from ${wire}`, async (t) => {
    const setting = await startSdkSetting(t);
    const anthropic = clientOf(setting.url, providerHeaders(wire));
    const river = {
      model,
      max_tokens: 2048,
      messages: [{ role: 'user' as const, content: 'Name a river.' }],
    };

    await t.test('a whole message', async () => {
      setting.play('grid-text');
      const message = await anthropic.messages.create({ ...river, system: 'Be terse.' });
      assert.equal(message.type, 'message');
      assert.equal(message.role, 'assistant');
      assert.equal(textOf(message), riverText);
      assert.equal(message.stop_reason, 'end_turn');
      assert.equal(message.usage.input_tokens, 21);
      assert.equal(message.usage.output_tokens, 17);
      assert.match(JSON.stringify(setting.lastSeen().body), /Be terse\./);
    });

    await t.test('a stream that is read event by event', async () => {
      setting.play('grid-text');
      const types: string[] = [];
      let text = '';
      for await (const event of await anthropic.messages.create({ ...river, stream: true })) {
        types.push(event.type);
        if (event.type === 'content_block_delta' && event.delta.type === 'text_delta') {
          text += event.delta.text;
        }
      }
      assert.equal(text, riverText);
      assert.deepEqual(types.slice(0, 2), ['message_start', 'content_block_start']);
      assert.deepEqual(types.slice(-3), ['content_block_stop', 'message_delta', 'message_stop']);
    });

    await t.test('the accumulated message', async () => {
      setting.play('grid-text');
      const stream = anthropic.messages.stream(river);
      let deltas = '';
      stream.on('text', (delta) => (deltas += delta));
      const message = await stream.finalMessage();
      assert.equal(deltas, riverText);
      assert.equal(textOf(message), riverText);
      assert.equal(await stream.finalText(), riverText);
      assert.equal(message.stop_reason, 'end_turn');
      assert.equal(message.usage.output_tokens, 17);
      assert.equal(message.usage.input_tokens, 21);
    });

    await t.test('tools, streamed and whole, and their results', async () => {
      const question = { role: 'user' as const, content: 'Weather in Lübeck and tide in Travemünde?' };
      for (const streamed of [false, true]) {
        const body = { ...river, messages: [question], tools };
        setting.play('grid-parallel-tools');
        const stream = streamed ? anthropic.messages.stream(body) : undefined;
        const partial: string[] = [];
        const blocks: string[] = [];
        stream?.on('inputJson', (piece) => partial.push(piece));
        stream?.on('contentBlock', ({ type }) => blocks.push(type));
        const first = stream ? await stream.finalMessage() : await anthropic.messages.create(body);
        assert.equal(first.stop_reason, 'tool_use');
        assert.deepEqual(callsOf(first), bothCalls);
        if (streamed) {
          assert.equal(partial.join(''), bothCalls.map(([, input]) => JSON.stringify(input)).join(''));
          assert.deepEqual(
            blocks,
            first.content.map(({ type }) => type),
          );
        }
        const calls = first.content.flatMap((block) => (block.type === 'tool_use' ? [block] : []));
        assert.equal(new Set(calls.map(({ id }) => id)).size, 2);
        setting.play('grid-tool-results');
        const second = await anthropic.messages.create({
          ...river,
          tools,
          messages: [
            question,
            { role: 'assistant', content: first.content },
            {
              role: 'user',
              content: calls.map(({ id, name }) => ({
                type: 'tool_result' as const,
                tool_use_id: id,
                content: name === 'get_weather' ? '14 °C' : '16:40',
              })),
            },
          ],
        });
        assert.equal(textOf(second), 'Lübeck has 14 °C; the tide is high at 16:40.');
        const said = JSON.stringify(setting.lastSeen().body);
        for (const text of ['14 °C', '16:40', 'Travemünde']) assert.ok(said.includes(text), text);
      }
    });

    await t.test('a tool without arguments', async () => {
      setting.play('grid-tool-no-arguments');
      const message = await anthropic.messages
        .stream({
          ...river,
          tool_choice: { type: 'any' },
          tools: [{ name: 'list_harbours', input_schema: { type: 'object' } }],
        })
        .finalMessage();
      assert.deepEqual(callsOf(message), [['list_harbours', {}]]);
    });

    await t.test('the runner of tools', async () => {
      setting.play('grid-tool-call');
      const ran: unknown[] = [];
      const weather = betaZodTool({
        name: 'get_weather',
        description: 'The weather of a city.',
        inputSchema: z.object({ city: z.string(), unit: z.string().optional() }),
        run(input) {
          ran.push(input);
          setting.play('grid-text');
          return '14 °C';
        },
      });
      const message = await anthropic.beta.messages.toolRunner({
        ...river,
        messages: [{ role: 'user', content: 'How warm is it in Lübeck?' }],
        tools: [weather],
      });
      assert.deepEqual(ran, [{ city: 'Lübeck', unit: 'celsius' }]);
      assert.deepEqual(
        message.content.flatMap((block) => (block.type === 'text' ? [block.text] : [])),
        [riverText],
      );
      assert.match(JSON.stringify(setting.lastSeen().body), /14 °C/);
    });

    await t.test('thinking, sent back as history', async () => {
      const question = { role: 'user' as const, content: 'What is 3 × 17 − 9?' };
      const body = {
        ...river,
        max_tokens: 4096,
        thinking: { type: 'enabled' as const, budget_tokens: 1024 },
      };
      for (const streamed of [false, true]) {
        setting.play('grid-reasoning');
        const stream = streamed ? anthropic.messages.stream({ ...body, messages: [question] }) : undefined;
        let thought = '';
        stream?.on('thinking', (delta) => (thought += delta));
        const message = stream
          ? await stream.finalMessage()
          : await anthropic.messages.create({ ...body, messages: [question] });
        assert.equal(textOf(message), 'The answer is 42.');
        const thinking = message.content.find(({ type }) => type === 'thinking');
        assert.ok(thinking?.type === 'thinking');
        assert.equal(thinking.thinking, '3 × 17 is 51; minus 9 is 42.');
        if (streamed) assert.equal(thought, thinking.thinking);
        assert.equal(message.usage.output_tokens, 45);
        setting.play('grid-text');
        await anthropic.messages.create({
          ...body,
          messages: [
            question,
            { role: 'assistant', content: message.content },
            { role: 'user', content: 'And plus 1?' },
          ],
        });
        const said = JSON.stringify(setting.lastSeen().body);
        assert.match(said, /And plus 1\?/);
        if (signing.has(wire)) assert.ok(said.includes(signature), said);
      }
    });

    await t.test('an image goes out', async () => {
      setting.play('grid-image');
      const data =
        'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==';
      const message = await anthropic.messages.create({
        ...river,
        messages: [
          {
            role: 'user',
            content: [
              { type: 'image', source: { type: 'base64', media_type: 'image/png', data } },
              { type: 'text', text: 'What is on this picture?' },
            ],
          },
        ],
      });
      assert.equal(textOf(message), 'A single pixel.');
      assert.ok(JSON.stringify(setting.lastSeen().body).includes(data));
    });

    await t.test('tokens from a cache are counted apart', async () => {
      setting.play('grid-usage-details');
      const { usage } = await anthropic.messages.stream(river).finalMessage();
      assert.equal(usage.cache_read_input_tokens, 1920);
      // Some wires tell what went into the cache, too.
      assert.equal(usage.input_tokens + (usage.cache_creation_input_tokens ?? 0), 128);
      assert.equal(usage.output_tokens, 300);
    });

    await t.test('the length ends a message', async () => {
      setting.play('grid-max-tokens');
      const message = await anthropic.messages.stream({ ...river, max_tokens: 16 }).finalMessage();
      assert.equal(message.stop_reason, 'max_tokens');
      assert.equal(textOf(message), 'The Danube rises in the Black');
    });

    await t.test('the provider as part of the model’s name', async () => {
      setting.play('grid-text');
      const plain = clientOf(setting.url, {});
      const message = await plain.messages.create({ ...river, model: `@p-${wire}/${model}` });
      assert.equal(textOf(message), riverText);
    });
  });
}

test('the built-in provider runs a loop of tools', async (t) => {
  const setting = await startSdkSetting(t);
  const anthropic = clientOf(setting.url, mockHeaders);
  const ran: unknown[] = [];
  const weather = betaZodTool({
    name: 'get_weather',
    description: 'The weather of a city.',
    inputSchema: z.object({ city: z.string() }),
    run(input) {
      ran.push(input);
      return 'Rain, 12 degrees';
    },
  });
  const runner = anthropic.beta.messages.toolRunner({
    model: 'mock-gpt',
    max_tokens: 512,
    stream: true,
    tools: [weather],
    messages: [{ role: 'user', content: 'Please get weather in Lübeck' }],
  });
  const message = await runner.runUntilDone();
  assert.equal(ran.length, 1);
  assert.match(JSON.stringify(message.content), /Rain, 12 degrees/);
});
