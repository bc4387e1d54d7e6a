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

/** No tokens at all; spread it below what is known. */
export const noUsage: Readonly<Usage> = Object.freeze({
  promptTokens: 0,
  completionTokens: 0,
  totalTokens: 0,
  cachedTokens: 0,
  cacheWriteTokens: 0,
  reasoningTokens: 0,
  inputAudioTokens: 0,
  outputAudioTokens: 0,
});
