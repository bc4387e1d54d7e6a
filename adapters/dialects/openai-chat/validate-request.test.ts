import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { validateRequest } from './index.ts';

const plain = { model: 'm', messages: [{ role: 'user', content: 'Hi' }] };

function chat(extra: object, strict = true): string | undefined {
  return validateRequest('chat.completions', { ...plain, ...extra }, strict)?.param;
}

const many = (count: number, item: unknown): unknown[] => Array.from({ length: count }, () => item);
const tool = { type: 'function', function: { name: 'f' } };

const accepted: readonly (readonly [string, object])[] = [
  ['nothing but the required members', {}],
  [
    'every role',
    { messages: ['system', 'developer', 'user', 'assistant', 'tool', 'function'].map((role) => ({ role })) },
  ],
  [
    'content parts, and members that nobody knows yet',
    { messages: [{ role: 'user', content: [{ type: 'hologram' }], mood: 1 }], brand_new: {} },
  ],
  [
    'lower bounds',
    {
      frequency_penalty: -2,
      presence_penalty: -2,
      temperature: 0,
      top_p: 0,
      n: 1,
      max_tokens: 0,
      max_completion_tokens: 0,
    },
  ],
  ['upper bounds', { frequency_penalty: 2, presence_penalty: 2, temperature: 2, top_p: 1, n: 128 }],
  ['temperature together with top_p', { temperature: 1, top_p: 0.5 }],
  ['biases', { logit_bias: { 50256: -100, 11: 100, 12: 0.5 } }],
  ['top_logprobs with logprobs', { logprobs: true, top_logprobs: 20 }],
  ['stop as text and as list', { stop: 'x' }],
  ['four stops', { stop: ['a', 'b', 'c', 'd'] }],
  ['a seed beyond 2^53', { seed: 9223372036854775807n }],
  ['a negative seed beyond 2^53', { seed: -9223372036854775808n }],
  ['integers as BigInt', { n: 2n, max_tokens: 10n, temperature: 1n }],
  ['stream_options with stream', { stream: true, stream_options: { include_usage: true } }],
  ['128 tools', { tools: many(128, tool) }],
  ['no tool', { tools: [] }],
  ['tool_choice: a function', { tool_choice: tool }],
  ['function_call: a name', { function_call: { name: 'f' }, functions: [{ name: 'f' }] }],
  ['response_format', { response_format: { type: 'json_schema', json_schema: { name: 'x' } } }],
  [
    'null for what is optional',
    Object.fromEntries(
      [
        'temperature',
        'n',
        'stop',
        'stream_options',
        'tools',
        'tool_choice',
        'top_logprobs',
        'seed',
        'user',
        'thinking',
        'logit_bias',
        'logprobs',
        'response_format',
        'function_call',
        'functions',
        'stream',
        'parallel_tool_calls',
      ].map((name) => [name, null]),
    ),
  ],
];

for (const [name, extra] of accepted) {
  test(`a chat request passes: ${name}`, () => assert.equal(chat(extra), undefined));
}

const refused: readonly (readonly [string, object])[] = [
  ['messages', { messages: undefined }],
  ['messages', { messages: [] }],
  ['messages', { messages: 'Hi' }],
  ['messages[1]', { messages: [{ role: 'user' }, 'Hi'] }],
  ['messages[0].role', { messages: [{}] }],
  ['messages[0].role', { messages: [{ role: 'robot' }] }],
  ['model', { model: undefined }],
  ['model', { model: null }],
  ['frequency_penalty', { frequency_penalty: 2.01 }],
  ['presence_penalty', { presence_penalty: -2.01 }],
  ['logit_bias', { logit_bias: [] }],
  ['logit_bias.50256', { logit_bias: { 50256: 101 } }],
  ['logit_bias.50256', { logit_bias: { 50256: -101 } }],
  ['logprobs', { logprobs: 'yes' }],
  ['top_logprobs', { top_logprobs: 21, logprobs: true }],
  ['top_logprobs', { top_logprobs: 1.5, logprobs: true }],
  ['top_logprobs', { top_logprobs: 0 }],
  ['top_logprobs', { top_logprobs: 3, logprobs: false }],
  ['max_tokens', { max_tokens: -1 }],
  ['max_completion_tokens', { max_completion_tokens: 1.5 }],
  ['n', { n: 0 }],
  ['n', { n: 129 }],
  ['n', { n: '1' }],
  ['response_format', { response_format: 'json' }],
  ['response_format.type', { response_format: {} }],
  ['response_format.type', { response_format: { type: 'yaml' } }],
  ['seed', { seed: 1.5 }],
  ['seed', { seed: 92233720368547758080n }],
  ['stop', { stop: ['a', 'b', 'c', 'd', 'e'] }],
  ['stop', { stop: 7 }],
  ['stop[1]', { stop: ['a', 7] }],
  ['stream', { stream: 'true' }],
  ['stream_options', { stream_options: {} }],
  ['stream_options', { stream_options: {}, stream: false }],
  ['stream_options', { stream_options: true, stream: true }],
  ['temperature', { temperature: 2.1 }],
  ['temperature', { temperature: '1' }],
  ['temperature', { temperature: 3n }],
  ['top_p', { top_p: 1.1 }],
  ['tools', { tools: many(129, tool) }],
  ['tools', { tools: {} }],
  ['tools[1].type', { tools: [tool, {}] }],
  ['tools[0].function', { tools: [{ type: 'function' }] }],
  ['tools[0].function.name', { tools: [{ type: 'function', function: {} }] }],
  ['tool_choice', { tool_choice: 'always' }],
  ['tool_choice', { tool_choice: 1 }],
  ['tool_choice.function.name', { tool_choice: { type: 'function', function: {} } }],
  ['parallel_tool_calls', { parallel_tool_calls: 1 }],
  ['user', { user: 7 }],
  ['function_call', { function_call: 'required' }],
  ['function_call.name', { function_call: {} }],
  ['functions', { functions: [] }],
  ['functions', { functions: many(129, { name: 'f' }) }],
  ['functions[0].name', { functions: [{}] }],
];

