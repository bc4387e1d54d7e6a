import { chatUser, geminiUser, messagesUser, responsesUser, type RequestFeature } from './request-feature.ts';

const png =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==';
const pdf = 'JVBERi0xLjQKMSAwIG9iajw8L1R5cGUvQ2F0YWxvZz4+ZW5kb2JqCg==';
const wav = 'UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=';
const mp4 = 'AAAAGGZ0eXBtcDQyAAAAAGlzb21tcDQy';
const pngUrl = 'https://pictures.example/river.png';
const pdfUrl = 'https://papers.example/river.pdf';
const user = { role: 'user', content: 'Hello.' };
const responsesText = (role: string, text: string) => ({
  type: 'message',
  role,
  content: [{ type: role === 'assistant' ? 'output_text' : 'input_text', text }],
});

/** Features of message content. */
export const contentFeatures: readonly RequestFeature[] = [
  {
    name: 'system prompt',
    marker: /You are terse\./,
    said: {
      'openai-chat': { messages: [{ role: 'system', content: 'You are terse.' }, user] },
      'openai-responses': { instructions: 'You are terse.' },
      'anthropic-messages': { system: 'You are terse.' },
      'google-gemini': { systemInstruction: { parts: [{ text: 'You are terse.' }] } },
    },
  },
  {
    name: 'developer message',
    marker: /You are terse\./,
    said: {
      'openai-chat': { messages: [{ role: 'developer', content: 'You are terse.' }, user] },
      'openai-responses': {
        input: [responsesText('developer', 'You are terse.'), responsesText('user', 'Hello.')],
      },
    },
  },
  {
    name: 'system message between turns',
    marker: /Be brief now\./,
    said: {
      'openai-chat': { messages: [user, { role: 'system', content: 'Be brief now.' }, user] },
      'openai-responses': {
        input: [
          responsesText('user', 'Hello.'),
          responsesText('system', 'Be brief now.'),
          responsesText('user', 'Hello.'),
        ],
      },
    },
  },
  {
    name: 'earlier turns',
    marker: /Good day\./,
    said: {
      'openai-chat': { messages: [user, { role: 'assistant', content: 'Good day.' }, user] },
      'openai-responses': {
        input: [
          responsesText('user', 'Hello.'),
          responsesText('assistant', 'Good day.'),
          responsesText('user', 'Hello.'),
        ],
      },
      'anthropic-messages': { messages: [user, { role: 'assistant', content: 'Good day.' }, user] },
      'google-gemini': {
        contents: [
          { role: 'user', parts: [{ text: 'Hello.' }] },
          { role: 'model', parts: [{ text: 'Good day.' }] },
          { role: 'user', parts: [{ text: 'Hello.' }] },
        ],
      },
    },
  },
  {
    name: 'name of a speaker',
    marker: /Ada/,
    said: { 'openai-chat': { messages: [{ ...user, name: 'Ada' }] } },
  },
  {
    name: 'refusal in an earlier turn',
    marker: /I will not\./,
    said: {
      'openai-chat': { messages: [user, { role: 'assistant', refusal: 'I will not.' }, user] },
      'openai-responses': {
        input: [
          responsesText('user', 'Hello.'),
          { type: 'message', role: 'assistant', content: [{ type: 'refusal', refusal: 'I will not.' }] },
          responsesText('user', 'Hello.'),
        ],
      },
    },
  },
  {
    name: 'image as data',
    marker: new RegExp(png.slice(0, 40)),
    said: {
      'openai-chat': chatUser({ type: 'image_url', image_url: { url: `data:image/png;base64,${png}` } }),
      'openai-responses': responsesUser({ type: 'input_image', image_url: `data:image/png;base64,${png}` }),
      'anthropic-messages': messagesUser({
        type: 'image',
        source: { type: 'base64', media_type: 'image/png', data: png },
      }),
      'google-gemini': geminiUser({ inlineData: { mimeType: 'image/png', data: png } }),
    },
  },
  {
    name: 'image by URL',
    marker: /pictures\.example/,
    said: {
      'openai-chat': chatUser({ type: 'image_url', image_url: { url: pngUrl } }),
      'openai-responses': responsesUser({ type: 'input_image', image_url: pngUrl }),
      'anthropic-messages': messagesUser({ type: 'image', source: { type: 'url', url: pngUrl } }),
      'google-gemini': geminiUser({ fileData: { mimeType: 'image/png', fileUri: pngUrl } }),
    },
  },
  {
    name: 'detail of an image',
    over: 'image as data',
    marker: /high/i,
    said: {
      'openai-chat': chatUser({
        type: 'image_url',
        image_url: { url: `data:image/png;base64,${png}`, detail: 'high' },
      }),
      'openai-responses': responsesUser({
        type: 'input_image',
        image_url: `data:image/png;base64,${png}`,
        detail: 'high',
      }),
    },
  },
  {
    name: 'audio as data',
    marker: new RegExp(wav.slice(0, 20)),
    said: {
      'openai-chat': chatUser({ type: 'input_audio', input_audio: { data: wav, format: 'wav' } }),
      'google-gemini': geminiUser({ inlineData: { mimeType: 'audio/wav', data: wav } }),
    },
  },
  {
    name: 'video as data',
    marker: new RegExp(mp4.slice(0, 20)),
    said: { 'google-gemini': geminiUser({ inlineData: { mimeType: 'video/mp4', data: mp4 } }) },
  },
  {
    name: 'PDF as data',
    marker: new RegExp(pdf.slice(0, 30)),
    said: {
      'openai-chat': chatUser({ type: 'file', file: { file_data: `data:application/pdf;base64,${pdf}` } }),
      'openai-responses': responsesUser({
        type: 'input_file',
        file_data: `data:application/pdf;base64,${pdf}`,
      }),
      'anthropic-messages': messagesUser({
        type: 'document',
        source: { type: 'base64', media_type: 'application/pdf', data: pdf },
      }),
      'google-gemini': geminiUser({ inlineData: { mimeType: 'application/pdf', data: pdf } }),
    },
  },
  {
    name: 'name of a file',
    over: 'PDF as data',
    marker: /sluices/,
    said: {
      'openai-chat': chatUser({
        type: 'file',
        file: { file_data: `data:application/pdf;base64,${pdf}`, filename: 'sluices.pdf' },
      }),
      'openai-responses': responsesUser({
        type: 'input_file',
        file_data: `data:application/pdf;base64,${pdf}`,
        filename: 'sluices.pdf',
      }),
      'anthropic-messages': messagesUser({
        type: 'document',
        title: 'sluices.pdf',
        source: { type: 'base64', media_type: 'application/pdf', data: pdf },
      }),
    },
  },
  {
    name: 'PDF by URL',
    marker: /papers\.example/,
    said: {
      'openai-responses': responsesUser({ type: 'input_file', file_url: pdfUrl }),
      'anthropic-messages': messagesUser({ type: 'document', source: { type: 'url', url: pdfUrl } }),
      'google-gemini': geminiUser({ fileData: { mimeType: 'application/pdf', fileUri: pdfUrl } }),
    },
  },
  {
    name: 'uploaded file',
    marker: /file-7Qm2/,
    said: {
      'openai-chat': chatUser({ type: 'file', file: { file_id: 'file-7Qm2' } }),
      'openai-responses': responsesUser({ type: 'input_file', file_id: 'file-7Qm2' }),
      'anthropic-messages': messagesUser({
        type: 'document',
        source: { type: 'file', file_id: 'file-7Qm2' },
      }),
    },
  },
  {
    name: 'plain text document',
    marker: /Once there was a sluice|T25jZSB0aGVyZSB3YXMgYSBzbHVpY2/,
    said: {
      'anthropic-messages': messagesUser({
        type: 'document',
        source: { type: 'text', media_type: 'text/plain', data: 'Once there was a sluice.' },
      }),
    },
  },
  {
    name: 'citations wanted of a document',
    over: 'plain text document',
    inherent: ['cohere-v2'],
    marker: /citation/i,
    said: {
      'anthropic-messages': messagesUser({
        type: 'document',
        citations: { enabled: true },
        source: { type: 'text', media_type: 'text/plain', data: 'Once there was a sluice.' },
      }),
    },
  },
  {
    name: 'cache marker',
    marker: /cache_?(control|point)/i,
    said: {
      'openai-chat': {
        messages: [
          {
            role: 'user',
            content: [{ type: 'text', text: 'Hello.', cache_control: { type: 'ephemeral' } }],
          },
        ],
      },
      'anthropic-messages': {
        messages: [
          {
            role: 'user',
            content: [{ type: 'text', text: 'Hello.', cache_control: { type: 'ephemeral' } }],
          },
        ],
      },
    },
  },
  {
    name: 'lifetime of a cache marker',
    over: 'cache marker',
    marker: /1h/,
    said: {
      'openai-chat': {
        messages: [
          {
            role: 'user',
            content: [{ type: 'text', text: 'Hello.', cache_control: { type: 'ephemeral', ttl: '1h' } }],
          },
        ],
      },
      'anthropic-messages': {
        messages: [
          {
            role: 'user',
            content: [{ type: 'text', text: 'Hello.', cache_control: { type: 'ephemeral', ttl: '1h' } }],
          },
        ],
      },
    },
  },
];
