import type { JsonObject } from '../../../core/dialects/canonical/chat-part.ts';
import type { OperationAnswer, OperationCodec } from '../../../core/dialects/upstream-plan.ts';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import { stringifyExact } from '../exact-json.ts';
import { asArray, asObject, asText } from '../json-reading.ts';
import type { ModelPathOf } from './encode-request.ts';
import { decodeGeminiError } from './error-shape.ts';
import { member, memberObject } from './member.ts';
import { reportUnknown, requireAnswer, requireText } from './operation-body.ts';
import { decodeGeminiUsage } from './usage.ts';
import { wavOfSamples } from './wav.ts';

/** What the models speak when their answer names no rate (ai.google.dev/gemini-api/docs/speech-generation). */
const defaultRate = 24_000;

/** Speech in OpenAI's shape from the models that speak. They answer raw samples: `pcm` is these, all else becomes WAV. */
export function createGeminiSpeech(pathOf: ModelPathOf): OperationCodec {
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
    decodeAnswer,
    decodeError: decodeGeminiError,
  };
}

function decodeAnswer(body: Buffer, _contentType: string, request: JsonObject): OperationAnswer {
  const answer = requireAnswer(body);
  const blobs = asArray(asObject(asObject(asArray(answer.candidates)[0])?.content)?.parts).flatMap((part) => {
    const blob = memberObject(asObject(part) ?? {}, 'inlineData');
    return blob === undefined ? [] : [blob];
  });
  const [first] = blobs;
  if (first === undefined)
    throw new GatewayError('upstream_invalid', 'The provider answered without a recording.', {
      source: 'provider',
    });
  const samples = Buffer.concat(blobs.map(({ data }) => Buffer.from(asText(data) ?? '', 'base64')));
  const spoken = spokenAnswer(samples, asText(member(first, 'mimeType')) ?? '', request);
  const usage = decodeGeminiUsage(member(answer, 'usageMetadata'));
  const model = asText(member(answer, 'modelVersion')) ?? asText(request.model) ?? '';
  return usage === undefined ? { ...spoken, model } : { ...spoken, model, usage };
}

function spokenAnswer(samples: Buffer, mediaType: string, request: JsonObject): OperationAnswer {
  if (!/^audio\/(?:l16|pcm|raw)/i.test(mediaType)) return { body: samples, contentType: mediaType };
  if (request.response_format === 'pcm') return { body: samples, contentType: 'audio/pcm' };
  const rate = Number(/rate=(\d+)/i.exec(mediaType)?.[1] ?? defaultRate);
  return { body: wavOfSamples(samples, rate), contentType: 'audio/wav' };
}
