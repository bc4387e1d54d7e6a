import assert from 'node:assert/strict';
import { test } from 'node:test';
import { answerEvents } from '../../../core/dialects/canonical/answer-events.ts';
import type { ChatAnswer } from '../../../core/dialects/canonical/chat-answer.ts';
import type { ChatEvent } from '../../../core/dialects/canonical/chat-event.ts';
import type { ChatPart } from '../../../core/dialects/canonical/chat-part.ts';
import type { ChatRequest } from '../../../core/dialects/canonical/chat-request.ts';
import { asArray, asObject, type JsonObject } from '../json-reading.ts';
import { openAiChatClient } from './index.ts';
import { answerContext, dataOf, plainRequest, usageOf } from './codec.test-support.ts';

const thinking: ChatPart = { type: 'reasoning', text: 'Hm.', signature: 'proof' };
const search: ChatPart = {
  type: 'provider-tool',
  dialect: 'anthropic-messages',
  phase: 'call',
  id: 's1',
  name: 'web_search',
  value: { type: 'server_tool_use', id: 's1', name: 'web_search', input: {} },
};
const cited: ChatPart = {
  type: 'text',
  text: 'It flows.',
  citations: [{ kind: 'url', url: 'https://a.example', title: 'A', start: 0, end: 9 }],
};
const call: ChatPart = {
  type: 'tool-call',
  id: 'c1',
  name: 'depth',
  kind: 'function',
  arguments: '{"river":"Elbe"}',
  signature: 'proof-2',
};

function answer(parts: readonly ChatPart[], more: Partial<ChatAnswer> = {}): ChatAnswer {
  return {
    id: 'msg_1',
    model: 'river-1',
    createdAt: 5,
    choices: [{ index: 0, parts, finish: { reason: 'tool-calls', raw: 'tool_use', stopSequence: 'END' } }],
    usage: usageOf(7, 3, { cachedTokens: 2, cacheWriteTokens: 1 }),
    extras: { 'anthropic-messages': { container: 'c' } },
    ...more,
  };
}

const encode = (said: ChatAnswer, strict: boolean, request: ChatRequest = plainRequest): JsonObject =>
  JSON.parse(openAiChatClient.encodeAnswer(said, answerContext(strict, request)).toString()) as JsonObject;

const annotation = {
  type: 'url_citation',
  url_citation: { url: 'https://a.example', title: 'A', start_index: 0, end_index: 9 },
};
const toolCalls = [
  {
    id: 'c1',
    type: 'function',
    function: { name: 'depth', arguments: '{"river":"Elbe"}' },
    extra_content: { google: { thought_signature: 'proof-2' } },
  },
];

test('a strict answer has documented members, and the two that every client knows', () => {
  assert.deepEqual(encode(answer([thinking, search, cited, call]), true), {
    id: 'msg_1',
    object: 'chat.completion',
    created: 5,
    model: 'river-1',
    choices: [
      {
        index: 0,
        message: {
          role: 'assistant',
          content: 'It flows.',
          refusal: null,
          reasoning_content: 'Hm.',
          annotations: [annotation],
          tool_calls: toolCalls,
        },
        logprobs: null,
        finish_reason: 'tool_calls',
      },
    ],
    usage: {
      prompt_tokens: 7,
      completion_tokens: 3,
      total_tokens: 10,
      prompt_tokens_details: { cached_tokens: 2, audio_tokens: 0, cache_write_tokens: 1 },
      completion_tokens_details: { reasoning_tokens: 0, audio_tokens: 0 },
    },
  });
});

test('an answer that is not strict keeps blocks, the raw finish and what only the provider says', () => {
  const body = encode(answer([thinking, search, cited, call]), false);
  const choice = asObject(asArray(body.choices)[0]);
  assert.deepEqual(asObject(choice?.message)?.content_blocks, [
    { type: 'thinking', thinking: 'Hm.', signature: 'proof' },
    { type: 'server_tool_use', id: 's1', name: 'web_search', input: {} },
    {
      type: 'text',
      text: 'It flows.',
      citations: [{ type: 'url', url: 'https://a.example', title: 'A' }],
    },
  ]);
  assert.equal(choice?.finish_reason, 'tool_use');
  assert.equal(choice.stop_sequence, 'END');
  assert.deepEqual(body.provider_fields, { 'anthropic-messages': { container: 'c' } });
  const usage = asObject(body.usage);
  assert.deepEqual([usage?.cache_read_input_tokens, usage?.cache_creation_input_tokens], [2, 1]);
});

