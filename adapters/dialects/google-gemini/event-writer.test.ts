import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { answerEvents } from '../../../core/dialects/canonical/answer-events.ts';
import type { ChatAnswer } from '../../../core/dialects/canonical/chat-answer.ts';
import type { ChatEvent } from '../../../core/dialects/canonical/chat-event.ts';
import { createPayloadReader } from '../../framing/payload-reader.ts';
import { answerContext } from './gemini-wire.test-support.ts';
import { geminiClient } from './index.ts';
import type { JsonObject } from '../json-reading.ts';

const answer: ChatAnswer = {
  id: 'a-1',
  model: 'other-2',
  choices: [
    {
      index: 0,
      parts: [
        { type: 'reasoning', text: 'Hm.', signature: 's' },
        {
          type: 'text',
          text: 'Größe: 7',
          citations: [{ kind: 'url', url: 'https://example.org', title: 'E', start: 0, end: 5 }],
        },
        {
          type: 'provider-tool',
          dialect: 'openai-responses',
          phase: 'call',
          id: 'w',
          name: 'web',
          value: {},
        },
        { type: 'tool-call', id: 'c', name: 'f', kind: 'function', arguments: '{"n":12345678901234567890}' },
      ],
      finish: { reason: 'tool-calls', raw: 'tool_calls' },
    },
  ],
  usage: {
    promptTokens: 10,
    completionTokens: 8,
    totalTokens: 18,
    cachedTokens: 4,
    cacheWriteTokens: 0,
    reasoningTokens: 3,
    inputAudioTokens: 0,
    outputAudioTokens: 0,
  },
};

const usageMetadata = {
  promptTokenCount: 10,
  candidatesTokenCount: 5,
  totalTokenCount: 18,
  cachedContentTokenCount: 4,
  thoughtsTokenCount: 3,
};

const groundingMetadata = {
  groundingChunks: [{ web: { uri: 'https://example.org', title: 'E' } }],
  // Bytes: two letters of the word take two each.
  groundingSupports: [{ segment: { startIndex: 0, endIndex: 7, text: 'Größe' }, groundingChunkIndices: [0] }],
};

function write(events: readonly ChatEvent[], query: string): Buffer {
  const writer = geminiClient.eventWriter(answerContext(query));
  return Buffer.concat(events.flatMap((event) => writer.write([event]) ?? []));
}

function objects(bytes: Buffer, contentType: string): JsonObject[] {
  const reader = createPayloadReader(contentType);
  return [...reader.push(bytes), ...reader.finish()].map(({ data, error }) => {
    assert.equal(error, undefined);
    return JSON.parse(data) as JsonObject;
  });
}

describe('answer to a Gemini client', () => {
  test('complete: own tools of others stay hidden, long integers stay exact', () => {
    const json = geminiClient.encodeAnswer(answer, answerContext()).toString();
    assert.match(json, /"n":12345678901234567890/);
    assert.deepEqual(JSON.parse(json.replace('12345678901234567890', '1')), {
      candidates: [
        {
          content: {
            parts: [
              { text: 'Hm.', thought: true, thoughtSignature: 's' },
              { text: 'Größe: 7' },
              { functionCall: { id: 'c', name: 'f', args: { n: 1 } } },
            ],
            role: 'model',
          },
          finishReason: 'STOP',
          index: 0,
          groundingMetadata,
        },
      ],
      usageMetadata,
      modelVersion: 'other-2',
      responseId: 'a-1',
    });
  });

  test('streamed: an object for each piece, calls whole, the end with usage and sources', () => {
    const written = objects(write(answerEvents(answer), '?alt=sse'), 'text/event-stream');
    const parts = written.map(({ candidates }) => {
      const [candidate] = candidates as [{ content: { parts: unknown } }];
      return candidate.content.parts;
    });
    assert.deepEqual(parts, [
      [{ text: 'Hm.', thought: true }],
      [{ text: '', thought: true, thoughtSignature: 's' }],
      [{ text: 'Größe: 7' }],
      [{ functionCall: { id: 'c', name: 'f', args: { n: Number('12345678901234567890') } } }],
      [{ text: '' }],
    ]);
    const last = written.at(-1) as JsonObject;
    assert.deepEqual(last, {
      candidates: [
        {
          content: { parts: [{ text: '' }], role: 'model' },
          finishReason: 'STOP',
          index: 0,
          groundingMetadata,
        },
      ],
      usageMetadata,
      modelVersion: 'other-2',
      responseId: 'a-1',
    });
    assert.ok(written.every(({ responseId }) => responseId === 'a-1'));
  });

  for (const query of ['', '?key=x'])
    test(`without alt=sse ("${query}") the stream is one JSON array`, () => {
      const bytes = write(answerEvents(answer), query);
      const events = objects(write(answerEvents(answer), '?alt=sse'), 'text/event-stream');
      assert.deepEqual(JSON.parse(bytes.toString()), events);
      assert.equal(geminiClient.eventWriter(answerContext(query)).contentType, 'application/json');
    });

  test('an error within a stream is its last object', () => {
    const events: ChatEvent[] = [
      { type: 'start', id: 'a', model: 'm' },
      { type: 'part-start', choice: 0, part: 0, head: { type: 'text', text: '' } },
      { type: 'text-delta', choice: 0, part: 0, text: 'half' },
      { type: 'error', error: { status: 529, message: 'Busy.', type: 'overloaded_error' } },
    ];
    const array = JSON.parse(write(events, '').toString()) as { error?: { code: number } }[];
    assert.equal(array.length, 2);
    assert.equal(array[1]?.error?.code, 529);
    const sse = objects(write(events, '?alt=sse'), 'text/event-stream') as { error?: { status: string } }[];
    assert.equal(sse.at(-1)?.error?.status, 'UNAVAILABLE');
    const alone = write([events[3] as ChatEvent], '');
    assert.equal((JSON.parse(alone.toString()) as unknown[]).length, 1);
  });

  const reasons: readonly (readonly [ChatAnswer['choices'][number]['finish'], string])[] = [
    [{ reason: 'length', raw: 'max_tokens' }, 'MAX_TOKENS'],
    [{ reason: 'content-filter', raw: 'refusal' }, 'SAFETY'],
    [{ reason: 'content-filter', raw: 'RECITATION' }, 'RECITATION'],
    [{ reason: 'stop', raw: '' }, 'STOP'],
    [{ reason: 'pause', raw: 'pause_turn' }, 'OTHER'],
  ];
  for (const [finish, expected] of reasons)
    test(`${finish.reason} (${finish.raw}) is ${expected}`, () => {
      const choices = [{ index: 0, parts: [], finish }];
      const body = JSON.parse(
        geminiClient.encodeAnswer({ ...answer, choices }, answerContext()).toString(),
      ) as { candidates: [{ finishReason: string }] };
      assert.equal(body.candidates[0].finishReason, expected);
    });
});
