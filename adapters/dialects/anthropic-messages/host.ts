import type { ChatRequest } from '../../../core/dialects/canonical/chat-request.ts';
import type { ProviderDialect } from '../../../core/dialects/dialect.ts';
import type { EndpointId } from '../../../core/dialects/endpoint.ts';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import { endpointPlan } from '../host-endpoints.ts';
import { answerToolName, blockCitation, contentBlock, dialectName } from './content-blocks.ts';
import type {
  ChatEventReader,
  ChatProviderCodec,
  DecodeContext,
} from '../../../core/dialects/canonical/chat-codec.ts';
import { anthropicErrorMessage, anthropicUsage, meanings } from './answer.ts';
import { anthropicErrors } from './errors.ts';
import { type AnthropicHostForm, encodeRequest } from './encode-request.ts';
import { ChatEventBuilder, cutShort } from '../../../core/dialects/canonical/chat-event-builder.ts';
import type { ChatEvent } from '../../../core/dialects/canonical/chat-event.ts';
import { createPayloadReader } from '../../framing/payload-reader.ts';
import type { PayloadReader, StreamPayload } from '../../framing/stream-payload.ts';
import {
  asArray,
  asObject,
  asText,
  type JsonObject,
  parseExactObject,
  stringifyExact,
} from '../json-reading.ts';
import type { ChatPart } from '../../../core/dialects/canonical/chat-part.ts';
import type {
  ProviderError,
  Finish,
  FinishReason,
  ChatAnswer,
} from '../../../core/dialects/canonical/chat-answer.ts';

/**
 * A content block of a stream between its start and its stop. Texts, thoughts and arguments are emitted as they arrive;
 * content that the canonical form needs whole (provider tools, free text inside JSON) is emitted at the stop.
 */
class OpenBlock {
  private readonly builder: ChatEventBuilder;
  private readonly calls: CallReading;
  private readonly key: string;
  private readonly block: JsonObject;
  private readonly part: ChatPart;
  /** Kind of part that the block becomes. */
  private readonly kind: 'text' | 'thinking' | 'call' | 'answer' | 'custom' | 'whole';
  /** Input arrived in deltas. */
  private hasInput = false;
  /** The input so far, when it is emitted whole. */
  private input = '';
  private signature = '';

  constructor(builder: ChatEventBuilder, calls: CallReading, key: string, block: JsonObject) {
    this.builder = builder;
    this.calls = calls;
    this.key = key;
    this.block = block;
    this.part = contentBlock.decode(block);
    this.kind = kindOf(this.part, calls);
    this.begin();
  }

  delta(delta: JsonObject): void {
    switch (delta.type) {
      case 'text_delta':
        if (this.kind === 'text') this.builder.text(0, this.key, textOf(delta.text));
        return;
      case 'thinking_delta':
        if (this.kind === 'thinking') this.builder.reasoning(0, this.key, textOf(delta.thinking));
        return;
      case 'signature_delta':
        this.signature = asText(delta.signature) ?? this.signature;
        return;
      case 'input_json_delta':
        this.inputDelta(textOf(delta.partial_json));
        return;
      case 'citations_delta': {
        const citation = asObject(delta.citation);
        if (citation !== undefined && this.kind === 'text') {
          this.builder.citation(0, this.key, blockCitation.decode(citation));
        }
        return;
      }
      case 'compaction_delta':
        for (const [name, value] of Object.entries(delta)) if (name !== 'type') this.append(name, value);
    }
  }

  stop(): void {
    const { builder, key } = this;
    switch (this.kind) {
      case 'thinking':
        builder.signature(0, key, this.signature);
        break;
      case 'call':
        // Some hosts send the whole input in the start event and no deltas.
        if (!this.hasInput) builder.arguments(0, key, this.givenInput());
        break;
      case 'answer':
        if (!this.hasInput) builder.text(0, key, this.givenInput() || '{}');
        break;
      case 'custom':
        builder.arguments(0, key, freeText(this.input || this.givenInput() || '{}'));
        break;
      case 'whole':
        builder.open(0, key, this.wholePart());
        break;
      case 'text':
    }
    builder.close(0, key);
  }

