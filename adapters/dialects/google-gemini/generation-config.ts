import type {
  ChatRequest,
  ReasoningSettings,
  ResponseFormat,
} from '../../../core/dialects/canonical/chat-request.ts';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import { asArray, asText, type JsonObject } from '../json-reading.ts';
import { bodyIssues } from '../request-members.ts';
import { schemas } from './schema.ts';
import { geminiMembers } from './parts.ts';
import type { EncodeReport } from '../../../core/dialects/canonical/chat-codec.ts';
import { reasoningEffort } from '../request-settings.ts';

/** The settings of an answer, to and from the wire. */
export const answerSettings = { encode: encodeGenerationConfig, decode: decodeGenerationConfig };

type Mutable<T> = { -readonly [member in keyof T]: T[member] };

/** Models that accept no `thinkingConfig`. */
const thoughtless = /gemini-(?:1|2\.0)/;
/** Models that use a thinking budget; all later ones use a level (ai.google.dev/gemini-api/docs/thinking). */
const budgeted = /gemini-2\.5|gemini-robotics-er-1\.5/;

/** Bounds of the budget for a model of the 2.5 family (0 turns thinking off). */
function budgetBounds(model: string): { readonly least: number; readonly most: number } {
  if (model.includes('pro')) return { least: 128, most: 32_768 };
  return { least: 0, most: 24_576 };
}

/** `generationConfig.thinkingConfig` for these settings; undefined when there are none. */
function encodeThinking(
  settings: ReasoningSettings | undefined,
  model: string,
  report: EncodeReport,
): JsonObject | undefined {
  if (settings === undefined || Object.values(settings).every((value) => value === undefined))
    return undefined;
  if (thoughtless.test(model)) {
    report.drop('reasoning_effort');
    return undefined;
  }
  const off = settings.enabled === false || settings.effort?.toLowerCase() === 'none';
  const config = budgeted.test(model)
    ? budgetConfig(settings, off, model, report)
    : levelConfig(settings, off, model, report);
  if (!off && settings.summary !== 'none') config.includeThoughts = true;
  else if (settings.summary === 'none') config.includeThoughts = false;
  return Object.keys(config).length === 0 ? undefined : config;
}

function budgetConfig(
  { effort, budgetTokens, adaptive }: ReasoningSettings,
  off: boolean,
  model: string,
  report: EncodeReport,
): JsonObject {
  const { least, most } = budgetBounds(model);
  if (off) {
    if (least > 0) report.emulate('reasoning_effort');
    return { thinkingBudget: least };
  }
  if (budgetTokens !== undefined) {
    const budget = Math.min(Math.max(budgetTokens, least), most);
    if (budget !== budgetTokens) report.emulate('thinking.budget_tokens');
    return { thinkingBudget: budget };
  }
  const budget = effort === undefined ? undefined : reasoningEffort.budget(effort);
  if (effort !== undefined) {
    if (budget === undefined) report.drop('reasoning_effort');
    else report.emulate('reasoning_effort');
  }
  if (budget !== undefined) return { thinkingBudget: Math.min(budget, most) };
  return adaptive === true ? { thinkingBudget: -1 } : {};
}

/** Levels by effort. These models cannot turn thinking off: the lowest level is `minimal`, for Pro models `low`. */
const levels: Readonly<Record<string, string>> = {
  none: 'minimal',
  minimal: 'minimal',
  low: 'low',
  medium: 'medium',
  high: 'high',
  xhigh: 'high',
  max: 'high',
};

function levelConfig(
  { effort, budgetTokens }: ReasoningSettings,
  off: boolean,
  model: string,
  report: EncodeReport,
): JsonObject {
  const fromBudget = budgetTokens === undefined ? undefined : reasoningEffort.ofBudget(budgetTokens);
  const wanted = off ? 'none' : (effort?.toLowerCase() ?? fromBudget);
  if (wanted === undefined) return {};
  let level = Object.hasOwn(levels, wanted) ? levels[wanted] : undefined;
  if (level === undefined) {
    report.drop('reasoning_effort');
    return {};
  }
  if (level === 'minimal' && model.includes('pro')) level = 'low';
  // The first Pro model of the family supports `low` and `high` alone.
  if (level === 'medium' && /gemini-3-pro/.test(model)) level = 'high';
  if (level !== wanted) report.emulate('reasoning_effort');
  else if (effort === undefined) report.emulate('thinking.budget_tokens');
  return { thinkingLevel: level };
}

