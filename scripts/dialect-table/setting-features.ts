import type { JsonObject } from '../../core/dialects/canonical/chat-part.ts';
import type { RequestFeature } from './request-feature.ts';

const river: JsonObject = {
  type: 'object',
  properties: { length_km: { type: 'integer' } },
  required: ['length_km'],
  additionalProperties: false,
};
const generation = (config: JsonObject): JsonObject => ({ generationConfig: config });
const signature = 'EqQBCkgIChABGAIqQGdyaWQtc2lnbmF0dXJl';
const user = { role: 'user', content: 'Hello.' };
const calls = {
  tools: [{ type: 'function', function: { name: 'get_weather', parameters: { type: 'object' } } }],
};

const earlierThinking: RequestFeature['said'] = {
  'openai-chat': {
    messages: [
      user,
      {
        role: 'assistant',
        content: 'Yes.',
        content_blocks: [
          { type: 'thinking', thinking: 'I ponder.', signature },
          { type: 'text', text: 'Yes.' },
        ],
      },
      user,
    ],
  },
  'openai-responses': {
    input: [
      { role: 'user', content: 'Hello.' },
      {
        type: 'reasoning',
        id: 'rs_1',
        encrypted_content: signature,
        summary: [{ type: 'summary_text', text: 'I ponder.' }],
      },
      { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'Yes.' }] },
      { role: 'user', content: 'Hello.' },
    ],
  },
  'anthropic-messages': {
    messages: [
      user,
      {
        role: 'assistant',
        content: [
          { type: 'thinking', thinking: 'I ponder.', signature },
          { type: 'text', text: 'Yes.' },
        ],
      },
      user,
    ],
  },
  'google-gemini': {
    contents: [
      { role: 'user', parts: [{ text: 'Hello.' }] },
      {
        role: 'model',
        parts: [
          { text: 'I ponder.', thought: true },
          { text: 'Yes.', thoughtSignature: signature },
        ],
      },
      { role: 'user', parts: [{ text: 'Hello.' }] },
    ],
  },
};

