import type { Usage } from '../../../core/dialects/usage.ts';
import { asText, type JsonObject } from '../json-reading.ts';

const tiers: Readonly<Record<string, string>> = {
  standard: 'standard',
  default: 'standard',
  priority: 'priority',
  batch: 'batch',
};

/** The tier that an answer tells, in the words of OpenAI, which the canonical form speaks. */
export function decodeTier(value: unknown): string | undefined {
  const tier = asText(value);
  return tier === 'standard' ? 'default' : tier;
}

/**
 * An Anthropic `usage` object: `input_tokens` leave out what was read from and written to the cache. `details` are
 * members that only this wire knows (`server_tool_use`, `cache_creation` …); counts win over them.
 */
export function encodeAnthropicUsage(
  usage: Usage | undefined,
  details: JsonObject = {},
  serviceTier?: string,
): JsonObject {
  const { promptTokens = 0, cachedTokens = 0, cacheWriteTokens = 0, completionTokens = 0 } = usage ?? {};
  const encoded: JsonObject = {
    ...details,
    input_tokens: Math.max(0, promptTokens - cachedTokens - cacheWriteTokens),
    cache_creation_input_tokens: cacheWriteTokens,
    cache_read_input_tokens: cachedTokens,
    output_tokens: completionTokens,
  };
  if (usage !== undefined && usage.reasoningTokens > 0) {
    encoded.output_tokens_details = { thinking_tokens: usage.reasoningTokens };
  }
  if (serviceTier !== undefined && Object.hasOwn(tiers, serviceTier)) {
    encoded.service_tier = tiers[serviceTier];
  }
  return encoded;
}
