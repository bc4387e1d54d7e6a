import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { StreamEvent } from '../../../core/dialects/stream-event.ts';
import { chatFrames } from './frames.ts';

type Json = Record<string, unknown>;

function frameOf(json: unknown): { bytes: Buffer; events: readonly StreamEvent[] } {
  const [frame] = chatFrames
    .createReader()
    .push(Buffer.from(`data: ${typeof json === 'string' ? json : JSON.stringify(json)}\n\n`));
  assert.ok(frame !== undefined);
  return { bytes: Buffer.from(frame.bytes), events: frame.events };
}

function rewritten(json: unknown, events: readonly StreamEvent[]): Json | undefined {
  const bytes = chatFrames.rewrite(frameOf(json), events);
  return bytes === undefined
    ? undefined
    : (JSON.parse(Buffer.from(bytes).toString().slice('data: '.length)) as Json);
}

const chunk = (choices: unknown[], extra: Json = {}): Json => ({
  id: 'x',
  object: 'chat.completion.chunk',
  created: 1,
  model: 'm',
  choices,
  ...extra,
});
const text = (value: string, choice = 0): StreamEvent => ({ type: 'text-delta', choice, text: value });

test('text changes, everything else of the frame stays', () => {
  const original = chunk(
    [{ index: 0, delta: { content: 'bad', custom: 1 }, finish_reason: null, filter: {} }],
    { citations: ['c'] },
  );
  assert.deepEqual(
    rewritten(original, [text('good')]),
    chunk([{ index: 0, delta: { content: 'good', custom: 1 }, finish_reason: null, filter: {} }], {
      citations: ['c'],
    }),
  );
});

test('copies of a text go with it: log probabilities, whole messages, blocks', () => {
  const original = chunk([
    {
      index: 0,
      delta: { content: 'bad', content_blocks: [{ delta: { text: 'bad' } }] },
      message: { content: 'bad' },
      logprobs: { content: [{ token: 'bad' }] },
    },
  ]);
  assert.deepEqual(
    rewritten(original, [text('')]),
    chunk([{ index: 0, delta: { content: '' }, logprobs: null }]),
  );
  const unchanged = chunk([
    { index: 0, delta: { content: 'ok' }, logprobs: { content: [{ token: 'ok' }] }, finish_reason: 'stop' },
  ]);
  assert.deepEqual((rewritten(unchanged, [text('ok')])?.choices as Json[])[0]?.logprobs, {
    content: [{ token: 'ok' }],
  });
});

test('reasoning that stands under two names is one text', () => {
  const original = chunk([{ index: 0, delta: { reasoning: 'bad', reasoning_content: 'bad' } }]);
  assert.deepEqual(frameOf(original).events, [{ type: 'reasoning-delta', choice: 0, text: 'bad' }]);
  assert.deepEqual(
    rewritten(original, [{ type: 'reasoning-delta', choice: 0, text: 'good' }]),
    chunk([{ index: 0, delta: { reasoning_content: 'good' } }]),
  );
});

test('events that the frame did not say are added where they belong', () => {
  const original = chunk([{ index: 0, delta: {}, finish_reason: 'stop' }]);
  const events: StreamEvent[] = [
    text('tail'),
    { type: 'reasoning-delta', choice: 0, text: 'why' },
    { type: 'tool-arguments-delta', choice: 1, call: 2, id: 'call_c', name: 'f', text: '{}' },
    { type: 'finish', choice: 0, reason: 'length' },
  ];
  assert.deepEqual(
    rewritten(original, events),
    chunk([
      { index: 0, delta: { content: 'tail', reasoning_content: 'why' }, finish_reason: 'length' },
      {
        index: 1,
        finish_reason: null,
        delta: {
          tool_calls: [
            { index: 2, id: 'call_c', type: 'function', function: { name: 'f', arguments: '{}' } },
          ],
        },
      },
    ]),
  );
});

test('what no event says any more is gone', () => {
  const original = chunk(
    [
      {
        index: 0,
        delta: { content: 'bad', tool_calls: [{ index: 0, function: { arguments: '{"bad":1}' } }] },
        finish_reason: 'stop',
      },
    ],
    { usage: { total_tokens: 3 }, x_groq: { usage: { total_tokens: 3 }, id: 'r' } },
  );
  assert.deepEqual(
    rewritten(original, [{ type: 'finish', choice: 0, reason: 'stop' }]),
    chunk([{ index: 0, delta: { tool_calls: [] }, finish_reason: 'stop' }], { x_groq: { id: 'r' } }),
  );
});

test('nothing is left of a frame whose only text went; a role is something', () => {
  assert.equal(chatFrames.rewrite(frameOf(chunk([{ index: 0, delta: { content: 'bad' } }])), []), undefined);
  assert.equal(chatFrames.rewrite(frameOf(chunk([], { usage: { total_tokens: 3 } })), []), undefined);
  assert.deepEqual(
    rewritten(chunk([{ index: 0, delta: { role: 'assistant', content: 'bad' }, finish_reason: null }]), []),
    chunk([{ index: 0, delta: { role: 'assistant' }, finish_reason: null }]),
  );
});

