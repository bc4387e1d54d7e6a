import type { AnswerFacts } from '../../../core/dialects/dialect.ts';
import type { Usage } from '../../../core/dialects/usage.ts';
import { asCount, asObject, asText, type JsonObject } from '../json-reading.ts';

/**
 * Reads an Anthropic `usage` object. Its `input_tokens` leave out what was read from and written to the cache, so
 * the prompt is the sum of the three. Undefined when it counts no tokens.
 */
export function decodeAnthropicUsage(value: unknown): Usage | undefined {
  const usage = asObject(value);
  const input = asCount(usage?.input_tokens);
  const output = asCount(usage?.output_tokens);
  if (usage === undefined || (input === undefined && output === undefined)) return undefined;
  const cachedTokens = asCount(usage.cache_read_input_tokens) ?? 0;
  const cacheWriteTokens = asCount(usage.cache_creation_input_tokens) ?? 0;
  const promptTokens = (input ?? 0) + cachedTokens + cacheWriteTokens;
  const completionTokens = output ?? 0;
  return {
    promptTokens,
    completionTokens,
    totalTokens: promptTokens + completionTokens,
    cachedTokens,
    cacheWriteTokens,
    reasoningTokens: asCount(asObject(usage.output_tokens_details)?.thinking_tokens) ?? 0,
    inputAudioTokens: 0,
    outputAudioTokens: 0,
  };
}

/** Facts of a complete message, or of an error that came in its place. */
export function messageFacts(message: JsonObject): AnswerFacts {
  const facts: AnswerFacts = {};
  const usage = decodeAnthropicUsage(message.usage);
  if (usage !== undefined) facts.usage = usage;
  const model = asText(message.model);
  if (model !== undefined) facts.model = model;
  const finishReason = asText(message.stop_reason);
  if (finishReason !== undefined) facts.finishReason = finishReason;
  const errorMessage = anthropicErrorMessage(message);
  if (errorMessage !== undefined) facts.errorMessage = errorMessage;
  return facts;
}

/** What went wrong, when this is an error body or event; else undefined. */
export function anthropicErrorMessage(json: JsonObject, event = ''): string | undefined {
  if (json.type !== 'error' && event !== 'error' && json.error === undefined) return undefined;
  const error = asObject(json.error);
  return (
    asText(error?.message) ??
    asText(json.error) ??
    asText(json.message) ??
    asText(error?.type) ??
    'unknown error'
  );
}
