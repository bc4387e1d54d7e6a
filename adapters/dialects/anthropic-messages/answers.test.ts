import assert from 'node:assert/strict';
import { test } from 'node:test';
import Anthropic from '@anthropic-ai/sdk';
import { answerEvents } from '../../../core/dialects/canonical/answer-events.ts';
import type { ChatAnswer, Finish } from '../../../core/dialects/canonical/chat-answer.ts';
import type { ChatEvent } from '../../../core/dialects/canonical/chat-event.ts';
import type { ChatPart } from '../../../core/dialects/canonical/chat-part.ts';
import type { JsonObject } from '../json-reading.ts';
import { chatContext, chatRequest } from './chat-setting.test-support.ts';
import { anthropicClient } from './index.ts';
import { anthropicProvider } from './host.ts';

const usage = {
  promptTokens: 100,
  completionTokens: 20,
  totalTokens: 120,
  cachedTokens: 60,
  cacheWriteTokens: 10,
  reasoningTokens: 7,
  inputAudioTokens: 0,
  outputAudioTokens: 0,
};
const text = (value: string): ChatPart => ({ type: 'text', text: value });
const call: ChatPart = { type: 'tool-call', id: 'c1', name: 'f', kind: 'function', arguments: '{"a":1}' };

function answerOf(parts: readonly ChatPart[], finish: Finish, more: Partial<ChatAnswer> = {}): ChatAnswer {
  return { id: 'id-1', model: 'gpt', choices: [{ index: 0, parts, finish }], usage, ...more };
}

function message(answer: ChatAnswer, strict = true): JsonObject {
  return JSON.parse(anthropicClient.encodeAnswer(answer, chatContext({ strict })).toString()) as JsonObject;
}

function stream(events: readonly ChatEvent[], strict = true): Buffer {
  return anthropicClient.eventWriter(chatContext({ strict })).write(events) ?? Buffer.alloc(0);
}

/** What the official client makes of these bytes. */
async function accumulated(bytes: Buffer): Promise<JsonObject> {
  const respond = (): Promise<Response> =>
    Promise.resolve(
      new Response(new Uint8Array(bytes), { headers: { 'content-type': 'text/event-stream' } }),
    );
  const client = new Anthropic({ apiKey: 'none', fetch: respond, maxRetries: 0 });
  const question = { role: 'user', content: 'Hi.' } as const;
  const answer = client.messages.stream({ model: 'm', max_tokens: 9, messages: [question] });
  return JSON.parse(JSON.stringify(await answer.finalMessage())) as JsonObject;
}

