import type { StreamEvent, StreamFrame } from '../../../core/dialects/stream-event.ts';
import { readSseFrame, replaceSseData, writeSseFrame } from '../../framing/sse-frame.ts';
import { parseExactObject, stringifyExact } from '../exact-json.ts';
import { asBuffer, asObject, asText, type JsonObject } from '../json-reading.ts';
import { encodeAnthropicUsage } from './encode-usage.ts';
import { placeOf, textSlot, usageHolder, type TextEvent, type TextSlot } from './frame-events.ts';
import { decodeAnthropicUsage } from './message-facts.ts';

/**
 * The frame saying `events` instead. An event of this wire says one thing: what does not fit into the frame becomes
 * frames of its own before it. Works on the bytes, and for text that comes late on what the reader knew of the blocks.
 */
export function rewriteFrame(frame: StreamFrame, events: readonly StreamEvent[]): Uint8Array | undefined {
  const bytes = asBuffer(frame.bytes);
  const { data } = readSseFrame(bytes);
  const json = data === undefined ? undefined : parseExactObject(data);
  const before = json === undefined ? '' : stringifyExact(json);
  const texts = joinedTexts(events);
  const slot = json === undefined ? undefined : textSlot(json);
  const rest = slot === undefined ? texts : writeSlot(slot, texts);
  const frames = rest.map((event) => lateText(frame, json, event));
  const own = json === undefined ? undefined : ownData(json, slot, events);
  if (own !== undefined) frames.push(own === before ? bytes : replaceSseData(bytes, own));
  const isError = json?.type === 'error';
  for (const event of events) {
    if (event.type === 'error' && !isError) frames.push(errorFrame(event));
    else if (event.type === 'done' && json?.type !== 'message_stop') {
      frames.push(writeSseFrame('{"type":"message_stop"}', 'message_stop'));
    }
  }
  return frames.length === 0 ? undefined : Buffer.concat(frames);
}

/** Texts of one channel in one. */
function joinedTexts(events: readonly StreamEvent[]): readonly TextEvent[] {
  const joined = new Map<string, TextEvent>();
  for (const event of events) {
    if (!('text' in event)) continue;
    const key = channelOf(event);
    const before = joined.get(key);
    joined.set(key, before === undefined ? event : { ...before, text: before.text + event.text });
  }
  return [...joined.values()];
}

function channelOf(event: TextEvent): string {
  return `${event.type}:${event.type === 'tool-arguments-delta' ? event.call : ''}`;
}

/** Writes the text that belongs into the slot, and returns the others. */
function writeSlot({ event, holder, member }: TextSlot, texts: readonly TextEvent[]): readonly TextEvent[] {
  const wanted = texts.find((text) => channelOf(text) === channelOf(event));
  const rest = texts.filter((text) => text !== wanted);
  if (wanted === undefined) {
    clear(holder, member);
    return rest;
  }
  if (wanted.type === 'tool-arguments-delta' && wanted.name !== undefined) holder.name = wanted.name;
  if (wanted.text === event.text) return rest;
  delete holder.citations;
  if (member !== 'input') {
    holder[member] = wanted.text;
    return rest;
  }
  const input = parseExactObject(wanted.text);
  holder.input = input ?? {};
  if (input !== undefined || wanted.type !== 'tool-arguments-delta') return rest;
  const { type, choice, call, text } = wanted;
  return [...rest, { type, choice, call, text }];
}

/** Blocks are numbered by their starts, so that one that may not be told stays as an empty text. */
function clear(holder: JsonObject, member: TextSlot['member']): void {
  if (member !== 'input') {
    holder[member] = '';
    delete holder.citations;
    return;
  }
  for (const name of Object.keys(holder)) delete holder[name];
  Object.assign(holder, { type: 'text', text: '' });
}

