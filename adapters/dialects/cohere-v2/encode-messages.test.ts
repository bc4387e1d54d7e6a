import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { ChatPart } from '../../../core/dialects/canonical/chat-part.ts';
import type { ChatMessage } from '../../../core/dialects/canonical/chat-request.ts';
import { encoded, hostFacts } from './cohere.test-support.ts';

const text = (value: string): ChatPart => ({ type: 'text', text: value });
const call = (id: string, given = '{}'): ChatPart => ({
  type: 'tool-call',
  kind: 'function',
  id,
  name: 'f',
  arguments: given,
});
const plan: ChatPart = { type: 'reasoning', text: 'First f.', extras: { 'cohere-v2': { tool_plan: true } } };

function messages(list: readonly ChatMessage[], model?: string) {
  const result = encoded({ messages: list }, hostFacts(model));
  return { ...result, messages: result.body.messages };
}

describe('messages to Cohere', () => {
  it('have one role for instructions', () => {
    const result = messages([
      { role: 'system', parts: [text('A')] },
      { role: 'developer', parts: [text('B'), text('C')] },
    ]);
    assert.deepEqual(result.messages, [
      { role: 'system', content: 'A' },
      {
        role: 'system',
        content: [
          { type: 'text', text: 'B' },
          { type: 'text', text: 'C' },
        ],
      },
    ]);
  });

  it('show images from URLs and bytes', () => {
    const result = messages([
      {
        role: 'user',
        parts: [
          text('See'),
          { type: 'image', source: { kind: 'url', url: 'https://example.org/a.png' }, detail: 'low' },
          { type: 'image', source: { kind: 'base64', mediaType: 'image/png', data: 'AAAA' } },
        ],
      },
    ]);
    assert.deepEqual(result.messages, [
      {
        role: 'user',
        content: [
          { type: 'text', text: 'See' },
          { type: 'image_url', image_url: { url: 'https://example.org/a.png', detail: 'low' } },
          { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } },
        ],
      },
    ]);
    assert.deepEqual(result.dropped, []);
  });

  it('make text files documents to cite, before those of the request', () => {
    const data = Buffer.from('a,b').toString('base64');
    const result = encoded({
      messages: [
        {
          role: 'user',
          parts: [
            text('Read'),
            { type: 'file', source: { kind: 'text', text: 'One' } },
            { type: 'file', source: { kind: 'base64', mediaType: 'text/csv', data }, filename: 'two.csv' },
          ],
        },
      ],
      extras: { 'cohere-v2': { documents: ['three'] } },
    });
    assert.deepEqual(result.body.documents, [
      { data: { text: 'One' } },
      { data: { text: 'a,b', title: 'two.csv' } },
      'three',
    ]);
    assert.deepEqual(result.body.messages, [{ role: 'user', content: 'Read' }]);
    assert.deepEqual(result.emulated, ['messages[0].content[1]', 'messages[0].content[2]']);
  });

  it('report what they cannot hold', () => {
    const result = messages([
      {
        role: 'user',
        name: 'ann',
        parts: [
          { type: 'text', text: 'x', cache: {} },
          { type: 'file', source: { kind: 'base64', mediaType: 'application/pdf', data: '' } },
          { type: 'audio', source: { kind: 'base64', mediaType: 'audio/wav', data: '' } },
          { type: 'image', source: { kind: 'file-id', id: 'f', dialect: 'openai-responses' } },
          { type: 'opaque', dialect: 'anthropic-messages', value: {} },
        ],
        extras: { 'openai-chat': { weight: 1 } },
      },
    ]);
    assert.deepEqual(result.dropped, [
      'messages[0].name',
      'messages[0].weight',
      'messages[0].content[0].cache_control',
      'messages[0].content[1]',
      'messages[0].content[2]',
      'messages[0].content[3]',
      'messages[0].content[4]',
    ]);
    assert.deepEqual(result.messages, [{ role: 'user', content: 'x' }]);
  });

  it('repeat a turn with plan, calls and results', () => {
    const result = messages([
      { role: 'assistant', parts: [plan, call('c1', '{"a":1}'), call('c2', '')] },
      {
        role: 'tool',
        parts: [
          { type: 'tool-result', kind: 'function', callId: 'c1', content: [{ type: 'text', text: '4.2' }] },
          {
            type: 'tool-result',
            kind: 'function',
            callId: 'c2',
            isError: true,
            content: [
              { type: 'text', text: 'a' },
              { type: 'file', source: { kind: 'text', text: 'b' }, filename: 'b.txt' },
              { type: 'image', source: { kind: 'url', url: 'https://example.org' } },
            ],
          },
        ],
      },
    ]);
    assert.deepEqual(result.messages, [
      {
        role: 'assistant',
        tool_plan: 'First f.',
        tool_calls: [
          { id: 'c1', type: 'function', function: { name: 'f', arguments: '{"a":1}' } },
          { id: 'c2', type: 'function', function: { name: 'f', arguments: '{}' } },
        ],
      },
      { role: 'tool', tool_call_id: 'c1', content: '4.2' },
      {
        role: 'tool',
        tool_call_id: 'c2',
        content: [
          { type: 'text', text: 'a' },
          { type: 'document', document: { data: { text: 'b', title: 'b.txt' } } },
        ],
      },
    ]);
    assert.deepEqual(result.dropped, [
      'messages[1].content[1].is_error',
      'messages[1].content[1].content[2]',
    ]);
  });

  it('say thoughts as the model knows them', () => {
    const thought: ChatPart = { type: 'reasoning', text: 'Hm.' };
    const turn: ChatMessage[] = [{ role: 'assistant', parts: [thought, text('Yes'), call('c')] }];
    const tool_calls = [{ id: 'c', type: 'function', function: { name: 'f', arguments: '{}' } }];
    assert.deepEqual(messages(turn).messages, [
      { role: 'assistant', tool_plan: 'Hm.', content: 'Yes', tool_calls },
    ]);
    const content = [
      { type: 'thinking', thinking: 'Hm.' },
      { type: 'text', text: 'Yes' },
    ];
    assert.deepEqual(messages(turn, 'command-a-reasoning-08-2025').messages, [
      { role: 'assistant', content, tool_calls },
    ]);
    const answer = messages([{ role: 'assistant', parts: [thought, text('Yes')] }]);
    assert.deepEqual(answer.messages, [{ role: 'assistant', content }]);
  });

  it('report hidden thoughts, signatures and foreign citations; send back their own', () => {
    const value = { start: 0, end: 3, text: 'Yes', sources: [] };
    const result = messages([
      {
        role: 'assistant',
        parts: [
          { type: 'reasoning', text: '', redacted: 'x' },
          { type: 'reasoning', text: 'Hm.', signature: 's' },
          {
            type: 'text',
            text: 'Yes',
            citations: [
              { kind: 'document', raw: { dialect: 'cohere-v2', value } },
              { kind: 'url', url: 'https://example.org' },
            ],
          },
          { type: 'refusal', text: 'No' },
        ],
      },
    ]);
    assert.deepEqual(result.messages, [
      {
        role: 'assistant',
        content: [
          { type: 'thinking', thinking: 'Hm.' },
          { type: 'text', text: 'Yes' },
          { type: 'text', text: 'No' },
        ],
        citations: [value],
      },
    ]);
    assert.deepEqual(result.dropped, [
      'messages[0].content[0]',
      'messages[0].content[1].signature',
      'messages[0].content[2].citations',
    ]);
    assert.deepEqual(result.emulated, ['messages[0].content[3]']);
  });

  it('say free input of a custom tool as an argument', () => {
    const custom: ChatPart = { type: 'tool-call', kind: 'custom', id: 'c', name: 'sh', arguments: 'ls -l' };
    const result = messages([{ role: 'assistant', parts: [custom] }]);
    assert.deepEqual(result.messages, [
      {
        role: 'assistant',
        tool_calls: [{ id: 'c', type: 'function', function: { name: 'sh', arguments: '{"input":"ls -l"}' } }],
      },
    ]);
    assert.deepEqual(result.emulated, ['messages[0].content[0]']);
  });

  it('keep an empty turn', () => {
    assert.deepEqual(messages([{ role: 'assistant', parts: [] }]).messages, [
      { role: 'assistant', content: '' },
    ]);
  });
});
