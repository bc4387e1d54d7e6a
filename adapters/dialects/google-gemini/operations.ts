import type { EncodedRequest, EncodeReport } from '../../../core/dialects/canonical/chat-codec.ts';
import type { HostFacts } from '../../../core/dialects/host-facts.ts';
import type { OperationAnswer, OperationCodec } from '../../../core/dialects/upstream-plan.ts';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import {
  asArray,
  asCount,
  asObject,
  asText,
  type JsonObject,
  parseObject,
  stringifyExact,
} from '../json-reading.ts';
import type { ModelPathOf } from './encode-request.ts';
import { geminiErrors } from './errors.ts';
import { geminiMembers } from './parts.ts';
import { geminiUsage } from './answer.ts';
import { bodyIssues } from '../request-members.ts';
import { embeddingsAnswer } from '../host-endpoints.ts';
import { geminiPath } from './model-path.ts';

/** Operations besides chat, also for the hosts of Vertex. */
export const geminiOperations = {
  embeddings: createGeminiEmbeddings,
  speech: createGeminiSpeech,
  images: createGeminiImages,
  textsOf,
  reportUnknown,
  requireAnswer,
};

/** Upper bound of texts in one request, the same as OpenAI's. */
const maxTexts = 2048;

/** Embeddings through `:batchEmbedContents`, which accepts one text or many. */
function createGeminiEmbeddings(pathOf: ModelPathOf): OperationCodec {
  return {
    encodeRequest(body, host, report) {
      const requests = textsOf(body.input).map((text) => embedRequest(body, host, text));
      reportUnknown(body, ['model', 'input', 'dimensions', 'encoding_format'], report);
      return { path: pathOf(host, 'batchEmbedContents'), body: stringifyExact({ requests }) };
    },
    decodeAnswer: decodeVectors,
    decodeError: geminiErrors.decode,
  };
}

function embedRequest(body: JsonObject, { model }: HostFacts, text: string): JsonObject {
  const request: JsonObject = { model: geminiPath.resource(model), content: { parts: [{ text }] } };
  if (body.dimensions !== undefined) request.outputDimensionality = body.dimensions;
  return Object.assign(request, asObject(asObject(body.provider_options)?.['google-gemini']));
}

/**
 * The texts of `input`. Throws `invalid_request` for token numbers: they have a meaning only for their own tokenizer.
 */
function textsOf(input: unknown): readonly string[] {
  const list = typeof input === 'string' ? [input] : asArray(input);
  const texts = list.filter((text) => typeof text === 'string');
  if (texts.length === 0 || texts.length < list.length)
    throw new GatewayError(
      'invalid_request',
      `input must be a string or an array of strings for this provider; found ${bodyIssues.describe(input)}.`,
      { param: 'input' },
    );
  if (texts.length > maxTexts)
    throw new GatewayError(
      'invalid_request',
      `input must hold at most ${maxTexts} texts; found ${texts.length}.`,
      {
        param: 'input',
      },
    );
  return texts;
}

function decodeVectors(body: Buffer, _contentType: string, request: JsonObject): OperationAnswer {
  const answer = requireAnswer(body);
  const embeddings = asArray(answer.embeddings).map((one) => asArray(asObject(one)?.values));
  const tokens = asCount(asObject(answer.usageMetadata)?.promptTokenCount);
  return embeddingsAnswer(embeddings, request, tokens);
}

/** Sample rate of answers that name none (ai.google.dev/gemini-api/docs/speech-generation). */
const defaultRate = 24_000;

/**
 * Speech in OpenAI's shape from speech models. They answer raw samples: `pcm` returns these, other formats become WAV.
 */
function createGeminiSpeech(pathOf: ModelPathOf): OperationCodec {
  return {
    encodeRequest(body, host, report) {
      reportUnknown(body, ['model', 'input', 'voice', 'response_format', 'instructions'], report);
      const format = asText(body.response_format);
      if (format !== 'pcm' && format !== 'wav') report.emulate('response_format');
      const instructions = asText(body.instructions);
      if (instructions !== undefined) report.emulate('instructions');
      const input = requireText(body, 'input');
      const text = instructions === undefined ? input : `${instructions}\n\n${input}`;
      const prebuiltVoiceConfig = { voiceName: requireText(body, 'voice') };
      const generationConfig: JsonObject = {
        responseModalities: ['AUDIO'],
        speechConfig: { voiceConfig: { prebuiltVoiceConfig } },
      };
      Object.assign(generationConfig, asObject(asObject(body.provider_options)?.['google-gemini']));
      const contents = [{ role: 'user', parts: [{ text }] }];
      return { path: pathOf(host, 'generateContent'), body: stringifyExact({ contents, generationConfig }) };
    },
    decodeAnswer: decodeSpeech,
    decodeError: geminiErrors.decode,
  };
}

