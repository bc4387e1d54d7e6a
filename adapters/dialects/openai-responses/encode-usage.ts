import type { Usage } from '../../../core/dialects/usage.ts';
import type { JsonObject } from '../json-reading.ts';

/** A usage as the Responses wire says it. */
export function encodeResponsesUsage(usage: Usage): JsonObject {
  return {
    input_tokens: usage.promptTokens,
    input_tokens_details: {
      cached_tokens: usage.cachedTokens,
      cache_write_tokens: usage.cacheWriteTokens,
      ...(usage.inputAudioTokens > 0 && { audio_tokens: usage.inputAudioTokens }),
    },
    output_tokens: usage.completionTokens,
    output_tokens_details: {
      reasoning_tokens: usage.reasoningTokens,
      ...(usage.outputAudioTokens > 0 && { audio_tokens: usage.outputAudioTokens }),
    },
    total_tokens: usage.totalTokens,
  };
}
