import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ChatPart } from '../../../core/dialects/canonical/chat-part.ts';
import type { ChatRequest } from '../../../core/dialects/canonical/chat-request.ts';
import type { JsonObject } from '../json-reading.ts';
import { anthropicClient } from './index.ts';

function decode(body: JsonObject): ChatRequest {
  return anthropicClient.decodeRequest({
    body: { model: 'm', max_tokens: 1, messages: [{ role: 'user', content: 'Hi.' }], ...body },
    model: 'm',
    stream: false,
    query: '',
    header: () => undefined,
  });
}

const base = {
  model: 'm',
  stream: false,
  tools: [],
  maxOutputTokens: 1,
  messages: [{ role: 'user', parts: [{ type: 'text', text: 'Hi.' }] }],
};

const cases: readonly (readonly [string, JsonObject, object])[] = [
  ['nothing more', { temperature: null, tools: null }, {}],
  [
    'sampling and limits',
    { temperature: 0.5, top_p: 0.9, top_k: 5, stop_sequences: ['a'], max_tokens: 7 },
    { temperature: 0.5, topP: 0.9, topK: 5, stop: ['a'], maxOutputTokens: 7 },
  ],
  [
    'the user, and what else stands beside him',
    { metadata: { user_id: 'u', team: 1 } },
    { user: 'u', extras: { 'anthropic-messages': { metadata: { team: 1 } } } },
  ],
  ['a tier', { service_tier: 'standard_only' }, { serviceTier: 'default' }],
  ['a budget', { thinking: { type: 'enabled', budget_tokens: 2048 } }, { reasoning: { budgetTokens: 2048 } }],
  ['no thinking', { thinking: { type: 'disabled' } }, { reasoning: { enabled: false } }],
  [
    'adaptive thinking with an effort',
    { thinking: { type: 'adaptive', display: 'omitted' }, output_config: { effort: 'max' } },
    { reasoning: { effort: 'max', adaptive: true, summary: 'none' } },
  ],
  [
    'an effort alone',
    { output_config: { effort: 'low' } },
    { reasoning: { effort: 'low', adaptive: false } },
  ],
  [
    'thinking of a new kind',
    { thinking: { type: 'between_tools' }, output_config: { effort: 'low', task_budget: 3 } },
    {
      reasoning: { effort: 'low', adaptive: false },
      extras: {
        'anthropic-messages': { thinking: { type: 'between_tools' }, output_config: { task_budget: 3 } },
      },
    },
  ],
  [
    'a schema',
    { output_config: { format: { type: 'json_schema', schema: { type: 'object' } } } },
    { responseFormat: { type: 'json-schema', schema: { type: 'object' }, strict: true } },
  ],
  [
    'a schema in the beta form',
    { output_format: { type: 'json_schema', schema: { type: 'object' } } },
    { responseFormat: { type: 'json-schema', schema: { type: 'object' }, strict: true } },
  ],
  ['any tool', { tool_choice: { type: 'any' } }, { toolChoice: { type: 'required' } }],
  [
    'one tool, one call',
    { tool_choice: { type: 'tool', name: 'f', disable_parallel_tool_use: true } },
    { toolChoice: { type: 'tool', name: 'f', kind: 'function' }, parallelToolCalls: false },
  ],
  [
    'what only this wire knows, and what single dialects are told',
    {
      container: 'c',
      mcp_servers: [{ url: 'x' }],
      context_management: { edits: [] },
      provider_options: { 'google-gemini': { a: 1 }, 'anthropic-messages': { inference_geo: 'eu' } },
    },
    {
      extras: {
        'anthropic-messages': {
          container: 'c',
          mcp_servers: [{ url: 'x' }],
          context_management: { edits: [] },
          inference_geo: 'eu',
        },
        'google-gemini': { a: 1 },
      },
    },
  ],
];
for (const [what, body, expected] of cases) {
  test(`request: ${what}`, () => assert.deepEqual(decode(body), { ...base, ...expected }));
}