function decodeSpeech(body: Buffer, _contentType: string, request: JsonObject): OperationAnswer {
  const answer = requireAnswer(body);
  const blobs = asArray(asObject(asObject(asArray(answer.candidates)[0])?.content)?.parts).flatMap((part) => {
    const blob = geminiMembers.object(asObject(part) ?? {}, 'inlineData');
    return blob === undefined ? [] : [blob];
  });
  const [first] = blobs;
  if (first === undefined)
    throw new GatewayError('upstream_invalid', 'The provider answered without a recording.', {
      source: 'provider',
    });
  const samples = Buffer.concat(blobs.map(({ data }) => Buffer.from(asText(data) ?? '', 'base64')));
  const spoken = spokenAnswer(samples, asText(geminiMembers.of(first, 'mimeType')) ?? '', request);
  const usage = geminiUsage.decode(geminiMembers.of(answer, 'usageMetadata'));
  const model = asText(geminiMembers.of(answer, 'modelVersion')) ?? asText(request.model) ?? '';
  return usage === undefined ? { ...spoken, model } : { ...spoken, model, usage };
}

function spokenAnswer(samples: Buffer, mediaType: string, request: JsonObject): OperationAnswer {
  if (!/^audio\/(?:l16|pcm|raw)/i.test(mediaType)) return { body: samples, contentType: mediaType };
  if (request.response_format === 'pcm') return { body: samples, contentType: 'audio/pcm' };
  const rate = Number(/rate=(\d+)/i.exec(mediaType)?.[1] ?? defaultRate);
  return { body: wavOfSamples(samples, rate), contentType: 'audio/wav' };
}

/** Bytes of the header. */
const headerBytes = 44;

/** Bytes of a frame: one channel of 16 bits. */
const frameBytes = 2;

/** Raw samples (one channel, 16 bit, little-endian) as a WAV file. `rate` in samples per second. */
function wavOfSamples(samples: Uint8Array, rate: number): Buffer {
  const header = Buffer.alloc(headerBytes);
  header.write('RIFF', 0, 'latin1');
  header.writeUInt32LE(headerBytes - 8 + samples.length, 4);
  header.write('WAVEfmt ', 8, 'latin1');
  header.writeUInt32LE(16, 16);
  // 1 is uncompressed.
  header.writeUInt16LE(1, 20);
  header.writeUInt16LE(1, 22);
  header.writeUInt32LE(rate, 24);
  header.writeUInt32LE(rate * frameBytes, 28);
  header.writeUInt16LE(frameBytes, 32);
  header.writeUInt16LE(16, 34);
  header.write('data', 36, 'latin1');
  header.writeUInt32LE(samples.length, 40);
  return Buffer.concat([header, samples]);
}

/** Aspect ratios that both kinds of models support, by width over height. */
const ratios: readonly (readonly [string, number])[] = [
  ['1:1', 1],
  ['4:3', 4 / 3],
  ['3:4', 3 / 4],
  ['16:9', 16 / 9],
  ['9:16', 9 / 16],
];

const known = ['model', 'prompt', 'n', 'size', 'response_format', 'output_format'];

/** Images in OpenAI's shape from Imagen models (`:predict`) and from Gemini image models (`:generateContent`). */
function createGeminiImages(pathOf: ModelPathOf): OperationCodec {
  return {
    encodeRequest(body, host, report) {
      reportUnknown(body, known, report);
      // The bytes come in the answer; neither kind of model stores them on a server.
      if (body.response_format === 'url') report.emulate('response_format');
      return host.model.includes('imagen')
        ? encodeImagen(body, host, report, pathOf)
        : encodeDrawing(body, host, report, pathOf);
    },
    decodeAnswer: decodeImages,
    decodeError: geminiErrors.decode,
  };
}

function encodeImagen(
  body: JsonObject,
  host: HostFacts,
  report: EncodeReport,
  pathOf: ModelPathOf,
): EncodedRequest {
  const parameters: JsonObject = { sampleCount: typeof body.n === 'number' ? body.n : 1 };
  const aspectRatio = aspectRatioOf(body.size, report);
  if (aspectRatio !== undefined) parameters.aspectRatio = aspectRatio;
  const format = asText(body.output_format);
  if (format === 'png' || format === 'jpeg') parameters.outputOptions = { mimeType: `image/${format}` };
  else if (format !== undefined) report.drop('output_format');
  Object.assign(parameters, ownOptions(body));
  const instances = [{ prompt: requireText(body, 'prompt') }];
  return { path: pathOf(host, 'predict'), body: stringifyExact({ instances, parameters }) };
}

