import { noUsage, type Usage } from '../../core/dialects/usage.ts';

/** What a reported request used, as columns of its row. */
export function usageColumns(usage: Usage = noUsage) {
  return {
    prompt_tokens: usage.promptTokens,
    completion_tokens: usage.completionTokens,
    total_tokens: usage.totalTokens,
    cached_tokens: usage.cachedTokens,
    cache_write_tokens: usage.cacheWriteTokens,
    reasoning_tokens: usage.reasoningTokens,
    input_audio_tokens: usage.inputAudioTokens,
    output_audio_tokens: usage.outputAudioTokens,
  };
}
