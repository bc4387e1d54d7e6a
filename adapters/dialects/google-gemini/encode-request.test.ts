import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { ChatMessage, ChatRequest } from '../../../core/dialects/canonical/chat-request.ts';
import type { ChatPart } from '../../../core/dialects/canonical/chat-part.ts';
import { EncodeReport } from '../../../core/dialects/canonical/chat-codec.ts';
import { emptyRequest, hostFacts } from './gemini-wire.test-support.ts';
import { geminiProvider } from './host.ts';

interface Encoded {
  readonly path: string;
  readonly body: { readonly [name: string]: unknown };
  readonly dropped: readonly string[];
  readonly emulated: readonly string[];
}

function encode(request: Partial<ChatRequest>, model = 'gemini-2.5-pro'): Encoded {
  const report = new EncodeReport();
  const { path, body } = geminiProvider.encodeRequest(
    { ...emptyRequest, ...request },
    hostFacts(model),
    report,
  );
  const parsed = JSON.parse(body.toString()) as Encoded['body'];
  return { path, body: parsed, dropped: report.dropped, emulated: report.emulated };
}

const user = (...parts: ChatPart[]): ChatMessage => ({ role: 'user', parts });
const text = (value: string): ChatPart => ({ type: 'text', text: value });

describe('request', () => {
  const paths: readonly (readonly [string, boolean, string])[] = [
    ['gemini-2.5-pro', false, '/v1beta/models/gemini-2.5-pro:generateContent'],
    ['gemini-2.5-pro', true, '/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse'],
    ['models/x', false, '/v1beta/models/x:generateContent'],
    ['tunedModels/my one', false, '/v1beta/tunedModels/my%20one:generateContent'],
    ['../files', false, '/v1beta/%252E%252E/files:generateContent'],
  ];
  for (const [model, stream, path] of paths)
    test(`${model} goes to ${path}`, () => assert.equal(encode({ stream }, model).path, path));

  test('roles are joined, system and developer stand apart', () => {
    const { body, emulated } = encode({
      messages: [
        { role: 'system', parts: [text('A')] },
        { role: 'developer', parts: [text('B')] },
        user(text('1')),
        user(text('2')),
        { role: 'assistant', parts: [text('3')] },
        { role: 'system', parts: [text('C')] },
      ],
    });
    assert.deepEqual(body, {
      systemInstruction: { parts: [{ text: 'A' }, { text: 'B' }, { text: 'C' }] },
      contents: [
        { role: 'user', parts: [{ text: '1' }, { text: '2' }] },
        { role: 'model', parts: [{ text: '3' }] },
      ],
    });
    // Only the one within the conversation loses its place.
    assert.deepEqual(emulated, ['messages[5].role']);
  });

  test('calls, their results by name, thoughts and signatures keep their order', () => {
    const call = { type: 'tool-call', name: 'tide', kind: 'function' } as const;
    const result = { type: 'tool-result', kind: 'function' } as const;
    const { body, dropped } = encode({
      messages: [
        {
          role: 'assistant',
          parts: [
            { type: 'reasoning', text: 'Hm.', signature: 's0' },
            { ...call, id: 'a', arguments: '{"n":12345678901234567890}', signature: 's1' },
            { ...call, id: 'b', arguments: '' },
          ],
        },
        {
          role: 'tool',
          parts: [
            { ...result, callId: 'a', content: [{ type: 'text', text: '{"level":7}' }] },
            { ...result, callId: 'b', content: [{ type: 'text', text: 'no gauge' }], isError: true },
          ],
        },
      ],
    });
    assert.deepEqual(dropped, []);
    assert.deepEqual(body.contents, [
      {
        role: 'model',
        parts: [
          { text: 'Hm.', thought: true, thoughtSignature: 's0' },
          {
            functionCall: { id: 'a', name: 'tide', args: { n: Number('12345678901234567890') } },
            thoughtSignature: 's1',
          },
          { functionCall: { id: 'b', name: 'tide', args: {} } },
        ],
      },
      {
        role: 'user',
        parts: [
          { functionResponse: { id: 'a', name: 'tide', response: { level: 7 } } },
          { functionResponse: { id: 'b', name: 'tide', response: { error: 'no gauge' } } },
        ],
      },
    ]);
    const report = new EncodeReport();
    const part = { ...call, id: 'a', arguments: '{"n":12345678901234567890}' };
    const messages: ChatMessage[] = [{ role: 'assistant', parts: [part] }];
    const exact = geminiProvider.encodeRequest({ ...emptyRequest, messages }, hostFacts('x'), report);
    assert.match(exact.body.toString(), /"n":12345678901234567890/);
  });

  test('Gemini 3: an unsigned call gets the documented stand-in, images travel within results', () => {
    const image = {
      type: 'image',
      source: { kind: 'base64', mediaType: 'image/png', data: 'AAAA' },
    } as const;
    const messages: ChatMessage[] = [
      {
        role: 'assistant',
        parts: [{ type: 'tool-call', id: 'a', name: 'f', kind: 'function', arguments: '{}' }],
      },
      { role: 'tool', parts: [{ type: 'tool-result', callId: 'a', kind: 'function', content: [image] }] },
    ];
    const inlineData = { mimeType: 'image/png', data: 'AAAA' };
    const functionCall = { id: 'a', name: 'f', args: {} };
    const response = { id: 'a', name: 'f', response: { output: '' } };
    const third = encode({ messages }, 'gemini-3-pro-preview');
    assert.deepEqual(third.body.contents, [
      { role: 'model', parts: [{ functionCall, thoughtSignature: 'skip_thought_signature_validator' }] },
      { role: 'user', parts: [{ functionResponse: { ...response, parts: [{ inlineData }] } }] },
    ]);
    assert.deepEqual(encode({ messages }).body.contents, [
      { role: 'model', parts: [{ functionCall }] },
      { role: 'user', parts: [{ functionResponse: response }, { inlineData }] },
    ]);
  });

  test('media: bytes inline, https and uploaded files by URI, the rest reported', () => {
    const { body, dropped } = encode({
      messages: [
        user(
          { type: 'image', source: { kind: 'url', url: 'https://example.org/a.png' }, detail: 'low' },
          { type: 'image', source: { kind: 'url', url: 'http://example.org/a.png' } },
          { type: 'audio', source: { kind: 'base64', mediaType: 'audio/wav', data: 'UklG' } },
          { type: 'file', source: { kind: 'text', text: 'ö' }, filename: 'o.txt' },
          { type: 'file', source: { kind: 'file-id', id: 'gs://b/v.mp4', dialect: 'google-gemini' } },
          { type: 'file', source: { kind: 'file-id', id: 'file-1', dialect: 'openai-chat' } },
        ),
      ],
    });
    assert.deepEqual((body.contents as [{ parts: unknown }])[0].parts, [
      { fileData: { mimeType: 'image/png', fileUri: 'https://example.org/a.png' } },
      { inlineData: { mimeType: 'audio/wav', data: 'UklG' } },
      { inlineData: { mimeType: 'text/plain', data: 'w7Y=' } },
      { fileData: { mimeType: 'video/mp4', fileUri: 'gs://b/v.mp4' } },
    ]);
    assert.deepEqual(dropped, [
      'messages[0].content[0].image_url.detail',
      'messages[0].content[1]',
      'messages[0].content[3].file.filename',
      'messages[0].content[5]',
    ]);
  });

  test('settings have their place; what has none is reported', () => {
    const { body, dropped } = encode({
      temperature: 0.5,
      topP: 0.9,
      topK: 20,
      n: 2,
      maxOutputTokens: 99,
      stop: ['END'],
      seed: 7,
      frequencyPenalty: 0.1,
      presencePenalty: 0.2,
      logprobs: true,
      topLogprobs: 3,
      modalities: ['text', 'audio'],
      audio: { voice: 'Kore', format: 'mp3' },
      logitBias: { 1: 2 },
      parallelToolCalls: false,
      user: 'u',
      metadata: { a: 'b' },
      serviceTier: 'flex',
      extras: {
        'google-gemini': { safetySettings: [], generationConfig: { mediaResolution: 'X', topK: 1 } },
        'openai-chat': { prediction: {} },
      },
    });
    assert.deepEqual(body.generationConfig, {
      temperature: 0.5,
      topP: 0.9,
      // The explicit wish of the extras wins.
      topK: 1,
      maxOutputTokens: 99,
      candidateCount: 2,
      stopSequences: ['END'],
      presencePenalty: 0.2,
      frequencyPenalty: 0.1,
      seed: 7,
      responseLogprobs: true,
      logprobs: 3,
      responseModalities: ['TEXT', 'AUDIO'],
      speechConfig: { voiceConfig: { prebuiltVoiceConfig: { voiceName: 'Kore' } } },
      mediaResolution: 'X',
    });
    assert.deepEqual(body.safetySettings, []);
    assert.deepEqual(dropped, [
      'audio.format',
      'logit_bias',
      'parallel_tool_calls',
      'user',
      'metadata',
      'service_tier',
      'prediction',
    ]);
    assert.deepEqual(encode({ seed: 2n ** 40n }).dropped, ['seed']);
  });

  test('tools and their choice', () => {
    const tool = { type: 'function', name: 'f', parameters: { type: 'object', properties: {} } } as const;
    const search = { type: 'provider', dialect: 'openai-chat', purpose: 'web-search', value: {} } as const;
    const computer = { ...search, purpose: 'computer' } as const;
    const own = { ...search, dialect: 'google-gemini', value: { googleMaps: {} } } as const;
    const { body, dropped, emulated } = encode({ tools: [tool, search, computer, own] });
    // An object without members is refused by the API; without parameters it means the same.
    assert.deepEqual(body.tools, [
      { functionDeclarations: [{ name: 'f' }] },
      { googleSearch: {} },
      { googleMaps: {} },
    ]);
    assert.deepEqual([dropped, emulated], [['tools[2]'], ['tools[1]']]);
    const config = (toolChoice: ChatRequest['toolChoice'], strict = false): unknown =>
      (
        encode({ tools: [{ ...tool, strict }], ...(toolChoice && { toolChoice }) }).body.toolConfig as
          { functionCallingConfig: unknown } | undefined
      )?.functionCallingConfig;
    assert.equal(config(undefined), undefined);
    assert.deepEqual(config(undefined, true), { mode: 'VALIDATED' });
    assert.deepEqual(config({ type: 'auto' }), { mode: 'AUTO' });
    assert.deepEqual(config({ type: 'none' }), { mode: 'NONE' });
    assert.deepEqual(config({ type: 'required' }), { mode: 'ANY' });
    assert.deepEqual(config({ type: 'tool', name: 'f', kind: 'function' }), {
      mode: 'ANY',
      allowedFunctionNames: ['f'],
    });
    assert.deepEqual(config({ type: 'allowed', mode: 'auto', names: ['f'] }), {
      mode: 'VALIDATED',
      allowedFunctionNames: ['f'],
    });
    assert.deepEqual(encode({ toolChoice: { type: 'required' } }).dropped, ['tool_choice']);
  });

  test('a response format is a media type and a schema in the subset', () => {
    const schema = { type: 'object', properties: { a: { type: ['string', 'null'] } }, required: ['a'] };
    assert.deepEqual(encode({ responseFormat: { type: 'json-schema', schema } }).body.generationConfig, {
      responseMimeType: 'application/json',
      responseSchema: {
        type: 'object',
        properties: { a: { type: 'string', nullable: true } },
        required: ['a'],
      },
    });
    assert.equal(encode({ responseFormat: { type: 'text' } }).body.generationConfig, undefined);
  });
});