/** Reasoning settings of a `thinkingConfig`. */
function decodeThinking(config: JsonObject): ReasoningSettings | undefined {
  const settings: Mutable<ReasoningSettings> = {};
  const budget = geminiMembers.of(config, 'thinkingBudget');
  if (typeof budget === 'number') {
    if (budget === 0) settings.enabled = false;
    else if (budget < 0) settings.adaptive = true;
    else settings.budgetTokens = budget;
  }
  const level = asText(geminiMembers.of(config, 'thinkingLevel'))?.toLowerCase();
  if (level !== undefined && level !== 'thinking_level_unspecified') settings.effort = level;
  const shown = geminiMembers.of(config, 'includeThoughts');
  if (typeof shown === 'boolean') settings.summary = shown ? 'auto' : 'none';
  return Object.keys(settings).length === 0 ? undefined : settings;
}

/** `seed` is a 32-bit number in this wire. */
const maxSeed = 2_147_483_647;

/** `generationConfig`; empty without settings. */
function encodeGenerationConfig(request: ChatRequest, model: string, report: EncodeReport): JsonObject {
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

/** OpenAI's `audio` object. Its voice passes unchanged: the host defines the names. */
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
  const schema = schemas.toGemini(format.schema, 'response_format.json_schema.schema', report);
  if (format.description !== undefined) {
    if (schema.description === undefined && schema.anyOf === undefined)
      schema.description = format.description;
    else report.drop('response_format.json_schema.description');
  }
  config.responseSchema = schema;
}

/** Canonical members that `generationConfig` sets, during decoding. */
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

const known = geminiMembers.known([
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

/** Reads `generationConfig` into `draft`; returns the members that only this wire has. */
function decodeGenerationConfig(config: JsonObject, draft: Draft): JsonObject | undefined {
  for (const [name, target] of Object.entries(numbers) as [
    keyof typeof numbers,
    (typeof numbers)[keyof typeof numbers],
  ][]) {
    const value = geminiMembers.of(config, name);
    if (value === undefined || value === null) continue;
    if (typeof value !== 'number')
      throw new GatewayError(
        'invalid_request',
        `generationConfig.${name} must be a number; found ${bodyIssues.describe(value)}.`,
        { param: `generationConfig.${name}` },
      );
    draft[target] = value;
  }
  const { seed } = config;
  if (typeof seed === 'number' || typeof seed === 'bigint') draft.seed = seed;
  const stop = geminiMembers.of(config, 'stopSequences');
  if (Array.isArray(stop)) draft.stop = stop.filter((one) => typeof one === 'string');
  const logprobs = geminiMembers.of(config, 'responseLogprobs');
  if (typeof logprobs === 'boolean') draft.logprobs = logprobs;
  const modalities = asArray(geminiMembers.of(config, 'responseModalities')).flatMap(
    (one) => asText(one) ?? [],
  );
  if (modalities.length > 0) draft.modalities = modalities.map((modality) => modality.toLowerCase());
  const format = decodeResponseFormat(config);
  if (format !== undefined) draft.responseFormat = format;
  const thinking = geminiMembers.object(config, 'thinkingConfig');
  const reasoning = thinking === undefined ? undefined : decodeThinking(thinking);
  if (reasoning !== undefined) draft.reasoning = reasoning;
  return decodeSpeech(config, draft, geminiMembers.others(config, known));
}

function decodeResponseFormat(config: JsonObject): ResponseFormat | undefined {
  const type = asText(geminiMembers.of(config, 'responseMimeType'));
  const jsonSchema = geminiMembers.object(config, 'responseJsonSchema');
  const schema = geminiMembers.object(config, 'responseSchema');
  if (jsonSchema !== undefined) return { type: 'json-schema', schema: jsonSchema };
  if (schema !== undefined) return { type: 'json-schema', schema: schemas.toJson(schema) };
  if (type === 'application/json') return { type: 'json' };
  return type === 'text/plain' ? { type: 'text' } : undefined;
}

/** A single voice becomes the canonical voice; a `speechConfig` with more settings passes unchanged. */
function decodeSpeech(
  config: JsonObject,
  draft: Draft,
  others: JsonObject | undefined,
): JsonObject | undefined {
  const speech = geminiMembers.object(config, 'speechConfig');
  if (speech === undefined) return others;
  const voiceConfig = geminiMembers.object(speech, 'voiceConfig') ?? {};
  const voice = asText(
    geminiMembers.of(geminiMembers.object(voiceConfig, 'prebuiltVoiceConfig') ?? {}, 'voiceName'),
  );
  if (voice !== undefined) draft.audio = { voice };
  const isPlain =
    voice !== undefined && Object.keys(speech).length === 1 && Object.keys(voiceConfig).length === 1;
  return isPlain ? others : { ...others, speechConfig: speech };
}
