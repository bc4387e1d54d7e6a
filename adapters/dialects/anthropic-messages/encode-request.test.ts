import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EncodeReport } from '../../../core/dialects/canonical/chat-codec.ts';
import type { ChatMessage, ChatRequest } from '../../../core/dialects/canonical/chat-request.ts';
import type { JsonObject } from '../json-reading.ts';
import { chatRequest, encode, hostOf } from './chat-setting.test-support.ts';
import { createAnthropicProvider } from './host.ts';

const text = (value: string): { readonly type: 'text'; readonly text: string } => ({
  type: 'text',
  text: value,
});
const user = (value: string): ChatMessage => ({ role: 'user', parts: [text(value)] });
const schema = { type: 'object', properties: { a: { type: 'integer', minimum: 1 } } };
const format = { type: 'json-schema', name: 'x', schema } as const;

test('tools of every kind', () => {
  const { body, dropped, emulated } = encode({
    tools: [
      {
        type: 'function',
        name: 'f',
        description: 'd',
        parameters: { anyOf: [] },
        strict: true,
        cache: { ttl: '1h' },
        extras: { 'anthropic-messages': { defer_loading: true } },
      },
      { type: 'custom', name: 'c', format: { type: 'text' } },
      {
        type: 'provider',
        dialect: 'openai-responses',
        purpose: 'web-search',
        value: { type: 'web_search', user_location: { type: 'approximate', city: 'Ulm' } },
      },
      { type: 'provider', dialect: 'openai-responses', purpose: 'code-execution', value: {} },
      { type: 'provider', dialect: 'openai-responses', purpose: 'file-search', value: {} },
      { type: 'provider', dialect: 'anthropic-messages', purpose: 'other', value: { type: 'bash_20250124' } },
    ],
    toolChoice: { type: 'tool', name: 'f', kind: 'function' },
    parallelToolCalls: false,
  });
  assert.deepEqual(body.tools, [
    {
      name: 'f',
      description: 'd',
      input_schema: { type: 'object', anyOf: [] },
      strict: true,
      cache_control: { type: 'ephemeral', ttl: '1h' },
      defer_loading: true,
    },
    {
      name: 'c',
      input_schema: {
        type: 'object',
        properties: { input: { type: 'string' } },
        required: ['input'],
        additionalProperties: false,
      },
    },
    { type: 'web_search_20250305', name: 'web_search', user_location: { type: 'approximate', city: 'Ulm' } },
    { type: 'code_execution_20250825', name: 'code_execution' },
    { type: 'bash_20250124' },
  ]);
  assert.deepEqual(body.tool_choice, { type: 'tool', name: 'f', disable_parallel_tool_use: true });
  assert.deepEqual(dropped, ['tools[1].custom.format', 'tools[4]']);
  assert.deepEqual(emulated, ['tools[1]', 'tools[2]', 'tools[3]']);
});

test('how tools may be used', () => {
  const tools = ['a', 'b'].map((name) => ({ type: 'function', name }) as const);
  const choice = (members: Partial<ChatRequest>, model?: string): unknown =>
    encode({ tools, ...members }, model).body.tool_choice;
  assert.deepEqual(choice({ toolChoice: { type: 'required' } }), { type: 'any' });
  assert.deepEqual(choice({ toolChoice: { type: 'none' }, parallelToolCalls: false }), { type: 'none' });
  assert.deepEqual(choice({ parallelToolCalls: false }), { type: 'auto', disable_parallel_tool_use: true });
  assert.equal(choice({ tools: [], toolChoice: { type: 'auto' } }), undefined);
  assert.deepEqual(encode({ toolChoice: { type: 'required' } }).dropped, ['tool_choice']);
  assert.deepEqual(choice({ toolChoice: { type: 'required' }, reasoning: { budgetTokens: 2000 } }), {
    type: 'auto',
  });
  const forced = encode({ tools, toolChoice: { type: 'required' } }, 'claude-sonnet-5-5');
  assert.deepEqual(forced.body.tool_choice, { type: 'auto' });
  assert.deepEqual(forced.emulated, ['tool_choice']);
  const answered = { toolChoice: { type: 'none' }, responseFormat: format } as const;
  assert.deepEqual(choice(answered, 'claude-3-7-sonnet-latest'), { type: 'tool', name: 'json' });
  const some = encode({ tools, toolChoice: { type: 'allowed', mode: 'required', names: ['b'] } });
  assert.deepEqual(
    (some.body.tools as JsonObject[]).map(({ name }) => name),
    ['b'],
  );
  assert.deepEqual(some.body.tool_choice, { type: 'any' });
});