const stop: Finish = { reason: 'stop', raw: 'stop' };
const image: ChatPart = { type: 'image', source: { kind: 'base64', mediaType: 'image/png', data: 'AAAA' } };
const answers: readonly (readonly [string, ChatAnswer, object])[] = [
  [
    'text',
    answerOf([text('Hi.')], stop),
    { content: [{ type: 'text', text: 'Hi.' }], stop_reason: 'end_turn', stop_sequence: null },
  ],
  [
    'calls',
    answerOf([text('Wait.'), call, { ...call, id: 'c2', arguments: '{}', signature: 'sig' }], stop),
    {
      content: [
        { type: 'text', text: 'Wait.' },
        { type: 'tool_use', id: 'c1', name: 'f', input: { a: 1 } },
        {
          type: 'tool_use',
          id: 'c2',
          name: 'f',
          input: {},
          extra_content: { google: { thought_signature: 'sig' } },
        },
      ],
      stop_reason: 'tool_use',
    },
  ],
  [
    'the free text of a custom tool',
    answerOf([{ ...call, kind: 'custom', arguments: 'la "la"\n' }], { reason: 'tool-calls', raw: 'x' }),
    { content: [{ type: 'tool_use', id: 'c1', name: 'f', input: { input: 'la "la"\n' } }] },
  ],
  [
    'thoughts',
    answerOf(
      [
        { type: 'reasoning', text: 'Unsigned.' },
        { type: 'reasoning', text: 'Signed.', signature: 's' },
        { type: 'reasoning', text: '', redacted: 'r' },
      ],
      { reason: 'length', raw: 'model_context_window_exceeded' },
    ),
    {
      content: [
        { type: 'thinking', thinking: 'Unsigned.', signature: '' },
        { type: 'thinking', thinking: 'Signed.', signature: 's' },
        { type: 'redacted_thinking', data: 'r' },
      ],
      stop_reason: 'model_context_window_exceeded',
    },
  ],
  [
    'a refusal',
    answerOf([{ type: 'refusal', text: 'No.' }], stop),
    { content: [{ type: 'text', text: 'No.' }], stop_reason: 'refusal' },
  ],
  [
    'citations of the web; those of unknown places are left out',
    answerOf(
      [
        {
          type: 'text',
          text: 'Long.',
          citations: [
            { kind: 'url', url: 'https://x.example', title: 'X', start: 0, end: 5 },
            { kind: 'document', document: 1 },
          ],
        },
      ],
      { ...stop, stopSequence: 'END' },
    ),
    {
      content: [
        {
          type: 'text',
          text: 'Long.',
          citations: [
            {
              type: 'web_search_result_location',
              url: 'https://x.example',
              title: 'X',
              cited_text: '',
              encrypted_index: '',
            },
          ],
        },
      ],
      stop_reason: 'stop_sequence',
      stop_sequence: 'END',
    },
  ],
  [
    'tools of its own kind, and none of others',
    answerOf(
      [
        {
          type: 'provider-tool',
          dialect: 'anthropic-messages',
          phase: 'call',
          id: 's',
          name: 'web_search',
          value: { type: 'server_tool_use', id: 's', name: 'web_search', input: { query: 'q' } },
        },
        {
          type: 'provider-tool',
          dialect: 'openai-responses',
          phase: 'call',
          id: 'w',
          name: 'web_search',
          value: {},
        },
        image,
        text('Found.'),
      ],
      { reason: 'pause', raw: 'pause_turn' },
    ),
    {
      content: [
        { type: 'server_tool_use', id: 's', name: 'web_search', input: { query: 'q' } },
        { type: 'text', text: 'Found.' },
      ],
      stop_reason: 'pause_turn',
    },
  ],
];
for (const [what, answer, expected] of answers) {
  test(`answer: ${what}; the official client adds its stream up to the same`, async () => {
    const told = message(answer);
    for (const [name, value] of Object.entries(expected)) assert.deepEqual(told[name], value, name);
    assert.deepEqual(told.usage, {
      input_tokens: 30,
      cache_creation_input_tokens: 10,
      cache_read_input_tokens: 60,
      output_tokens: 20,
      output_tokens_details: { thinking_tokens: 7 },
    });
    const added = await accumulated(stream(answerEvents(answer)));
    for (const name of ['id', 'model', 'content', 'stop_reason', 'stop_sequence', 'usage']) {
      assert.deepEqual(added[name], told[name], name);
    }
  });
}

