import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ChatMessage, ChatRequest } from '../../../core/dialects/canonical/chat-request.ts';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import type { JsonObject } from '../json-reading.ts';
import { clientCall } from './codec.test-support.ts';
import { chatRequest } from './decode-request.ts';

const hello: JsonObject = { role: 'user', content: 'Hello' };

const decode = (body: JsonObject): ChatRequest =>
  chatRequest.decode(clientCall({ model: 'river-1', messages: [hello], ...body }));

const messages = (...list: readonly JsonObject[]): readonly ChatMessage[] =>
  decode({ messages: list }).messages;

test('settings are read under their canonical names, whatever their older name', () => {
  const cases: readonly (readonly [JsonObject, Partial<ChatRequest>])[] = [
    [{ max_tokens: 5 }, { maxOutputTokens: 5 }],
    [{ max_tokens: 5, max_completion_tokens: 6 }, { maxOutputTokens: 6 }],
    [
      { temperature: 0, top_p: 0.5, top_k: 3 },
      { temperature: 0, topP: 0.5, topK: 3 },
    ],
    [{ seed: 2n ** 60n }, { seed: 2n ** 60n }],
    [{ stop: 'x' }, { stop: ['x'] }],
    [
      { stop: ['x', 'y'], n: 2, stream: true },
      { stop: ['x', 'y'], n: 2, stream: true },
    ],
    [
      { logprobs: true, top_logprobs: 2, logit_bias: { 5: 1 } },
      { logprobs: true, topLogprobs: 2, logitBias: { 5: 1 } },
    ],
    [{ temperature: null, tools: null, stop: null, metadata: null }, {}],
    [{ reasoning_effort: 'low' }, { reasoning: { effort: 'low' } }],
    [
      { reasoning: { max_tokens: 100, exclude: true } },
      { reasoning: { budgetTokens: 100, summary: 'none' } },
    ],
    [{ thinking: { type: 'enabled', budget_tokens: 9 } }, { reasoning: { budgetTokens: 9, enabled: true } }],
    [{ thinking: { type: 'adaptive' } }, { reasoning: { adaptive: true } }],
    [{ stream_options: { include_usage: true } }, { includeUsage: true }],
    [{ response_format: { type: 'json_object' } }, { responseFormat: { type: 'json' } }],
    [
      {
        response_format: {
          type: 'json_schema',
          json_schema: { name: 'a', strict: true, schema: { type: 'object' } },
        },
      },
      { responseFormat: { type: 'json-schema', name: 'a', strict: true, schema: { type: 'object' } } },
    ],
    [
      {
        user: 'u',
        safety_identifier: 's',
        prompt_cache_key: 'k',
        service_tier: 'flex',
        store: true,
        verbosity: 'low',
      },
      {
        user: 'u',
        safetyIdentifier: 's',
        promptCacheKey: 'k',
        serviceTier: 'flex',
        store: true,
        verbosity: 'low',
      },
    ],
    [
      { modalities: ['text', 'audio'], audio: { voice: 'ash', format: 'mp3' } },
      { modalities: ['text', 'audio'], audio: { voice: 'ash', format: 'mp3' } },
    ],
    [
      { prediction: { type: 'content' }, min_p: 0.1 },
      { extras: { 'openai-chat': { prediction: { type: 'content' }, min_p: 0.1 } } },
    ],
    [
      {
        min_p: 1,
        provider_options: { 'openai-chat': { min_p: 2 }, 'google-gemini': { cachedContent: 'c' } },
      },
      { extras: { 'openai-chat': { min_p: 2 }, 'google-gemini': { cachedContent: 'c' } } },
    ],
  ];
  for (const [body, expected] of cases) {
    const base = {
      model: 'river-1',
      stream: false,
      tools: [],
      messages: [{ role: 'user', parts: [{ type: 'text', text: 'Hello' }] }],
    };
    assert.deepEqual(decode(body), { ...base, ...expected });
  }
});

