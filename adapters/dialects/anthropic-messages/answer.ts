import type { Finish, FinishReason } from '../../../core/dialects/canonical/chat-answer.ts';
import { asCount, asObject, asText, type JsonObject } from '../json-reading.ts';
import type { Usage } from '../../../core/dialects/usage.ts';

/** Usage, to and from its members. */
export const anthropicUsage = { encode: encodeAnthropicUsage, decode: decodeAnthropicUsage };

export const calls = ['tool_use', 'server_tool_use', 'mcp_tool_use'];

const tiers: Readonly<Record<string, string>> = {
  standard: 'standard',
  default: 'standard',
  priority: 'priority',
  batch: 'batch',
};

/**
 * An Anthropic `usage` object: `input_tokens` exclude tokens read from and written to the cache. `details` are members
 * that only this wire has (`server_tool_use`, `cache_creation` …); counts override them.
 */
function encodeAnthropicUsage(
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

export const meanings: Readonly<Record<string, FinishReason>> = {
  end_turn: 'stop',
  stop_sequence: 'stop',
  max_tokens: 'length',
  model_context_window_exceeded: 'length',
  tool_use: 'tool-calls',
  pause_turn: 'pause',
  refusal: 'content-filter',
  compaction: 'stop',
};

const words: Readonly<Record<FinishReason, string>> = {
  stop: 'end_turn',
  length: 'max_tokens',
  'tool-calls': 'tool_use',
  'content-filter': 'refusal',
  pause: 'pause_turn',
  error: 'end_turn',
  unknown: 'end_turn',
};

/** Properties of a message that decide its stop reason. */
interface MessageTraits {
  /** The message holds a call that the client must answer. */
  readonly hasCall: boolean;
  readonly hasRefusal: boolean;
}

/** The `stop_reason` of a finish; the provider's own word where it is one of this wire and means the same. */
export function stopReasonOf(finish: Finish, { hasCall, hasRefusal }: MessageTraits): string {
  const { reason, raw, stopSequence } = finish;
  if (Object.hasOwn(meanings, raw) && meanings[raw] === reason) return raw;
  if (reason === 'stop' || reason === 'unknown') {
    if (hasCall) return 'tool_use';
    if (hasRefusal) return 'refusal';
    if (stopSequence !== undefined) return 'stop_sequence';
  }
  return words[reason];
}

/**
 * Reads an Anthropic `usage` object. Its `input_tokens` exclude tokens read from and written to the cache, so the
 * prompt is the sum of the three. Undefined when it counts no tokens.
 */
function decodeAnthropicUsage(value: unknown): Usage | undefined {
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

/** Error message of an error body or event; undefined for other JSON. */
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
