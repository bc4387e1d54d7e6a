/**
 * What a request used, in full. `promptTokens` includes cached and cache-written tokens, `completionTokens`
 * includes reasoning ones; the details stand beside them.
 */
export interface Usage {
  promptTokens: number;
  completionTokens: number;
  totalTokens: number;
  cachedTokens: number;
  cacheWriteTokens: number;
  reasoningTokens: number;
  inputAudioTokens: number;
  outputAudioTokens: number;
}