test('a conversation: instructions first, one turn for neighbours, results first in theirs', () => {
  const { body, dropped, emulated } = encode({
    messages: [
      { role: 'system', parts: [{ ...text('Be brief.'), cache: {} }] },
      { role: 'developer', parts: [text('Be kind.')] },
      { ...user('Hi.'), name: 'ann' },
      {
        role: 'assistant',
        parts: [
          { type: 'reasoning', text: 'Hm.', signature: 'c2ln', itemId: 'rs_0' },
          { type: 'reasoning', text: '', redacted: 'cmVk' },
          { type: 'reasoning', text: 'Unsigned.' },
          { type: 'reasoning', text: 'Encrypted elsewhere.', signature: 'gAAAAABm', itemId: 'rs_1' },
          text(''),
          text('I ask.'),
          ...([
            {
              type: 'tool-call',
              id: 'call:1',
              name: 'f',
              kind: 'function',
              arguments: '{"n":12345678901234567890}',
            },
            { type: 'tool-call', id: 'c2', name: 'c', kind: 'custom', arguments: 'la "la"' },
          ] as const),
        ],
      },
      { role: 'assistant', parts: [{ type: 'refusal', text: 'Not that.' }] },
      user('Wait.'),
      {
        role: 'tool',
        parts: [
          { type: 'tool-result', callId: 'call:1', kind: 'function', content: [text('42')], isError: true },
          {
            type: 'tool-result',
            callId: 'c2',
            kind: 'custom',
            content: [
              { type: 'image', source: { kind: 'base64', mediaType: 'image/png', data: 'AAAA' } },
              { type: 'audio', source: { kind: 'base64', mediaType: 'audio/wav', data: 'AAAA' } },
            ],
          },
        ],
      },
      { role: 'system', parts: [text('Be quick.')] },
    ],
  });
  assert.deepEqual(body.system, [
    { type: 'text', text: 'Be brief.', cache_control: { type: 'ephemeral' } },
    { type: 'text', text: 'Be kind.' },
  ]);
  assert.deepEqual(body.messages, [
    { role: 'user', content: [{ type: 'text', text: 'Hi.' }] },
    {
      role: 'assistant',
      content: [
        { type: 'thinking', thinking: 'Hm.', signature: 'c2ln' },
        { type: 'redacted_thinking', data: 'cmVk' },
        { type: 'text', text: 'I ask.' },
        { type: 'tool_use', id: 'call_1', name: 'f', input: { n: 12345678901234567890n } },
        { type: 'tool_use', id: 'c2', name: 'c', input: { input: 'la "la"' } },
        { type: 'text', text: 'Not that.' },
      ],
    },
    {
      role: 'user',
      content: [
        { type: 'tool_result', tool_use_id: 'call_1', content: '42', is_error: true },
        {
          type: 'tool_result',
          tool_use_id: 'c2',
          content: [{ type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AAAA' } }],
        },
        { type: 'text', text: 'Wait.' },
        { type: 'text', text: 'Be quick.' },
      ],
    },
  ]);
  assert.deepEqual(dropped, [
    'messages[2].name',
    'messages[3].reasoning_content',
    'messages[6].content[1].content[1]',
  ]);
  assert.deepEqual(emulated, ['messages[4].refusal', 'messages[7].role']);
});

test('images and documents', () => {
  const pdf = { kind: 'base64', mediaType: 'application/pdf', data: 'JVBE' } as const;
  const { body, dropped } = encode({
    messages: [
      {
        role: 'user',
        parts: [
          { type: 'image', source: { kind: 'url', url: 'https://x.example/a.png' }, detail: 'high' },
          { type: 'file', source: pdf, filename: 'a.pdf', context: 'ctx', citations: true },
          { type: 'file', source: { kind: 'base64', mediaType: 'text/csv', data: 'YSxi' } },
          { type: 'file', source: { kind: 'text', text: 'plain' } },
          { type: 'file', source: { kind: 'file-id', id: 'file_1', dialect: 'anthropic-messages' } },
          { type: 'file', source: { kind: 'file-id', id: 'file-2', dialect: 'openai-chat' } },
          { type: 'file', source: { kind: 'base64', mediaType: 'video/mp4', data: 'AAAA' } },
          { type: 'file', source: { kind: 'base64', mediaType: 'image/gif', data: 'R0lG' } },
        ],
      },
    ],
  });
  assert.deepEqual((body.messages as JsonObject[])[0]?.content, [
    { type: 'image', source: { type: 'url', url: 'https://x.example/a.png' } },
    {
      type: 'document',
      source: { type: 'base64', media_type: 'application/pdf', data: 'JVBE' },
      title: 'a.pdf',
      context: 'ctx',
      citations: { enabled: true },
    },
    { type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'a,b' } },
    { type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'plain' } },
    { type: 'document', source: { type: 'file', file_id: 'file_1' } },
    { type: 'image', source: { type: 'base64', media_type: 'image/gif', data: 'R0lG' } },
  ]);
  assert.deepEqual(dropped, [
    'messages[0].content[0].image_url.detail',
    'messages[0].content[5]',
    'messages[0].content[6]',
  ]);
});

