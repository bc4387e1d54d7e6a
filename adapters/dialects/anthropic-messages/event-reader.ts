import type { ChatEventReader, DecodeContext } from '../../../core/dialects/canonical/chat-codec.ts';
import { ChatEventBuilder, cutShort } from '../../../core/dialects/canonical/chat-event-builder.ts';
import type { ChatEvent } from '../../../core/dialects/canonical/chat-event.ts';
import { createPayloadReader, type PayloadReader, type StreamPayload } from '../../framing/payload-reader.ts';
import { parseExactObject } from '../exact-json.ts';
import { asArray, asObject, asText, type JsonObject } from '../json-reading.ts';
import { CallReading, messageExtras } from './decode-answer.ts';
import { streamError } from './decode-error.ts';
import { decodeAnthropicUsage } from './message-facts.ts';
import { OpenBlock } from './open-block.ts';
import { decodeTier } from './encode-usage.ts';
import { dialectName } from './own-dialect.ts';
import { finishOf } from './stop-reason.ts';

/** Reads a streamed message. A second `message_start` and events of unknown types say nothing. */
export class MessageEventReader implements ChatEventReader {
  private readonly payloads: PayloadReader;
  private readonly builder = new ChatEventBuilder();
  private readonly calls: CallReading;
  private readonly blocks = new Map<unknown, OpenBlock>();
  /** Blocks that have begun: a spliced stream may begin one again. */
  private readonly begun = new Set<unknown>();
  /** `message_start` counts the prompt, each `message_delta` what has been said so far: later members win. */
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
      this.builder.error(streamError(json, data));
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
        this.builder.error(streamError(json, ''));
        return;
      default:
        // A host may report an error in another shape under a good status.
        if (asObject(json.error) !== undefined) this.builder.error(streamError(json, ''));
    }
  }

  private start(message: JsonObject): void {
    this.learnUsage(asObject(message.usage));
    this.builder.start({
      id: asText(message.id) ?? '',
      model: asText(message.model) ?? '',
      serviceTier: decodeTier(this.usage.service_tier),
      usage: decodeAnthropicUsage(this.usage),
    });
    this.learnMembers(message);
    // Content may stand here already when a turn goes on that was paused.
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
    this.blocks.set(index, new OpenBlock(this.builder, this.calls, String(index), block));
  }

  /** The block of a delta; one whose start was lost begins with it, where the delta tells what it is. */
  private block(index: unknown, delta: JsonObject): OpenBlock | undefined {
    const open = this.blocks.get(index);
    if (open !== undefined || this.begun.has(index)) return open;
    if (delta.type === 'text_delta') this.begin(index, { type: 'text', text: '' });
    else if (delta.type === 'thinking_delta') this.begin(index, { type: 'thinking', thinking: '' });
    return this.blocks.get(index);
  }

  private messageDelta(json: JsonObject): void {
    this.learnUsage(asObject(json.usage));
    const usage = decodeAnthropicUsage(this.usage);
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
