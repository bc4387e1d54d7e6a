import type { FrameReader } from '../../../core/dialects/dialect.ts';
import type { StreamEvent, StreamFrame } from '../../../core/dialects/stream-event.ts';
import { readSseFrame, writeSseFrame } from '../../framing/sse.ts';
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

/** A content block of the provider's, by its number there. */
export interface Block {
  readonly type: string;
  /** Its number in the stream that is written; of a block that is gone, none yet. */
  index: number;
  /** `closing`: the provider has ended it, and its end waits for more text. `gone`: nobody may be told of it. */
  state: 'open' | 'closing' | 'closed' | 'gone';
  /** Something of its text is another than the provider's. */
  changed: boolean;
  /** Of a block that is gone: how it began, and that the provider has ended it. */
  readonly start: JsonObject;
  ended: boolean;
}

const impliedTypes: Readonly<Record<string, string>> = {
  'reasoning-delta': 'thinking',
  'tool-arguments-delta': 'tool_use',
};

/** The open block, when text of this kind can go on in it. */
export function ofType(block: Block | undefined, type: 'text-delta' | 'reasoning-delta'): Block | undefined {
  return block?.type === (type === 'text-delta' ? 'text' : 'thinking') ? block : undefined;
}

/** It is a delta of a block, and not its begin; found without reading it. */
export function isPlainDelta(bytes: Buffer, events: readonly StreamEvent[]): boolean {
  return events.length === 1 && 'text' in (events[0] as StreamEvent) && !bytes.includes('_start"');
}

/** The event that a frame says, with its type; undefined for a comment and for what is no JSON. */
export function frameJson(bytes: Buffer): JsonObject | undefined {
  const { data, event } = readSseFrame(bytes);
  const json = data === undefined ? undefined : parseExactObject(data);
  if (json !== undefined && asText(json.type) === undefined && event !== '') json.type = event;
  return json;
}

/** The number of the block of which an event tells. */
export function blockNumber(json: JsonObject): number {
  return typeof json.index === 'number' ? json.index : 0;
}

/** How many blocks stand in the event that begins a message. */
export function contentLength(json: JsonObject): number {
  const content = asObject(json.message)?.content;
  return Array.isArray(content) ? content.length : 0;
}

/** A block of which the first thing known is this event. */
export function impliedBlock(json: JsonObject): Block {
  const type = impliedTypes[textSlots(json)[0]?.event.type ?? ''] ?? 'text';
  return newBlock(type, blockNumber(json), {});
}

/** A block that has just begun. */
export function newBlock(type: string, index: number, start: JsonObject): Block {
  return { type, index, start, state: 'open', changed: false, ended: false };
}

/** What a frame says that says nothing to a tap. */
export const opaque: readonly StreamEvent[] = Object.freeze([{ type: 'opaque' } as const]);

type CallEvent = Extract<TextEvent, { type: 'tool-arguments-delta' }>;

/** An event of this wire as a frame. */
export function eventFrame(type: string, members: JsonObject, events: readonly StreamEvent[]): StreamFrame {
  return { bytes: writeSseFrame(stringifyExact({ type, ...members }), type), events };
}

/** The begin of a text, of thoughts or of a call that holds nothing yet; `event` is what will be said in it. */
export function startFrame(index: number, block: JsonObject, event: TextEvent): StreamFrame {
  const isCall = event.type === 'tool-arguments-delta';
  const events = isCall ? [{ ...event, call: index, text: '' }] : opaque;
  return eventFrame('content_block_start', { index, content_block: block }, events);
}

/** More of a block. */
export function deltaFrame(index: number, event: TextEvent): StreamFrame {
  return eventFrame('content_block_delta', { index, delta: deltaOf(event) }, [numbered(event, index)]);
}

/** The end of a block. */
export function stopFrame(index: number): StreamFrame {
  return eventFrame('content_block_stop', { index }, opaque);
}

/** A whole block that says this and nothing else. */
export function wholeBlock(index: number, event: TextEvent): readonly StreamFrame[] {
  const more = event.type === 'tool-arguments-delta' ? argumentsOnly(event) : event;
  return [startFrame(index, emptyBlock(event), event), deltaFrame(index, more), stopFrame(index)];
}

function emptyBlock(event: TextEvent): JsonObject {
  switch (event.type) {
    case 'text-delta':
      return { type: 'text', text: '' };
    case 'reasoning-delta':
      return { type: 'thinking', thinking: '', signature: '' };
    case 'tool-arguments-delta':
      return { type: 'tool_use', id: event.id ?? '', name: event.name ?? '', input: {} };
  }
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

/** The event with the number that its block has in the stream that is written. */
export function numbered(event: TextEvent, index: number): TextEvent {
  return event.type === 'tool-arguments-delta' && event.call !== index ? { ...event, call: index } : event;
}

/** The arguments alone: id and name were said at the begin of the block. */
export function argumentsOnly({ choice, call, text }: CallEvent): CallEvent {
  return { type: 'tool-arguments-delta', choice, call, text };
}

/** An error in the stream. */
export function errorFrame(event: Extract<StreamEvent, { type: 'error' }>): StreamFrame {
  const error = { type: event.code === '' ? 'api_error' : event.code, message: event.message };
  return eventFrame('error', { error }, [event]);
}

/** The events that carry text. */
export type TextEvent = Extract<StreamEvent, { text: string }>;

const done: readonly StreamEvent[] = Object.freeze([{ type: 'done' } as const]);

/**
 * Cuts a message stream into frames with their events. The `call` of tool arguments is the number of their content
 * block; usage is what `message_start` and later events tell together. `maxFrameBytes` as for `SseSplitter`.
 */
export function createFrameReader(maxFrameBytes?: number): FrameReader {
  const state = new StreamState();
  return createSseFrameReader((bytes) => state.frame(bytes), maxFrameBytes);
}

/** What later frames of a stream rest on. */
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

/** Where an event tells usage. */
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

/** The place in an event where text stands. */
export interface TextSlot {
  readonly event: TextEvent;
  readonly holder: JsonObject;
  readonly member: 'text' | 'thinking' | 'partial_json' | 'input';
}

/** The texts of an event: of a delta, of a block that begins with some, or of the blocks with which a message begins. */
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

/** A call says its id and name when it begins. */
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
