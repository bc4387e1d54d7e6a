import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ChatEvent } from '../../../core/dialects/canonical/chat-event.ts';
import type { ChatPart } from '../../../core/dialects/canonical/chat-part.ts';
import type { ChatRequest } from '../../../core/dialects/canonical/chat-request.ts';
import { collectAnswer } from '../../../core/dialects/canonical/collect-answer.ts';
import { chatContext, chatRequest, recorded, streamOf } from './chat-setting.test-support.ts';
import { anthropicProvider } from './host.ts';
import type { JsonObject } from '../json-reading.ts';

function eventsOf(chunks: readonly Uint8Array[], request: ChatRequest = chatRequest()): readonly ChatEvent[] {
  const reader = anthropicProvider.eventReader('text/event-stream', chatContext({ request }));
  return [...chunks.flatMap((chunk) => reader.push(chunk)), ...reader.finish()];
}

function answerOf(name: string, request?: ChatRequest): ReturnType<typeof collectAnswer> {
  return collectAnswer(eventsOf([streamOf(recorded(name))], request));
}

const tool = (phase: 'call' | 'result', id: string, name: string, value: JsonObject): ChatPart => ({
  type: 'provider-tool',
  dialect: 'anthropic-messages',
  phase,
  id,
  name,
  value,
});

const names = [
  'server-tools',
  'spliced-start',
  'prepopulated',
  'parallel-calls',
  'refused',
  'grid-reasoning',
];
for (const name of names) {
  test(`${name}: the same events wherever the bytes are cut in two`, () => {
    const bytes = streamOf(recorded(name));
    const whole = eventsOf([bytes]);
    assert.equal(whole.at(-1)?.type, 'end');
    for (let at = 1; at < bytes.length; at++) {
      assert.deepEqual(eventsOf([bytes.subarray(0, at), bytes.subarray(at)]), whole, `cut at ${at}`);
    }
  });
}

test('tools that the provider runs are whole parts and no calls, so that their stop reason asks for nothing', () => {
  const { choices, usage, extras, serviceTier } = answerOf('server-tools');
  assert.deepEqual(choices[0]?.parts, [
    { type: 'reasoning', text: '', signature: 'c2lnbmVk' },
    tool('call', 'srvtoolu_1', 'bash_code_execution', {
      type: 'server_tool_use',
      id: 'srvtoolu_1',
      name: 'bash_code_execution',
      input: { command: 'echo "grüß"' },
      caller: { type: 'direct' },
    }),
    tool('result', 'srvtoolu_1', 'bash_code_execution', {
      type: 'bash_code_execution_tool_result',
      tool_use_id: 'srvtoolu_1',
      content: {
        type: 'bash_code_execution_result',
        stdout: 'grüß\n',
        stderr: '',
        return_code: 0,
        content: [],
      },
    }),
    // Its stream lacks the brace that opens the input.
    tool('call', 'srvtoolu_2', 'text_editor_code_execution', {
      type: 'server_tool_use',
      id: 'srvtoolu_2',
      name: 'text_editor_code_execution',
      input: { command: 'view' },
    }),
    tool('call', 'mcptoolu_1', 'echo', {
      type: 'mcp_tool_use',
      id: 'mcptoolu_1',
      name: 'echo',
      server_name: 'wall',
      input: { say: 'hi' },
    }),
    tool('result', 'mcptoolu_1', 'mcp', {
      type: 'mcp_tool_result',
      tool_use_id: 'mcptoolu_1',
      is_error: false,
      content: [{ type: 'text', text: 'hi' }],
    }),
    { type: 'opaque', dialect: 'anthropic-messages', value: { type: 'compaction', content: 'In short.' } },
    {
      type: 'opaque',
      dialect: 'anthropic-messages',
      value: {
        type: 'fallback',
        from: { model: 'claude-sonnet-5' },
        to: { model: 'claude-opus-4-8' },
      },
    },
    {
      type: 'text',
      text: 'Grüß Gott.',
      citations: [
        {
          kind: 'document',
          title: 'Greetings',
          quote: 'Grüß Gott.',
          document: 1,
          raw: {
            dialect: 'anthropic-messages',
            value: {
              type: 'char_location',
              cited_text: 'Grüß Gott.',
              document_index: 1,
              document_title: 'Greetings',
              file_id: null,
              start_char_index: 3,
              end_char_index: 13,
            },
          },
        },
      ],
    },
  ]);
  assert.deepEqual(choices[0]?.finish, { reason: 'stop', raw: 'tool_use' });
  assert.deepEqual(usage, {
    promptTokens: 100,
    completionTokens: 38,
    totalTokens: 138,
    cachedTokens: 90,
    cacheWriteTokens: 4,
    reasoningTokens: 18,
    inputAudioTokens: 0,
    outputAudioTokens: 0,
  });
  assert.equal(serviceTier, 'default');
  assert.deepEqual(extras, {
    'anthropic-messages': {
      container: { id: 'container_1', expires_at: '2026-12-01T00:00:00Z' },
      context_management: { applied_edits: [] },
      usage: { server_tool_use: { web_search_requests: 0 } },
    },
  });
});

test('a start that comes twice, blocks that come twice and what follows the end say nothing', () => {
  const { id, choices, usage } = answerOf('spliced-start');
  assert.equal(id, 'msg_splice');
  assert.deepEqual(choices[0]?.parts, [{ type: 'text', text: 'Once' }]);
  assert.deepEqual(choices[0]?.finish, { reason: 'stop', raw: 'stop_sequence', stopSequence: 'END' });
  assert.deepEqual([usage?.promptTokens, usage?.completionTokens], [10, 2]);
});

