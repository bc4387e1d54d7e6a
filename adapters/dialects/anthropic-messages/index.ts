import type { Finish, ChatAnswer } from '../../../core/dialects/canonical/chat-answer.ts';
import type { ChatEvent } from '../../../core/dialects/canonical/chat-event.ts';
import type { ToolCallPart, Extras, ChatPart } from '../../../core/dialects/canonical/chat-part.ts';
import { mergeExtras } from '../../../core/dialects/canonical/collect-answer.ts';
import { SequentialParts } from '../../../core/dialects/canonical/sequential-parts.ts';
import type { Dialect, AnswerFacts, AnswerTextPlace } from '../../../core/dialects/dialect.ts';
import type { EndpointId } from '../../../core/dialects/endpoint.ts';
import type { Usage } from '../../../core/dialects/usage.ts';
import { FrameScanner, type Watch, watch, type EventReader } from '../frame-scanner.ts';
import {
  asBuffer,
  parseObject,
  stringifyExact,
  type JsonObject,
  asObject,
  asText,
  asArray,
  parseExactObject,
} from '../json-reading.ts';
import { bodyIssues } from '../request-members.ts';
import { anthropicErrorMessage, anthropicUsage, calls, stopReasonOf } from './answer.ts';
import { blockCitation, contentBlock, dialectName } from './content-blocks.ts';
import { messagesRequest } from './decode-request.ts';
import { anthropicErrors } from './errors.ts';
import { messageFrames } from './frame-rewriter.ts';
import type {
  ChatClientCodec,
  ChatEventWriter,
  AnswerContext,
} from '../../../core/dialects/canonical/chat-codec.ts';

/** The Messages wire on the client side. */
export const anthropicClient: ChatClientCodec = {
  decodeRequest: messagesRequest.decode,
  encodeAnswer,
  eventWriter: (context) => new MessageEventWriter(context),
  encodeProviderError: (error, context) => Buffer.from(anthropicErrors.providerJson(error, context)),
};

/** The Anthropic Messages wire. */
export const anthropicMessages: Dialect = {
  name: 'anthropic-messages',
  validateRequest: (_endpoint, body) => bodyIssues.body(body),
  decodeConversation: messagesRequest.decodeConversation,
  decodeAnswerTexts,
  chat: anthropicClient,
  scanAnswer(_endpoint, body) {
    const message = parseObject(asBuffer(body).toString('utf8'));
    return message === undefined ? {} : messageFacts(message);
  },
  streamScanner: () => new FrameScanner(new MessageStreamReader(), watchedMembers),
  frames: messageFrames,
  encodeError: anthropicErrors.encode,
  encodeStreamError: anthropicErrors.encodeStream,
};

/** Writes one answer as the events of a message stream. Blocks follow one another, numbered from 0. */
class MessageEventWriter implements ChatEventWriter {
  readonly contentType = 'text/event-stream; charset=utf-8';
  private readonly context: AnswerContext;
  private readonly sequence = new SequentialParts();
  private frames = '';
  /** Number of the block that is open, or of the next one. */
  private index = 0;
  private isOpen = false;
  /** The open block takes a signature. */
  private isThinking = false;
  /** A call whose block starts with the next event: its signature may arrive first and belongs in the start event. */
  private heldCall: ToolCallPart | undefined;
  /** Known signatures by part. */
  private readonly signatures = new Map<number, string>();
  /** The open call's arguments are free text. */
  private isCustom = false;
  private hasCall = false;
  private hasRefusal = false;
  private finish: Finish = { reason: 'unknown', raw: '' };
  private usage: Usage | undefined;
  private serviceTier: string | undefined;
  private extras: Extras | undefined;
  private readonly omitted: ChatPart[] = [];

  constructor(context: AnswerContext) {
    this.context = context;
  }

  write(events: readonly ChatEvent[]): Buffer | undefined {
    // A signature in the same batch as its call is known before the call is written.
    for (const event of events) {
      if (event.type === 'signature' && event.choice === 0) this.signatures.set(event.part, event.signature);
    }
    for (const event of events) for (const one of this.sequence.push(event)) this.one(one);
    if (this.frames === '') return undefined;
    const bytes = Buffer.from(this.frames);
    this.frames = '';
    return bytes;
  }

  private one(event: ChatEvent): void {
    switch (event.type) {
      case 'text-delta':
        this.textDelta(event.text);
        return;
      case 'reasoning-delta':
        this.delta('thinking_delta', 'thinking', event.text);
        return;
      case 'arguments-delta':
        this.argumentsDelta(event.text);
        return;
      case 'signature':
        this.signature(event.signature);
        return;
      case 'citation': {
        const citation = blockCitation.encode(event.citation);
        if (this.isOpen && citation !== undefined) {
          this.blockDelta(`{"type":"citations_delta","citation":${stringifyExact(citation)}}`);
        }
        return;
      }
      case 'part-start':
        this.begin(event.head, event.part);
        return;
      case 'part-end':
        this.end();
        return;
      default:
        this.aboutTheMessage(event);
    }
  }

