import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { EncodeReport } from '../../../core/dialects/canonical/chat-codec.ts';
import type {
  OperationCodec,
  UpstreamCallFacts,
  UpstreamPlan,
} from '../../../core/dialects/upstream-plan.ts';
import { hostFacts } from './gemini-wire.test-support.ts';
import { geminiProvider, googleGeminiHost } from './index.ts';
import type { JsonObject } from '../json-reading.ts';

function plan(facts: Partial<UpstreamCallFacts>, model = 'gemini-2.5-flash'): UpstreamPlan {
  return googleGeminiHost.plan({
    endpoint: 'chat.completions',
    spoken: 'openai-chat',
    method: 'POST',
    path: '/chat/completions',
    query: '',
    stream: false,
    host: hostFacts(model),
    ...facts,
  });
}

function operation(endpoint: UpstreamCallFacts['endpoint']): OperationCodec {
  const found = plan({ endpoint });
  assert.ok(found.kind === 'operation');
  return found.codec;
}

function asked(
  codec: OperationCodec,
  model: string,
  body: JsonObject,
): { path: string; body: unknown; dropped: readonly string[]; emulated: readonly string[] } {
  const report = new EncodeReport();
  const encoded = codec.encodeRequest({ model, ...body }, hostFacts(model), report);
  return { path: encoded.path, body: JSON.parse(encoded.body.toString()), ...report };
}

const answered = (codec: OperationCodec, answer: object, request: JsonObject = {}): { body: unknown } =>
  codec.decodeAnswer(Buffer.from(JSON.stringify(answer)), 'application/json', request);

describe('host', () => {
  test('every chat endpoint of another wire is translated', () => {
    for (const endpoint of ['chat.completions', 'completions', 'responses', 'messages'] as const)
      assert.deepEqual(plan({ endpoint }), { kind: 'chat', codec: geminiProvider });
  });

  const passed: readonly (readonly [Partial<UpstreamCallFacts>, string])[] = [
    [
      {
        endpoint: 'generate-content',
        path: '/models/alias:streamGenerateContent',
        query: '?alt=sse&key=caller',
      },
      '/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse',
    ],
    [
      { endpoint: 'proxy', path: '/v1/models/x:countTokens', query: '?key=caller' },
      '/v1beta/models/x:countTokens',
    ],
    [{ endpoint: 'proxy', path: '/v1beta/files', query: '' }, '/v1beta/files'],
  ];
  for (const [facts, path] of passed)
    test(`${facts.path} passes as ${path}`, () =>
      assert.deepEqual(plan({ spoken: 'google-gemini', ...facts }), { kind: 'pass', path }));

  test('the list of models passes; what the API lacks is refused', () => {
    assert.deepEqual(plan({ endpoint: 'models', path: '/models', method: 'GET' }), {
      kind: 'pass',
      path: '/v1beta/models',
    });
    for (const endpoint of ['rerank', 'moderations'] as const)
      assert.equal(plan({ endpoint }).kind, 'refuse');
  });
});

describe('operations', () => {
  test('embeddings', () => {
    const codec = operation('embeddings');
    const input = ['a', 'b'];
    const { path, body, dropped } = asked(codec, 'gemini-embedding-001', { input, dimensions: 8, user: 'u' });
    assert.equal(path, '/v1beta/models/gemini-embedding-001:batchEmbedContents');
    const request = (text: string): object => ({
      model: 'models/gemini-embedding-001',
      content: { parts: [{ text }] },
      outputDimensionality: 8,
    });
    assert.deepEqual(body, { requests: [request('a'), request('b')] });
    assert.deepEqual(dropped, ['user']);
    assert.deepEqual(answered(codec, { embeddings: [{ values: [0.5, 1] }] }, { model: 'm' }), {
      body: {
        object: 'list',
        data: [{ object: 'embedding', index: 0, embedding: [0.5, 1] }],
        model: 'm',
        usage: { prompt_tokens: 0, total_tokens: 0 },
      },
      model: 'm',
    });
    assert.throws(() => asked(codec, 'm', { input: [1, 2] }), { code: 'invalid_request', param: 'input' });
  });

  test('images of Imagen and of Gemini', () => {
    const codec = operation('images.generations');
    const wish = { prompt: 'A weir', n: 2, size: '1792x1024', quality: 'hd', response_format: 'url' };
    const imagen = asked(codec, 'imagen-4.0', wish);
    assert.equal(imagen.path, '/v1beta/models/imagen-4.0:predict');
    assert.deepEqual(imagen.body, {
      instances: [{ prompt: 'A weir' }],
      parameters: { sampleCount: 2, aspectRatio: '16:9' },
    });
    assert.deepEqual([imagen.dropped, imagen.emulated], [['quality'], ['response_format', 'size']]);
    const predictions = [{ bytesBase64Encoded: 'AAAA', prompt: 'A big weir' }];
    assert.deepEqual(answered(codec, { predictions }).body, {
      data: [{ b64_json: 'AAAA', revised_prompt: 'A big weir' }],
    });
    const drawn = asked(codec, 'gemini-2.5-flash-image', wish);
    assert.deepEqual(drawn.body, {
      contents: [{ role: 'user', parts: [{ text: 'A weir' }] }],
      generationConfig: { responseModalities: ['TEXT', 'IMAGE'], imageConfig: { aspectRatio: '16:9' } },
    });
    assert.deepEqual(drawn.dropped, ['quality', 'n']);
    const parts = [{ text: 'Here.' }, { inlineData: { mimeType: 'image/png', data: 'BBBB' } }];
    assert.deepEqual(answered(codec, { candidates: [{ content: { parts } }] }).body, {
      data: [{ b64_json: 'BBBB' }],
    });
    assert.throws(() => answered(codec, { candidates: [{ content: { parts: [{ text: 'I may not.' }] } }] }), {
      code: 'upstream_invalid',
      message: /I may not/,
    });
  });

  test('speech: samples as they are, or as a WAV file', () => {
    const codec = operation('audio.speech');
    const wish = { input: 'Hello', voice: 'Kore', instructions: 'Softly.' };
    const { body, emulated } = asked(codec, 'gemini-2.5-flash-preview-tts', wish);
    assert.deepEqual(body, {
      contents: [{ role: 'user', parts: [{ text: 'Softly.\n\nHello' }] }],
      generationConfig: {
        responseModalities: ['AUDIO'],
        speechConfig: { voiceConfig: { prebuiltVoiceConfig: { voiceName: 'Kore' } } },
      },
    });
    assert.deepEqual(emulated, ['response_format', 'instructions']);
    const samples = Buffer.from([1, 2, 3, 4]);
    const inlineData = { mimeType: 'audio/L16;codec=pcm;rate=16000', data: samples.toString('base64') };
    const answer = { candidates: [{ content: { parts: [{ inlineData }] } }] };
    const spoken = (response_format: string): { body: unknown; contentType?: string } =>
      answered(codec, answer, { response_format });
    assert.deepEqual(spoken('pcm').body, samples);
    assert.equal(spoken('pcm').contentType, 'audio/pcm');
    const wav = spoken('mp3').body;
    assert.ok(Buffer.isBuffer(wav));
    assert.equal(wav.toString('latin1', 0, 4) + wav.toString('latin1', 8, 12), 'RIFFWAVE');
    assert.deepEqual([wav.readUInt32LE(4), wav.readUInt32LE(24), wav.readUInt32LE(40)], [40, 16_000, 4]);
    assert.deepEqual(wav.subarray(44), samples);
  });
});