for (const [param, extra] of refused) {
  const shown = JSON.stringify(extra, (_name, value: unknown) =>
    typeof value === 'bigint' ? `${value}n` : value,
  );
  test(`a chat request is refused for ${param}: ${shown.slice(0, 80)}`, () =>
    assert.equal(chat(extra), param));
}

test('thinking needs strict compliance off, a type and a budget', () => {
  const thinking = { type: 'enabled', budget_tokens: 1024 };
  assert.equal(chat({ thinking }, false), undefined);
  assert.equal(chat({ thinking }, true), 'thinking');
  assert.equal(chat({ thinking: { type: 'on', budget_tokens: 1 } }, false), 'thinking.type');
  assert.equal(chat({ thinking: { type: 'enabled' } }, false), 'thinking.budget_tokens');
  assert.equal(chat({ thinking: { type: 'enabled', budget_tokens: 1.5 } }, false), 'thinking.budget_tokens');
  assert.equal(chat({ thinking: { type: 'enabled', budget_tokens: null } }, false), 'thinking.budget_tokens');
});

test('tools are functions and moderation models the two of the specification, unless strict compliance is off', () => {
  const custom = { type: 'custom', custom: { name: 'sql' } };
  const cases: readonly (readonly [param: string, endpoint: 'chat.completions' | 'moderations', object])[] = [
    ['tools[1].type', 'chat.completions', { ...plain, tools: [tool, custom] }],
    ['tools[0].type', 'chat.completions', { ...plain, tools: [{ type: 'web_search' }] }],
    ['tool_choice.type', 'chat.completions', { ...plain, tool_choice: { type: 'allowed_tools' } }],
    ['tool_choice.type', 'chat.completions', { ...plain, tool_choice: custom }],
    ['model', 'moderations', { input: 'x', model: 'omni-moderation-latest' }],
  ];
  for (const [param, endpoint, body] of cases) {
    const refused = validateRequest(endpoint, body, true);
    assert.equal(refused?.param, param);
    assert.match(refused?.message ?? '', /must be '.+; found .+strict_openai_compliance is false/);
    assert.equal(validateRequest(endpoint, body, false), undefined);
  }
  for (const model of ['text-moderation-stable', 'text-moderation-latest', null, undefined])
    assert.equal(validateRequest('moderations', { input: 'x', model }, true), undefined);
});

test('a message says the rule and what was found, and repeats no conversation', () => {
  const messageOf = (extra: object): string | undefined =>
    validateRequest('chat.completions', { ...plain, ...extra }, true)?.message;
  assert.equal(messageOf({ temperature: 3 }), 'temperature must be a number between 0 and 2; found 3.');
  assert.equal(messageOf({ n: 0.5 }), 'n must be an integer between 1 and 128; found 0.5.');
  assert.equal(messageOf({ max_tokens: -1 }), 'max_tokens must be an integer of at least 0; found -1.');
  assert.equal(messageOf({ messages: [] }), 'messages must hold at least 1 item; found an array of 0 items.');
  assert.equal(
    messageOf({ tool_choice: 'any' }),
    `tool_choice must be 'none', 'auto' or 'required'; found "any".`,
  );
  assert.equal(messageOf({ stop: true }), 'stop must be a string or an array; found true.');
  assert.equal(messageOf({ model: undefined }), 'model is required and was not given.');
  const secret = messageOf({ messages: 'my very private question' });
  assert.equal(secret, 'messages must be an array; found a string of 24 characters.');
});

test('a moderation needs an input: text, or a list of texts or objects', () => {
  const moderation = (body: object): string | undefined => validateRequest('moderations', body, true)?.param;
  for (const input of ['x', ['x', 'y'], [{ type: 'text', text: 'x' }], []]) {
    assert.equal(moderation({ input }), undefined);
  }
  assert.equal(moderation({}), 'input');
  assert.equal(moderation({ input: null }), 'input');
  assert.equal(moderation({ input: { text: 'x' } }), 'input');
  assert.equal(moderation({ input: ['x', 7] }), 'input[1]');
  assert.equal(moderation({ input: 'x', model: 7 }), 'model');
});

test('other endpoints take any object', () => {
  fc.assert(
    fc.property(
      fc.constantFrom('embeddings', 'completions', 'rerank', 'proxy'),
      fc.dictionary(fc.string(), fc.jsonValue()),
      (endpoint, body) => {
        return validateRequest(endpoint, body, true) === undefined;
      },
    ),
  );
});
