import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { answerEvents } from '../../../core/dialects/canonical/answer-events.ts';
import type { ChatAnswer, ChatChoice } from '../../../core/dialects/canonical/chat-answer.ts';
import type { ChatMessage, ChatRequest } from '../../../core/dialects/canonical/chat-request.ts';
import type { ChatPart } from '../../../core/dialects/canonical/chat-part.ts';
import { collectAnswer } from '../../../core/dialects/canonical/collect-answer.ts';
import { EncodeReport } from '../../../core/dialects/canonical/chat-codec.ts';
import { parseExactObject, stringifyExact } from '../json-reading.ts';
import { answerContext, decodeContext, hostFacts } from './gemini-wire.test-support.ts';
import { geminiClient, geminiProvider } from './index.ts';

const model = 'gemini-2.5-flash';
const words = fc
  .string({ minLength: 1, maxLength: 20, unit: 'grapheme' })
  .filter((text) => text.trim() !== '');
const name = fc.stringMatching(/^[a-z][a-z_]{0,10}$/);
const signature = fc.option(fc.base64String({ minLength: 4, maxLength: 12 }), { nil: undefined });
const jsonArguments = fc
  .dictionary(
    name,
    fc.oneof(words, fc.integer(), fc.boolean(), fc.bigInt({ min: 2n ** 60n, max: 2n ** 70n })),
    {
      maxKeys: 3,
    },
  )
  .map((value) => stringifyExact({ ...value }));
const base64 = fc
  .uint8Array({ minLength: 1, maxLength: 9 })
  .map((bytes) => Buffer.from(bytes).toString('base64'));

function media(type: 'image' | 'audio' | 'file', mediaType: string): fc.Arbitrary<ChatPart> {
  return base64.map((data) => ({ type, source: { kind: 'base64', mediaType, data } }));
}

/** Plain objects, as parsed JSON is. */
function record<T>(model: { [K in keyof T]: fc.Arbitrary<T[K]> }): fc.Arbitrary<T> {
  return fc.record(model, { noNullPrototype: true });
}

/** Without the members that are undefined. */
function defined<T extends object>(value: T): T {
  return Object.fromEntries(Object.entries(value).filter(([, member]) => member !== undefined)) as T;
}

const sentPart = fc.oneof(
  words.map((text): ChatPart => ({ type: 'text', text })),
  media('image', 'image/png'),
  media('audio', 'audio/wav'),
  media('file', 'application/pdf'),
);
const modelText = record({
  type: fc.constantFrom('text' as const, 'reasoning' as const),
  text: words,
  signature,
}).map(defined);
const calls = fc.array(record({ name, arguments: jsonArguments, signature }).map(defined), {
  maxLength: 3,
});

/** A conversation in the order that this wire has: a user's turn, a model's, the results of its calls. */
const conversation = fc
  .array(
    record({
      sent: fc.array(sentPart, { minLength: 1, maxLength: 3 }),
      said: fc.array(modelText, { minLength: 1, maxLength: 3 }),
      calls,
      failed: fc.boolean(),
    }),
    { minLength: 1, maxLength: 3 },
  )
  .map((turns) => {
    let next = 0;
    return turns.flatMap((turn): ChatMessage[] => {
      const called = turn.calls.map((call): Extract<ChatPart, { type: 'tool-call' }> => ({
        type: 'tool-call',
        kind: 'function',
        id: `id-${next++}`,
        ...call,
      }));
      const results = called.map((call): ChatPart => ({
        type: 'tool-result',
        callId: call.id,
        name: call.name,
        kind: 'function',
        content: [{ type: 'text', text: `answer of ${call.name}` }],
        ...(turn.failed && { isError: true }),
      }));
      const messages: ChatMessage[] = [
        { role: 'user', parts: turn.sent },
        { role: 'assistant', parts: [...turn.said, ...called] },
      ];
      return results.length === 0 ? messages : [...messages, { role: 'tool', parts: results }];
    });
  });