  private begin(): void {
    const { builder, key, part } = this;
    if (this.kind === 'whole') return;
    if (this.kind === 'answer') {
      builder.open(0, key, { type: 'text', text: '' });
      return;
    }
    if (part.type === 'tool-call') {
      const kind = this.kind === 'custom' ? 'custom' : 'function';
      const { signature, ...head } = part;
      this.calls.hasCall = true;
      builder.open(0, key, { ...head, kind, arguments: '' });
      if (signature !== undefined) builder.signature(0, key, signature);
    } else if (part.type === 'text') {
      const { citations, ...head } = part;
      builder.open(0, key, { ...head, text: '' });
      for (const citation of citations ?? []) builder.citation(0, key, citation);
      builder.text(0, key, part.text);
    } else if (part.type === 'reasoning') {
      const { signature, ...head } = part;
      this.signature = signature ?? '';
      builder.open(0, key, { ...head, text: '' });
      builder.reasoning(0, key, part.text);
    }
  }

  private inputDelta(text: string): void {
    if (text === '') return;
    this.hasInput = true;
    if (this.kind === 'call') this.builder.arguments(0, this.key, text);
    else if (this.kind === 'answer') this.builder.text(0, this.key, text);
    else if (this.input.length + text.length <= maxHeldCharacters) this.input += text;
    else this.builder.error(tooLong);
  }

  /** The input in the block's start event, as JSON; empty when there is none. */
  private givenInput(): string {
    const input = asObject(this.block.input);
    return input === undefined || Object.keys(input).length === 0 ? '' : stringifyExact(input);
  }

  private append(name: string, value: unknown): void {
    const before = this.block[name];
    if (typeof value !== 'string') {
      if (value !== null && name !== '__proto__') this.block[name] = value;
    } else this.block[name] = typeof before === 'string' ? before + value : value;
  }

  /** The block with the input from its deltas. */
  private wholePart(): ChatPart {
    if (this.input === '') return contentBlock.decode(this.block);
    // Some streams lose the opening brace of a server tool's input.
    const input = parseExactObject(this.input) ?? parseExactObject(`{${this.input}`);
    return contentBlock.decode({ ...this.block, input: input ?? { input: this.input } });
  }
}

/** Characters of input that may be held until a block ends. */
const maxHeldCharacters = 16 * 1024 * 1024;

const tooLong: ProviderError = {
  status: 502,
  message: `The provider's stream holds a tool input of more than ${maxHeldCharacters} characters.`,
  type: 'upstream_error',
};

