import type { Usage } from '../../core/dialects/usage.ts';
import { asCount, asObject, type JsonObject } from './json-reading.ts';

/**
 * Reads a `usage` object of the OpenAI family: chat (`prompt_tokens`), responses (`input_tokens`), embeddings (no
 * completion), rerankers (only a total), and the names that compatible hosts gave to cached and reasoning tokens.
 * Undefined when it counts no tokens (audio billed by duration, an empty object).
 */
export function decodeOpenAiUsage(value: unknown): Usage | undefined {
  const usage = asObject(value);
  if (usage === undefined) return undefined;
  const prompt = asCount(usage.prompt_tokens) ?? asCount(usage.input_tokens);
  let completion = asCount(usage.completion_tokens) ?? asCount(usage.output_tokens);
  const total = asCount(usage.total_tokens);
  if (prompt === undefined && completion === undefined && total === undefined) return undefined;
  const promptDetails = asObject(usage.prompt_tokens_details) ?? asObject(usage.input_tokens_details) ?? {};
  const completionDetails =
    asObject(usage.completion_tokens_details) ?? asObject(usage.output_tokens_details) ?? {};
  const reasoning = asCount(completionDetails.reasoning_tokens) ?? asCount(usage.reasoning_tokens) ?? 0;
  // Some hosts count reasoning beside the completion; their own total tells.
  if (reasoning > 0 && (prompt ?? 0) + (completion ?? 0) + reasoning === total) {
    completion = (completion ?? 0) + reasoning;
  }
  const known = (prompt ?? 0) + (completion ?? 0);
  return {
    promptTokens: prompt ?? (completion === undefined ? (total ?? 0) : 0),
    completionTokens: completion ?? 0,
    totalTokens: total ?? known,
    cachedTokens: cachedTokens(usage, promptDetails),
    cacheWriteTokens:
      asCount(promptDetails.cache_write_tokens) ?? asCount(usage.cache_creation_input_tokens) ?? 0,
    reasoningTokens: reasoning,
    inputAudioTokens: asCount(promptDetails.audio_tokens) ?? 0,
    outputAudioTokens: asCount(completionDetails.audio_tokens) ?? 0,
  };
}

function cachedTokens(usage: JsonObject, details: JsonObject): number {
  return (
    asCount(details.cached_tokens) ??
    asCount(usage.prompt_cache_hit_tokens) ??
    asCount(usage.cached_tokens) ??
    asCount(usage.cache_read_input_tokens) ??
    0
  );
}

/** Writes a usage into an OpenAI chat `usage` object; members of `existing` that it does not know stay. */
export function encodeOpenAiUsage(usage: Usage, existing: JsonObject = {}): JsonObject {
  return {
    ...existing,
    prompt_tokens: usage.promptTokens,
    completion_tokens: usage.completionTokens,
    total_tokens: usage.totalTokens,
    prompt_tokens_details: {
      ...asObject(existing.prompt_tokens_details),
      cached_tokens: usage.cachedTokens,
      audio_tokens: usage.inputAudioTokens,
      // OpenAI has no such member; hosts that count cache writes call it so.
      ...(usage.cacheWriteTokens > 0 && { cache_write_tokens: usage.cacheWriteTokens }),
    },
    completion_tokens_details: {
      ...asObject(existing.completion_tokens_details),
      reasoning_tokens: usage.reasoningTokens,
      audio_tokens: usage.outputAudioTokens,
    },
  };
}