test('arguments that are no JSON object are refused by their place', () => {
  const call = { type: 'tool-call', id: 'a', name: 'f', kind: 'function', arguments: '{"torn' } as const;
  assert.throws(() => encode({ messages: [user('Hi.'), { role: 'assistant', parts: [text('x'), call] }] }), {
    code: 'invalid_request',
    param: 'messages[1].tool_calls[0].function.arguments',
  });
});

test('a conversation of instructions alone has a turn; a prefill ends without white space', () => {
  const alone = encode({ messages: [{ role: 'system', parts: [text('Sing.')] }] });
  assert.deepEqual(alone.body.messages, [{ role: 'user', content: [{ type: 'text', text: 'Sing.' }] }]);
  assert.deepEqual(alone.emulated, ['messages[0].role']);
  const prefilled = encode({ messages: [user('Hi.'), { role: 'assistant', parts: [text('It is ')] }] });
  assert.deepEqual((prefilled.body.messages as JsonObject[])[1]?.content, [{ type: 'text', text: 'It is' }]);
});

test('a history of calls without thinking is not combined with a budget, which Anthropic refuses', () => {
  const call = { type: 'tool-call', id: 'a', name: 'f', kind: 'function', arguments: '{}' } as const;
  const result = { type: 'tool-result', callId: 'a', kind: 'function', content: [text('1')] } as const;
  const history = (thought: boolean): readonly ChatMessage[] => [
    user('Hi.'),
    {
      role: 'assistant',
      parts: thought ? [{ type: 'reasoning', text: 'Hm.', signature: 's' }, call] : [call],
    },
    { role: 'tool', parts: [result] },
  ];
  const reasoning = { budgetTokens: 2000 };
  assert.notEqual(encode({ messages: history(true), reasoning }).body.thinking, undefined);
  const without = encode({ messages: history(false), reasoning });
  assert.equal(without.body.thinking, undefined);
  assert.deepEqual(without.dropped, ['reasoning_effort']);
});

test('hosts of the wire with another path, other members and other names', () => {
  const codec = createAnthropicProvider({
    path: ({ model }, stream) => `/models/${model}:${stream ? 'streamRawPredict' : 'rawPredict'}`,
    extraBody: { anthropic_version: 'vertex-2023-10-16' },
    modelInPath: true,
    alsoOwn: ['google-vertex'],
  });
  const report = new EncodeReport();
  const request = chatRequest({ stream: true, topK: 3, extras: { 'google-vertex': { labels: { a: 'b' } } } });
  const host = hostOf('claude-sonnet-4-5', { quirks: { drop: ['top_k'], rename: { stream: 'streaming' } } });
  const { path, body } = codec.encodeRequest(request, host, report);
  assert.equal(path, '/models/claude-sonnet-4-5:streamRawPredict');
  const rest = JSON.parse(String(body)) as JsonObject;
  delete rest.messages;
  assert.deepEqual(rest, {
    max_tokens: 4096,
    streaming: true,
    labels: { a: 'b' },
    anthropic_version: 'vertex-2023-10-16',
  });
  assert.deepEqual(report.dropped, ['top_k']);
});
