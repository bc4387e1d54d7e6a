import type { Finish, FinishReason } from '../../../core/dialects/canonical/chat-answer.ts';
import type { Extras, JsonObject } from '../../../core/dialects/canonical/chat-part.ts';
import type { ChatRequest } from '../../../core/dialects/canonical/chat-request.ts';
import type { Usage } from '../../../core/dialects/usage.ts';
import { asCount, asObject, asText } from '../json-reading.ts';

/**
 * Reads a `usage` object. Its `inputTokens` leave out what was read from and written to the cache, which `totalTokens`
 * includes. Undefined when it counts no tokens.
 */
export function decodeConverseUsage(value: unknown): Usage | undefined {
  const usage = asObject(value);
  const input = asCount(usage?.inputTokens);
  const output = asCount(usage?.outputTokens);
  if (usage === undefined || (input === undefined && output === undefined)) return undefined;
  const cachedTokens = asCount(usage.cacheReadInputTokens) ?? asCount(usage.cacheReadInputTokenCount) ?? 0;
  const cacheWriteTokens =
    asCount(usage.cacheWriteInputTokens) ?? asCount(usage.cacheWriteInputTokenCount) ?? 0;
  const promptTokens = (input ?? 0) + cachedTokens + cacheWriteTokens;
  const completionTokens = output ?? 0;
  return {
    promptTokens,
    completionTokens,
    totalTokens: promptTokens + completionTokens,
    cachedTokens,
    cacheWriteTokens,
    reasoningTokens: 0,
    inputAudioTokens: 0,
    outputAudioTokens: 0,
  };
}

const reasons: Readonly<Record<string, FinishReason>> = {
  end_turn: 'stop',
  stop: 'stop',
  stop_sequence: 'stop',
  tool_use: 'stop',
  max_tokens: 'length',
  length: 'length',
  model_context_window_exceeded: 'length',
  guardrail_intervened: 'content-filter',
  content_filtered: 'content-filter',
  malformed_model_output: 'error',
  malformed_tool_use: 'error',
};

/**
 * Why an answer ended. `called`: it holds a call that the client must answer, which some models report as an end of
 * the turn. `fields` are its `additionalModelResponseFields`.
 */
export function readFinish(stopReason: unknown, called: boolean, fields: unknown): Finish {
  const raw = asText(stopReason) ?? '';
  const reason = Object.hasOwn(reasons, raw) ? (reasons[raw] as FinishReason) : 'unknown';
  const more = asObject(fields);
  const stopSequence = asText(more?.stop_sequence) ?? asText(asObject(more?.delta)?.stop_sequence);
  return {
    reason: called && reason === 'stop' ? 'tool-calls' : reason,
    raw,
    ...(stopSequence === undefined ? {} : { stopSequence }),
  };
}

/** The model's own members, when the caller asked for some: else they only tell the stop sequence. */
export function fieldExtras(fields: unknown, request: ChatRequest): Extras | undefined {
  const asked = request.extras?.['bedrock-converse']?.additionalModelResponseFieldPaths;
  return asked === undefined || asObject(fields) === undefined
    ? undefined
    : { 'bedrock-converse': { additionalModelResponseFields: fields } };
}

/**
 * What only this dialect tells of an answer: the guardrail's trace, performance, the tier, cache details; and the words
 * that stood before an answer which came through a tool.
 */
export function answerExtras(told: JsonObject, preamble = ''): JsonObject | undefined {
  const extras: JsonObject = {};
  if (preamble !== '') extras.preamble = preamble;
  for (const name of ['trace', 'performanceConfig', 'serviceTier', 'metrics']) {
    if (told[name] !== undefined && told[name] !== null) extras[name] = told[name];
  }
  const usage = asObject(told.usage);
  if (usage?.cacheDetails !== undefined) extras.cacheDetails = usage.cacheDetails;
  const server = asObject(usage?.serverToolUsage);
  if (server !== undefined && Object.keys(server).length > 0) extras.serverToolUsage = server;
  return Object.keys(extras).length > 0 ? extras : undefined;
}
