import assert from 'node:assert/strict';
import { test } from 'node:test';
import { answerTexts } from './create-tracer.ts';

const stream = (...events: unknown[]): string =>
  `${events.map((event) => `data: ${typeof event === 'string' ? event : JSON.stringify(event)}`).join('\r\n\r\n')}\n\n`;

const cases: readonly [string, unknown, string][] = [
  ['chat', { choices: [{ message: { content: 'hi' } }, { message: { content: 'no' } }] }, 'hi'],
  [
    'chat in parts',
    { choices: [{ message: { content: [{ type: 'text', text: 'a' }, { text: 'b' }] } }] },
    'ab',
  ],
  ['completions', { choices: [{ text: 'hi' }] }, 'hi'],
  [
    'messages',
    {
      content: [
        { type: 'thinking', thinking: 't' },
        { type: 'text', text: 'hi' },
      ],
    },
    'hi',
  ],
  [
    'responses',
    { output: [{ type: 'reasoning' }, { content: [{ type: 'output_text', text: 'hi' }] }] },
    'hi',
  ],
  ['generateContent', { candidates: [{ content: { parts: [{ text: 'h' }, { text: 'i' }] } }] }, 'hi'],
  ['embeddings', { data: [{ embedding: [1] }] }, ''],
  ['a tool call', { choices: [{ message: { content: null, tool_calls: [{}] } }] }, ''],
  ['no object', [1], ''],
  ['a member that is inherited', { choices: [{ message: { constructor: 1 } }] }, ''],
];
for (const [name, answer, text] of cases) {
  test(`the text of ${name}`, () => assert.equal(answerTexts(JSON.stringify(answer), false), text));
}

const streams: readonly [string, readonly unknown[], string][] = [
  [
    'chat',
    [
      { choices: [{ delta: { role: 'assistant' } }] },
      { choices: [{ delta: { content: 'h' } }] },
      { choices: [{ delta: { content: 'i' } }] },
      '[DONE]',
    ],
    'hi',
  ],
  [
    'messages',
    [{ type: 'message_start' }, { type: 'content_block_delta', delta: { type: 'text_delta', text: 'hi' } }],
    'hi',
  ],
  [
    'responses',
    [
      { type: 'response.output_text.delta', delta: 'hi' },
      { type: 'other', delta: 'no' },
    ],
    'hi',
  ],
  ['generateContent', [{ candidates: [{ content: { parts: [{ text: 'hi' }] } }] }], 'hi'],
];
for (const [name, events, text] of streams) {
  test(`the text of a stream of ${name}`, () => assert.equal(answerTexts(stream(...events), true), text));
}

test('an answer that is no JSON has no text', () => {
  assert.equal(answerTexts('<html>', false), '');
});
