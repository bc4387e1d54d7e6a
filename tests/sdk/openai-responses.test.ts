// The `openai` SDK's responses, served by providers that know no Responses API.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import OpenAI, {
  APIError,
  AuthenticationError,
  BadRequestError,
  InternalServerError,
  RateLimitError,
} from 'openai';
import { zodTextFormat } from 'openai/helpers/zod';
import type {
  FunctionTool,
  Response,
  ResponseInput,
  ResponseStreamEvent,
} from 'openai/resources/responses/responses';
import { z } from 'zod';
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
  'anthropic-messages',
  'google-gemini',
  'bedrock-converse',
  'cohere-v2',
];
/** Wires that give a proof of what was thought. */
const signing: ReadonlySet<ProviderWire> = new Set([
  'anthropic-messages',
  'bedrock-converse',
  'google-gemini',
]);

function clientOf(baseURL: string, defaultHeaders: Record<string, string>): OpenAI {
  return new OpenAI({ apiKey: serviceKey, baseURL, maxRetries: 0, defaultHeaders });
}

const tools: FunctionTool[] = [
  {
    type: 'function',
    name: 'get_weather',
    strict: true,
    description: 'The weather of a city.',
    parameters: {
      type: 'object',
      properties: { city: { type: 'string' } },
      required: ['city'],
      additionalProperties: false,
    },
  },
  {
    type: 'function',
    name: 'get_tide',
    strict: false,
    description: 'The tide of a harbour.',
    parameters: {
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

function callsOf(response: Response): unknown[] {
  return response.output.flatMap((item) =>
    item.type === 'function_call' ? [[item.name, JSON.parse(item.arguments)]] : [],
  );
}

for (const wire of wires) {
  const model = modelOf[wire];
  test(`responses from ${wire}`, async (t) => {
    const setting = await startSdkSetting(t);
    const openai = clientOf(setting.baseUrl, providerHeaders(wire));
    const river = { model, input: 'Name a river.' };

    await t.test('a whole answer', async () => {
      setting.play('grid-text');
      const response = await openai.responses.create({ ...river, instructions: 'Be terse.' });
      assert.equal(response.object, 'response');
      assert.equal(response.status, 'completed');
      assert.equal(response.output_text, riverText);
      assert.equal(response.usage?.input_tokens, 21);
      assert.equal(response.usage.output_tokens, 17);
      assert.equal(response.usage.total_tokens, 38);
      assert.match(JSON.stringify(setting.lastSeen().body), /Be terse\./);
    });

    await t.test('a stream whose events follow the rules', async () => {
      setting.play('grid-text');
      const events: ResponseStreamEvent[] = [];
      for await (const event of await openai.responses.create({ ...river, stream: true })) events.push(event);
      assert.equal(events[0]?.type, 'response.created');
      const last = events.at(-1);
      assert.ok(last?.type === 'response.completed');
      assert.deepEqual(
        events.map(({ sequence_number: number }) => number),
        events.map((_, index) => index),
      );
      const deltas = events.flatMap((event) =>
        event.type === 'response.output_text.delta' ? [event.delta] : [],
      );
      assert.equal(deltas.join(''), riverText);
      assert.equal(last.response.usage?.total_tokens, 38);
    });

    await t.test('the stream helper', async () => {
      setting.play('grid-text');
      const stream = openai.responses.stream(river);
      let snapshot = '';
      stream.on('response.output_text.delta', (event) => (snapshot = event.snapshot));
      const response = await stream.finalResponse();
      assert.equal(snapshot, riverText);
      assert.equal(response.output_text, riverText);
      assert.equal(response.status, 'completed');
    });

    await t.test('function calls, answered in a second turn', async () => {
      const input: ResponseInput = [{ role: 'user', content: 'Weather in Lübeck and tide in Travemünde?' }];
      for (const streamed of [false, true]) {
        setting.play('grid-parallel-tools');
        const first = streamed
          ? await openai.responses.stream({ model, input, tools }).finalResponse()
          : await openai.responses.create({ model, input, tools });
        assert.deepEqual(callsOf(first), bothCalls);
        const calls = first.output.flatMap((item) => (item.type === 'function_call' ? [item] : []));
        assert.equal(new Set(calls.map(({ call_id: id }) => id)).size, 2);
        setting.play('grid-tool-results');
        const second = await openai.responses.create({
          model,
          tools,
          input: [
            ...input,
            ...(first.output as ResponseInput),
            ...calls.map(({ call_id, name }) => ({
              type: 'function_call_output' as const,
              call_id,
              output: name === 'get_weather' ? '14 °C' : '16:40',
            })),
          ],
        });
        assert.equal(second.output_text, 'Lübeck has 14 °C; the tide is high at 16:40.');
        const said = JSON.stringify(setting.lastSeen().body);
        for (const text of ['14 °C', '16:40', 'Travemünde']) assert.ok(said.includes(text), text);
      }
    });

    await t.test('the arguments of a call grow', async () => {
      setting.play('grid-tool-call');
      const stream = openai.responses.stream({ model, input: 'How warm is it in Lübeck?', tools });
      let deltas = '';
      let done = '';
      stream.on('response.function_call_arguments.delta', (event) => (deltas += event.delta));
      stream.on('response.function_call_arguments.done', (event) => (done = event.arguments));
      await stream.finalResponse();
      assert.deepEqual(JSON.parse(deltas), { city: 'Lübeck', unit: 'celsius' });
      assert.equal(done, deltas);
    });

    await t.test('reasoning items, sent back as history', async () => {
      const body = {
        model,
        reasoning: { effort: 'medium' as const, summary: 'auto' as const },
        include: ['reasoning.encrypted_content' as const],
      };
      for (const streamed of [false, true]) {
        const input: ResponseInput = [{ role: 'user', content: 'What is 3 × 17 − 9?' }];
        setting.play('grid-reasoning');
        const first = streamed
          ? await openai.responses.stream({ ...body, input }).finalResponse()
          : await openai.responses.create({ ...body, input });
        assert.equal(first.output_text, 'The answer is 42.');
        const item = first.output.find(({ type }) => type === 'reasoning');
        assert.ok(item?.type === 'reasoning');
        assert.equal(item.summary.map(({ text }) => text).join(''), '3 × 17 is 51; minus 9 is 42.');
        assert.equal(first.usage?.output_tokens, 45);
        setting.play('grid-text');
        await openai.responses.create({
          ...body,
          input: [...input, ...(first.output as ResponseInput), { role: 'user', content: 'And plus 1?' }],
        });
        const said = JSON.stringify(setting.lastSeen().body);
        assert.match(said, /And plus 1\?/);
        if (signing.has(wire)) assert.ok(said.includes(signature), said);
      }
    });

    await t.test('a parsed answer of a schema', async () => {
      setting.play('grid-structured');
      const response = await openai.responses.parse({
        model,
        input: 'The Danube as JSON.',
        text: { format: zodTextFormat(z.object({ river: z.string(), length_km: z.number() }), 'river') },
      });
      assert.deepEqual(response.output_parsed, { river: 'Danube', length_km: 2850 });
      assert.match(JSON.stringify(setting.lastSeen().body), /length_km/);
    });

    await t.test('an answer that ran out of tokens is incomplete', async () => {
      for (const streamed of [false, true]) {
        setting.play('grid-max-tokens');
        const body = { ...river, max_output_tokens: 16 };
        const response = streamed
          ? await openai.responses.stream(body).finalResponse()
          : await openai.responses.create(body);
        assert.equal(response.status, 'incomplete');
        assert.equal(response.incomplete_details?.reason, 'max_output_tokens');
        assert.equal(response.output_text, 'The Danube rises in the Black');
      }
    });

    const errorClasses = [
      [400, BadRequestError],
      [401, AuthenticationError],
      [429, RateLimitError],
      [500, InternalServerError],
    ] as const;
    for (const [status, errorClass] of errorClasses) {
      await t.test(`${status} is ${errorClass.name}`, async () => {
        for (const stream of [false, true]) {
          setting.play('grid-text', { kind: 'error', status, retryAfter: '7' });
          const error = await failureOf(openai.responses.create({ ...river, stream }));
          assert.ok(error instanceof errorClass, String(error));
          assert.match(error.message, /The sluice is jammed\./);
          assert.equal(error.headers?.get('retry-after'), '7');
        }
      });
    }

    await t.test('an error in a stream is an error', async () => {
      for (const kind of ['error-event', 'cut', 'no-end'] as const) {
        setting.play('grid-text', { kind });
        const types = new Set<string>();
        let told = '';
        const reading = async (): Promise<void> => {
          for await (const event of await openai.responses.create({ ...river, stream: true })) {
            types.add(event.type);
            if (event.type === 'response.failed') told += event.response.error?.message ?? '';
            if (event.type === 'error') told += event.message;
          }
        };
        await reading().catch((error: unknown) => {
          assert.ok(error instanceof APIError, String(error));
          told += error.message;
        });
        assert.ok(!types.has('response.completed'), kind);
        assert.match(told, kind === 'error-event' ? /The sluice is jammed\./ : /\w/);
        setting.play('grid-text', { kind });
        const settled = await openai.responses
          .stream(river)
          .finalResponse()
          .catch((error: unknown) => error);
        assert.ok(
          settled instanceof Error || (settled as Response).status === 'failed',
          JSON.stringify(settled),
        );
      }
    });

    await t.test('an earlier response cannot be continued, and that is said', async () => {
      setting.play('grid-text');
      const asked = openai.responses.create({ ...river, previous_response_id: 'resp_123' });
      const error = await failureOf(asked);
      assert.ok(error instanceof BadRequestError, String(error));
      assert.match(error.message, /previous_response_id/);
      assert.equal(error.param, 'previous_response_id');
      assert.equal(setting.seen().length, 0);
    });

    await t.test('the provider as part of the model’s name', async () => {
      setting.play('grid-text');
      const plain = clientOf(setting.baseUrl, {});
      const response = await plain.responses.create({ ...river, model: `@p-${wire}/${model}` });
      assert.equal(response.output_text, riverText);
    });
  });
}

test('a refusal is a refusal', async (t) => {
  const setting = await startSdkSetting(t);
  const openai = clientOf(setting.baseUrl, providerHeaders('openai-chat'));
  setting.play('grid-refusal');
  const response = await openai.responses
    .stream({ model: 'gpt-5.1', input: 'How do I flood a village?' })
    .finalResponse();
  const parts = response.output.flatMap((item) => (item.type === 'message' ? item.content : []));
  assert.deepEqual(
    parts.map((part) => part.type === 'refusal' && part.refusal),
    ['I cannot help with flooding a village.'],
  );
});

test('what the provider searched itself is no call for the client', async (t) => {
  const setting = await startSdkSetting(t);
  for (const wire of ['anthropic-messages', 'google-gemini'] as const) {
    const openai = clientOf(setting.baseUrl, providerHeaders(wire));
    setting.play('grid-provider-tool');
    const response = await openai.responses
      .stream({ model: modelOf[wire], input: 'How high is the Elbe today?', tools: [{ type: 'web_search' }] })
      .finalResponse();
    assert.equal(response.output_text, 'The Elbe stands at 4.1 m today.');
    assert.deepEqual(callsOf(response), []);
  }
});