  private aboutTheMessage(event: ChatEvent): void {
    switch (event.type) {
      case 'start':
        this.start(event);
        return;
      case 'finish':
        this.finish = event.finish;
        this.extras = mergeExtras(this.extras, event.extras);
        return;
      case 'usage':
        this.usage = event.usage;
        return;
      case 'extras':
        this.extras = mergeExtras(this.extras, event.extras);
        return;
      case 'error':
        this.frame('error', anthropicErrors.providerJson(event.error, this.context));
        return;
      case 'end':
        this.complete();
        return;
      default:
    }
  }

  private start({ id, model, usage, serviceTier }: Extract<ChatEvent, { type: 'start' }>): void {
    this.usage = usage;
    this.serviceTier = serviceTier;
    const message: JsonObject = {
      id: id === '' ? this.context.newId('msg_') : id,
      type: 'message',
      role: 'assistant',
      model: model === '' ? this.context.request.model : model,
      content: [],
      stop_reason: null,
      stop_sequence: null,
      usage: anthropicUsage.encode(usage, {}, serviceTier),
    };
    this.frame('message_start', stringifyExact({ type: 'message_start', message }));
  }

  private begin(head: ChatPart, part: number): void {
    if (head.type === 'tool-call') {
      this.hasCall = true;
      const signature = this.signatures.get(part) ?? head.signature;
      this.heldCall = signature === undefined ? head : { ...head, signature };
      return;
    }
    this.hasRefusal ||= head.type === 'refusal';
    const block = encodeAnswerPart(head);
    if (block === undefined) this.omitted.push(head);
    else if (block.type === 'server_tool_use') this.spell(block);
    else if (block.type === 'text') this.beginText(block);
    else this.openBlock(block);
  }

  /** A text block starts empty; text and citations follow in deltas. */
  private beginText(block: JsonObject): void {
    const { text, citations, ...members } = block;
    this.openBlock({ ...members, text: '' });
    for (const citation of Array.isArray(citations) ? (citations as readonly unknown[]) : []) {
      this.blockDelta(`{"type":"citations_delta","citation":${stringifyExact(asObject(citation) ?? {})}}`);
    }
    if (asText(text) !== undefined) this.textDelta(asText(text) ?? '');
  }

  /** The wire sends the input of a server tool in deltas. */
  private spell(block: JsonObject): void {
    const input = asObject(block.input) ?? {};
    this.openBlock({ ...block, input: {} });
    const text = Object.keys(input).length === 0 ? '' : stringifyExact(input);
    this.delta('input_json_delta', 'partial_json', text);
  }

  private openCall(call: ToolCallPart): void {
    this.heldCall = undefined;
    this.openBlock({ ...contentBlock.encodeToolUse(call, {}), ...signatureMembers(call) });
    this.isCustom = call.kind === 'custom';
    if (this.isCustom) this.delta('input_json_delta', 'partial_json', '{"input":"');
    if (call.arguments !== '') this.argumentsDelta(call.arguments);
  }

  /** Wraps free text in an object with one string. */
  private argumentsDelta(text: string): void {
    if (this.heldCall !== undefined) this.openCall(this.heldCall);
    const json = this.isCustom ? JSON.stringify(text).slice(1, -1) : text;
    this.delta('input_json_delta', 'partial_json', json);
  }

  private openBlock(block: JsonObject): void {
    this.isOpen = true;
    this.isThinking = block.type === 'thinking';
    const json = `{"type":"content_block_start","index":${this.index},"content_block":${stringifyExact(block)}}`;
    this.frame('content_block_start', json);
  }

  private end(): void {
    if (this.heldCall !== undefined) this.openCall(this.heldCall);
    if (!this.isOpen) return;
    if (this.isCustom) this.delta('input_json_delta', 'partial_json', '"}');
    this.isCustom = false;
    this.frame('content_block_stop', `{"type":"content_block_stop","index":${this.index}}`);
    this.isOpen = false;
    this.index++;
  }

  private signature(signature: string): void {
    if (this.heldCall !== undefined) {
      this.heldCall = { ...this.heldCall, signature };
    } else if (this.isThinking) this.delta('signature_delta', 'signature', signature);
  }

  private textDelta(text: string): void {
    if (text !== '') this.delta('text_delta', 'text', text);
  }

  private delta(type: string, member: string, text: string): void {
    if (this.heldCall !== undefined) this.openCall(this.heldCall);
    if (this.isOpen) this.blockDelta(`{"type":"${type}","${member}":${JSON.stringify(text)}}`);
  }