describe('thinking', () => {
  const rows: readonly (readonly [string, NonNullable<ChatRequest['reasoning']>, object | undefined])[] = [
    ['gemini-2.5-flash', { effort: 'high' }, { thinkingBudget: 24_576, includeThoughts: true }],
    ['gemini-2.5-flash', { effort: 'none' }, { thinkingBudget: 0 }],
    ['gemini-2.5-pro', { enabled: false }, { thinkingBudget: 128 }],
    ['gemini-2.5-pro', { budgetTokens: 99_999 }, { thinkingBudget: 32_768, includeThoughts: true }],
    ['gemini-2.5-pro', { adaptive: true }, { thinkingBudget: -1, includeThoughts: true }],
    ['gemini-2.5-pro', { effort: 'low', summary: 'none' }, { thinkingBudget: 1024, includeThoughts: false }],
    ['gemini-3-flash', { effort: 'minimal' }, { thinkingLevel: 'minimal', includeThoughts: true }],
    ['gemini-3-flash', { effort: 'xhigh' }, { thinkingLevel: 'high', includeThoughts: true }],
    ['gemini-3.1-pro', { effort: 'none' }, { thinkingLevel: 'low' }],
    ['gemini-3-pro-preview', { effort: 'medium' }, { thinkingLevel: 'high', includeThoughts: true }],
    ['google.gemini-3-flash', { budgetTokens: 500 }, { thinkingLevel: 'low', includeThoughts: true }],
    ['gemini-2.0-flash', { effort: 'high' }, undefined],
  ];
  for (const [model, reasoning, expected] of rows)
    test(`${model} and ${JSON.stringify(reasoning)}`, () => {
      const config = encode({ reasoning }, model).body.generationConfig as
        { thinkingConfig?: unknown } | undefined;
      assert.deepEqual(config?.thinkingConfig, expected);
    });
});
