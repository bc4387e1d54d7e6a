import type { Usage } from '../../../core/dialects/usage.ts';
import { dialectConformance } from '../../../tests/conformance/dialect.ts';
import { googleGemini } from './index.ts';

const model = 'river-1';

function usage(promptTokens: number, completionTokens: number, details: Partial<Usage>): Usage {
  const none = { cachedTokens: 0, cacheWriteTokens: 0, reasoningTokens: 0 };
  const audio = { inputAudioTokens: 0, outputAudioTokens: 0 };
  const totalTokens = promptTokens + completionTokens;
  return { promptTokens, completionTokens, totalTokens, ...none, ...audio, ...details };
}

dialectConformance({
  dialect: googleGemini,
  endpoints: ['generate-content', 'proxy'],
  endMarker: false,
  streams: [
    {
      file: 'text.sse',
      endpoint: 'generate-content',
      facts: { model, finishReason: 'STOP', usage: usage(11, 14, { reasoningTokens: 5, cachedTokens: 3 }) },
      ended: true,
      firstTokenFrame: 0,
    },
    {
      file: 'tools.sse',
      endpoint: 'generate-content',
      // What tools brought into the prompt is prompt.
      facts: { model, finishReason: 'STOP', usage: usage(34, 29, { reasoningTokens: 8 }) },
      ended: true,
      firstTokenFrame: 0,
    },
    {
      file: 'grounded.sse',
      endpoint: 'generate-content',
      facts: { model, finishReason: 'STOP', usage: usage(12, 15, {}) },
      ended: true,
      firstTokenFrame: 0,
    },
    {
      file: 'error.sse',
      endpoint: 'generate-content',
      facts: {
        model,
        usage: usage(11, 9, { reasoningTokens: 5 }),
        errorMessage: 'The model is overloaded.',
      },
      ended: false,
      firstTokenFrame: 0,
    },
  ],
  answers: [
    {
      file: 'answer.json',
      endpoint: 'generate-content',
      facts: { model, finishReason: 'STOP', usage: usage(20, 12, { reasoningTokens: 5, cachedTokens: 6 }) },
    },
    {
      file: 'blocked.json',
      endpoint: 'generate-content',
      facts: { model, finishReason: 'PROHIBITED_CONTENT', usage: usage(9, 0, {}) },
    },
    {
      file: 'text.array.json',
      endpoint: 'generate-content',
      facts: { model, finishReason: 'STOP', usage: usage(11, 14, { reasoningTokens: 5, cachedTokens: 3 }) },
    },
  ],
  requests: [
    {
      endpoint: 'generate-content',
      body: {
        systemInstruction: { parts: [{ text: 'Be brief.' }] },
        contents: [
          {
            role: 'user',
            parts: [{ text: 'One.' }, { inlineData: { mimeType: 'image/png', data: 'AA==' } }],
          },
          { role: 'model', parts: [{ functionCall: { name: 'f', args: {} } }, { text: 'Two.' }] },
          {
            role: 'user',
            parts: [{ functionResponse: { name: 'f', response: { rows: [{ note: 'Three.' }] } } }],
          },
        ],
      },
      texts: ['Be brief.', 'One.', 'Two.', 'Three.'],
    },
    {
      endpoint: 'generate-content',
      body: { system_instruction: 'Be kind.', contents: [{ parts: { text: 'Alone.' } }] },
      texts: ['Be kind.', 'Alone.'],
    },
    { endpoint: 'proxy', body: 'no object', texts: [] },
  ],
});