  private blockDelta(delta: string): void {
    const json = `{"type":"content_block_delta","index":${this.index},"delta":${delta}}`;
    this.frame('content_block_delta', json);
  }

  private complete(): void {
    const {
      usage: details,
      stop_details: stopDetails,
      container,
      ...members
    } = this.extras?.[dialectName] ?? {};
    const delta: JsonObject = {
      stop_reason: stopReasonOf(this.finish, { hasCall: this.hasCall, hasRefusal: this.hasRefusal }),
      stop_sequence: this.finish.stopSequence ?? null,
    };
    if (stopDetails !== undefined) delta.stop_details = stopDetails;
    if (container !== undefined) delta.container = container;
    const usage = anthropicUsage.encode(this.usage, asObject(details), this.serviceTier);
    const json: JsonObject = { ...members, type: 'message_delta', delta, usage };
    const fields = this.context.strict ? undefined : providerFields(this.omitted, this.extras);
    if (fields !== undefined) json.provider_fields = fields;
    this.frame('message_delta', stringifyExact(json));
    this.frame('message_stop', '{"type":"message_stop"}');
  }

  private frame(event: string, json: string): void {
    this.frames += `event: ${event}\ndata: ${json}\n\n`;
  }
}

/** A complete answer as a message. Of several choices only the first is written: the wire has one. */
function encodeAnswer(answer: ChatAnswer, context: AnswerContext): Buffer {
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
    usage: anthropicUsage.encode(answer.usage, asObject(details), answer.serviceTier),
  };
  const fields = context.strict ? undefined : providerFields(omitted, answer.extras, choice?.extras);
  if (fields !== undefined) message.provider_fields = fields;
  return Buffer.from(stringifyExact(message));
}

/**
 * Content that a message cannot hold, for clients that accept more than the wire documents: parts without a block type
 * under `content`, and extras of other wires under their names. Undefined when there is none.
 */
function providerFields(
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

/** Members that cause a frame to be parsed after the first token. */
const watchedMembers: readonly Watch[] = [
  watch('usage', 'object'),
  watch('stop_reason', 'string'),
  watch('error', 'anything but null'),
  watch('message_stop', 'anything but null'),
];

/** Members of a content delta that carry a token when they are not empty. */
const tokenMembers = ['text', 'thinking', 'partial_json'] as const;

/** Collects usage, model, stop reason and errors from the events of a message stream. */
class MessageStreamReader implements EventReader {
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
    const decoded = anthropicUsage.decode(this.usage);
    if (decoded !== undefined) this.facts.usage = decoded;
  }
}

/** The generated texts of a complete message. */
function decodeAnswerTexts(_endpoint: EndpointId, answer: unknown): readonly AnswerTextPlace[] {
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

/** Facts of a complete message, or of an error in place of one. */
function messageFacts(message: JsonObject): AnswerFacts {
  const facts: AnswerFacts = {};
  const usage = anthropicUsage.decode(message.usage);
  if (usage !== undefined) facts.usage = usage;
  const model = asText(message.model);
  if (model !== undefined) facts.model = model;
  const finishReason = asText(message.stop_reason);
  if (finishReason !== undefined) facts.finishReason = finishReason;
  const errorMessage = anthropicErrorMessage(message);
  if (errorMessage !== undefined) facts.errorMessage = errorMessage;
  return facts;
}

/**
 * A part of an answer as a content block; undefined for parts that a Messages answer cannot hold (images, audio, files,
 * tools of other providers).
 */
function encodeAnswerPart(part: ChatPart): JsonObject | undefined {
  switch (part.type) {
    case 'text':
      return contentBlock.encodeText(part);
    case 'refusal':
      return { type: 'text', text: part.text };
    case 'reasoning':
      return part.redacted === undefined
        ? contentBlock.addCommon(
            { type: 'thinking', thinking: part.text, signature: part.signature ?? '' },
            part,
          )
        : contentBlock.addCommon({ type: 'redacted_thinking', data: part.redacted }, part);
    case 'tool-call':
      return { ...contentBlock.encodeToolUse(part, callInput(part)), ...signatureMembers(part) };
    case 'provider-tool':
    case 'opaque':
      return part.dialect === dialectName ? part.value : undefined;
    default:
      return undefined;
  }
}

/**
 * The member that carries Gemini's signature of a call through Messages clients: they return blocks unchanged, and
 * Gemini refuses a call without its signature.
 */
function signatureMembers({ signature }: ToolCallPart): JsonObject {
  return signature === undefined ? {} : { extra_content: { google: { thought_signature: signature } } };
}

/** The arguments as an object. Free text, and JSON that is not an object, becomes its `input` member. */
function callInput({ kind, arguments: text }: ToolCallPart): JsonObject {
  const parsed = kind === 'custom' ? undefined : parseExactObject(text === '' ? '{}' : text);
  return parsed ?? { input: text };
}
