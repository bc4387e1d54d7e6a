import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ChatRequest } from '../../../core/dialects/canonical/chat-request.ts';
import type { JsonObject } from '../json-reading.ts';
import { encode } from './chat-setting.test-support.ts';

const schema = { type: 'object', properties: { a: { type: 'integer', minimum: 1 } } };
const format = { type: 'json-schema', name: 'x', schema } as const;

/** The request; the members of the body that say it; the settings that are dropped and emulated. */
const cases: readonly (readonly [
  what: string,
  request: Partial<ChatRequest>,
  body: JsonObject,
  dropped?: readonly string[],
  emulated?: readonly string[],
  model?: string,
])[] = [
  ['no limit: the least that every model has', {}, { max_tokens: 4096, stream: undefined }],
  ['a stream', { stream: true }, { stream: true }],
  ['a limit', { maxOutputTokens: 99 }, { max_tokens: 99 }],
  ['temperature', { temperature: 0.3 }, { temperature: 0.3 }],
  ['a temperature above 1', { temperature: 1.7 }, { temperature: 1 }, [], ['temperature']],
  ['temperature and top_p', { temperature: 1, topP: 0.5 }, { temperature: 1, top_p: undefined }, ['top_p']],
  [
    'temperature and top_p of an older model',
    { temperature: 1, topP: 0.5 },
    { temperature: 1, top_p: 0.5 },
    ...([[], [], 'claude-3-5-haiku-latest'] as const),
  ],
  [
    'sampling of a model that has none',
    { temperature: 0.3, topP: 0.5, topK: 3 },
    { temperature: undefined, top_p: undefined, top_k: undefined },
    ...([['temperature', 'top_p', 'top_k'], [], 'claude-opus-4-7'] as const),
  ],
  ['stop', { stop: ['END', ' \n'] }, { stop_sequences: ['END'] }, ['stop']],
  ['the end user', { user: 'u' }, { metadata: { user_id: 'u' } }],
  [
    'a safety identifier',
    { safetyIdentifier: 's' },
    { metadata: { user_id: 's' } },
    [],
    ['safety_identifier'],
  ],
  ['the usual tier', { serviceTier: 'default' }, { service_tier: 'standard_only' }],
  ['priority', { serviceTier: 'priority' }, { service_tier: 'auto' }, [], ['service_tier']],
  ['flex', { serviceTier: 'flex' }, { service_tier: undefined }, ['service_tier']],
  [
    'what the wire cannot say',
    {
      frequencyPenalty: 1,
      presencePenalty: 1,
      seed: 1,
      n: 2,
      logprobs: true,
      topLogprobs: 2,
      logitBias: {},
      verbosity: 'low',
      promptCacheKey: 'k',
      metadata: {},
      store: true,
      audio: {},
      modalities: ['text', 'audio'],
    },
    {},
    [
      ...['frequency_penalty', 'presence_penalty', 'seed', 'n', 'logprobs', 'top_logprobs', 'logit_bias'],
      ...['verbosity', 'prompt_cache_key', 'metadata', 'store', 'audio', 'modalities'],
    ],
  ],
  [
    'what says no more than the default',
    { frequencyPenalty: 0, presencePenalty: 0, n: 1, logprobs: false, store: false, modalities: ['text'] },
    {},
  ],
  ['JSON without a schema', { responseFormat: { type: 'json' } }, { tools: undefined }, ['response_format']],
  [
    'a schema',
    { responseFormat: format },
    {
      output_config: {
        format: {
          type: 'json_schema',
          schema: {
            type: 'object',
            additionalProperties: false,
            properties: { a: { type: 'integer', description: '(minimum: 1)' } },
          },
        },
      },
    },
    [],
    ['response_format.json_schema.schema'],
  ],
  [
    'a schema for a model without structured outputs: a tool that must be called',
    { responseFormat: format },
    {
      output_config: undefined,
      tools: [{ name: 'json', description: 'Give the answer as a JSON object.', input_schema: schema }],
      tool_choice: { type: 'tool', name: 'json', disable_parallel_tool_use: true },
    },
    ...([[], ['response_format'], 'claude-3-7-sonnet-latest'] as const),
  ],
  [
    'the same beside other tools: one of them must be called',
    { responseFormat: format, tools: [{ type: 'function', name: 'json' }] },
    {
      tools: [
        { name: 'json', input_schema: { type: 'object', properties: {} } },
        { name: 'json_answer', description: 'Give the answer as a JSON object.', input_schema: schema },
      ],
      tool_choice: { type: 'any' },
    },
    ...([[], ['response_format'], 'claude-3-7-sonnet-latest'] as const),
  ],
  [
    'the same of a model that thinks: it cannot be forced',
    { responseFormat: format, reasoning: { budgetTokens: 2000 } },
    { tool_choice: { type: 'auto', disable_parallel_tool_use: true } },
    ...([[], ['response_format'], 'claude-3-7-sonnet-latest'] as const),
  ],
  [
    'an effort of a model that has none: a budget, and room for it',
    { reasoning: { effort: 'medium' } },
    { thinking: { type: 'enabled', budget_tokens: 8192 }, max_tokens: 8192 + 4096, output_config: undefined },
    [],
    ['reasoning_effort'],
  ],
  [
    'a budget within the caller’s limit',
    { reasoning: { budgetTokens: 5000 }, maxOutputTokens: 3000, temperature: 0.2, topK: 2, topP: 0.96 },
    {
      thinking: { type: 'enabled', budget_tokens: 2999 },
      max_tokens: 3000,
      temperature: undefined,
      top_k: undefined,
      top_p: undefined,
    },
    ['temperature', 'top_p', 'top_k'],
    ['reasoning_effort'],
  ],
  [
    'a limit that leaves no room to think',
    { reasoning: { effort: 'low' }, maxOutputTokens: 100 },
    { thinking: undefined, max_tokens: 100 },
    ['reasoning_effort'],
    ['reasoning_effort'],
  ],
  [
    'an effort',
    { reasoning: { effort: 'high' } },
    { output_config: { effort: 'high' }, thinking: undefined, max_tokens: 4096 },
    ...([[], [], 'claude-opus-4-5'] as const),
  ],
  [
    'an effort with adaptive thinking',
    { reasoning: { effort: 'minimal', summary: 'auto' } },
    { output_config: { effort: 'low' }, thinking: { type: 'adaptive', display: 'summarized' } },
    ...([[], ['reasoning_effort'], 'claude-opus-4-8'] as const),
  ],
  [
    'the highest effort in a word that the model knows',
    { reasoning: { effort: 'xhigh' } },
    { output_config: { effort: 'max' } },
    ...([[], ['reasoning_effort'], 'claude-opus-4-6'] as const),
  ],
  [
    'a budget for a model that takes none any more',
    { reasoning: { budgetTokens: 9000 } },
    { thinking: { type: 'adaptive' }, output_config: { effort: 'high' } },
    ...([[], ['thinking.budget_tokens'], 'claude-opus-4-8'] as const),
  ],
  ['no thinking', { reasoning: { effort: 'none' } }, { thinking: { type: 'disabled' } }],
  [
    'no thinking of a model that always thinks',
    { reasoning: { effort: 'none' } },
    { thinking: undefined, output_config: { effort: 'low' } },
    ...([[], ['reasoning_effort'], 'claude-opus-5-5'] as const),
  ],
  [
    'an effort of a model that cannot think',
    { reasoning: { effort: 'high' } },
    { thinking: undefined },
    ...([['reasoning_effort'], [], 'claude-3-haiku-20240307'] as const),
  ],
  [
    'own members win, those of others are reported',
    {
      user: 'u',
      extras: { 'anthropic-messages': { metadata: { team: 1 }, top_k: 7 }, 'cohere-v2': { k: 1 } },
    },
    { metadata: { user_id: 'u', team: 1 }, top_k: 7 },
    ['k'],
  ],
];

for (const [what, request, body, dropped = [], emulated = [], model] of cases) {
  test(`request: ${what}`, () => {
    const encoded = encode(request, model);
    for (const [name, value] of Object.entries(body)) assert.deepEqual(encoded.body[name], value, name);
    assert.deepEqual([...encoded.dropped].sort(), [...dropped].sort());
    assert.deepEqual([...encoded.emulated].sort(), [...emulated].sort());
  });
}
