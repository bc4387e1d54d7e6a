import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { ChatPart } from '../../../core/dialects/canonical/chat-part.ts';
import type { ChatRequest } from '../../../core/dialects/canonical/chat-request.ts';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import type { JsonObject } from '../json-reading.ts';
import { openAiResponsesClient } from './index.ts';
import { clientCall, encoded, hostFacts } from './responses.test-support.ts';

const decode = (body: JsonObject): ChatRequest =>
  openAiResponsesClient.decodeRequest(clientCall({ input: 'a', ...body }));
const user = (...parts: ChatPart[]): ChatRequest['messages'][number] => ({ role: 'user', parts });
const said = (text: string): ChatPart => ({ type: 'text', text });

describe('what only a provider with a store can serve is refused by name', () => {
  const refused: Record<string, unknown> = {
    previous_response_id: 'resp_1',
    conversation: { id: 'conv_1' },
    background: true,
    prompt: { id: 'pmpt_1' },
  };
  for (const [param, value] of Object.entries(refused)) {
    test(param, () => {
      assert.throws(() => decode({ [param]: value }), matches('not_supported', param));
    });
    test(`${param}: null and false ask for nothing`, () => {
      assert.equal(decode({ [param]: null }).messages.length, 1);
      assert.equal(decode({ [param]: false }).messages.length, 1);
    });
  }
  test('item references', () => {
    const input = [
      { role: 'user', content: 'a' },
      { type: 'item_reference', id: 'rs_1' },
    ];
    assert.throws(() => decode({ input }), matches('not_supported', 'input[1]'));
  });
});

describe('what cannot be read is refused with its place', () => {
  const bodies: readonly (readonly [JsonObject, string])[] = [
    [{ input: 3 }, 'input'],
    [{ input: undefined }, 'input'],
    [{ input: [3] }, 'input[0]'],
    [{ input: [{ role: 'king', content: '' }] }, 'input[0].role'],
    [{ input: [{ role: 'user', content: [{ type: 'input_image' }] }] }, 'input[0].content[0].image_url'],
    [{ input: [{ role: 'user', content: [{ type: 'input_text' }] }] }, 'input[0].content[0].text'],
    [{ input: [{ type: 'function_call', name: 'f' }] }, 'input[0].call_id'],
    [{ input: [{ type: 'function_call_output', output: '' }] }, 'input[0].call_id'],
    [{ tools: [{ type: 'function' }] }, 'tools[0].name'],
    [{ tool_choice: 'maybe' }, 'tool_choice'],
    [{ text: { format: { type: 'yaml' } } }, 'text.format.type'],
    [{ temperature: 'hot' }, 'temperature'],
    [{ reasoning: 'low' }, 'reasoning'],
  ];
  for (const [body, param] of bodies) {
    test(param, () => assert.throws(() => decode(body), matches('invalid_request', param)));
  }
});

test('one turn of the assistant is one message, and results stand together', () => {
  const { messages } = decode({
    instructions: 'Be short.',
    input: [
      { role: 'user', content: 'Both?' },
      {
        type: 'reasoning',
        id: 'rs_1',
        summary: [{ type: 'summary_text', text: 'Hm.' }],
        encrypted_content: 'proof',
      },
      {
        type: 'message',
        role: 'assistant',
        id: 'msg_1',
        content: [{ type: 'output_text', text: 'I look.', annotations: [] }],
      },
      {
        type: 'function_call',
        id: 'fc_1',
        call_id: 'c1',
        name: 'f',
        arguments: '{"a":1}',
        status: 'completed',
      },
      { type: 'custom_tool_call', id: 'ctc_1', call_id: 'c2', name: 'g', input: 'x' },
      { type: 'function_call_output', call_id: 'c1', output: [{ type: 'input_text', text: 'r' }] },
      { type: 'custom_tool_call_output', call_id: 'c2', output: 's' },
    ],
  });
  assert.deepEqual(messages, [
    { role: 'system', parts: [said('Be short.')] },
    user(said('Both?')),
    {
      role: 'assistant',
      parts: [
        { type: 'reasoning', text: 'Hm.', summary: true, itemId: 'rs_1', signature: 'proof' },
        said('I look.'),
        { type: 'tool-call', id: 'c1', itemId: 'fc_1', name: 'f', kind: 'function', arguments: '{"a":1}' },
        { type: 'tool-call', id: 'c2', itemId: 'ctc_1', name: 'g', kind: 'custom', arguments: 'x' },
      ],
    },
    {
      role: 'tool',
      parts: [
        { type: 'tool-result', callId: 'c1', kind: 'function', content: [said('r')] },
        { type: 'tool-result', callId: 'c2', kind: 'custom', content: [said('s')] },
      ],
    },
  ]);
});

