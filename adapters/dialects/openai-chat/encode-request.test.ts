import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ChatPart } from '../../../core/dialects/canonical/chat-part.ts';
import type { ChatMessage, ChatRequest } from '../../../core/dialects/canonical/chat-request.ts';
import { EncodeReport } from '../../../core/dialects/canonical/chat-codec.ts';
import type { HostFacts } from '../../../core/dialects/host-facts.ts';
import type { JsonObject } from '../json-reading.ts';
import { host, plainRequest } from './codec.test-support.ts';
import { encodeRequest } from './host.ts';

interface Encoded {
  readonly path: string;
  readonly body: JsonObject;
  readonly dropped: readonly string[];
  readonly emulated: readonly string[];
}

function encode(request: Partial<ChatRequest>, facts: HostFacts = host()): Encoded {
  const report = new EncodeReport();
  const { path, body } = encodeRequest({ ...plainRequest, ...request }, facts, report);
  const json = JSON.parse(body.toString()) as JsonObject;
  return { path, body: json, dropped: report.dropped, emulated: report.emulated };
}

const user = (...parts: readonly ChatPart[]): ChatMessage => ({ role: 'user', parts });
const text = (said: string): ChatPart => ({ type: 'text', text: said });

test('nothing is invented, and a stream asks for its usage where the host must be asked', () => {
  assert.deepEqual(encode({ messages: [user(text('Hi'))] }).body, {
    model: 'river-1',
    messages: [{ role: 'user', content: 'Hi' }],
  });
  assert.deepEqual(encode({ stream: true }).body.stream_options, { include_usage: true });
  const always: HostFacts = { ...host(), usageInStream: 'always' };
  assert.equal(encode({ stream: true }, always).body.stream_options, undefined);
});

test('the limit of the output goes under the name that the model takes', () => {
  const cases: readonly (readonly [string, HostFacts['quirks'], string])[] = [
    ['river-1', {}, 'max_tokens'],
    ['gpt-4o', {}, 'max_tokens'],
    ['gpt-5-mini', {}, 'max_completion_tokens'],
    ['openai/o3', {}, 'max_completion_tokens'],
    ['o4-mini', { rename: { max_completion_tokens: 'max_tokens' } }, 'max_tokens'],
    ['river-1', { rename: { max_tokens: 'max_completion_tokens' } }, 'max_completion_tokens'],
    ['river-1', { rename: { max_tokens: 'max_new_tokens' } }, 'max_new_tokens'],
  ];
  for (const [model, quirks, name] of cases) {
    const { body } = encode({ maxOutputTokens: 7 }, host(model, quirks));
    assert.deepEqual(body, { model, messages: [], [name]: 7 });
  }
});

test('a row renames, leaves out and words differently', () => {
  const quirks = {
    rename: { seed: 'random_seed', top_k: 'top_k' },
    drop: ['user'],
    roles: { developer: 'system' },
    values: { tool_choice: { required: 'any' } },
    paths: { 'chat.completions': '/chat' },
  };
  const request: Partial<ChatRequest> = {
    messages: [{ role: 'developer', parts: [text('Rules')] }],
    tools: [{ type: 'function', name: 'a' }],
    toolChoice: { type: 'required' },
    seed: 5,
    user: 'ann',
    topK: 3,
  };
  const { path, body, dropped } = encode(request, host('river-1', quirks));
  assert.equal(path, '/chat');
  assert.deepEqual(body, {
    model: 'river-1',
    messages: [{ role: 'system', content: 'Rules' }],
    tools: [{ type: 'function', function: { name: 'a' } }],
    tool_choice: 'any',
    random_seed: 5,
    top_k: 3,
  });
  assert.deepEqual(dropped, ['user']);
});

test('integers beyond 2^53 and own extras are said as they were, and extras win', () => {
  const report = new EncodeReport();
  const request: ChatRequest = {
    ...plainRequest,
    seed: 2n ** 60n,
    temperature: 1,
    extras: {
      'openai-chat': { temperature: 0.5, prediction: { type: 'content' } },
      'cohere-v2': { safety_mode: 'x' },
    },
  };
  const { body } = encodeRequest(request, host(), report);
  assert.match(body.toString(), /"seed":1152921504606846976/);
  assert.match(body.toString(), /"temperature":0.5,.*"prediction":\{"type":"content"\}/);
  assert.deepEqual(report.dropped, ['safety_mode']);
});

