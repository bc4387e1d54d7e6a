import type { ChatAnswer, Finish, FinishReason } from '../../../core/dialects/canonical/chat-answer.ts';
import type { DecodeContext } from '../../../core/dialects/canonical/chat-codec.ts';
import type { ChatPart } from '../../../core/dialects/canonical/chat-part.ts';
import type { ChatRequest } from '../../../core/dialects/canonical/chat-request.ts';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import { asArray, asCount, asObject, asText, type JsonObject, parseExactObject } from '../json-reading.ts';
import { answerToolName, decodeBlock, dialectName } from './content-blocks.ts';
import type { Usage } from '../../../core/dialects/usage.ts';

export const calls = ['tool_use', 'server_tool_use', 'mcp_tool_use'];

const tiers: Readonly<Record<string, string>> = {
  standard: 'standard',
  default: 'standard',
  priority: 'priority',
  batch: 'batch',
};

/** The service tier of an answer, in the terms of OpenAI, which the canonical form uses. */
export function decodeTier(value: unknown): string | undefined {
  const tier = asText(value);
  return tier === 'standard' ? 'default' : tier;
}

/**
 * An Anthropic `usage` object: `input_tokens` exclude tokens read from and written to the cache. `details` are members
 * that only this wire has (`server_tool_use`, `cache_creation` …); counts override them.
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

const meanings: Readonly<Record<string, FinishReason>> = {
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

/** A `stop_reason` in the canonical form. `tool_use` without a call for the client is an ordinary end. */
export function finishOf(raw: string, stopSequence: string | undefined, hasCall: boolean): Finish {
  const meaning = Object.hasOwn(meanings, raw) ? (meanings[raw] as FinishReason) : 'unknown';
  const reason = meaning === 'tool-calls' && !hasCall ? 'stop' : meaning;
  return stopSequence === undefined ? { reason, raw } : { reason, raw, stopSequence };
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

/** Members of a message that the canonical form holds. */
const messageMembers = new Set([
  'id',
  'type',
  'role',
  'model',
  'content',
  'stop_reason',
  'stop_sequence',
  'usage',
]);

/** Members of a usage that the canonical form holds. */
const usageMembers = new Set([
  'input_tokens',
  'output_tokens',
  'cache_read_input_tokens',
  'cache_creation_input_tokens',
  'output_tokens_details',
  'service_tier',
]);

/** A complete message. Throws `upstream_invalid` for anything else. */
export function decodeAnswer(body: Buffer, { request }: DecodeContext): ChatAnswer {
  const message = parseExactObject(body.toString('utf8'));
  if (message === undefined || !Array.isArray(message.content)) throw noMessage(message);
  const blocks = asArray(message.content).flatMap<JsonObject>((value) => asObject(value) ?? []);
  const calls = new CallReading(request);
  const parts = blocks.map(decodeBlock).map((part) => calls.read(part));
  const usage = decodeAnthropicUsage(message.usage);
  const tier = decodeTier(asObject(message.usage)?.service_tier);
  const extras = messageExtras(message, asObject(message.usage) ?? {});
  return {
    id: asText(message.id) ?? '',
    model: asText(message.model) ?? '',
    choices: [
      {
        index: 0,
        parts,
        finish: finishOf(asText(message.stop_reason) ?? '', asText(message.stop_sequence), calls.hasCall),
      },
    ],
    ...(usage === undefined ? {} : { usage }),
    ...(tier === undefined ? {} : { serviceTier: tier }),
    ...(extras === undefined ? {} : { extras: { [dialectName]: extras } }),
  };
}

function noMessage(message: JsonObject | undefined): GatewayError {
  const said = message === undefined ? undefined : anthropicErrorMessage(message);
  const why = said === undefined ? 'it is no message with content' : `it reports an error: ${said}`;
  return new GatewayError('upstream_invalid', `The provider's answer cannot be read: ${why}.`, {
    source: 'provider',
  });
}

/** Members of a message and of its usage that only this wire has; undefined when there are none. */
export function messageExtras(message: JsonObject, usage: JsonObject): JsonObject | undefined {
  const extras = unknownMembers(message, messageMembers);
  const details = unknownMembers(usage, usageMembers);
  if (Object.keys(details).length > 0) extras.usage = details;
  return Object.keys(extras).length === 0 ? undefined : extras;
}

function unknownMembers(object: JsonObject, known: ReadonlySet<string>): JsonObject {
  const rest: JsonObject = {};
  for (const [name, value] of Object.entries(object)) {
    if (!known.has(name) && value !== null && name !== '__proto__') rest[name] = value;
  }
  return rest;
}

/** Maps the helper calls of an encoded request back to the part that the client asked for. One per answer. */
export class CallReading {
  private readonly answerName: string | undefined;
  private readonly customNames: ReadonlySet<string>;
  /** A call that the client must answer was read. */
  hasCall = false;

  constructor(request: ChatRequest) {
    this.answerName = answerToolName(request);
    this.customNames = new Set(request.tools.flatMap((tool) => (tool.type === 'custom' ? [tool.name] : [])));
  }

  /** Meaning of a call with this name. */
  kindOf(name: string): 'answer' | 'custom' | 'function' {
    if (name === this.answerName) return 'answer';
    return this.customNames.has(name) ? 'custom' : 'function';
  }

  /** The part as the client expects it. */
  read(part: ChatPart): ChatPart {
    if (part.type !== 'tool-call') return part;
    const kind = this.kindOf(part.name);
    if (kind === 'answer') return { type: 'text', text: part.arguments };
    this.hasCall = true;
    return kind === 'custom' ? { ...part, kind, arguments: freeText(part.arguments) } : part;
  }
}

/** The free text of a custom tool's call, taken from the object that wraps it. */
export function freeText(text: string): string {
  const input = parseExactObject(text)?.input;
  return typeof input === 'string' ? input : text;
}

/**
 * Reads an Anthropic `usage` object. Its `input_tokens` exclude tokens read from and written to the cache, so the
 * prompt is the sum of the three. Undefined when it counts no tokens.
 */
export function decodeAnthropicUsage(value: unknown): Usage | undefined {
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
