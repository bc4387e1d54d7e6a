import type { Finish } from '../../../core/dialects/canonical/chat-answer.ts';
import type { AnswerContext, ChatEventWriter } from '../../../core/dialects/canonical/chat-codec.ts';
import type { ChatEvent } from '../../../core/dialects/canonical/chat-event.ts';
import type { ChatPart, Extras, ToolCallPart } from '../../../core/dialects/canonical/chat-part.ts';
import { mergeExtras } from '../../../core/dialects/canonical/collect-answer.ts';
import { SequentialParts } from '../../../core/dialects/canonical/sequential-parts.ts';
import type { Usage } from '../../../core/dialects/usage.ts';
import { asObject, asText, type JsonObject, stringifyExact } from '../json-reading.ts';
import {
  dialectName,
  encodeAnswerPart,
  encodeCitation,
  encodeToolUse,
  signatureMembers,
} from './content-blocks.ts';
import { encodeAnthropicUsage, providerFields, stopReasonOf } from './answer.ts';
import { providerErrorJson } from './errors.ts';

/** Writes one answer as the events of a message stream. Blocks follow one another, numbered from 0. */
export class MessageEventWriter implements ChatEventWriter {
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
        const citation = encodeCitation(event.citation);
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
        this.frame('error', providerErrorJson(event.error, this.context));
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
      usage: encodeAnthropicUsage(usage, {}, serviceTier),
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
    this.openBlock({ ...encodeToolUse(call, {}), ...signatureMembers(call) });
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
    const usage = encodeAnthropicUsage(this.usage, asObject(details), this.serviceTier);
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
