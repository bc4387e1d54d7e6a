import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { ChatRequest } from '../../../core/dialects/canonical/chat-request.ts';
import { geminiClient, googleGemini } from './index.ts';
import type { JsonObject } from '../json-reading.ts';

function decode(body: JsonObject): ChatRequest {
  return geminiClient.decodeRequest({
    body,
    model: 'river-1',
    stream: false,
    query: '',
    header: () => undefined,
  });
}

const contents = [{ role: 'user', parts: [{ text: 'Hi' }] }];

describe('request of a Gemini client', () => {
  test('calls without ids and their results find each other by name and order', () => {
    const call = (name: string, n: number): object => ({ functionCall: { name, args: { n } } });
    const result = (name: string, output: string): object => ({
      functionResponse: { name, response: { output } },
    });
    const { messages } = decode({
      contents: [
        { role: 'model', parts: [call('f', 1), call('g', 2), call('f', 3)] },
        {
          role: 'user',
          parts: [result('f', 'one'), result('f', 'three'), result('g', 'two'), { text: 'Go on.' }],
        },
        { role: 'model', parts: [call('f', 4)] },
        { role: 'function', parts: [{ functionResponse: { name: 'f', response: { error: 'no' } } }] },
      ],
    });
    const ids = messages.flatMap(({ parts }) =>
      parts.map((part) =>
        part.type === 'tool-call' ? part.id : part.type === 'tool-result' ? part.callId : part.type,
      ),
    );
    assert.deepEqual(ids, [
      'call_f_0',
      'call_g_0',
      'call_f_1',
      'call_f_0',
      'call_f_1',
      'call_g_0',
      'text',
      'call_f_2',
      'call_f_2',
    ]);
    assert.deepEqual(
      messages.map(({ role }) => role),
      ['assistant', 'tool', 'user', 'assistant', 'tool'],
    );
    const [last] = messages.at(-1)?.parts ?? [];
    assert.ok(last?.type === 'tool-result' && last.isError === true);
  });

  test('an answer that a client kept in the pieces of its stream is one message again', () => {
    const said = (...parts: object[]): object => ({ role: 'model', parts });
    const { messages } = decode({
      contents: [
        ...contents,
        said({ text: '3 × ', thought: true }),
        said({ text: '17', thought: true }),
        said({ text: '', thought: true, thoughtSignature: 'proof' }),
        said({ text: 'Fifty' }),
        said({ text: '-one' }),
        said({ functionCall: { id: 'c1', name: 'f', args: {} } }),
        said({ text: '' }),
        { role: 'user', parts: [{ text: 'And ' }, { text: 'now?' }] },
      ],
    });
    assert.deepEqual(messages.slice(1), [
      {
        role: 'assistant',
        parts: [
          { type: 'reasoning', text: '3 × 17', signature: 'proof' },
          { type: 'text', text: 'Fifty-one' },
          { type: 'tool-call', kind: 'function', id: 'c1', name: 'f', arguments: '{}' },
        ],
      },
      {
        role: 'user',
        parts: [
          { type: 'text', text: 'And ' },
          { type: 'text', text: 'now?' },
        ],
      },
    ]);
  });

  test('parts of every kind, in either spelling', () => {
    const { messages } = decode({
      system_instruction: { parts: [{ text: 'Be brief.' }] },
      contents: [
        {
          parts: [
            { text: 'Look:' },
            { inline_data: { mime_type: 'image/png', data: 'AAAA' } },
            { inlineData: { mimeType: 'audio/wav', data: 'UklG' } },
            { fileData: { fileUri: 'https://example.org/a.pdf', mimeType: 'application/pdf' } },
            { fileData: { fileUri: 'gs://b/c', mimeType: 'video/mp4' }, videoMetadata: { fps: 1 } },
          ],
        },
        {
          role: 'model',
          parts: [
            { text: 'Hm.', thought: true, thought_signature: 's' },
            { executableCode: { language: 'PYTHON', code: '1' } },
            { codeExecutionResult: { outcome: 'OUTCOME_OK', output: '1' } },
            { somethingNew: 1 },
          ],
        },
        { role: 'user', parts: [{ text: 'And?' }] },
      ],
    });
    assert.deepEqual(messages[0], { role: 'system', parts: [{ type: 'text', text: 'Be brief.' }] });
    assert.deepEqual(messages[1]?.parts, [
      { type: 'text', text: 'Look:' },
      { type: 'image', source: { kind: 'base64', mediaType: 'image/png', data: 'AAAA' } },
      { type: 'audio', source: { kind: 'base64', mediaType: 'audio/wav', data: 'UklG' } },
      {
        type: 'file',
        source: { kind: 'url', url: 'https://example.org/a.pdf' },
        mediaType: 'application/pdf',
      },
      {
        type: 'file',
        source: { kind: 'file-id', id: 'gs://b/c', dialect: 'google-gemini' },
        mediaType: 'video/mp4',
        extras: { 'google-gemini': { videoMetadata: { fps: 1 } } },
      },
    ]);
    const [thought, code, result, unknown] = messages[2]?.parts ?? [];
    assert.deepEqual(thought, { type: 'reasoning', text: 'Hm.', signature: 's' });
    assert.ok(code?.type === 'provider-tool' && code.phase === 'call' && code.name === 'code_execution');
    assert.ok(result?.type === 'provider-tool' && result.phase === 'result' && result.id === code.id);
    assert.deepEqual(unknown, { type: 'opaque', dialect: 'google-gemini', value: { somethingNew: 1 } });
  });

  test('tools and their use', () => {
    const request = decode({
      contents,
      tools: [
        {
          functionDeclarations: [
            {
              name: 'f',
              description: 'F.',
              parameters: { type: 'OBJECT', properties: { a: { type: 'STRING' } } },
            },
            { name: 'g', parametersJsonSchema: { type: 'object', $defs: {} }, behavior: 'BLOCKING' },
          ],
        },
        { google_search: {} },
        { codeExecution: {}, urlContext: {} },
      ],
      toolConfig: {
        functionCallingConfig: { mode: 'ANY', allowedFunctionNames: ['f'] },
        retrievalConfig: { languageCode: 'de' },
      },
    });
    assert.deepEqual(request.tools, [
      {
        type: 'function',
        name: 'f',
        description: 'F.',
        parameters: { type: 'object', properties: { a: { type: 'string' } } },
      },
      {
        type: 'function',
        name: 'g',
        parameters: { type: 'object', $defs: {} },
        extras: { 'google-gemini': { behavior: 'BLOCKING' } },
      },
      { type: 'provider', dialect: 'google-gemini', purpose: 'web-search', value: { googleSearch: {} } },
      { type: 'provider', dialect: 'google-gemini', purpose: 'code-execution', value: { codeExecution: {} } },
      { type: 'provider', dialect: 'google-gemini', purpose: 'web-fetch', value: { urlContext: {} } },
    ]);
    assert.deepEqual(request.toolChoice, { type: 'tool', name: 'f', kind: 'function' });
    assert.deepEqual(request.extras, {
      'google-gemini': { toolConfig: { retrievalConfig: { languageCode: 'de' } } },
    });
  });

  test('every setting is read, what only this wire knows is kept', () => {
    const request = decode({
      contents,
      generationConfig: {
        temperature: 1,
        topP: 0.5,
        topK: 3,
        candidateCount: 2,
        maxOutputTokens: 9,
        stopSequences: ['x'],
        seed: 4,
        presencePenalty: 1,
        frequencyPenalty: 2,
        responseMimeType: 'application/json',
        responseSchema: { type: 'STRING' },
        responseLogprobs: true,
        logprobs: 5,
        responseModalities: ['TEXT'],
        thinkingConfig: { thinkingBudget: 10, includeThoughts: true },
        speechConfig: { voiceConfig: { prebuiltVoiceConfig: { voiceName: 'Kore' } } },
        mediaResolution: 'MEDIA_RESOLUTION_LOW',
      },
      safetySettings: [{ category: 'C', threshold: 'T' }],
      cachedContent: 'cachedContents/1',
      labels: { team: 'north' },
      provider_options: { 'openai-chat': { prediction: 1 }, nobody: { x: 1 } },
    });
    const { messages, tools, extras, ...settings } = request;
    assert.deepEqual([messages.length, tools.length], [1, 0]);
    assert.deepEqual(settings, {
      model: 'river-1',
      stream: false,
      temperature: 1,
      topP: 0.5,
      topK: 3,
      n: 2,
      maxOutputTokens: 9,
      stop: ['x'],
      seed: 4,
      presencePenalty: 1,
      frequencyPenalty: 2,
      responseFormat: { type: 'json-schema', schema: { type: 'string' } },
      logprobs: true,
      topLogprobs: 5,
      modalities: ['text'],
      reasoning: { budgetTokens: 10, summary: 'auto' },
      audio: { voice: 'Kore' },
    });
    assert.deepEqual(extras, {
      'google-gemini': {
        safetySettings: [{ category: 'C', threshold: 'T' }],
        cachedContent: 'cachedContents/1',
        labels: { team: 'north' },
        generationConfig: { mediaResolution: 'MEDIA_RESOLUTION_LOW' },
      },
      'openai-chat': { prediction: 1 },
    });
  });

  const unreadable: readonly (readonly [JsonObject, string])[] = [
    [{}, 'contents'],
    [{ contents: [] }, 'contents'],
    [{ contents: [7] }, 'contents[0]'],
    [{ contents: [{ role: 'user', parts: [null] }] }, 'contents[0].parts[0]'],
    [{ contents, generationConfig: { temperature: 'hot' } }, 'generationConfig.temperature'],
  ];
  for (const [body, param] of unreadable)
    test(`what cannot be read names ${param}`, () =>
      assert.throws(() => decode(body), { code: 'invalid_request', param }));

  const paths: readonly (readonly [string, string, boolean])[] = [
    ['/v1beta/models/gemini-2.5-pro:streamGenerateContent', 'gemini-2.5-pro', true],
    ['/models/gemini-2.5-pro:generateContent', 'gemini-2.5-pro', false],
    ['/v1/models/gemini-2.5-pro:generateContent', 'gemini-2.5-pro', false],
    ['/v1alpha/tunedModels/t:generateContent', 'tunedModels/t', false],
    ['/v1beta/models/%40north%2Fgemini:generateContent', '@north/gemini', false],
    [
      '/proxy/v1beta1/projects/p/locations/l/publishers/google/models/m:streamGenerateContent',
      'projects/p/locations/l/publishers/google/models/m',
      true,
    ],
    ['/v1beta/files/x', '', false],
  ];
  for (const [path, model, stream] of paths)
    test(`${path} names ${model === '' ? 'no model' : model}`, () =>
      assert.deepEqual(googleGemini.readCall?.(path), { model, stream }));
});
