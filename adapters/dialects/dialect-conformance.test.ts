import type { AnswerFacts } from '../../core/dialects/dialect.ts';
import type { Usage } from '../../core/dialects/usage.ts';
import { dialectConformance } from '../../tests/conformance/dialect.ts';
import { anthropicMessages } from './anthropic-messages/index.ts';
import { openAiChat } from './openai-chat/index.ts';
import { openAiResponses } from './openai-responses/index.ts';

const model = 'river-1';

function usage(promptTokens: number, completionTokens: number, details: Partial<Usage> = {}): Usage {
  return {
    promptTokens,
    completionTokens,
    totalTokens: promptTokens + completionTokens,
    cachedTokens: 0,
    cacheWriteTokens: 0,
    reasoningTokens: 0,
    inputAudioTokens: 0,
    outputAudioTokens: 0,
    ...details,
  };
}

const facts = (finishReason: string, used: Usage): AnswerFacts => ({ model, finishReason, usage: used });

dialectConformance({
  dialect: openAiChat,
  endpoints: ['chat.completions', 'completions', 'embeddings', 'moderations', 'rerank', 'proxy'],
  streams: [
    {
      file: 'text.sse',
      endpoint: 'chat.completions',
      facts: facts(
        'stop',
        usage(12, 9, { cachedTokens: 4, reasoningTokens: 3, inputAudioTokens: 1, outputAudioTokens: 2 }),
      ),
      ended: true,
      firstTokenFrame: 1,
    },
    {
      file: 'tools.sse',
      endpoint: 'chat.completions',
      // The host counts reasoning beside the completion, as its total shows.
      facts: facts('tool_calls', usage(30, 28, { reasoningTokens: 20 })),
      ended: true,
      firstTokenFrame: 0,
    },
    {
      file: 'filtered.sse',
      endpoint: 'chat.completions',
      facts: facts('stop', usage(5, 1, { cachedTokens: 2 })),
      ended: true,
      firstTokenFrame: 2,
    },
    {
      file: 'choices.sse',
      endpoint: 'chat.completions',
      facts: facts('stop,content_filter', usage(7, 5)),
      ended: true,
      firstTokenFrame: 2,
    },
    {
      file: 'completion.sse',
      endpoint: 'completions',
      facts: facts('length', usage(2, 4)),
      ended: true,
      firstTokenFrame: 0,
    },
    {
      file: 'error.sse',
      endpoint: 'chat.completions',
      facts: { model, errorMessage: 'The model is overloaded.' },
      ended: false,
      firstTokenFrame: 0,
    },
  ],
  answers: [
    {
      file: 'answer.json',
      endpoint: 'chat.completions',
      facts: facts('stop,tool_calls', usage(9, 6, { cachedTokens: 3, cacheWriteTokens: 2 })),
    },
  ],
  requests: [
    {
      endpoint: 'chat.completions',
      body: {
        messages: [
          { role: 'system', content: 'a' },
          {
            role: 'user',
            content: [
              { type: 'text', text: 'b' },
              { type: 'image_url', image_url: { url: 'https://example.com/x.png' } },
              { type: 'input_text', text: 'c' },
              'd',
            ],
          },
          { role: 'assistant', content: [{ type: 'refusal', refusal: 'e' }] },
          { role: 'assistant', content: null, tool_calls: [] },
          { role: 'tool', tool_call_id: 'x', content: 'f' },
        ],
      },
      texts: ['a', 'b', 'c', 'd', 'e', 'f'],
    },
    { endpoint: 'completions', body: { prompt: 'a' }, texts: ['a'] },
    { endpoint: 'completions', body: { prompt: ['a', 'b'] }, texts: ['a', 'b'] },
    { endpoint: 'completions', body: { prompt: [[1, 2], [3]] }, texts: [] },
    { endpoint: 'embeddings', body: { input: ['a', 'b'] }, texts: ['a', 'b'] },
    { endpoint: 'moderations', body: { input: [{ type: 'text', text: 'a' }] }, texts: ['a'] },
    { endpoint: 'rerank', body: { query: 'q', documents: ['a', { text: 'b' }] }, texts: ['q', 'a', 'b'] },
    { endpoint: 'proxy', body: { messages: [{ role: 'user', content: 'a' }] }, texts: ['a'] },
    { endpoint: 'proxy', body: { prompt: 'p', input: ['i'] }, texts: ['p', 'i'] },
    { endpoint: 'proxy', body: { anything: 'a' }, texts: [] },
  ],
});

