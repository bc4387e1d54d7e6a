import type { ChatAnswer, Finish, FinishReason } from '../../../core/dialects/canonical/chat-answer.ts';
import type { AnswerContext, DecodeContext } from '../../../core/dialects/canonical/chat-codec.ts';
import type { ChatPart, Extras } from '../../../core/dialects/canonical/chat-part.ts';
import type { ChatRequest } from '../../../core/dialects/canonical/chat-request.ts';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import {
  asArray,
  asCount,
  asObject,
  asText,
  type JsonObject,
  parseExactObject,
  stringifyExact,
} from '../json-reading.ts';
import { answerToolName, decodeBlock, dialectName, encodeAnswerPart } from './content-blocks.ts';
import type { Usage } from '../../../core/dialects/usage.ts';
import type { AnswerFacts, AnswerTextPlace } from '../../../core/dialects/dialect.ts';
import type { EndpointId } from '../../../core/dialects/endpoint.ts';
import { type EventReader, watch, type Watch } from '../frame-scanner.ts';

/** Members that cause a frame to be parsed after the first token. */
export const watchedMembers: readonly Watch[] = [
  watch('usage', 'object'),
  watch('stop_reason', 'string'),
  watch('error', 'anything but null'),
  watch('message_stop', 'anything but null'),
];

/** Members of a content delta that carry a token when they are not empty. */
const tokenMembers = ['text', 'thinking', 'partial_json'] as const;

/** Collects usage, model, stop reason and errors from the events of a message stream. */
export class MessageStreamReader implements EventReader {
  readonly facts: AnswerFacts = {};
  ended = false;
  /** `message_start` counts the prompt, each `message_delta` the output so far: later members win. */
  private readonly usage: JsonObject = {};

  read(json: JsonObject, event: string): boolean {
    const type = asText(json.type) ?? event;
    const message = asObject(json.message);
    const delta = asObject(json.delta);
    const { facts } = this;
    const model = asText(message?.model);
    if (model !== undefined) facts.model ??= model;
    this.learnUsage(asObject(message?.usage) ?? asObject(json.usage));
    const reason = asText(delta?.stop_reason) ?? asText(message?.stop_reason);
    if (reason !== undefined) facts.finishReason = reason;
    const errorMessage = anthropicErrorMessage(json, event);
    if (errorMessage !== undefined) facts.errorMessage = errorMessage;
    if (type === 'message_stop') this.ended = true;
    // The name of a tool call is in the start event of its block.
    if (type === 'content_block_start') return asText(asObject(json.content_block)?.name) !== undefined;
    return (
      type === 'content_block_delta' && tokenMembers.some((member) => asText(delta?.[member]) !== undefined)
    );
  }

  private learnUsage(usage: JsonObject | undefined): void {
    if (usage === undefined) return;
    for (const [member, value] of Object.entries(usage)) if (value !== null) this.usage[member] = value;
    const decoded = decodeAnthropicUsage(this.usage);
    if (decoded !== undefined) this.facts.usage = decoded;
  }
}

const calls = ['tool_use', 'server_tool_use', 'mcp_tool_use'];

/** The generated texts of a complete message. */
export function decodeAnswerTexts(_endpoint: EndpointId, answer: unknown): readonly AnswerTextPlace[] {
  let call = 0;
  return asArray(asObject(answer)?.content).flatMap((value, i): readonly AnswerTextPlace[] => {
    const block = asObject(value) ?? {};
    const path = ['content', i];
    if (block.type === 'text') return plain(block, 'text', path);
    if (block.type === 'thinking') return plain(block, 'thinking', path);
    if (!calls.includes(asText(block.type) ?? '')) return [];
    const input = asObject(block.input);
    if (input === undefined) return [];
    return [
      {
        type: 'tool-arguments',
        choice: 0,
        call: call++,
        text: stringifyExact(input),
        ...(typeof block.name === 'string' ? { name: block.name } : {}),
        path: [...path, 'input'],
        isJson: true,
        beside: [],
      },
    ];
  });
}

function plain(
  block: JsonObject,
  member: 'text' | 'thinking',
  path: AnswerTextPlace['path'],
): readonly AnswerTextPlace[] {
  const text = block[member];
  if (typeof text !== 'string') return [];
  const beside: AnswerTextPlace['beside'][number][] = [];
  if (Array.isArray(block.citations)) beside.push({ path: [...path, 'citations'], value: null });
  if (typeof block.signature === 'string') beside.push({ path: [...path, 'signature'], value: '' });
  const type = member === 'text' ? 'text' : 'reasoning';
  return [{ type, choice: 0, text, path: [...path, member], beside }];
}

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

/** A complete answer as a message. Of several choices only the first is written: the wire has one. */
export function encodeAnswer(answer: ChatAnswer, context: AnswerContext): Buffer {
  const choice = answer.choices[0];
  const parts = choice?.parts ?? [];
  const content: JsonObject[] = [];
  const omitted: ChatPart[] = [];
  for (const part of parts) {
    const block = encodeAnswerPart(part);
    if (block === undefined) omitted.push(part);
    else content.push(block);
  }
  const { usage: details, ...members } = answer.extras?.[dialectName] ?? {};
  const finish = choice?.finish ?? { reason: 'unknown', raw: '' };
  const message: JsonObject = {
    ...members,
    id: answer.id === '' ? context.newId('msg_') : answer.id,
    type: 'message',
    role: 'assistant',
    model: answer.model === '' ? context.request.model : answer.model,
    content,
    stop_reason: stopReasonOf(finish, {
      hasCall: parts.some(({ type }) => type === 'tool-call'),
      hasRefusal: parts.some(({ type }) => type === 'refusal'),
    }),
    stop_sequence: finish.stopSequence ?? null,
    usage: encodeAnthropicUsage(answer.usage, asObject(details), answer.serviceTier),
  };
  const fields = context.strict ? undefined : providerFields(omitted, answer.extras, choice?.extras);
  if (fields !== undefined) message.provider_fields = fields;
  return Buffer.from(stringifyExact(message));
}

/**
 * Content that a message cannot hold, for clients that accept more than the wire documents: parts without a block type
 * under `content`, and extras of other wires under their names. Undefined when there is none.
 */
export function providerFields(
  omitted: readonly ChatPart[],
  ...extras: readonly (Extras | undefined)[]
): JsonObject | undefined {
  const fields: JsonObject = {};
  if (omitted.length > 0) fields.content = omitted;
  for (const [dialect, members] of extras.flatMap((one) => Object.entries(one ?? {}))) {
    if (dialect !== dialectName) fields[dialect] = { ...asObject(fields[dialect]), ...members };
  }
  return Object.keys(fields).length === 0 ? undefined : fields;
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

/** Facts of a complete message, or of an error in place of one. */
export function messageFacts(message: JsonObject): AnswerFacts {
  const facts: AnswerFacts = {};
  const usage = decodeAnthropicUsage(message.usage);
  if (usage !== undefined) facts.usage = usage;
  const model = asText(message.model);
  if (model !== undefined) facts.model = model;
  const finishReason = asText(message.stop_reason);
  if (finishReason !== undefined) facts.finishReason = finishReason;
  const errorMessage = anthropicErrorMessage(message);
  if (errorMessage !== undefined) facts.errorMessage = errorMessage;
  return facts;
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
