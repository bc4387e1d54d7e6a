import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { answerEvents } from './answer-events.ts';
import type { ChatAnswer } from './chat-answer.ts';
import type { ChatPart } from './chat-part.ts';
import { collectAnswer } from './collect-answer.ts';

const text = fc.string({ minLength: 1, maxLength: 20 });
const part: fc.Arbitrary<ChatPart> = fc.oneof(
  fc.record({ type: fc.constant('text' as const), text }),
  fc.record({ type: fc.constant('text' as const), text, signature: text }),
  fc.record({
    type: fc.constant('text' as const),
    text,
    citations: fc.array(fc.record({ kind: fc.constant('url' as const), url: text }), { minLength: 1 }),
  }),
  fc.record({ type: fc.constant('reasoning' as const), text, signature: text }),
  fc.record({ type: fc.constant('reasoning' as const), text: fc.constant(''), redacted: text }),
  fc.record({ type: fc.constant('refusal' as const), text }),
  fc.record({
    type: fc.constant('tool-call' as const),
    id: text,
    name: text,
    kind: fc.constantFrom('function' as const, 'custom' as const),
    arguments: fc.constantFrom('{}', '{"a":[1,2]}'),
  }),
  fc.record({
    type: fc.constant('provider-tool' as const),
    dialect: fc.constant('anthropic-messages' as const),
    phase: fc.constantFrom('call' as const, 'result' as const),
    id: text,
    name: text,
    value: fc.constant({ a: 1 }),
  }),
);

const answer: fc.Arbitrary<ChatAnswer> = fc.record(
  {
    id: text,
    model: text,
    createdAt: fc.nat(),
    serviceTier: text,
    extras: fc.constant({ 'google-gemini': { x: 1 } }),
    choices: fc
      .array(fc.array(part, { maxLength: 5 }), { minLength: 1, maxLength: 3 })
      .map((choices) =>
        choices.map((parts, index) => ({ index, parts, finish: { reason: 'stop' as const, raw: 'end' } })),
      ),
    usage: fc.constant({
      promptTokens: 3,
      completionTokens: 2,
      totalTokens: 5,
      cachedTokens: 1,
      cacheWriteTokens: 0,
      reasoningTokens: 1,
      inputAudioTokens: 0,
      outputAudioTokens: 0,
    }),
  },
  { requiredKeys: ['id', 'model', 'choices'] },
);

/** Without the null prototypes that the generator makes. */
const plain = (value: unknown): unknown => structuredClone(value);

test('an answer told as events and added up again is the same answer', () => {
  fc.assert(
    fc.property(answer, (given) => assert.deepEqual(plain(collectAnswer(answerEvents(given))), plain(given))),
  );
});

test('log probabilities of a choice survive', () => {
  const given: ChatAnswer = {
    id: 'a',
    model: 'm',
    choices: [
      {
        index: 0,
        parts: [{ type: 'text', text: 'hi' }],
        finish: { reason: 'stop', raw: 'stop' },
        logprobs: [{ token: 'hi', logprob: -1, top: [] }],
      },
    ],
  };
  assert.deepEqual(plain(collectAnswer(answerEvents(given))), plain(given));
});