test('content parts of every kind are read', () => {
  const [message] = messages({
    role: 'user',
    name: 'ann',
    content: [
      { type: 'text', text: 'Look', cache_control: { type: 'ephemeral', ttl: '1h' } },
      { type: 'image_url', image_url: { url: 'https://a.example/i.png', detail: 'low' } },
      { type: 'image_url', image_url: { url: 'data:image/png;base64,AAAA' } },
      { type: 'image_url', image_url: { url: 'data:application/pdf;base64,AAAA' } },
      { type: 'input_audio', input_audio: { data: 'AAAA', format: 'mp3' } },
      { type: 'file', file: { filename: 'a.pdf', file_data: 'data:application/pdf;base64,AAAA' } },
      { type: 'file', file: { file_id: 'file-1' } },
      { type: 'novel', x: 1 },
    ],
  });
  assert.deepEqual(message, {
    role: 'user',
    name: 'ann',
    parts: [
      { type: 'text', text: 'Look', cache: { ttl: '1h' } },
      { type: 'image', source: { kind: 'url', url: 'https://a.example/i.png' }, detail: 'low' },
      { type: 'image', source: { kind: 'base64', mediaType: 'image/png', data: 'AAAA' } },
      { type: 'file', source: { kind: 'base64', mediaType: 'application/pdf', data: 'AAAA' } },
      { type: 'audio', source: { kind: 'base64', mediaType: 'audio/mpeg', data: 'AAAA' } },
      {
        type: 'file',
        source: { kind: 'base64', mediaType: 'application/pdf', data: 'AAAA' },
        filename: 'a.pdf',
      },
      { type: 'file', source: { kind: 'file-id', id: 'file-1', dialect: 'openai-chat' } },
      { type: 'opaque', dialect: 'openai-chat', value: { type: 'novel', x: 1 } },
    ],
  });
});

test('an assistant turn keeps its thinking, its calls and their proofs', () => {
  const [plain, blocks] = messages(
    {
      role: 'assistant',
      content: null,
      reasoning_content: 'Hm.',
      refusal: 'No.',
      audio: { id: 'audio_1' },
      tool_calls: [
        {
          id: 'c1',
          type: 'function',
          function: { name: 'a', arguments: '' },
          extra_content: { google: { thought_signature: 'proof' } },
        },
        { id: 'c2', type: 'custom', custom: { name: 'sql', input: 'select' } },
      ],
      prefix: true,
    },
    {
      role: 'assistant',
      content: 'Hi',
      reasoning_content: 'Hm.',
      content_blocks: [
        { type: 'thinking', thinking: 'Hm.', signature: 'proof' },
        { type: 'redacted_thinking', data: 'secret' },
        { type: 'server_tool_use', id: 's1', name: 'web_search', input: {} },
        { type: 'text', text: 'Hi' },
      ],
    },
  );
  assert.deepEqual(plain, {
    role: 'assistant',
    parts: [
      { type: 'reasoning', text: 'Hm.' },
      { type: 'refusal', text: 'No.' },
      { type: 'audio', id: 'audio_1', source: { kind: 'file-id', id: 'audio_1', dialect: 'openai-chat' } },
      { type: 'tool-call', id: 'c1', name: 'a', kind: 'function', arguments: '{}', signature: 'proof' },
      { type: 'tool-call', id: 'c2', name: 'sql', kind: 'custom', arguments: 'select' },
    ],
    extras: { 'openai-chat': { prefix: true } },
  });
  assert.deepEqual(blocks?.parts, [
    { type: 'reasoning', text: 'Hm.', signature: 'proof' },
    { type: 'reasoning', text: '', redacted: 'secret' },
    {
      type: 'provider-tool',
      dialect: 'anthropic-messages',
      phase: 'call',
      id: 's1',
      name: 'web_search',
      value: { type: 'server_tool_use', id: 's1', name: 'web_search', input: {} },
    },
    { type: 'text', text: 'Hi' },
  ]);
});

test('blocks that a library added up wrongly are not believed, and blocks without the text do not lose it', () => {
  const [torn, silent] = messages(
    {
      role: 'assistant',
      content: 'Hi',
      reasoning_content: 'Hm.',
      content_blocks: [{ index: 1, delta: { text: 'i' } }],
    },
    {
      role: 'assistant',
      content: 'Hi',
      content_blocks: [{ type: 'thinking', thinking: 'Hm.', signature: 's' }],
    },
  );
  assert.deepEqual(torn?.parts, [
    { type: 'reasoning', text: 'Hm.' },
    { type: 'text', text: 'Hi' },
  ]);
  assert.deepEqual(silent?.parts, [
    { type: 'reasoning', text: 'Hm.', signature: 's' },
    { type: 'text', text: 'Hi' },
  ]);
});

test('thinking parts within the content are thinking, and a marker on a message means its last part', () => {
  const [first, second] = messages(
    {
      role: 'assistant',
      content: [
        { type: 'thinking', thinking: 'Hm.', signature: 's' },
        { type: 'text', text: 'Hi' },
      ],
    },
    { role: 'system', content: 'Rules', cache_control: { type: 'ephemeral' } },
  );
  assert.deepEqual(first?.parts, [
    { type: 'reasoning', text: 'Hm.', signature: 's' },
    { type: 'text', text: 'Hi' },
  ]);
  assert.deepEqual(second, { role: 'system', parts: [{ type: 'text', text: 'Rules', cache: {} }] });
});