dialectConformance({
  dialect: openAiResponses,
  endpoints: ['responses'],
  streams: [
    {
      file: 'text.sse',
      endpoint: 'responses',
      facts: facts('completed', usage(14, 8, { cachedTokens: 6, reasoningTokens: 5 })),
      ended: true,
      firstTokenFrame: 3,
    },
    {
      file: 'incomplete.sse',
      endpoint: 'responses',
      facts: facts('max_output_tokens', usage(14, 8, { cachedTokens: 6, reasoningTokens: 5 })),
      ended: true,
      firstTokenFrame: 3,
    },
    {
      file: 'failed.sse',
      endpoint: 'responses',
      facts: { model, finishReason: 'failed', errorMessage: 'The model failed.' },
      ended: true,
      firstTokenFrame: 3,
    },
  ],
  answers: [
    {
      file: 'answer.json',
      endpoint: 'responses',
      facts: facts('completed', usage(14, 8, { cachedTokens: 6, reasoningTokens: 5 })),
    },
  ],
  requests: [
    { endpoint: 'responses', body: { instructions: 'a', input: 'b' }, texts: ['a', 'b'] },
    {
      endpoint: 'responses',
      body: {
        input: [
          { role: 'user', content: 'a' },
          {
            role: 'user',
            content: [
              { type: 'input_text', text: 'b' },
              { type: 'input_image', image_url: 'x' },
            ],
          },
          { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'c' }] },
          { type: 'function_call_output', call_id: 'x', output: 'd' },
          { type: 'function_call_output', call_id: 'x', output: [{ type: 'input_text', text: 'e' }] },
        ],
      },
      texts: ['a', 'b', 'c', 'd', 'e'],
    },
  ],
});

dialectConformance({
  dialect: anthropicMessages,
  endpoints: ['messages'],
  streams: [
    {
      file: 'text.sse',
      endpoint: 'messages',
      facts: facts('end_turn', usage(130, 42, { cachedTokens: 100, cacheWriteTokens: 20 })),
      ended: true,
      firstTokenFrame: 3,
    },
    {
      file: 'tool.sse',
      endpoint: 'messages',
      facts: facts('tool_use', usage(15, 7)),
      ended: true,
      firstTokenFrame: 1,
    },
    {
      file: 'error.sse',
      endpoint: 'messages',
      facts: { model, usage: usage(10, 1), errorMessage: 'Overloaded' },
      ended: false,
      firstTokenFrame: 2,
    },
  ],
  answers: [
    {
      file: 'answer.json',
      endpoint: 'messages',
      facts: facts('end_turn', usage(20, 29, { cachedTokens: 5, cacheWriteTokens: 3 })),
    },
  ],
  requests: [
    {
      endpoint: 'messages',
      body: {
        system: [{ type: 'text', text: 'a' }],
        messages: [
          { role: 'user', content: 'b' },
          {
            role: 'user',
            content: [
              { type: 'text', text: 'c' },
              { type: 'tool_result', tool_use_id: 'x', content: [{ type: 'text', text: 'd' }] },
              { type: 'document', source: { type: 'text', media_type: 'text/plain', data: 'e' } },
              { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'AAAA' } },
            ],
          },
        ],
      },
      texts: ['a', 'b', 'c', 'd', 'e'],
    },
    { endpoint: 'messages', body: { system: 'a', messages: [] }, texts: ['a'] },
  ],
});
