import type { ChatRequest, ResponseFormat } from '../../../core/dialects/canonical/chat-request.ts';
import type { JsonObject } from '../../../core/dialects/canonical/chat-part.ts';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import { asArray, asText } from '../json-reading.ts';
import { describeValue } from '../request-issue.ts';
import { toJsonSchema } from './json-schema.ts';
import { knownMembers, member, memberObject, otherMembers } from './member.ts';
import { decodeThinking } from './thinking.ts';

/** The canonical members that `generationConfig` fills in, while they are written. */
type Draft = { -readonly [name in keyof ChatRequest]?: ChatRequest[name] };

const numbers = {
  temperature: 'temperature',
  topP: 'topP',
  topK: 'topK',
  candidateCount: 'n',
  maxOutputTokens: 'maxOutputTokens',
  presencePenalty: 'presencePenalty',
  frequencyPenalty: 'frequencyPenalty',
  logprobs: 'topLogprobs',
} as const;

const known = knownMembers([
  ...Object.keys(numbers),
  'seed',
  'stopSequences',
  'responseLogprobs',
  'responseModalities',
  'responseMimeType',
  'responseSchema',
  'responseJsonSchema',
  'thinkingConfig',
  'speechConfig',
]);

/** Reads `generationConfig` into `draft`; returns the members that only this wire knows. */
export function decodeGenerationConfig(config: JsonObject, draft: Draft): JsonObject | undefined {
  for (const [name, target] of Object.entries(numbers) as [
    keyof typeof numbers,
    (typeof numbers)[keyof typeof numbers],
  ][]) {
    const value = member(config, name);
    if (value === undefined || value === null) continue;
    if (typeof value !== 'number')
      throw new GatewayError(
        'invalid_request',
        `generationConfig.${name} must be a number; found ${describeValue(value)}.`,
        { param: `generationConfig.${name}` },
      );
    draft[target] = value;
  }
  const { seed } = config;
  if (typeof seed === 'number' || typeof seed === 'bigint') draft.seed = seed;
  const stop = member(config, 'stopSequences');
  if (Array.isArray(stop)) draft.stop = stop.filter((one) => typeof one === 'string');
  const logprobs = member(config, 'responseLogprobs');
  if (typeof logprobs === 'boolean') draft.logprobs = logprobs;
  const modalities = asArray(member(config, 'responseModalities')).flatMap((one) => asText(one) ?? []);
  if (modalities.length > 0) draft.modalities = modalities.map((modality) => modality.toLowerCase());
  const format = decodeResponseFormat(config);
  if (format !== undefined) draft.responseFormat = format;
  const thinking = memberObject(config, 'thinkingConfig');
  const reasoning = thinking === undefined ? undefined : decodeThinking(thinking);
  if (reasoning !== undefined) draft.reasoning = reasoning;
  return decodeSpeech(config, draft, otherMembers(config, known));
}

function decodeResponseFormat(config: JsonObject): ResponseFormat | undefined {
  const type = asText(member(config, 'responseMimeType'));
  const jsonSchema = memberObject(config, 'responseJsonSchema');
  const schema = memberObject(config, 'responseSchema');
  if (jsonSchema !== undefined) return { type: 'json-schema', schema: jsonSchema };
  if (schema !== undefined) return { type: 'json-schema', schema: toJsonSchema(schema) };
  if (type === 'application/json') return { type: 'json' };
  return type === 'text/plain' ? { type: 'text' } : undefined;
}

/** One voice is the canonical voice; a `speechConfig` that says more travels as it is. */
function decodeSpeech(
  config: JsonObject,
  draft: Draft,
  others: JsonObject | undefined,
): JsonObject | undefined {
  const speech = memberObject(config, 'speechConfig');
  if (speech === undefined) return others;
  const voiceConfig = memberObject(speech, 'voiceConfig') ?? {};
  const voice = asText(member(memberObject(voiceConfig, 'prebuiltVoiceConfig') ?? {}, 'voiceName'));
  if (voice !== undefined) draft.audio = { voice };
  const isPlain =
    voice !== undefined && Object.keys(speech).length === 1 && Object.keys(voiceConfig).length === 1;
  return isPlain ? others : { ...others, speechConfig: speech };
}