test('legacy functions become tools, and their results find their calls', () => {
  const request = decode({
    functions: [{ name: 'a', parameters: { type: 'object' } }],
    function_call: { name: 'a' },
    messages: [
      hello,
      { role: 'assistant', content: null, function_call: { name: 'a', arguments: '{"x":1}' } },
      { role: 'function', name: 'a', content: '5' },
    ],
  });
  assert.equal(request.legacyFunctions, true);
  assert.deepEqual(request.tools, [{ type: 'function', name: 'a', parameters: { type: 'object' } }]);
  assert.deepEqual(request.toolChoice, { type: 'tool', name: 'a', kind: 'function' });
  const call = request.messages[1]?.parts[0];
  assert.ok(call?.type === 'tool-call');
  assert.deepEqual(request.messages[2], {
    role: 'tool',
    parts: [
      {
        type: 'tool-result',
        callId: call.id,
        name: 'a',
        kind: 'function',
        content: [{ type: 'text', text: '5' }],
      },
    ],
  });
});

test('tools of every kind are read', () => {
  const { tools, toolChoice } = decode({
    tools: [
      {
        type: 'function',
        function: { name: 'a', description: 'A', strict: true },
        cache_control: { type: 'ephemeral' },
      },
      {
        type: 'custom',
        custom: { name: 'sql', format: { type: 'grammar', grammar: { syntax: 'lark', definition: 'x' } } },
      },
      { type: 'web_search', search_context_size: 'low' },
      { type: 'web_search_20250305', name: 'web_search' },
      { type: 'code_interpreter' },
      { type: 'novel' },
    ],
    web_search_options: { search_context_size: 'high' },
    tool_choice: {
      type: 'allowed_tools',
      allowed_tools: { mode: 'required', tools: [{ type: 'function', function: { name: 'a' } }] },
    },
  });
  assert.deepEqual(tools, [
    { type: 'function', name: 'a', description: 'A', strict: true, cache: {} },
    { type: 'custom', name: 'sql', format: { type: 'grammar', syntax: 'lark', definition: 'x' } },
    {
      type: 'provider',
      dialect: 'openai-chat',
      purpose: 'web-search',
      value: { type: 'web_search', search_context_size: 'low' },
    },
    {
      type: 'provider',
      dialect: 'anthropic-messages',
      purpose: 'web-search',
      value: { type: 'web_search_20250305', name: 'web_search' },
    },
    {
      type: 'provider',
      dialect: 'openai-chat',
      purpose: 'code-execution',
      value: { type: 'code_interpreter' },
    },
    { type: 'provider', dialect: 'openai-chat', purpose: 'other', value: { type: 'novel' } },
    {
      type: 'provider',
      dialect: 'openai-chat',
      purpose: 'web-search',
      value: { type: 'web_search_options', search_context_size: 'high' },
    },
  ]);
  assert.deepEqual(toolChoice, { type: 'allowed', mode: 'required', names: ['a'] });
  for (const word of ['auto', 'none', 'required'] as const) {
    assert.deepEqual(decode({ tool_choice: word }).toolChoice, { type: word });
  }
});

test('what cannot be read is refused by the name of its member', () => {
  const cases: readonly (readonly [JsonObject, string])[] = [
    [{ messages: 'x' }, 'messages'],
    [{ messages: [{ role: 'robot' }] }, 'messages[0].role'],
    [{ messages: [{ role: 'user', content: 5 }] }, 'messages[0].content'],
    [
      { messages: [{ role: 'user', content: [{ type: 'image_url', image_url: {} }] }] },
      'messages[0].content[0].image_url.url',
    ],
    [{ messages: [{ role: 'tool', content: 'x' }] }, 'messages[0].tool_call_id'],
    [{ messages: [{ role: 'assistant', tool_calls: [{ id: 'x' }] }] }, 'messages[0].tool_calls[0]'],
    [{ tools: [{ type: 'function', function: {} }] }, 'tools[0].function.name'],
    [{ temperature: 'hot' }, 'temperature'],
    [{ stop: [5] }, 'stop'],
    [{ provider_options: { 'google-gemini': 5 } }, 'provider_options.google-gemini'],
  ];
  for (const [body, param] of cases) {
    assert.throws(
      () => decode(body),
      (error) => GatewayError.is(error) && error.code === 'invalid_request' && error.param === param,
      param,
    );
  }
});
