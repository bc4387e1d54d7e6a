import type { FrameReader } from '../../../core/dialects/dialect.ts';
import type { CallEvent, StreamEvent, StreamFrame, TextEvent } from '../../../core/dialects/stream-event.ts';
import { readSseFrame, writeSseFrame } from '../../../core/base/sse.ts';
import {
  asArray,
  asObject,
  asText,
  type JsonObject,
  parseExactObject,
  stringifyExact,
} from '../json-reading.ts';
import { createSseFrameReader, opaqueEvents } from '../frame-scanner.ts';
import { anthropicErrorMessage, decodeAnthropicUsage } from './answer.ts';

/** A content block of the provider's stream. */
export interface Block {
  readonly type: string;
  /** Its number in the written stream; not yet assigned for a removed block. */
  index: number;
  /**
   * `closing`: the provider has ended the block, and its end waits for more text. `gone`: the block is withheld from
   * the client.
   */
  state: 'open' | 'closing' | 'closed' | 'gone';
  /** Some of its text differs from the provider's. */
  changed: boolean;
  /** Start event of a removed block; `ended` is true once the provider has ended it. */
  readonly start: JsonObject;
  ended: boolean;
}

/** Block number of an event. */
export function blockNumber(json: JsonObject): number {
  return typeof json.index === 'number' ? json.index : 0;
}

/** A block that has just started. */
export function newBlock(type: string, index: number, start: JsonObject): Block {
  return { type, index, start, state: 'open', changed: false, ended: false };
}

/** Events of a frame that carries nothing for a tap. */
export const opaque: readonly StreamEvent[] = Object.freeze([{ type: 'opaque' } as const]);

/** An event of this wire as a frame. */
export function eventFrame(type: string, members: JsonObject, events: readonly StreamEvent[]): StreamFrame {
  return { bytes: writeSseFrame(stringifyExact({ type, ...members }), type), events };
}

/** Start of a text, thinking or call block without content; `event` is its first content. */
export function startFrame(index: number, block: JsonObject, event: TextEvent): StreamFrame {
  const isCall = event.type === 'tool-arguments-delta';
  const events = isCall ? [{ ...event, call: index, text: '' }] : opaque;
  return eventFrame('content_block_start', { index, content_block: block }, events);
}

/** A delta of a block. */
export function deltaFrame(index: number, event: TextEvent): StreamFrame {
  return eventFrame('content_block_delta', { index, delta: deltaOf(event) }, [numbered(event, index)]);
}

/** The end of a block. */
export function stopFrame(index: number): StreamFrame {
  return eventFrame('content_block_stop', { index }, opaque);
}

function deltaOf(event: TextEvent): JsonObject {
  switch (event.type) {
    case 'text-delta':
      return { type: 'text_delta', text: event.text };
    case 'reasoning-delta':
      return { type: 'thinking_delta', thinking: event.text };
    case 'tool-arguments-delta':
      return { type: 'input_json_delta', partial_json: event.text };
  }
}

/** The event with its block number in the written stream. */
export function numbered(event: TextEvent, index: number): TextEvent {
  return event.type === 'tool-arguments-delta' && event.call !== index ? { ...event, call: index } : event;
}

/** The arguments alone: id and name are in the start event of the block. */
export function argumentsOnly({ choice, call, text }: CallEvent): CallEvent {
  return { type: 'tool-arguments-delta', choice, call, text };
}

const done: readonly StreamEvent[] = Object.freeze([{ type: 'done' } as const]);

/**
 * Splits a message stream into frames with their events. The `call` of tool arguments is the number of their content
 * block; usage combines `message_start` and later events. `maxFrameBytes` as for `SseSplitter`.
 */
export function createFrameReader(maxFrameBytes?: number): FrameReader {
  const state = new StreamState();
  return createSseFrameReader((bytes) => state.frame(bytes), maxFrameBytes);
}