/** The frame's own JSON after its change; undefined when nothing is left of it. */
function ownData(
  json: JsonObject,
  slot: TextSlot | undefined,
  events: readonly StreamEvent[],
): string | undefined {
  const says = (type: StreamEvent['type']): boolean => events.some((event) => event.type === type);
  if (json.type === 'message_stop') return says('done') ? stringifyExact(json) : undefined;
  if (json.type === 'error') return errorData(json, events);
  const isDelta = json.type === 'content_block_delta';
  if (isDelta && slot !== undefined) {
    const isTold = events.some((event) => 'text' in event && channelOf(event) === channelOf(slot.event));
    return isTold ? stringifyExact(json) : undefined;
  }
  // Without events of its own it is the template for late ones, and has been sent.
  const isTold = slot !== undefined || says('finish') || says('usage') || says('opaque');
  if (!isTold && !(json.type === 'message_start' && events.length === 0)) return undefined;
  writeFinish(json, events);
  writeUsage(json, events);
  return stringifyExact(json);
}

function errorData(json: JsonObject, events: readonly StreamEvent[]): string | undefined {
  const event = events.find((candidate) => candidate.type === 'error');
  if (event?.type !== 'error') return undefined;
  const error = asObject(json.error);
  if (asText(error?.message) !== event.message) json.error = { ...error, message: event.message };
  return stringifyExact(json);
}

function writeFinish(json: JsonObject, events: readonly StreamEvent[]): void {
  const event = events.find((candidate) => candidate.type === 'finish');
  const holder = asObject(json.delta) ?? asObject(json.message);
  if (holder === undefined) return;
  if (event?.type === 'finish') holder.stop_reason = event.reason;
  else if (asText(holder.stop_reason) !== undefined) holder.stop_reason = null;
}

function writeUsage(json: JsonObject, events: readonly StreamEvent[]): void {
  const event = events.findLast((candidate) => candidate.type === 'usage');
  const holder = usageHolder(json);
  if (holder === undefined) return;
  if (event?.type !== 'usage') {
    // The wire wants counts where it has a usage.
    const counts = encodeAnthropicUsage(undefined);
    for (const name of Object.keys(holder)) delete holder[name];
    Object.assign(holder, { input_tokens: counts.input_tokens, output_tokens: counts.output_tokens });
  } else if (JSON.stringify(decodeAnthropicUsage(holder)) !== JSON.stringify(event.usage)) {
    Object.assign(holder, encodeAnthropicUsage(event.usage));
  }
}

function errorFrame({ message, code }: Extract<StreamEvent, { type: 'error' }>): Buffer {
  const error = { type: code === '' ? 'api_error' : code, message };
  return writeSseFrame(JSON.stringify({ type: 'error', error }), 'error');
}

/**
 * Text that this frame has no place for, as a delta of its block: the frame's own where it is of the right kind, else
 * the last text. Without any text so far a block is added behind the others.
 */
function lateText(frame: StreamFrame, json: JsonObject | undefined, event: TextEvent): Buffer {
  const { text } = event;
  if (event.type === 'tool-arguments-delta') return argumentsFrame(event);
  const isText = event.type === 'text-delta';
  const delta = isText ? { type: 'text_delta', text } : { type: 'thinking_delta', thinking: text };
  const slot = json === undefined ? undefined : textSlot(json);
  const place = placeOf(frame);
  const known = isText ? place?.text : place?.thinking;
  const isOwn =
    slot?.event.type === event.type || (place === undefined && json?.type === 'content_block_stop');
  const index = isOwn ? json?.index : (known ?? (place === undefined && isText ? 0 : undefined));
  if (typeof index === 'number') return blockFrame('content_block_delta', { index, delta });
  const added = place?.next ?? 0;
  const block = isText ? { type: 'text', text: '' } : { type: 'thinking', thinking: '', signature: '' };
  return Buffer.concat([
    blockFrame('content_block_start', { index: added, content_block: block }),
    blockFrame('content_block_delta', { index: added, delta }),
    blockFrame('content_block_stop', { index: added }),
  ]);
}

function argumentsFrame(event: Extract<TextEvent, { type: 'tool-arguments-delta' }>): Buffer {
  const { call: index, id, name, text } = event;
  const delta = blockFrame('content_block_delta', {
    index,
    delta: { type: 'input_json_delta', partial_json: text },
  });
  if (id === undefined) return delta;
  const block = { type: 'tool_use', id, name: name ?? '', input: {} };
  return Buffer.concat([blockFrame('content_block_start', { index, content_block: block }), delta]);
}

function blockFrame(type: string, members: JsonObject): Buffer {
  return writeSseFrame(stringifyExact({ type, ...members }), type);
}
