import type { StreamEvent, StreamFrame } from '../../../core/dialects/stream-event.ts';
import { readSseFrame, replaceSseData, writeSseFrame } from '../../framing/sse-frame.ts';
import { parseExactObject, stringifyExact } from '../exact-json.ts';
import { asBuffer, asObject, asText, type JsonObject } from '../json-reading.ts';
import type { FrameSlot } from './frame-slots.ts';
import type { TextEvent } from './wanted-texts.ts';

/** The event of a frame; undefined for a comment and for what cannot be read. */
export function jsonOf(frame: StreamFrame): JsonObject | undefined {
  const { data } = readSseFrame(asBuffer(frame.bytes));
  return data === undefined || frame.unread === true ? undefined : parseExactObject(data);
}

/** It carries text. */
export function isText(event: StreamEvent): event is TextEvent {
  return 'text' in event;
}

/** The place in the output of the item of which an event tells. */
export function outputIndexOf(json: JsonObject): number | undefined {
  return typeof json.output_index === 'number' ? json.output_index : undefined;
}

/** It begins a call that the client has to answer. */
export function beginsCall(json: JsonObject): boolean {
  const type = asObject(json.item)?.type;
  if (json.type !== 'response.output_item.added') return false;
  return type === 'function_call' || type === 'custom_tool_call';
}

/** It ends a text, a part or an item. */
export function closes(json: JsonObject): boolean {
  const type = asText(json.type) ?? '';
  return type.endsWith('.done');
}

/** It holds the final response. */
export function isFinal(json: JsonObject): boolean {
  return ['response.completed', 'response.incomplete', 'response.failed'].includes(String(json.type));
}

/** What lay beside the text says something of another one. */
export function replaceText({ holder, member }: FrameSlot, text: string): void {
  holder[member] = text;
  if ('annotations' in holder) holder.annotations = [];
  if ('logprobs' in holder) holder.logprobs = [];
  delete holder.obfuscation;
}

/** The frame with this event; its name follows when it has become another. */
export function rewritten(bytes: Buffer, json: JsonObject): Buffer {
  const data = stringifyExact(json);
  const { event } = readSseFrame(bytes);
  const type = typeof json.type === 'string' ? json.type : event;
  return event === '' || event === type ? replaceSseData(bytes, data) : writeSseFrame(data, type);
}

/** Another delta beside one of the provider's. */
export function deltaFrame(delta: JsonObject, text: string): Buffer {
  const json: JsonObject = { ...delta, delta: text };
  if ('logprobs' in json) json.logprobs = [];
  delete json.obfuscation;
  return writeSseFrame(stringifyExact(json), String(json.type));
}

/** Of a call whose arguments the provider told only as a whole. */
export function argumentsDelta({ holder, member }: FrameSlot, output_index: number): JsonObject {
  const kind = member === 'input' ? 'custom_tool_call_input' : 'function_call_arguments';
  return { type: `response.${kind}.delta`, item_id: holder.item_id ?? holder.id, output_index };
}