/** State that later frames of a stream depend on. */
class StreamState {
  private readonly usage: JsonObject = {};
  frame(bytes: Buffer): StreamFrame {
    const { data, event } = readSseFrame(bytes);
    const text = data?.trim() ?? '';
    if (text === '') return { bytes, events: opaqueEvents };
    const json = parseExactObject(text);
    if (json === undefined) return { bytes, events: opaqueEvents, unread: true };
    this.learn(json);
    const events = eventsOf(json, event, this.usage);
    return { bytes, events: events.length === 0 ? opaqueEvents : events };
  }

  private learn(json: JsonObject): void {
    const usage = usageHolder(json);
    for (const [member, value] of Object.entries(usage ?? {})) {
      if (value !== null) this.usage[member] = value;
    }
  }
}

/** The object that holds the usage of an event. */
export function usageHolder(json: JsonObject): JsonObject | undefined {
  return asObject(asObject(json.message)?.usage) ?? asObject(json.usage);
}

function eventsOf(json: JsonObject, name: string, usage: JsonObject): readonly StreamEvent[] {
  const type = asText(json.type) ?? name;
  if (type === 'message_stop') return done;
  const events: StreamEvent[] = [];
  const message = anthropicErrorMessage(json, name);
  if (message !== undefined) {
    events.push({ type: 'error', message, code: asText(asObject(json.error)?.type) ?? '' });
  }
  for (const slot of textSlots(json)) events.push(slot.event);
  const reason = asText(asObject(json.delta)?.stop_reason) ?? asText(asObject(json.message)?.stop_reason);
  if (reason !== undefined) events.push({ type: 'finish', choice: 0, reason });
  const counted = usageHolder(json) === undefined ? undefined : decodeAnthropicUsage(usage);
  if (counted !== undefined) events.push({ type: 'usage', usage: counted });
  return events;
}

/** Position of a text in an event. */
export interface TextSlot {
  readonly event: TextEvent;
  readonly holder: JsonObject;
  readonly member: 'text' | 'thinking' | 'partial_json' | 'input';
}

/** The texts of an event: of a delta, of a block that starts with text, or of the blocks in the start of a message. */
export function textSlots(json: JsonObject): readonly TextSlot[] {
  const index = typeof json.index === 'number' ? json.index : 0;
  if (json.type === 'message_start') {
    const content = asArray(asObject(json.message)?.content);
    return content.flatMap((block, i) => blockSlot(asObject(block), i) ?? []);
  }
  const holder = json.type === 'content_block_delta' ? asObject(json.delta) : asObject(json.content_block);
  const slot = blockSlot(holder, index);
  return slot === undefined ? [] : [slot];
}

/** Id and name of a call are in its start event. */
function blockSlot(holder: JsonObject | undefined, index: number): TextSlot | undefined {
  if (holder === undefined) return undefined;
  switch (holder.type) {
    case 'text':
    case 'text_delta':
      return plainSlot('text-delta', holder, 'text');
    case 'thinking':
    case 'thinking_delta':
      return plainSlot('reasoning-delta', holder, 'thinking');
    case 'input_json_delta': {
      const text = asText(holder.partial_json) ?? '';
      const event = { type: 'tool-arguments-delta', choice: 0, call: index, text } as const;
      return { event, holder, member: 'partial_json' };
    }
    case 'tool_use':
    case 'server_tool_use':
    case 'mcp_tool_use':
      return { event: callEvent(holder, index), holder, member: 'input' };
    default:
      return undefined;
  }
}

function plainSlot(
  type: 'text-delta' | 'reasoning-delta',
  holder: JsonObject,
  member: 'text' | 'thinking',
): TextSlot | undefined {
  const text = asText(holder[member]);
  return text === undefined ? undefined : { event: { type, choice: 0, text }, holder, member };
}

function callEvent(block: JsonObject, call: number): TextEvent {
  const id = asText(block.id);
  const name = asText(block.name);
  const input = asObject(block.input) ?? {};
  return {
    type: 'tool-arguments-delta',
    choice: 0,
    call,
    ...(id === undefined ? {} : { id }),
    ...(name === undefined ? {} : { name }),
    text: Object.keys(input).length === 0 ? '' : stringifyExact(input),
  };
}
