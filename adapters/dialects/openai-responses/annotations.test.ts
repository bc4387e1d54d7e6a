import assert from 'node:assert/strict';
import { test } from 'node:test';
import { answerEvents } from '../../../core/dialects/canonical/answer-events.ts';
import type { ChatAnswer } from '../../../core/dialects/canonical/chat-answer.ts';
import type { ChatPart } from '../../../core/dialects/canonical/chat-part.ts';
import { openAiResponsesClient } from './index.ts';
import { answerContext } from './responses.test-support.ts';

// Anthropic cites a block of text as a whole, and says so before the text comes.
const parts: readonly ChatPart[] = [
  { type: 'text', text: 'It flows.', citations: [{ kind: 'url', url: 'https://a.example', title: 'A' }] },
  { type: 'text', text: ' Slowly.' },
];
const answer: ChatAnswer = {
  id: '',
  model: 'm',
  choices: [{ index: 0, parts, finish: { reason: 'stop', raw: '' } }],
};
const annotation =
  '{"type":"url_citation","start_index":0,"end_index":9,"url":"https://a.example","title":"A"}';

test('a citation without a place stands for its whole part', () => {
  const body = openAiResponsesClient.encodeAnswer(answer, answerContext()).toString();
  assert.ok(body.includes(`"annotations":[${annotation}]`), body);
});

test('and in a stream, too, before the part is done', () => {
  const writer = openAiResponsesClient.eventWriter(answerContext());
  const text = (writer.write(answerEvents(answer)) ?? '').toString();
  const added = text.indexOf(`"annotation":${annotation}`);
  assert.ok(added !== -1, text);
  assert.ok(added < text.indexOf('response.output_text.done'));
  assert.ok(text.includes(`"annotations":[${annotation}]`));
});