const number = fc.option(fc.integer({ min: 1, max: 9 }), { nil: undefined });
const request: fc.Arbitrary<ChatRequest> = record({
  model: fc.constant(model),
  stream: fc.boolean(),
  messages: conversation,
  tools: fc.array(
    record({ name, description: fc.option(words, { nil: undefined }), strict: fc.constant(undefined) }).map(
      (tool) =>
        defined({
          type: 'function' as const,
          ...tool,
          parameters: { type: 'object', properties: { a: { type: 'string', enum: ['x', 'y'] } } },
        }),
    ),
    { maxLength: 2 },
  ),
  temperature: number,
  topK: number,
  n: number,
  maxOutputTokens: number,
  seed: number,
  stop: fc.option(fc.array(words, { minLength: 1, maxLength: 2 }), { nil: undefined }),
  responseFormat: fc.option(fc.constant({ type: 'json' as const }), { nil: undefined }),
  reasoning: fc.option(
    record({ budgetTokens: fc.integer({ min: 1, max: 9 }), summary: fc.constant('auto') }),
    {
      nil: undefined,
    },
  ),
  extras: fc.option(fc.constant({ 'google-gemini': { safetySettings: [] } }), { nil: undefined }),
}).map(defined);

/** The joined form that the wire has: neighbouring turns of one side are one. */
function joined(messages: readonly ChatMessage[]): ChatMessage[] {
  const all: ChatMessage[] = [];
  for (const message of messages) {
    const last = all.at(-1);
    if (last?.role === message.role)
      all[all.length - 1] = { ...last, parts: [...last.parts, ...message.parts] };
    else all.push(message);
  }
  return all;
}

const answerPart: fc.Arbitrary<ChatPart> = fc.oneof(
  // A signature seals each, so that neighbours of one kind stay apart.
  record({
    type: fc.constantFrom('text' as const, 'reasoning' as const),
    text: words,
    signature: fc.base64String({ minLength: 4, maxLength: 12 }),
  }).map((part): ChatPart => part),
  media('image', 'image/png'),
);
const answer: fc.Arbitrary<ChatAnswer> = record({
  parts: fc.array(answerPart, { minLength: 1, maxLength: 4 }),
  calls,
  counts: fc.tuple(fc.nat(99), fc.nat(99), fc.nat(99), fc.nat(9)),
}).map(({ parts, calls: made, counts: [prompt, visible, reasoning, cached] }) => {
  const called = made.map((call, i): ChatPart => ({
    type: 'tool-call',
    kind: 'function',
    id: `id-${i}`,
    ...call,
  }));
  const choice: ChatChoice = {
    index: 0,
    parts: [...parts, ...called],
    finish: { reason: called.length > 0 ? 'tool-calls' : 'stop', raw: 'STOP' },
  };
  const usage = {
    promptTokens: prompt,
    completionTokens: visible + reasoning,
    totalTokens: prompt + visible + reasoning,
    cachedTokens: cached,
    cacheWriteTokens: 0,
    reasoningTokens: reasoning,
    inputAudioTokens: 0,
    outputAudioTokens: 0,
  };
  return { id: 'a-1', model: 'm-1', choices: [choice], usage };
});

describe('round trips', () => {
  test('a conversation that is encoded and decoded again is the same', () => {
    fc.assert(
      fc.property(request, (given) => {
        const report = new EncodeReport();
        const { body } = geminiProvider.encodeRequest(given, hostFacts(model), report);
        const again = geminiClient.decodeRequest({
          body: parseExactObject(body.toString()) ?? {},
          model,
          stream: given.stream,
          query: '',
          header: () => undefined,
        });
        assert.deepEqual(report.dropped, []);
        assert.deepEqual(again, { ...given, messages: joined(given.messages) });
      }),
      { numRuns: 150 },
    );
  });

  test('a complete answer survives', () => {
    fc.assert(
      fc.property(answer, (given) => {
        const bytes = geminiClient.encodeAnswer(given, answerContext());
        assert.deepEqual(geminiProvider.decodeAnswer(bytes, decodeContext()), given);
      }),
      { numRuns: 150 },
    );
  });

  for (const [query, contentType] of [
    ['?alt=sse', 'text/event-stream'],
    ['', 'application/json'],
  ] as const)
    test(`a streamed answer survives as ${contentType}`, () => {
      fc.assert(
        fc.property(answer, (given) => {
          const bytes = geminiClient.eventWriter(answerContext(query)).write(answerEvents(given));
          const reader = geminiProvider.eventReader(contentType, decodeContext());
          const events = [...reader.push(bytes ?? Buffer.alloc(0)), ...reader.finish()];
          assert.deepEqual(collectAnswer(events), given);
        }),
        { numRuns: 150 },
      );
    });
});