test('several texts of one channel become one, in the place of the first', () => {
  const original = chunk([
    {
      index: 0,
      delta: {
        content: [
          { type: 'text', text: 'a' },
          { type: 'thinking', thinking: [{ type: 'text', text: 'h' }] },
          { type: 'text', text: 'b' },
        ],
      },
    },
  ]);
  assert.deepEqual(
    frameOf(original).events.map((event) => 'text' in event && event.text),
    ['a', 'h', 'b'],
  );
  assert.deepEqual(
    rewritten(original, [text('c'), { type: 'reasoning-delta', choice: 0, text: 'h' }, text('d')]),
    chunk([
      {
        index: 0,
        delta: {
          content: [
            { type: 'text', text: 'cd' },
            { type: 'thinking', thinking: [{ type: 'text', text: 'h' }] },
            { type: 'text', text: '' },
          ],
        },
      },
    ]),
  );
});

test('usage, error and a tool call by another name', () => {
  const usage = {
    promptTokens: 1,
    completionTokens: 2,
    totalTokens: 3,
    cachedTokens: 0,
    cacheWriteTokens: 0,
    reasoningTokens: 0,
    inputAudioTokens: 0,
    outputAudioTokens: 0,
  };
  const changed = rewritten(
    chunk([], { usage: { prompt_tokens: 9, completion_tokens: 9, total_tokens: 18, queue_time: 1 } }),
    [{ type: 'usage', usage }],
  );
  assert.deepEqual(
    { ...(changed?.usage as Json), prompt_tokens_details: 0, completion_tokens_details: 0 },
    {
      prompt_tokens: 1,
      completion_tokens: 2,
      total_tokens: 3,
      queue_time: 1,
      prompt_tokens_details: 0,
      completion_tokens_details: 0,
    },
  );
  assert.deepEqual(
    rewritten({ error: { message: 'bad', type: 't', code: 'c' } }, [
      { type: 'error', message: 'good', code: 'c' },
    ]),
    { error: { message: 'good', type: 't', code: 'c' } },
  );
  const call = chunk([
    { index: 0, delta: { tool_calls: [{ index: 0, id: 'a', function: { name: 'f', arguments: '' } }] } },
  ]);
  assert.deepEqual(
    rewritten(call, [{ type: 'tool-arguments-delta', choice: 0, call: 0, id: 'a', name: 'g', text: '' }]),
    chunk([
      { index: 0, delta: { tool_calls: [{ index: 0, id: 'a', function: { name: 'g', arguments: '' } }] } },
    ]),
  );
});

test('texts of a completions stream and of older calls', () => {
  const completion = {
    object: 'text_completion',
    choices: [{ index: 0, text: 'bad', logprobs: null, finish_reason: null }],
  };
  assert.deepEqual(rewritten(completion, [text('good')]), {
    object: 'text_completion',
    choices: [{ index: 0, text: 'good', logprobs: null, finish_reason: null }],
  });
  assert.deepEqual(rewritten({ object: 'text_completion', choices: [] }, [text('more')]), {
    object: 'text_completion',
    choices: [{ index: 0, finish_reason: null, text: 'more' }],
  });
  const legacy = chunk([{ index: 0, delta: { function_call: { name: 'f', arguments: 'bad' } } }]);
  const event: StreamEvent = { type: 'tool-arguments-delta', choice: 0, call: 0, name: 'f', text: '{}' };
  assert.deepEqual(
    rewritten(legacy, [event]),
    chunk([{ index: 0, delta: { function_call: { name: 'f', arguments: '{}' } } }]),
  );
  const custom = chunk([
    { index: 0, delta: { tool_calls: [{ index: 0, custom: { name: 'sql', input: 'bad' } }] } },
  ]);
  assert.deepEqual(
    rewritten(custom, [{ ...event, name: 'sql', text: 'SELECT' }]),
    chunk([{ index: 0, delta: { tool_calls: [{ index: 0, custom: { name: 'sql', input: 'SELECT' } }] } }]),
  );
});

test('the end marker stays the end, after what is said in its place', () => {
  const bytes = chatFrames.rewrite(frameOf('[DONE]'), [text('late'), { type: 'done' }]);
  const events = chatFrames
    .createReader()
    .push(bytes as Uint8Array)
    .flatMap((frame) => frame.events);
  assert.deepEqual(events, [text('late'), { type: 'done' }]);
  assert.equal(chatFrames.rewrite(frameOf('[DONE]'), []), undefined);
});

test('a rewritten frame keeps its other lines and the digits of its integers', () => {
  const bytes = Buffer.from(
    'id: 7\ndata: {"seed":9007199254740993,"choices":[{"index":0,"delta":{"content":"bad"}}]}\n\n',
  );
  assert.equal(
    Buffer.from(chatFrames.rewrite({ bytes, events: [] }, [text('good')]) as Uint8Array).toString(),
    'id: 7\ndata: {"seed":9007199254740993,"choices":[{"index":0,"delta":{"content":"good"}}]}\n\n',
  );
});
