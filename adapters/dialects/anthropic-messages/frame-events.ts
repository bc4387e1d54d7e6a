import type { FrameReader } from '../../../core/dialects/dialect.ts';
import type { StreamEvent, StreamFrame } from '../../../core/dialects/stream-event.ts';
import { readSseFrame } from '../../framing/sse-frame.ts';
import { parseExactObject, stringifyExact } from '../exact-json.ts';
import { asArray, asObject, asText, type JsonObject } from '../json-reading.ts';
import { createSseFrameReader, opaqueEvents } from '../sse-frame-reader.ts';
import { anthropicErrorMessage, decodeAnthropicUsage } from './message-facts.ts';

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
