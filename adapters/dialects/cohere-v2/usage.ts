import type { Usage } from '../../../core/dialects/usage.ts';
import { asCount, asObject } from '../json-reading.ts';

/**
 * Reads `usage` of a chat answer or `meta` of another one. `tokens` is what the model read and wrote, cached tokens
 * included; `billed_units` leaves out what Cohere adds to the prompt and stands in where `tokens` is missing.
 * Undefined when no tokens are counted (a rerank billed by searches).
 */
export function decodeUsage(value: unknown): Usage | undefined {
  const usage = asObject(value);
  if (usage === undefined) return undefined;
  const tokens = asObject(usage.tokens) ?? {};
  const billed = asObject(usage.billed_units) ?? {};
  const input = asCount(tokens.input_tokens) ?? billedInput(billed.input_tokens, billed.image_tokens);
  const output = asCount(tokens.output_tokens) ?? asCount(billed.output_tokens);
  if (input === undefined && output === undefined) return undefined;
  const promptTokens = input ?? 0;
  const completionTokens = output ?? 0;
  return {
    promptTokens,
    completionTokens,
    totalTokens: promptTokens + completionTokens,
    cachedTokens: asCount(usage.cached_tokens) ?? asCount(tokens.cached_tokens) ?? 0,
    cacheWriteTokens: 0,
    reasoningTokens: 0,
    inputAudioTokens: 0,
    outputAudioTokens: 0,
  };
}

function billedInput(text: unknown, images: unknown): number | undefined {
  const words = asCount(text);
  const pictures = asCount(images);
  return words === undefined && pictures === undefined ? undefined : (words ?? 0) + (pictures ?? 0);
}