test('what the provider does not say comes from the context', () => {
  const { id, created, model } = encode({ id: '', model: '', choices: [] }, true);
  assert.deepEqual({ id, created, model }, { id: 'chatcmpl-1', created: 1_730_000_009, model: 'river-1' });
});

test('finish reasons are those that OpenAI documents, and a failure never looks complete', () => {
  const reasons = ['stop', 'length', 'tool-calls', 'content-filter', 'pause', 'error', 'unknown'] as const;
  const words = reasons.map((reason) => {
    const said = answer([], { choices: [{ index: 0, parts: [], finish: { reason, raw: 'x' } }] });
    return asObject(asArray(encode(said, true).choices)[0])?.finish_reason;
  });
  assert.deepEqual(words, ['stop', 'length', 'tool_calls', 'content_filter', 'stop', 'length', 'stop']);
});

test('the status of a whole response is no finish reason, strict or not', () => {
  for (const strict of [true, false]) {
    const finish = { reason: 'tool-calls' as const, raw: 'completed' };
    const said = answer([], { choices: [{ index: 0, parts: [], finish }] });
    assert.equal(asObject(asArray(encode(said, strict).choices)[0])?.finish_reason, 'tool_calls');
  }
});

test('a client of the legacy form gets one function_call', () => {
  const request: ChatRequest = { ...plainRequest, legacyFunctions: true };
  const choice = asObject(asArray(encode(answer([call]), true, request).choices)[0]);
  assert.deepEqual(choice?.message, {
    role: 'assistant',
    content: null,
    refusal: null,
    function_call: { name: 'depth', arguments: '{"river":"Elbe"}' },
  });
  assert.equal(choice.finish_reason, 'function_call');
  const writer = openAiChatClient.eventWriter(answerContext(true, request));
  const stream = writer.write(answerEvents(answer([call]))) ?? Buffer.alloc(0);
  const deltas = dataOf(stream).map((data) => asObject(asObject(asArray(asObject(data)?.choices)[0])?.delta));
  assert.deepEqual(
    deltas.map((delta) => delta?.function_call).filter((said) => said !== undefined),
    [{ name: 'depth', arguments: '' }, { arguments: '{"river":"Elbe"}' }],
  );
});

const stream = (said: ChatAnswer, strict: boolean, includeUsage: boolean): unknown[] => {
  const writer = openAiChatClient.eventWriter(answerContext(strict, { ...plainRequest, includeUsage }));
  // One event at a time: a writer may not rest on what comes together.
  const bytes = answerEvents(said).map((event) => writer.write([event]) ?? Buffer.alloc(0));
  return dataOf(Buffer.concat(bytes));
};