test('what the wire cannot say is reported by its place', () => {
  const png = { kind: 'base64', mediaType: 'image/png', data: 'AAAA' } as const;
  const cases: readonly (readonly [Partial<ChatRequest>, readonly string[], readonly string[]])[] = [
    [{ topK: 3 }, ['top_k'], []],
    [{ reasoning: { budgetTokens: 2000 } }, [], ['thinking.budget_tokens']],
    [{ reasoning: { enabled: false } }, ['thinking'], []],
    [{ toolChoice: { type: 'required' } }, ['tool_choice'], []],
    [{ messages: [user({ ...text('x'), cache: {} })] }, ['messages[0].content[0].cache_control'], []],
    [
      {
        messages: [
          user({ type: 'file', source: { kind: 'file-id', id: 'f', dialect: 'anthropic-messages' } }),
        ],
      },
      ['messages[0].content[0]'],
      [],
    ],
    [
      { messages: [user({ type: 'file', source: { kind: 'text', text: 'doc' } })] },
      [],
      ['messages[0].content[0]'],
    ],
    [
      { messages: [{ role: 'system', parts: [{ type: 'image', source: png }] }] },
      ['messages[0].content[0]'],
      [],
    ],
    [
      {
        messages: [
          { role: 'assistant', parts: [{ type: 'reasoning', text: 'Hm.', signature: 's', redacted: 'r' }] },
        ],
      },
      ['messages[0].content[0].redacted_thinking', 'messages[0].content[0].signature'],
      [],
    ],
    [
      {
        messages: [
          {
            role: 'tool',
            parts: [
              {
                type: 'tool-result',
                callId: 'c',
                kind: 'function',
                isError: true,
                content: [{ type: 'image', source: png }],
              },
            ],
          },
        ],
      },
      ['messages[0].content[0].is_error'],
      ['messages[0].content[0].content[0]'],
    ],
    [
      {
        tools: [
          {
            type: 'provider',
            dialect: 'anthropic-messages',
            purpose: 'web-search',
            value: { type: 'web_search_20250305' },
          },
        ],
      },
      ['tools[0]'],
      [],
    ],
  ];
  for (const [request, dropped, emulated] of cases) {
    const encoded = encode(request);
    assert.deepEqual(encoded.dropped, dropped);
    assert.deepEqual(encoded.emulated, emulated);
  }
});

test('thoughts and their proofs go back to the hosts that take them', () => {
  const messages: readonly ChatMessage[] = [
    {
      role: 'assistant',
      parts: [
        { type: 'reasoning', text: 'Hm.' },
        { type: 'tool-call', id: 'c', name: 'a', kind: 'function', arguments: '{}', signature: 'proof' },
      ],
    },
  ];
  const call = { id: 'c', type: 'function', function: { name: 'a', arguments: '{}' } };
  const base = { role: 'assistant', content: null };
  const cases: readonly (readonly [HostFacts, unknown, readonly string[]])[] = [
    [
      host('river-1'),
      { ...base, reasoning_content: 'Hm.', tool_calls: [call] },
      ['messages[0].tool_calls[0].extra_content.google.thought_signature'],
    ],
    [
      host('gpt-4o'),
      { ...base, tool_calls: [call] },
      [
        'messages[0].content[0].reasoning_content',
        'messages[0].tool_calls[0].extra_content.google.thought_signature',
      ],
    ],
    [
      host('gemini-3-pro', { rename: { reasoning_content: 'reasoning' } }),
      {
        ...base,
        reasoning: 'Hm.',
        tool_calls: [{ ...call, extra_content: { google: { thought_signature: 'proof' } } }],
      },
      [],
    ],
  ];
  for (const [facts, expected, dropped] of cases) {
    const encoded = encode({ messages }, facts);
    assert.deepEqual(encoded.body.messages, [expected]);
    assert.deepEqual(encoded.dropped, dropped);
  }
});

test('markers go to a host whose row names them, and media of tools is shown by the user', () => {
  const taking = host('river-1', { rename: { cache_control: 'cache_control' } });
  const { body } = encode(
    {
      messages: [
        user({ type: 'text', text: 'x', cache: { ttl: '1h' } }),
        {
          role: 'tool',
          parts: [
            {
              type: 'tool-result',
              callId: 'c',
              kind: 'function',
              content: [
                { type: 'text', text: 'done' },
                { type: 'image', source: { kind: 'url', url: 'https://a.example/i.png' } },
              ],
            },
          ],
        },
      ],
    },
    taking,
  );
  assert.deepEqual(body.messages, [
    { role: 'user', content: [{ type: 'text', text: 'x', cache_control: { type: 'ephemeral', ttl: '1h' } }] },
    { role: 'tool', tool_call_id: 'c', content: 'done' },
    { role: 'user', content: [{ type: 'image_url', image_url: { url: 'https://a.example/i.png' } }] },
  ]);
});