function kindOf(part: ChatPart, calls: CallReading): OpenBlock['kind'] {
  switch (part.type) {
    case 'text':
      return 'text';
    case 'reasoning':
      return part.redacted === undefined ? 'thinking' : 'whole';
    case 'tool-call': {
      const kind = calls.kindOf(part.name);
      return kind === 'function' ? 'call' : kind;
    }
    default:
      return 'whole';
  }
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

/** Reads a streamed message. A second `message_start` and events of unknown types are ignored. */
class MessageEventReader implements ChatEventReader {
  private readonly payloads: PayloadReader;
  private readonly builder = new ChatEventBuilder();
  private readonly calls: CallReading;
  private readonly blocks = new Map<unknown, OpenBlock>();
  /** Started blocks: a spliced stream may start one again. */
  private readonly begun = new Set<unknown>();
  /** `message_start` counts the prompt, each `message_delta` the output so far: later members win. */
  private readonly usage: JsonObject = {};
  private readonly members: JsonObject = {};
  private stopReason = '';
  private stopSequence: string | undefined;

  constructor(contentType: string, { request }: DecodeContext) {
    this.payloads = createPayloadReader(contentType);
    this.calls = new CallReading(request);
  }

  push(chunk: Uint8Array): readonly ChatEvent[] {
    for (const payload of this.payloads.push(chunk)) this.read(payload);
    return this.builder.take();
  }

  finish(): readonly ChatEvent[] {
    for (const payload of this.payloads.finish()) this.read(payload);
    if (!this.builder.ended) this.builder.error(cutShort);
    return this.builder.take();
  }

  private read({ event, data, error, messageType }: StreamPayload): void {
    if (this.builder.ended) return;
    if (error !== undefined) {
      this.builder.error({ status: 502, message: error, type: 'upstream_error' });
      return;
    }
    const json = parseExactObject(data);
    if (event === 'error' || (messageType ?? 'event') !== 'event') {
      this.builder.error(anthropicErrors.ofStream(json, data));
    } else if (json !== undefined) this.message(asText(json.type) ?? event, json);
    else if (data.trim() !== '' && data.trim() !== '[DONE]') {
      const message = "The provider's stream holds an event that is no JSON.";
      this.builder.error({ status: 502, message, type: 'upstream_error' });
    }
  }

  private message(type: string, json: JsonObject): void {
    switch (type) {
      case 'content_block_delta': {
        const delta = asObject(json.delta);
        if (delta !== undefined) this.block(json.index, delta)?.delta(delta);
        return;
      }
      case 'content_block_start':
        this.begin(json.index, asObject(json.content_block));
        return;
      case 'content_block_stop':
        this.blocks.get(json.index)?.stop();
        this.blocks.delete(json.index);
        return;
      case 'message_start':
        if (!this.builder.hasStarted) this.start(asObject(json.message) ?? {});
        return;
      case 'message_delta':
        this.messageDelta(json);
        return;
      case 'message_stop':
        this.end();
        return;
      case 'error':
        this.builder.error(anthropicErrors.ofStream(json, ''));
        return;
      default:
        // A host may report an error in another shape with a success status.
        if (asObject(json.error) !== undefined) this.builder.error(anthropicErrors.ofStream(json, ''));
    }
  }

  private start(message: JsonObject): void {
    this.learnUsage(asObject(message.usage));
    this.builder.start({
      id: asText(message.id) ?? '',
      model: asText(message.model) ?? '',
      serviceTier: decodeTier(this.usage.service_tier),
      usage: anthropicUsage.decode(this.usage),
    });
    this.learnMembers(message);
    // Content may be present here already when a paused turn continues.
    asArray(message.content).forEach((value, i) => {
      const key = `start:${i}`;
      this.begin(key, asObject(value));
      this.blocks.get(key)?.stop();
      this.blocks.delete(key);
    });
  }

  private begin(index: unknown, block: JsonObject | undefined): void {
    if (block === undefined || this.begun.has(index)) return;
    this.begun.add(index);
    this.blocks.set(index, new OpenBlock(this.builder, this.calls, `${this.begun.size}`, block));
  }

  /** The block of a delta; when its start event was lost, the block starts with the delta, if that shows its type. */
  private block(index: unknown, delta: JsonObject): OpenBlock | undefined {
    const open = this.blocks.get(index);
    if (open !== undefined || this.begun.has(index)) return open;
    if (delta.type === 'text_delta') this.begin(index, { type: 'text', text: '' });
    else if (delta.type === 'thinking_delta') this.begin(index, { type: 'thinking', thinking: '' });
    return this.blocks.get(index);
  }

  private messageDelta(json: JsonObject): void {
    this.learnUsage(asObject(json.usage));
    const usage = anthropicUsage.decode(this.usage);
    if (usage !== undefined) this.builder.usage(usage);
    const { delta, ...members } = json;
    this.learnMembers(members);
    this.learnMembers(asObject(delta) ?? {});
    if (this.stopReason !== '') this.finishChoice();
  }

  private finishChoice(): void {
    for (const block of this.blocks.values()) block.stop();
    this.blocks.clear();
    this.builder.finish(0, finishOf(this.stopReason, this.stopSequence, this.calls.hasCall));
  }

  private end(): void {
    this.finishChoice();
    const extras = messageExtras(this.members, this.usage);
    if (extras !== undefined) this.builder.extras({ [dialectName]: extras });
    this.builder.complete();
  }

  private learnUsage(usage: JsonObject | undefined): void {
    if (usage === undefined) return;
    for (const [member, value] of Object.entries(usage)) if (value !== null) this.usage[member] = value;
  }

  private learnMembers(members: JsonObject): void {
    for (const [member, value] of Object.entries(members)) {
      if (value !== null && member !== '__proto__') this.members[member] = value;
    }
    this.stopReason = asText(members.stop_reason) ?? this.stopReason;
    this.stopSequence = asText(members.stop_sequence) ?? this.stopSequence;
  }
}

/** The Messages wire for a host with the address and body of `form`. */
export function createAnthropicProvider(form: AnthropicHostForm): ChatProviderCodec {
  return {
    encodeRequest: (request, host, report) => encodeRequest(request, host, report, form),
    decodeAnswer,
    eventReader: (contentType, context) => new MessageEventReader(contentType, context),
    decodeError: anthropicErrors.decode,
  };
}

/** The Messages wire of Anthropic, below a base URL that ends in the version. */
export const anthropicProvider: ChatProviderCodec = createAnthropicProvider({ path: '/messages' });

/** Operations that Anthropic does not offer. */
const missing: Partial<Record<EndpointId, string>> = {
  embeddings: 'embeddings',
  rerank: 'reranking',
  'images.generations': 'image generation',
  images: 'image operations',
  'audio.speech': 'speech',
  audio: 'audio operations',
  moderations: 'moderation',
};

/** Hosts of the Messages wire: their own wire passes, other chat is translated, unsupported operations are refused. */
export const anthropicHost: ProviderDialect = {
  name: dialectName,
  plan(call) {
    if (call.spoken === dialectName) return endpointPlan.passOn(call);
    const operation = missing[call.endpoint];
    if (operation !== undefined) return endpointPlan.refused(call, operation);
    return endpointPlan.translated(call, anthropicProvider) ?? endpointPlan.passOn(call);
  },
};

/** The service tier of an answer, in the terms of OpenAI, which the canonical form uses. */
function decodeTier(value: unknown): string | undefined {
  const tier = asText(value);
  return tier === 'standard' ? 'default' : tier;
}

/** A `stop_reason` in the canonical form. `tool_use` without a call for the client is an ordinary end. */
function finishOf(raw: string, stopSequence: string | undefined, hasCall: boolean): Finish {
  const meaning = Object.hasOwn(meanings, raw) ? (meanings[raw] as FinishReason) : 'unknown';
  const reason = meaning === 'tool-calls' && !hasCall ? 'stop' : meaning;
  return stopSequence === undefined ? { reason, raw } : { reason, raw, stopSequence };
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
function decodeAnswer(body: Buffer, { request }: DecodeContext): ChatAnswer {
  const message = parseExactObject(body.toString('utf8'));
  if (message === undefined || !Array.isArray(message.content)) throw noMessage(message);
  const blocks = asArray(message.content).flatMap<JsonObject>((value) => asObject(value) ?? []);
  const calls = new CallReading(request);
  const parts = blocks.map(contentBlock.decode).map((part) => calls.read(part));
  const usage = anthropicUsage.decode(message.usage);
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
function messageExtras(message: JsonObject, usage: JsonObject): JsonObject | undefined {
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
class CallReading {
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
function freeText(text: string): string {
  const input = parseExactObject(text)?.input;
  return typeof input === 'string' ? input : text;
}