test('content that stands in the start is read, with its long numbers and its caller', () => {
  const [choice] = answerOf('prepopulated').choices;
  assert.deepEqual(choice?.parts[1], {
    type: 'tool-call',
    kind: 'function',
    id: 'toolu_9',
    name: 'look_up',
    arguments: '{"number":12345678901234567890}',
    extras: { 'anthropic-messages': { caller: { type: 'code_execution_20250825', tool_id: 'srvtoolu_9' } } },
  });
  assert.equal(choice?.parts[0]?.type, 'provider-tool');
  assert.deepEqual(choice?.finish, { reason: 'tool-calls', raw: 'tool_use' });
});

test('arguments are complete JSON, however they come', () => {
  const [choice] = answerOf('parallel-calls').choices;
  const calls = choice?.parts.flatMap((part) => (part.type === 'tool-call' ? [part.arguments] : []));
  assert.deepEqual(calls, ['{"q": "a \\"quote\\""}', '{}', '{"whole":true}']);
  assert.equal(choice?.finish.reason, 'tool-calls');
});

test('a refusal without content keeps its details', () => {
  const { choices, extras } = answerOf('refused');
  assert.deepEqual(choices, [{ index: 0, parts: [], finish: { reason: 'content-filter', raw: 'refusal' } }]);
  assert.deepEqual(extras?.['anthropic-messages']?.stop_details, {
    type: 'refusal',
    category: 'cyber',
    explanation: 'Not this.',
  });
});

test('the call of a custom tool is its free text; the call of the answer tool is the text of the answer', () => {
  const custom = answerOf('parallel-calls', chatRequest({ tools: [{ type: 'custom', name: 'first' }] }))
    .choices[0]?.parts[1];
  assert.deepEqual(custom, {
    // Not the object that was asked for: then all of it is the text.
    type: 'tool-call',
    kind: 'custom',
    id: 'toolu_a',
    name: 'first',
    arguments: '{"q": "a \\"quote\\""}',
  });
  const events = [
    '{"type":"message_start","message":{"id":"m","model":"c","usage":{"input_tokens":1,"output_tokens":0}}}',
    '{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"sing","input":{}}}',
    '{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\\"input\\":\\"la"}}',
    '{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":" la\\"}"}}',
    '{"type":"content_block_stop","index":0}',
    '{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"t","name":"json","input":{}}}',
    '{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\\"a\\":"}}',
    '{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"1}"}}',
    '{"type":"content_block_stop","index":1}',
    '{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":3}}',
    '{"type":"message_stop"}',
  ];
  const schema = { type: 'object', properties: {} };
  const read = (request: ChatRequest): ChatPart['type'][] =>
    collectAnswer(eventsOf([streamOf(events)], request)).choices[0]?.parts.map(({ type }) => type) ?? [];
  const format = { type: 'json-schema', schema } as const;
  const asked = chatRequest({ tools: [{ type: 'custom', name: 'sing' }], responseFormat: format });
  const [choice] = collectAnswer(eventsOf([streamOf(events)], asked)).choices;
  assert.deepEqual(choice?.parts, [
    { type: 'tool-call', kind: 'custom', id: 't', name: 'sing', arguments: 'la la' },
    { type: 'text', text: '{"a":1}' },
  ]);
  assert.equal(choice?.finish.reason, 'tool-calls');
  const answerAlone = streamOf([events[0] ?? '', ...events.slice(5)]);
  const alone = collectAnswer(eventsOf([answerAlone], chatRequest({ responseFormat: format })));
  assert.deepEqual(alone.choices[0]?.finish, { reason: 'stop', raw: 'tool_use' });
  // A tool of the caller's with that name is his.
  const named = [{ type: 'function', name: 'json' }] as const;
  assert.deepEqual(read(chatRequest({ tools: named, responseFormat: format })), ['tool-call', 'tool-call']);
});

const start =
  '{"type":"message_start","message":{"id":"m","model":"c","usage":{"input_tokens":1,"output_tokens":0}}}';
const failures: readonly (readonly [string, readonly string[], object])[] = [
  [
    'an error event has the status of its type',
    [start, '{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}'],
    { status: 529, message: 'Overloaded', type: 'overloaded_error' },
  ],
  [
    'an error of an unknown type is a bad gateway',
    ['{"type":"error","error":{"type":"odd","message":"Odd"}}'],
    { status: 502, message: 'Odd', type: 'odd' },
  ],
  [
    'bytes that end without message_stop',
    [start, '{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":3}}'],
    {
      status: 502,
      message: "The provider's stream ended before its answer was complete.",
      type: 'upstream_error',
    },
  ],
  [
    'an event that is no JSON',
    [start, '{"type": torn'],
    { status: 502, message: "The provider's stream holds an event that is no JSON.", type: 'upstream_error' },
  ],
];
for (const [what, events, error] of failures) {
  test(`${what} ends in an error`, () => {
    assert.deepEqual(eventsOf([streamOf(events)]).at(-1), { type: 'error', error });
  });
}

test('text whose block start was lost is told all the same', () => {
  const events = eventsOf([
    streamOf([
      start,
      '{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Still here."}}',
      '{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":3}}',
      '{"type":"message_stop"}',
    ]),
  ]);
  assert.deepEqual(collectAnswer(events).choices[0]?.parts, [{ type: 'text', text: 'Still here.' }]);
});
