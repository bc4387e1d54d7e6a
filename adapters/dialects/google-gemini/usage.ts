import type { Usage } from '../../../core/dialects/usage.ts';
import { asArray, asCount, asObject, asText, type JsonObject } from '../json-reading.ts';
import { member } from './member.ts';

/**
 * Reads `usageMetadata`. What tools brought into the prompt is prompt, thoughts are completion; both stand beside the
 * counts of this wire. Undefined when it counts no tokens.
 */
export function decodeGeminiUsage(value: unknown): Usage | undefined {
  const usage = asObject(value);
  if (usage === undefined) return undefined;
  const prompt = asCount(member(usage, 'promptTokenCount'));
  const candidates = asCount(member(usage, 'candidatesTokenCount'));
  const total = asCount(member(usage, 'totalTokenCount'));
  if (prompt === undefined && candidates === undefined && total === undefined) return undefined;
  const reasoningTokens = asCount(member(usage, 'thoughtsTokenCount')) ?? 0;
  const promptTokens = (prompt ?? 0) + (asCount(member(usage, 'toolUsePromptTokenCount')) ?? 0);
  const completionTokens = (candidates ?? 0) + reasoningTokens;
  return {
    promptTokens,
    completionTokens,
    totalTokens: total ?? promptTokens + completionTokens,
    cachedTokens: asCount(member(usage, 'cachedContentTokenCount')) ?? 0,
    cacheWriteTokens: 0,
    reasoningTokens,
    inputAudioTokens: audioTokens(member(usage, 'promptTokensDetails')),
    outputAudioTokens: audioTokens(member(usage, 'candidatesTokensDetails')),
  };
}

/** A usage as `usageMetadata`; details that are zero are left out, as the wire does it. */
export function encodeGeminiUsage(usage: Usage): JsonObject {
  const { promptTokens, completionTokens, reasoningTokens, cachedTokens } = usage;
  const candidates = Math.max(0, completionTokens - reasoningTokens);
  const written: JsonObject = { promptTokenCount: promptTokens };
  written.candidatesTokenCount = candidates;
  written.totalTokenCount = usage.totalTokens;
  if (cachedTokens > 0) written.cachedContentTokenCount = cachedTokens;
  if (reasoningTokens > 0) written.thoughtsTokenCount = reasoningTokens;
  if (usage.inputAudioTokens > 0)
    written.promptTokensDetails = byModality(promptTokens, usage.inputAudioTokens);
  if (usage.outputAudioTokens > 0)
    written.candidatesTokensDetails = byModality(candidates, usage.outputAudioTokens);
  return written;
}

/** Lays the members of a later usage over an earlier one: what the later does not mention keeps its value. */
export function joinUsage(earlier: JsonObject | undefined, later: JsonObject): JsonObject {
  return earlier === undefined ? later : Object.assign(earlier, later);
}

function audioTokens(details: unknown): number {
  let tokens = 0;
  for (const value of asArray(details)) {
    const detail = asObject(value);
    if (detail !== undefined && asText(detail.modality)?.toUpperCase() === 'AUDIO')
      tokens += asCount(member(detail, 'tokenCount')) ?? 0;
  }
  return tokens;
}

function byModality(all: number, audio: number): JsonObject[] {
  const details: JsonObject[] = [];
  if (all > audio) details.push({ modality: 'TEXT', tokenCount: all - audio });
  details.push({ modality: 'AUDIO', tokenCount: audio });
  return details;
}