test('members that are missing are filled in; own ones return; those of others only for clients that want them', () => {
  const answer: ChatAnswer = {
    id: '',
    model: '',
    serviceTier: 'default',
    choices: [{ index: 0, parts: [image], finish: stop, extras: { 'cohere-v2': { b: 2 } } }],
    extras: {
      'anthropic-messages': {
        container: { id: 'x' },
        usage: { server_tool_use: { web_search_requests: 1 } },
      },
      'cohere-v2': { a: 1 },
    },
  };
  const told = message(answer);
  assert.deepEqual(told, {
    id: 'msg_new',
    type: 'message',
    role: 'assistant',
    model: 'claude-sonnet-4-5',
    content: [],
    stop_reason: 'end_turn',
    stop_sequence: null,
    container: { id: 'x' },
    usage: {
      input_tokens: 0,
      cache_creation_input_tokens: 0,
      cache_read_input_tokens: 0,
      output_tokens: 0,
      service_tier: 'standard',
      server_tool_use: { web_search_requests: 1 },
    },
  });
  const fields = { content: [image], 'cohere-v2': { a: 1, b: 2 } };
  assert.deepEqual(message(answer, false).provider_fields, fields);
  const delta = /\{"type":"message_delta".*|\{.*"type":"message_delta".*/.exec(
    stream(answerEvents(answer), false).toString(),
  );
  assert.deepEqual((JSON.parse(delta?.[0] ?? '{}') as JsonObject).provider_fields, fields);
  assert.ok(!stream(answerEvents(answer)).includes('provider_fields'));
});

test('interleaved calls become blocks one behind the other', async () => {
  const part = (index: number, event: object): ChatEvent =>
    ({ choice: 0, part: index, ...event }) as ChatEvent;
  const added = await accumulated(
    stream([
      { type: 'start', id: 'i', model: 'm' },
      part(0, { type: 'part-start', head: { ...call, arguments: '' } }),
      part(1, { type: 'part-start', head: { ...call, id: 'c2', arguments: '' } }),
      part(1, { type: 'arguments-delta', text: '{"b":' }),
      part(0, { type: 'arguments-delta', text: '{"a":1}' }),
      part(1, { type: 'arguments-delta', text: '2}' }),
      part(1, { type: 'part-end' }),
      part(0, { type: 'part-end' }),
      { type: 'finish', choice: 0, finish: { reason: 'tool-calls', raw: 'tool_calls' } },
      { type: 'end' },
    ]),
  );
  assert.deepEqual(added.content, [
    { type: 'tool_use', id: 'c1', name: 'f', input: { a: 1 } },
    { type: 'tool_use', id: 'c2', name: 'f', input: { b: 2 } },
  ]);
});

test('an error in a stream is an event of its own, with the name of the provider', async () => {
  const bytes = stream([
    { type: 'start', id: 'i', model: 'm' },
    { type: 'error', error: { status: 529, message: 'Busy.', type: 'overloaded_error' } },
  ]);
  const json = JSON.stringify({
    type: 'error',
    error: { type: 'overloaded_error', message: 'Busy.' },
    request_id: 'request-1',
    provider: 'anthropic',
  });
  assert.ok(bytes.toString().endsWith(`event: error\ndata: ${json}\n\n`));
  await assert.rejects(accumulated(bytes), /Busy\./);
});

test('a provider’s error keeps its words', () => {
  const error = { status: 400, message: 'No.', type: 'INVALID_ARGUMENT', code: '400', param: 'x' };
  const body = anthropicClient.encodeProviderError(error, { provider: 'vertex', requestId: 'r' });
  assert.deepEqual(JSON.parse(body.toString()), {
    type: 'error',
    error: {
      type: 'invalid_request_error',
      message: 'No.',
      code: '400',
      param: 'x',
      provider_type: 'INVALID_ARGUMENT',
    },
    request_id: 'r',
    provider: 'vertex',
  });
});

const errors: readonly (readonly [number, string, object])[] = [
  [
    429,
    '{"type":"error","error":{"type":"rate_limit_error","message":"Slow."},"request_id":"r"}',
    { status: 429, message: 'Slow.', type: 'rate_limit_error' },
  ],
  [
    403,
    '[{"error":{"code":403,"message":"Denied.","status":"PERMISSION_DENIED"}}]',
    { status: 403, message: 'Denied.', type: 'PERMISSION_DENIED', code: '403' },
  ],
  [500, '{"error":"broken"}', { status: 500, message: 'broken' }],
  [404, '{"message":"No such model."}', { status: 404, message: 'No such model.' }],
  [
    502,
    '<html><body>Bad Gateway</body></html>',
    { status: 502, message: 'The provider answered 502: Bad Gateway' },
  ],
  [500, '', { status: 500, message: 'The provider answered 500 without a body.' }],
  [400, '{"type":"err', { status: 400, message: 'The provider answered 400: {"type":"err' }],
];
for (const [status, body, expected] of errors) {
  test(`error: ${body.slice(0, 60)}`, () => {
    assert.deepEqual(anthropicProvider.decodeError(status, Buffer.from(body)), expected);
  });
}

test('what is no message is no answer', () => {
  for (const body of ['', '[]', '{}', '{"type":"error","error":{"message":"Odd."}}', '{"content":"x"}']) {
    const context = chatContext({ request: chatRequest() });
    assert.throws(() => anthropicProvider.decodeAnswer(Buffer.from(body), context), {
      code: 'upstream_invalid',
    });
  }
});