test('a strict stream says the role first, indexes its calls and ends in usage and [DONE]', () => {
  const second: ChatPart = { type: 'tool-call', id: 'c2', name: 'sql', kind: 'custom', arguments: 'select' };
  const said = stream(answer([thinking, search, cited, call, second]), true, true);
  assert.equal(said.pop(), '[DONE]');
  const last = asObject(said.pop());
  assert.deepEqual(last?.choices, []);
  assert.equal(asObject(last.usage)?.total_tokens, 10);
  const choices = said.map((chunk) => asObject(asArray(asObject(chunk)?.choices)[0]));
  assert.deepEqual(
    choices.map((choice) => choice?.delta),
    [
      { role: 'assistant', content: '' },
      { reasoning_content: 'Hm.' },
      { annotations: [{ ...annotation, url_citation: { ...annotation.url_citation } }] },
      { content: 'It flows.' },
      { tool_calls: [{ index: 0, id: 'c1', type: 'function', function: { name: 'depth', arguments: '' } }] },
      { tool_calls: [{ index: 0, function: { arguments: '{"river":"Elbe"}' } }] },
      {
        tool_calls: [
          {
            index: 0,
            function: { arguments: '' },
            extra_content: { google: { thought_signature: 'proof-2' } },
          },
        ],
      },
      { tool_calls: [{ index: 1, id: 'c2', type: 'custom', custom: { name: 'sql', input: '' } }] },
      { tool_calls: [{ index: 1, custom: { input: 'select' } }] },
      {},
    ],
  );
  assert.deepEqual(
    choices.map((choice) => choice?.finish_reason),
    [null, null, null, null, null, null, null, null, null, 'tool_calls'],
  );
  for (const chunk of said) {
    const { id, object, created, model } = asObject(chunk) ?? {};
    assert.deepEqual([id, object, created, model], ['msg_1', 'chat.completion.chunk', 5, 'river-1']);
  }
});

test('a stream tells usage only to a client that asked', () => {
  const said = stream(answer([cited]), true, false);
  assert.ok(said.every((chunk) => asObject(chunk)?.usage === undefined));
});

test('a stream that is not strict carries the blocks in deltas', () => {
  const redacted: ChatPart = { type: 'reasoning', text: '', redacted: 'secret' };
  const said = stream(answer([thinking, redacted, search, { type: 'text', text: 'Hi' }]), false, false);
  const blocks = said.flatMap((chunk) =>
    asArray(asObject(asObject(asArray(asObject(chunk)?.choices)[0])?.delta)?.content_blocks),
  );
  assert.deepEqual(blocks, [
    { index: 0, delta: { thinking: 'Hm.' } },
    { index: 0, delta: { signature: 'proof' } },
    { index: 1, delta: { type: 'redacted_thinking', data: 'secret' } },
    { index: 2, delta: { type: 'server_tool_use', id: 's1', name: 'web_search', input: {} } },
    { index: 3, delta: { text: 'Hi' } },
  ]);
  assert.deepEqual(asObject(said.at(-2))?.provider_fields, { 'anthropic-messages': { container: 'c' } });
});

test('pictures and recordings have members of their own', () => {
  const picture: ChatPart = {
    type: 'image',
    source: { kind: 'base64', mediaType: 'image/png', data: 'AAAA' },
  };
  const sound: ChatPart = {
    type: 'audio',
    id: 'audio_1',
    expiresAt: 9,
    source: { kind: 'base64', mediaType: 'audio/wav', data: 'BBBB' },
    transcript: 'Hi',
  };
  const image = { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' }, index: 0 };
  const audio = { id: 'audio_1', data: 'BBBB', transcript: 'Hi', expires_at: 9 };
  const message = asObject(asObject(asArray(encode(answer([picture, sound]), true).choices)[0])?.message);
  assert.deepEqual([message?.images, message?.audio], [[image], audio]);
  const deltas = stream(answer([picture, sound]), true, false).map((chunk) =>
    asObject(asObject(asArray(asObject(chunk)?.choices)[0])?.delta),
  );
  assert.deepEqual(deltas[1], { images: [image] });
  assert.deepEqual(deltas[2], { audio });
});

test("an error ends the stream without [DONE], marked as the provider's", () => {
  const events: readonly ChatEvent[] = [
    { type: 'start', id: 'x', model: 'm' },
    { type: 'error', error: { status: 529, message: 'Busy.', type: 'overloaded_error' } },
  ];
  const expected = {
    error: { message: 'Busy.', type: 'overloaded_error', param: null, code: null },
    provider: 'example',
  };
  const context = answerContext();
  const bytes = openAiChatClient.eventWriter(context).write(events) ?? Buffer.alloc(0);
  assert.deepEqual(dataOf(bytes), [expected]);
  const body = openAiChatClient.encodeProviderError(
    { status: 529, message: 'Busy.', type: 'overloaded_error' },
    context,
  );
  assert.deepEqual(JSON.parse(body.toString()), expected);
});