test('settings are read into their places, what is not known is kept', () => {
  const request = decode({
    reasoning: { effort: 'low', generate_summary: 'auto', context: 'all_turns' },
    text: { format: { type: 'json_object' }, verbosity: 'low' },
    include: ['message.output_text.logprobs', 'reasoning.encrypted_content', 'file_search_call.results'],
    top_logprobs: 2,
    tool_choice: { type: 'file_search' },
    tools: [{ type: 'web_search_preview_2025_03_11' }, { type: 'computer' }, { type: 'new_thing' }],
    store: true,
    truncation: 'disabled',
    max_tool_calls: 2,
    provider_options: { 'anthropic-messages': { container: 'c' } },
  });
  assert.deepEqual(request.reasoning, { effort: 'low', summary: 'auto' });
  assert.deepEqual([request.responseFormat, request.verbosity], [{ type: 'json' }, 'low']);
  assert.deepEqual(
    [request.logprobs, request.topLogprobs, request.store, request.toolChoice],
    [true, 2, true, undefined],
  );
  assert.deepEqual(
    request.tools.map((tool) => (tool.type === 'provider' ? tool.purpose : '')),
    ['web-search', 'computer', 'other'],
  );
  assert.deepEqual(request.extras, {
    'openai-responses': {
      max_tool_calls: 2,
      include: ['file_search_call.results'],
      tool_choice: { type: 'file_search' },
      reasoning: { context: 'all_turns' },
    },
    'anthropic-messages': { container: 'c' },
  });
});

test('the first system message becomes the instructions, later ones are items', () => {
  const { body } = encoded({
    messages: [
      { role: 'system', parts: [said('A')] },
      { role: 'system', parts: [said('B')] },
      user(said('C')),
      { role: 'developer', parts: [said('D')] },
    ],
  });
  assert.equal(body.instructions, 'A');
  assert.deepEqual(
    (body.input as JsonObject[]).map(({ role }) => role),
    ['system', 'user', 'developer'],
  );
});

test('nothing is stored unless asked for, and thoughts are asked for only where a model thinks', () => {
  const include = (request: Partial<ChatRequest>): unknown => encoded(request).body.include;
  assert.equal(encoded({}).body.store, false);
  assert.equal(encoded({ store: true }).body.store, true);
  assert.equal(include({}), undefined);
  assert.deepEqual(include({ reasoning: { effort: 'low' } }), ['reasoning.encrypted_content']);
  assert.equal(include({ reasoning: { effort: 'none' } }), undefined);
  assert.equal(include({ reasoning: { enabled: false } }), undefined);
  assert.equal(include({ reasoning: { effort: 'low' }, store: true }), undefined);
  const history = {
    role: 'assistant' as const,
    parts: [{ type: 'reasoning' as const, text: '', signature: 's' }],
  };
  assert.deepEqual(include({ messages: [history] }), ['reasoning.encrypted_content']);
  assert.deepEqual(include({ logprobs: true }), ['message.output_text.logprobs']);
});

