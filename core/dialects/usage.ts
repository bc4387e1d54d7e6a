/**
 * Full usage of a request. `promptTokens` includes cached and cache-written tokens, `completionTokens` includes
 * reasoning ones; separate fields give the details.
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

/** Zero usage; base for spreading known values. */
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