/** A block, and the part that it becomes. */
const blocks: readonly (readonly [JsonObject, ChatPart])[] = [
  [
    { type: 'text', text: 'a', cache_control: { type: 'ephemeral', ttl: '1h' }, citations: null },
    { type: 'text', text: 'a', cache: { ttl: '1h' } },
  ],
  [
    { type: 'text', text: 'a', cache_control: { type: 'ephemeral', scope: 'global' } },
    {
      type: 'text',
      text: 'a',
      cache: {},
      extras: { 'anthropic-messages': { cache_control: { type: 'ephemeral', scope: 'global' } } },
    },
  ],
  [
    { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AAAA' } },
    { type: 'image', source: { kind: 'base64', mediaType: 'image/png', data: 'AAAA' } },
  ],
  [
    { type: 'image', source: { type: 'file', file_id: 'file_1' } },
    { type: 'image', source: { kind: 'file-id', id: 'file_1', dialect: 'anthropic-messages' } },
  ],
  [
    {
      type: 'document',
      source: { type: 'url', url: 'https://x.example/a' },
      title: 't',
      context: 'c',
      citations: { enabled: true },
    },
    {
      type: 'file',
      source: { kind: 'url', url: 'https://x.example/a' },
      mediaType: 'application/pdf',
      filename: 't',
      context: 'c',
      citations: true,
    },
  ],
  [
    { type: 'document', source: { type: 'content', content: [{ type: 'text', text: 'p1' }] } },
    {
      type: 'file',
      source: { kind: 'text', text: 'p1' },
      extras: {
        'anthropic-messages': { source: { type: 'content', content: [{ type: 'text', text: 'p1' }] } },
      },
    },
  ],
  [
    { type: 'search_result', source: 's', title: 't', content: [{ type: 'text', text: 'found' }] },
    {
      type: 'file',
      source: { kind: 'text', text: 'found' },
      filename: 't',
      context: 's',
      extras: {
        'anthropic-messages': {
          search_result: {
            type: 'search_result',
            source: 's',
            title: 't',
            content: [{ type: 'text', text: 'found' }],
          },
        },
      },
    },
  ],
  [
    { type: 'tool_use', id: 'a', name: 'f', input: { x: 1 }, caller: { type: 'direct' } },
    { type: 'tool-call', kind: 'function', id: 'a', name: 'f', arguments: '{"x":1}' },
  ],
  [
    {
      type: 'tool_use',
      id: 'a',
      name: 'f',
      input: {},
      extra_content: { google: { thought_signature: 'sig' } },
    },
    { type: 'tool-call', kind: 'function', id: 'a', name: 'f', arguments: '{}', signature: 'sig' },
  ],
  [
    { type: 'thinking', thinking: 'Hm.', signature: 's' },
    { type: 'reasoning', text: 'Hm.', signature: 's' },
  ],
  [
    { type: 'redacted_thinking', data: 'x' },
    { type: 'reasoning', text: '', redacted: 'x' },
  ],
  [
    { type: 'web_search_tool_result', tool_use_id: 's', content: [] },
    {
      type: 'provider-tool',
      dialect: 'anthropic-messages',
      phase: 'result',
      id: 's',
      name: 'web_search',
      value: { type: 'web_search_tool_result', tool_use_id: 's', content: [] },
    },
  ],
  [
    { type: 'container_upload', file_id: 'f' },
    { type: 'opaque', dialect: 'anthropic-messages', value: { type: 'container_upload', file_id: 'f' } },
  ],
];
for (const [block, part] of blocks) {
  test(`block: ${JSON.stringify(block).slice(0, 100)}`, () => {
    const { messages } = decode({ messages: [{ role: 'assistant', content: [block] }] });
    assert.deepEqual(messages, [{ role: 'assistant', parts: [part] }]);
  });
}

test('a user turn with results is cut into messages, in its order', () => {
  const { messages } = decode({
    system: [{ type: 'text', text: 'Be brief.' }],
    messages: [
      {
        role: 'user',
        content: [
          { type: 'tool_result', tool_use_id: 'a', content: 'one' },
          { type: 'tool_result', tool_use_id: 'b', is_error: true, cache_control: { type: 'ephemeral' } },
          { type: 'text', text: 'And now?' },
          {
            type: 'tool_result',
            tool_use_id: 'c',
            content: [
              { type: 'text', text: 'two' },
              { type: 'tool_reference', tool_name: 'f' },
            ],
          },
        ],
      },
      { role: 'system', content: 'Be quick.' },
    ],
  });
  assert.deepEqual(messages, [
    { role: 'system', parts: [{ type: 'text', text: 'Be brief.' }] },
    {
      role: 'tool',
      parts: [
        { type: 'tool-result', kind: 'function', callId: 'a', content: [{ type: 'text', text: 'one' }] },
        { type: 'tool-result', kind: 'function', callId: 'b', content: [], isError: true, cache: {} },
      ],
    },
    { role: 'user', parts: [{ type: 'text', text: 'And now?' }] },
    {
      role: 'tool',
      parts: [
        {
          type: 'tool-result',
          kind: 'function',
          callId: 'c',
          content: [{ type: 'text', text: 'two' }],
          extras: {
            'anthropic-messages': {
              content: [
                { type: 'text', text: 'two' },
                { type: 'tool_reference', tool_name: 'f' },
              ],
            },
          },
        },
      ],
    },
    { role: 'system', parts: [{ type: 'text', text: 'Be quick.' }], extras: { 'anthropic-messages': {} } },
  ]);
});

test('tools, with those that Anthropic defines', () => {
  const definitions: readonly (readonly [string, string])[] = [
    ['web_search_20250305', 'web-search'],
    ['web_fetch_20250910', 'web-fetch'],
    ['code_execution_20250825', 'code-execution'],
    ['tool_search_tool_regex_20251119', 'other'],
    ['computer_20251124', 'computer'],
    ['bash_20250124', 'other'],
    ['text_editor_20250728', 'other'],
    ['memory_20250818', 'other'],
  ];
  const values = definitions.map(([type]) => ({ type, name: 'x' }));
  const own = {
    name: 'f',
    description: 'd',
    input_schema: { type: 'object' },
    strict: true,
    defer_loading: true,
    cache_control: { type: 'ephemeral' },
    input_examples: [{}],
  };
  const { tools } = decode({ tools: [own, ...values] });
  assert.deepEqual(tools, [
    {
      type: 'function',
      name: 'f',
      description: 'd',
      parameters: { type: 'object' },
      strict: true,
      cache: {},
      extras: { 'anthropic-messages': { defer_loading: true, input_examples: [{}] } },
    },
    ...definitions.map(([, purpose], i) => ({
      type: 'provider',
      dialect: 'anthropic-messages',
      purpose,
      value: values[i],
    })),
  ]);
});

const broken: readonly (readonly [string, JsonObject])[] = [
  ['messages', { messages: 'Hi.' }],
  ['messages[0]', { messages: ['Hi.'] }],
  ['messages[0].role', { messages: [{ role: 'tool', content: '' }] }],
  ['messages[0].content', { messages: [{ role: 'user' }] }],
  ['max_tokens', { max_tokens: '9' }],
  ['tools[0].name', { tools: [{ description: 'x' }] }],
  ['tool_choice.type', { tool_choice: { type: 'maybe' } }],
];
for (const [param, body] of broken) {
  test(`refused by its place: ${param}`, () => {
    assert.throws(() => decode(body), { code: 'invalid_request', param });
  });
}