test('what the wire cannot say is reported', () => {
  const { dropped, emulated, body } = encoded({
    messages: [
      {
        role: 'user',
        name: 'Ada',
        parts: [
          { ...said('A'), cache: {} },
          { type: 'file', source: { kind: 'text', text: 'T' } },
        ],
      },
      {
        role: 'assistant',
        parts: [
          { type: 'reasoning', text: 'unsigned' },
          { type: 'reasoning', text: '', redacted: 'r' },
          { type: 'tool-call', id: 'c', name: 'f', kind: 'function', arguments: '{}', signature: 's' },
          {
            type: 'provider-tool',
            dialect: 'anthropic-messages',
            phase: 'call',
            id: 'x',
            name: 'web_search',
            value: {},
          },
        ],
      },
      {
        role: 'tool',
        parts: [{ type: 'tool-result', callId: 'c', kind: 'function', content: [], isError: true }],
      },
    ],
    tools: [
      { type: 'provider', dialect: 'google-gemini', purpose: 'file-search', value: {} },
      {
        type: 'provider',
        dialect: 'anthropic-messages',
        purpose: 'web-search',
        value: { allowed_domains: ['x.example'] },
      },
    ],
    topK: 3,
    frequencyPenalty: 1,
    presencePenalty: 1,
    seed: 5n,
    stop: ['x'],
    n: 2,
    logitBias: { a: 1 },
    modalities: ['text', 'audio'],
    audio: {},
    reasoning: { budgetTokens: 5000, summary: 'none' },
    extras: { 'anthropic-messages': { container: 'c' } },
  });
  assert.deepEqual(dropped, [
    'messages[0].name',
    'messages[0].content[0].cache_control',
    'messages[1].content[0]',
    'messages[1].content[1]',
    'messages[1].content[2].signature',
    'messages[1].content[3]',
    'messages[2].content[0].is_error',
    'tools[0]',
    'container',
    'top_k',
    'frequency_penalty',
    'presence_penalty',
    'seed',
    'stop',
    'n',
    'logit_bias',
    'modalities',
    'audio',
  ]);
  assert.deepEqual(emulated, ['messages[0].content[1]', 'tools[1]', 'thinking.budget_tokens']);
  assert.deepEqual(body.tools, [{ type: 'web_search', filters: { allowed_domains: ['x.example'] } }]);
  assert.deepEqual(body.reasoning, { effort: 'medium' });
});

test('explicit ends of prompt prefixes go to models that take them', () => {
  const messages = [user({ ...said('A'), cache: {} })];
  const first = (model: string): unknown => {
    const [item] = encoded({ messages }, hostFacts(model)).body.input as { content: JsonObject[] }[];
    return item?.content[0]?.prompt_cache_breakpoint;
  };
  assert.deepEqual(first('gpt-5.6-sol'), { mode: 'explicit' });
  assert.deepEqual(first('openai/gpt-6'), { mode: 'explicit' });
  assert.equal(first('gpt-5.1'), undefined);
  assert.equal(first('gpt-4o'), undefined);
});

test('a function is strict only when it says so, and rows may name things otherwise', () => {
  const host = {
    ...hostFacts(),
    quirks: {
      rename: { top_p: 'nucleus' },
      drop: ['user'],
      roles: { developer: 'system' },
      values: { tool_choice: { required: 'any' } },
    },
  };
  const { body, dropped } = encoded(
    {
      messages: [{ role: 'developer', parts: [said('A')] }],
      tools: [{ type: 'function', name: 'f' }],
      toolChoice: { type: 'required' },
      topP: 0.5,
      user: 'u',
    },
    host,
  );
  assert.deepEqual(body.tools, [{ type: 'function', name: 'f', parameters: null, strict: false }]);
  assert.deepEqual(
    [body.nucleus, body.top_p, body.user, body.tool_choice],
    [0.5, undefined, undefined, 'any'],
  );
  assert.equal((body.input as JsonObject[])[0]?.role, 'system');
  assert.deepEqual(dropped, ['user']);
});

test("the caller's own words for this wire win", () => {
  const { body } = encoded({
    verbosity: 'low',
    temperature: 1,
    extras: {
      'openai-responses': { text: { verbosity: 'high' }, temperature: 0, include: ['a'], truncation: 'auto' },
    },
    logprobs: true,
  });
  assert.deepEqual(body.text, { verbosity: 'high' });
  assert.equal(body.temperature, 0);
  assert.deepEqual(body.include, ['message.output_text.logprobs', 'a']);
  assert.equal(body.truncation, 'auto');
});

function matches(code: string, param: string) {
  return (error: unknown): boolean => GatewayError.is(error) && error.code === code && error.param === param;
}
