import type { ChatRequest, ResponseFormat } from '../../../core/dialects/canonical/chat-request.ts';
import type { JsonObject } from '../../../core/dialects/canonical/chat-part.ts';
import type { EncodeReport } from '../../../core/dialects/canonical/encode-report.ts';
import { asText } from '../json-reading.ts';
import { toGeminiSchema } from './gemini-schema.ts';
import { encodeThinking } from './thinking.ts';

/** `seed` is a 32-bit number in this wire. */
const maxSeed = 2_147_483_647;

/** `generationConfig`; empty when nothing was asked for. */
export function encodeGenerationConfig(
  request: ChatRequest,
  model: string,
  report: EncodeReport,
): JsonObject {
  const config: JsonObject = {};
  const say = (name: string, value: unknown): void => {
    if (value !== undefined) config[name] = value;
  };
  say('temperature', request.temperature);
  say('topP', request.topP);
  say('topK', request.topK);
  say('maxOutputTokens', request.maxOutputTokens);
  say('candidateCount', request.n);
  say('stopSequences', request.stop);
  say('presencePenalty', request.presencePenalty);
  say('frequencyPenalty', request.frequencyPenalty);
  say('seed', encodeSeed(request.seed, report));
  say('responseLogprobs', request.logprobs);
  // Without `responseLogprobs` the number is refused.
  if (request.logprobs === true) say('logprobs', request.topLogprobs);
  say(
    'responseModalities',
    request.modalities?.map((modality) => modality.toUpperCase()),
  );
  say('speechConfig', encodeSpeech(request.audio, report));
  say('thinkingConfig', encodeThinking(request.reasoning, model, report));
  encodeResponseFormat(config, request.responseFormat, report);
  return config;
}

function encodeSeed(seed: number | bigint | undefined, report: EncodeReport): number | undefined {
  if (seed === undefined) return undefined;
  if (seed >= -maxSeed - 1 && seed <= maxSeed) return Number(seed);
  report.drop('seed');
  return undefined;
}

/** OpenAI's `audio` object. Its voice is passed as it is: the names are the host's. */
function encodeSpeech(audio: JsonObject | undefined, report: EncodeReport): JsonObject | undefined {
  if (audio === undefined) return undefined;
  // The answer is always raw samples.
  if (audio.format !== undefined && audio.format !== 'pcm16') report.drop('audio.format');
  const voiceName = asText(audio.voice);
  return voiceName === undefined ? undefined : { voiceConfig: { prebuiltVoiceConfig: { voiceName } } };
}

function encodeResponseFormat(
  config: JsonObject,
  format: ResponseFormat | undefined,
  report: EncodeReport,
): void {
  if (format === undefined || format.type === 'text') return;
  config.responseMimeType = 'application/json';
  if (format.type !== 'json-schema') return;
  const schema = toGeminiSchema(format.schema, 'response_format.json_schema.schema', report);
  if (format.description !== undefined) {
    if (schema.description === undefined && schema.anyOf === undefined)
      schema.description = format.description;
    else report.drop('response_format.json_schema.description');
  }
  config.responseSchema = schema;
}