/** Settings of the answer, and of the model's thinking. */
export const settingFeatures: readonly RequestFeature[] = [
  {
    name: 'streaming',
    stream: true,
    said: {
      'openai-chat': { stream: true },
      'openai-responses': { stream: true },
      'anthropic-messages': { stream: true },
      'google-gemini': {},
      'openai-completions': { stream: true },
    },
  },
  {
    name: 'reasoning effort',
    thinks: true,
    said: {
      'openai-chat': { reasoning_effort: 'high' },
      'openai-responses': { reasoning: { effort: 'high' } },
      'anthropic-messages': { output_config: { effort: 'high' } },
      'google-gemini': generation({ thinkingConfig: { thinkingLevel: 'high' } }),
    },
  },
  {
    name: 'budget for thinking',
    thinks: true,
    said: {
      'openai-chat': { thinking: { type: 'enabled', budget_tokens: 2048 } },
      'anthropic-messages': { thinking: { type: 'enabled', budget_tokens: 2048 } },
      'google-gemini': generation({ thinkingConfig: { thinkingBudget: 2048 } }),
    },
  },
  {
    name: 'no thinking',
    thinks: true,
    said: {
      'openai-chat': { reasoning_effort: 'none' },
      'openai-responses': { reasoning: { effort: 'none' } },
      'anthropic-messages': { thinking: { type: 'disabled' } },
      'google-gemini': generation({ thinkingConfig: { thinkingBudget: 0 } }),
    },
  },
  {
    name: 'thoughts shown',
    inherent: ['cohere-v2'],
    thinks: true,
    said: {
      'openai-responses': { reasoning: { summary: 'auto' } },
      'google-gemini': generation({ thinkingConfig: { includeThoughts: true } }),
    },
  },
  {
    name: 'earlier thinking',
    thinks: true,
    marker: /I ponder\./,
    said: earlierThinking,
  },
  {
    name: 'signature of earlier thinking',
    thinks: true,
    marker: /EqQBCkgI/,
    said: earlierThinking,
  },
  {
    name: 'earlier thinking, redacted',
    thinks: true,
    marker: /UmVkYWN0ZWQ/,
    said: {
      'anthropic-messages': {
        messages: [
          user,
          {
            role: 'assistant',
            content: [
              { type: 'redacted_thinking', data: 'UmVkYWN0ZWQ=' },
              { type: 'text', text: 'Yes.' },
            ],
          },
          user,
        ],
      },
    },
  },
  {
    name: 'signature of a call',
    thinks: true,
    marker: /EqQBCkgI/,
    said: {
      'openai-chat': {
        ...calls,
        messages: [
          user,
          {
            role: 'assistant',
            tool_calls: [
              {
                id: 'call_1',
                type: 'function',
                function: { name: 'get_weather', arguments: '{}' },
                extra_content: { google: { thought_signature: signature } },
              },
            ],
          },
          { role: 'tool', tool_call_id: 'call_1', content: 'Fine.' },
        ],
      },
      'google-gemini': {
        contents: [
          { role: 'user', parts: [{ text: 'Hello.' }] },
          {
            role: 'model',
            parts: [{ functionCall: { name: 'get_weather', args: {} }, thoughtSignature: signature }],
          },
          { role: 'user', parts: [{ functionResponse: { name: 'get_weather', response: {} } }] },
        ],
      },
    },
  },
  {
    name: 'answer by a JSON Schema',
    marker: /length_km/,
    said: {
      'openai-chat': {
        response_format: { type: 'json_schema', json_schema: { name: 'river', strict: true, schema: river } },
      },
      'openai-responses': {
        text: { format: { type: 'json_schema', name: 'river', strict: true, schema: river } },
      },
      'anthropic-messages': { output_config: { format: { type: 'json_schema', schema: river } } },
      'google-gemini': generation({ responseMimeType: 'application/json', responseJsonSchema: river }),
    },
  },
  {
    name: 'answer in JSON',
    said: {
      'openai-chat': { response_format: { type: 'json_object' } },
      'openai-responses': { text: { format: { type: 'json_object' } } },
      'google-gemini': generation({ responseMimeType: 'application/json' }),
    },
  },
  {
    name: 'longest answer',
    marker: /4321/,
    said: {
      'openai-chat': { max_completion_tokens: 4321 },
      'openai-responses': { max_output_tokens: 4321 },
      'anthropic-messages': { max_tokens: 4321 },
      'google-gemini': generation({ maxOutputTokens: 4321 }),
      'openai-completions': { max_tokens: 4321 },
    },
  },
  {
    name: 'temperature',
    marker: /0\.25/,
    said: {
      'openai-chat': { temperature: 0.25 },
      'openai-responses': { temperature: 0.25 },
      'anthropic-messages': { temperature: 0.25 },
      'google-gemini': generation({ temperature: 0.25 }),
      'openai-completions': { temperature: 0.25 },
    },
  },
  {
    name: 'top p',
    marker: /0\.85/,
    said: {
      'openai-chat': { top_p: 0.85 },
      'openai-responses': { top_p: 0.85 },
      'anthropic-messages': { top_p: 0.85 },
      'google-gemini': generation({ topP: 0.85 }),
      'openai-completions': { top_p: 0.85 },
    },
  },
  {
    name: 'top k',
    marker: /\b37\b/,
    said: {
      'openai-chat': { top_k: 37 },
      'anthropic-messages': { top_k: 37 },
      'google-gemini': generation({ topK: 37 }),
    },
  },
  {
    name: 'frequency penalty',
    marker: /0\.75/,
    said: {
      'openai-chat': { frequency_penalty: 0.75 },
      'google-gemini': generation({ frequencyPenalty: 0.75 }),
      'openai-completions': { frequency_penalty: 0.75 },
    },
  },
  {
    name: 'presence penalty',
    marker: /0\.65/,
    said: {
      'openai-chat': { presence_penalty: 0.65 },
      'google-gemini': generation({ presencePenalty: 0.65 }),
      'openai-completions': { presence_penalty: 0.65 },
    },
  },
  {
    name: 'seed',
    marker: /987654/,
    said: {
      'openai-chat': { seed: 987_654 },
      'google-gemini': generation({ seed: 987_654 }),
      'openai-completions': { seed: 987_654 },
    },
  },
  {
    name: 'stop sequences',
    marker: /@@@/,
    said: {
      'openai-chat': { stop: ['@@@'] },
      'anthropic-messages': { stop_sequences: ['@@@'] },
      'google-gemini': generation({ stopSequences: ['@@@'] }),
      'openai-completions': { stop: ['@@@'] },
    },
  },
  {
    name: 'several choices',
    said: {
      'openai-chat': { n: 2 },
      'google-gemini': generation({ candidateCount: 2 }),
      'openai-completions': { n: 2 },
    },
  },
  {
    name: 'log probabilities',
    said: {
      'openai-chat': { logprobs: true, top_logprobs: 3 },
      'openai-responses': { include: ['message.output_text.logprobs'], top_logprobs: 3 },
      'google-gemini': generation({ responseLogprobs: true, logprobs: 3 }),
      'openai-completions': { logprobs: 3 },
    },
  },
  {
    name: 'logit bias',
    marker: /50256/,
    said: {
      'openai-chat': { logit_bias: { 50256: -100 } },
      'openai-completions': { logit_bias: { 50256: -100 } },
    },
  },
  {
    name: 'verbosity',
    said: { 'openai-chat': { verbosity: 'low' }, 'openai-responses': { text: { verbosity: 'low' } } },
  },
  {
    name: 'spoken answer',
    marker: /audio/i,
    said: {
      'openai-chat': { modalities: ['text', 'audio'], audio: { voice: 'alloy', format: 'wav' } },
      'google-gemini': generation({ responseModalities: ['AUDIO'] }),
    },
  },
];