function encodeDrawing(
  body: JsonObject,
  host: HostFacts,
  report: EncodeReport,
  pathOf: ModelPathOf,
): EncodedRequest {
  if (typeof body.n === 'number' && body.n > 1) report.drop('n');
  if (body.output_format !== undefined) report.drop('output_format');
  const generationConfig: JsonObject = { responseModalities: ['TEXT', 'IMAGE'] };
  const aspectRatio = aspectRatioOf(body.size, report);
  if (aspectRatio !== undefined) generationConfig.imageConfig = { aspectRatio };
  Object.assign(generationConfig, ownOptions(body));
  const contents = [{ role: 'user', parts: [{ text: requireText(body, 'prompt') }] }];
  return { path: pathOf(host, 'generateContent'), body: stringifyExact({ contents, generationConfig }) };
}

function ownOptions(body: JsonObject): JsonObject | undefined {
  const options = asObject(body.provider_options);
  return asObject(options?.['google-gemini']) ?? asObject(options?.['google-vertex']);
}

/** The aspect ratio nearest to a size (`1536x1024`); the model decides the number of pixels. */
function aspectRatioOf(size: unknown, report: EncodeReport): string | undefined {
  if (size === undefined || size === null || size === 'auto') return undefined;
  const [, width, height] = /^(\d+)\s*[x:]\s*(\d+)$/.exec(asText(size) ?? '') ?? [];
  const ratio = Number(width) / Number(height);
  if (!Number.isFinite(ratio) || ratio <= 0) {
    report.drop('size');
    return undefined;
  }
  report.emulate('size');
  const distance = (other: number): number => Math.abs(Math.log(ratio / other));
  const [first, ...others] = ratios as [readonly [string, number], ...(readonly [string, number])[]];
  return others.reduce((best, one) => (distance(one[1]) < distance(best[1]) ? one : best), first)[0];
}

function decodeImages(body: Buffer, _contentType: string, request: JsonObject): OperationAnswer {
  const answer = requireAnswer(body);
  const model = asText(geminiMembers.of(answer, 'modelVersion')) ?? asText(request.model) ?? '';
  const data = 'predictions' in answer ? predictedImages(answer) : generatedImages(answer);
  if (data.length === 0)
    throw new GatewayError('upstream_invalid', `The provider made no image. ${refusal(answer)}`.trim(), {
      source: 'provider',
    });
  const usage = geminiUsage.decode(geminiMembers.of(answer, 'usageMetadata'));
  return usage === undefined ? { body: { data }, model } : { body: { data }, model, usage };
}

function predictedImages(answer: JsonObject): JsonObject[] {
  return asArray(answer.predictions).flatMap((value) => {
    const prediction = asObject(value);
    const bytes = asText(prediction?.bytesBase64Encoded);
    if (bytes === undefined) return [];
    const prompt = asText(prediction?.prompt);
    return [prompt === undefined ? { b64_json: bytes } : { b64_json: bytes, revised_prompt: prompt }];
  });
}

function generatedImages(answer: JsonObject): JsonObject[] {
  return partsOf(answer).flatMap((part) => {
    const blob = geminiMembers.object(part, 'inlineData');
    const bytes = blob === undefined || part.thought === true ? undefined : asText(blob.data);
    return bytes === undefined ? [] : [{ b64_json: bytes }];
  });
}

/** The host's reason for an answer without an image, or the model's own text. */
function refusal(answer: JsonObject): string {
  const reason = asArray(answer.predictions).map((one) => asText(asObject(one)?.raiFilteredReason));
  const blocked = asText(
    geminiMembers.of(geminiMembers.object(answer, 'promptFeedback') ?? {}, 'blockReason'),
  );
  const text = partsOf(answer).map((part) => asText(part.text));
  return [...reason, blocked, ...text].find((one) => one !== undefined) ?? '';
}

function partsOf(answer: JsonObject): JsonObject[] {
  return asArray(answer.candidates).flatMap((candidate) =>
    asArray(asObject(asObject(candidate)?.content)?.parts).flatMap((part) => {
      const object = asObject(part);
      return object === undefined ? [] : [object];
    }),
  );
}

/** Reports every member of an operation's body that is not sent to the host. */
function reportUnknown(body: JsonObject, known: readonly string[], report: EncodeReport): void {
  for (const [name, value] of Object.entries(body))
    if (value !== undefined && value !== null && name !== 'provider_options' && !known.includes(name))
      report.drop(name);
}

/** The text of a required member. Throws `invalid_request`. */
function requireText(body: JsonObject, name: string): string {
  const text = asText(body[name]);
  if (text !== undefined) return text;
  throw new GatewayError(
    'invalid_request',
    `${name} must be a string that is not empty; found ${bodyIssues.describe(body[name])}.`,
    { param: name },
  );
}

/** The JSON object of a host's answer. Throws `upstream_invalid` for anything else and for an error. */
function requireAnswer(body: Buffer): JsonObject {
  const answer = parseObject(body.toString('utf8'));
  const error = geminiErrors.read(answer);
  if (answer !== undefined && error === undefined) return answer;
  const message = error?.message ?? 'The provider answered with something that is no JSON object.';
  throw new GatewayError('upstream_invalid', message, { source: 'provider' });
}
