import assert from 'node:assert/strict';
import { test } from 'node:test';
import { answerEvents } from '../../../core/dialects/canonical/answer-events.ts';
import type { ChatAnswer } from '../../../core/dialects/canonical/chat-answer.ts';
import type { ChatPart } from '../../../core/dialects/canonical/chat-part.ts';
import { asArray, asObject, type JsonObject } from '../json-reading.ts';
import { openAiChatClient } from './index.ts';
import { answerContext, dataOf, plainRequest } from './codec.test-support.ts';

// Anthropic cites a block of text as a whole, and says so before the text comes.
const parts: readonly ChatPart[] = [
  { type: 'text', text: 'Look: ' },
  { type: 'text', text: 'It flows.', citations: [{ kind: 'url', url: 'https://a.example', title: 'A' }] },
  { type: 'text', text: ' Slowly.' },
];
const answer: ChatAnswer = {
  id: 'm',
  model: 'm',
  choices: [{ index: 0, parts, finish: { reason: 'stop', raw: '' } }],
};
const annotation = {
  type: 'url_citation',
  url_citation: { url: 'https://a.example', title: 'A', start_index: 6, end_index: 15 },
};

test('a citation without a place stands for its whole part', () => {
  const body = openAiChatClient.encodeAnswer(answer, answerContext(true, plainRequest)).toString();
  const choice = asObject(asArray((JSON.parse(body) as JsonObject).choices)[0]);
  assert.deepEqual(asObject(choice?.message)?.annotations, [annotation]);
});

test('and in a stream, too', () => {
  const writer = openAiChatClient.eventWriter(answerContext(true, plainRequest));
  const chunks = dataOf(writer.write(answerEvents(answer)) ?? Buffer.alloc(0));
  const said = chunks.flatMap((chunk) => {
    const delta = asObject(asObject(asArray(asObject(chunk)?.choices)[0])?.delta);
    return asArray(delta?.annotations);
  });
  assert.deepEqual(said, [annotation]);
});
