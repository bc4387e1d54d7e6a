import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { answerEvents } from '../../../core/dialects/canonical/answer-events.ts';
import type { ChatAnswer } from '../../../core/dialects/canonical/chat-answer.ts';
import { collectAnswer } from '../../../core/dialects/canonical/collect-answer.ts';
import type { ChatMessage, ChatRequest } from '../../../core/dialects/canonical/chat-request.ts';
import { EncodeReport } from '../../../core/dialects/canonical/chat-codec.ts';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import { everySplit } from '../../framing/split-bytes.test-support.ts';
import type { JsonObject } from '../json-reading.ts';
import {
  answerContext,
  clientCall,
  dataOf,
  host,
  plainRequest,
  readAll,
  sse,
  usageOf,
} from '../openai-chat/codec.test-support.ts';
import { openAiCompletionsClient, openAiCompletionsProvider } from './index.ts';

const says = (role: ChatMessage['role'], text: string): ChatMessage => ({
  role,
  parts: [{ type: 'text', text }],
});

test('a prompt is what a user says', () => {
  const request = openAiCompletionsClient.decodeRequest(
    clientCall({
      model: 'river-1',
      prompt: ['Once'],
      max_tokens: 5,
      logprobs: 2,
      stop: '\n',
      echo: true,
      suffix: 'end',
      best_of: 1,
      provider_options: { 'cohere-v2': { k: 3 } },
    }),
  );
  assert.deepEqual(request, {
    model: 'river-1',
    stream: false,
    tools: [],
    messages: [says('user', 'Once')],
    maxOutputTokens: 5,
    logprobs: true,
    topLogprobs: 2,
    stop: ['\n'],
    extras: { 'openai-completions': { echo: true, suffix: 'end' }, 'cohere-v2': { k: 3 } },
  });
});

test('prompts that only a host of this wire can take are refused', () => {
  const cases: readonly (readonly [unknown, string])[] = [
    [['a', 'b'], 'not_supported'],
    [[1, 2], 'not_supported'],
    [[[1, 2]], 'not_supported'],
    [[], 'invalid_request'],
    [5, 'invalid_request'],
  ];
  for (const [prompt, code] of cases) {
    assert.throws(
      () => openAiCompletionsClient.decodeRequest(clientCall({ prompt })),
      (error) => GatewayError.is(error) && error.code === code && error.param === 'prompt',
    );
  }
});

test('a conversation becomes a prompt; what is no text is reported', () => {
  const encode = (request: Partial<ChatRequest>): [JsonObject, readonly string[], readonly string[]] => {
    const report = new EncodeReport();
    const { path, body } = openAiCompletionsProvider.encodeRequest(
      { ...plainRequest, ...request },
      host(),
      report,
    );
    assert.equal(path, '/completions');
    return [JSON.parse(body.toString()) as JsonObject, report.dropped, report.emulated];
  };
  assert.deepEqual(
    encode({ messages: [says('user', 'Once')], maxOutputTokens: 5, logprobs: true, topLogprobs: 2 }),
    [{ model: 'river-1', prompt: 'Once', max_tokens: 5, logprobs: 2 }, [], []],
  );
  assert.deepEqual(
    encode({
      messages: [
        says('developer', 'Be brief.'),
        { role: 'user', parts: [{ type: 'image', source: { kind: 'url', url: 'https://a.example' } }] },
        says('assistant', 'Nice.'),
        says('user', 'Thanks'),
      ],
      tools: [{ type: 'function', name: 'a' }],
      toolChoice: { type: 'auto' },
    }),
    [
      {
        model: 'river-1',
        prompt: 'System: Be brief.\n\nUser: \n\nAssistant: Nice.\n\nUser: Thanks\n\nAssistant:',
      },
      ['messages[1].content[0]', 'tools[0]', 'tool_choice'],
      ['messages'],
    ],
  );
});

const answer: ChatAnswer = {
  id: 'cmpl-1',
  model: 'river-1',
  createdAt: 5,
  choices: [
    {
      index: 0,
      parts: [{ type: 'text', text: 'upon a' }],
      finish: { reason: 'length', raw: 'length' },
      logprobs: [
        { token: 'upon', logprob: -1, top: [{ token: 'in', logprob: -2 }] },
        { token: ' a', logprob: -3, top: [] },
      ],
    },
  ],
  usage: usageOf(1, 2),
};

test('an answer is a text_completion, whole and streamed', () => {
  const context = answerContext(true, { ...plainRequest, includeUsage: true });
  const choice = {
    text: 'upon a',
    index: 0,
    logprobs: {
      tokens: ['upon', ' a'],
      token_logprobs: [-1, -3],
      top_logprobs: [{ in: -2 }, {}],
      text_offset: [0, 4],
    },
  };
  const envelope = { id: 'cmpl-1', object: 'text_completion', created: 5, model: 'river-1' };
  const body = JSON.parse(openAiCompletionsClient.encodeAnswer(answer, context).toString()) as JsonObject;
  const { usage, ...said } = body;
  assert.deepEqual(said, { ...envelope, choices: [{ ...choice, finish_reason: 'length' }] });
  const bytes = openAiCompletionsClient.eventWriter(context).write(answerEvents(answer)) ?? Buffer.alloc(0);
  assert.deepEqual(dataOf(bytes), [
    { ...envelope, choices: [{ ...choice, finish_reason: null }] },
    { ...envelope, choices: [{ text: '', index: 0, logprobs: null, finish_reason: 'length' }] },
    { ...envelope, choices: [], usage },
    '[DONE]',
  ]);
});

test('what is written is read again, wherever it is cut', () => {
  const context = answerContext(true, { ...plainRequest, includeUsage: true });
  assert.deepEqual(
    openAiCompletionsProvider.decodeAnswer(openAiCompletionsClient.encodeAnswer(answer, context), context),
    answer,
  );
  const bytes = openAiCompletionsClient.eventWriter(context).write(answerEvents(answer)) ?? Buffer.alloc(0);
  for (const chunks of everySplit(bytes)) {
    const events = readAll(openAiCompletionsProvider.eventReader('text/event-stream', context), chunks);
    assert.deepEqual(collectAnswer(events), answer);
  }
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme', minLength: 1 }), (text) => {
      const report = new EncodeReport();
      const { body } = openAiCompletionsProvider.encodeRequest(
        { ...plainRequest, messages: [says('user', text)] },
        host(),
        report,
      );
      const json = JSON.parse(body.toString()) as JsonObject;
      assert.deepEqual(openAiCompletionsClient.decodeRequest(clientCall(json)).messages, [
        says('user', text),
      ]);
      assert.deepEqual([report.dropped, report.emulated], [[], []]);
    }),
  );
});

test('a torn stream and an error inside one are errors', () => {
  const last = (bytes: Buffer): unknown =>
    readAll(openAiCompletionsProvider.eventReader('text/event-stream', answerContext()), [bytes]).at(-1);
  const torn = sse({ id: 'c', model: 'm', choices: [{ text: 'upon', index: 0, finish_reason: null }] });
  assert.equal((last(torn) as { type: string }).type, 'error');
  assert.deepEqual(last(sse({ error: { message: 'Busy.', type: 'overloaded_error' } })), {
    type: 'error',
    error: { status: 529, message: 'Busy.', type: 'overloaded_error' },
  });
});
