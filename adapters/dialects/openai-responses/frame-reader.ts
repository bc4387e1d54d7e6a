import type { FrameReader } from '../../../core/dialects/dialect.ts';
import type { StreamEvent, StreamFrame } from '../../../core/dialects/stream-event.ts';
import { defaultMaxFrameBytes, readSseFrame, replaceSseData, writeSseFrame } from '../../framing/sse.ts';
import {
  asArray,
  asBuffer,
  asObject,
  asText,
  type JsonObject,
  parseExactObject,
  parseObject,
  stringifyExact,
} from '../json-reading.ts';
import { decodeOpenAiUsage } from '../openai-shapes.ts';
import { createSseFrameReader, opaqueEvents } from '../frame-scanner.ts';
import { eventError, responseError, responseFacts } from './answer.ts';

/** The events that carry text. */
export type TextEvent = Extract<StreamEvent, { text: string }>;

/** The texts that shall be said instead of a frame's, those of one channel in one; each is taken once. */
export class WantedTexts {
  private readonly texts = new Map<string, TextEvent>();

  constructor(events: readonly StreamEvent[]) {
    for (const event of events) {
      if (!('text' in event)) continue;
      const key = keyOf(event);
      const before = this.texts.get(key);
      this.texts.set(key, before === undefined ? event : { ...before, text: before.text + event.text });
    }
  }

  /** What the slot shall say. The first slot of a channel in a frame takes all of it. */
  take({ channel, outputIndex }: FrameSlot): string {
    const key = channel === 'arguments' ? `arguments:${outputIndex}` : `${channel}-delta`;
    const text = this.texts.get(key)?.text ?? '';
    this.texts.delete(key);
    return text;
  }

  /** A call is told of: by its name, or by more of its arguments. */
  tellsCall(outputIndex: number): boolean {
    return this.texts.has(`arguments:${outputIndex}`);
  }

  /** Takes the begin of a call; its arguments stay to be said. */
  takeCall(outputIndex: number): TextEvent | undefined {
    const key = `arguments:${outputIndex}`;
    const event = this.texts.get(key);
    if (event?.text === '') this.texts.delete(key);
    return event;
  }

  /** What no slot has taken. */
  rest(): readonly TextEvent[] {
    return [...this.texts.values()].filter(({ text }) => text !== '');
  }
}

function keyOf(event: TextEvent): string {
  return event.type === 'tool-arguments-delta' ? `arguments:${event.call}` : event.type;
}

/** Which events say the text of a slot. */
export type Channel = 'text' | 'reasoning' | 'arguments';

/** One place in an event where generated text stands. */
export interface FrameSlot {
  /** The same for every event that says, or repeats, the same text. */
  readonly key: string;
  readonly channel: Channel;
  readonly outputIndex: number;
  /** The object that holds the text, and under which name. */
  readonly holder: JsonObject;
  readonly member: string;
  /** The whole text so far, and not a piece of it. */
  readonly isWhole: boolean;
}

const deltas: Readonly<Record<string, Channel>> = {
  'response.output_text.delta': 'text',
  'response.refusal.delta': 'text',
  'response.reasoning_summary_text.delta': 'reasoning',
  'response.reasoning_text.delta': 'reasoning',
  'response.function_call_arguments.delta': 'arguments',
  'response.custom_tool_call_input.delta': 'arguments',
};

const wholes: Readonly<Record<string, readonly [Channel, string]>> = {
  'response.output_text.done': ['text', 'text'],
  'response.refusal.done': ['text', 'refusal'],
  'response.reasoning_summary_text.done': ['reasoning', 'text'],
  'response.reasoning_text.done': ['reasoning', 'text'],
  'response.function_call_arguments.done': ['arguments', 'arguments'],
  'response.custom_tool_call_input.done': ['arguments', 'input'],
};

/** Every place in an event of the stream where generated text stands. */
export function frameSlots(json: JsonObject): readonly FrameSlot[] {
  const type = asText(json.type) ?? '';
  const outputIndex = indexOf(json.output_index);
  const delta = deltas[type];
  if (delta !== undefined) return [eventSlot(json, delta, 'delta', false)];
  const whole = wholes[type];
  if (whole !== undefined) return [eventSlot(json, whole[0], whole[1], true)];
  if (type === 'response.content_part.done' || type === 'response.reasoning_summary_part.done') {
    const part = asObject(json.part) ?? {};
    return contentSlot(part, outputIndex, placeOf(json));
  }
  if (type === 'response.output_item.done') return itemSlots(asObject(json.item) ?? {}, outputIndex);
  const response = asObject(json.response);
  return response === undefined
    ? []
    : asArray(response.output).flatMap((item, i) => itemSlots(asObject(item) ?? {}, i));
}

/** The texts of an output item. */
function itemSlots(item: JsonObject, outputIndex: number): readonly FrameSlot[] {
  if (item.type === 'function_call' || item.type === 'custom_tool_call') {
    const member = item.type === 'function_call' ? 'arguments' : 'input';
    return slot(item, member, { key: `${outputIndex}`, channel: 'arguments', outputIndex });
  }
  const inContent = asArray(item.content).flatMap((part, i) =>
    contentSlot(asObject(part) ?? {}, outputIndex, `content:${i}`),
  );
  const inSummary = asArray(item.summary).flatMap((part, i) =>
    contentSlot(asObject(part) ?? {}, outputIndex, `summary:${i}`),
  );
  return [...inSummary, ...inContent];
}

function contentSlot(part: JsonObject, outputIndex: number, place: string): readonly FrameSlot[] {
  const isThought = part.type === 'summary_text' || part.type === 'reasoning_text';
  const member = part.type === 'refusal' ? 'refusal' : 'text';
  const channel = isThought ? 'reasoning' : 'text';
  return slot(part, member, { key: `${outputIndex}.${place}`, channel, outputIndex });
}

function slot(
  holder: JsonObject,
  member: string,
  place: Pick<FrameSlot, 'key' | 'channel' | 'outputIndex'>,
): readonly FrameSlot[] {
  return typeof holder[member] === 'string' ? [{ ...place, holder, member, isWhole: true }] : [];
}

function eventSlot(json: JsonObject, channel: Channel, member: string, isWhole: boolean): FrameSlot {
  const outputIndex = indexOf(json.output_index);
  const key = channel === 'arguments' ? `${outputIndex}` : `${outputIndex}.${placeOf(json)}`;
  return { key, channel, outputIndex, holder: json, member, isWhole };
}

/** The key of the text part that an event is about. */
export function textKeyOf(json: JsonObject): string {
  return `${indexOf(json.output_index)}.${placeOf(json)}`;
}

function placeOf(json: JsonObject): string {
  return json.summary_index === undefined
    ? `content:${indexOf(json.content_index)}`
    : `summary:${indexOf(json.summary_index)}`;
}

function indexOf(value: unknown): number {
  return typeof value === 'number' ? value : 0;
}

/** What a slot says. */
export function slotText({ holder, member }: FrameSlot): string {
  const text = holder[member];
  return typeof text === 'string' ? text : '';
}

/** What a slot says beyond what was said of it: all of it when it says something else. */
export function newText(place: FrameSlot, said: string): string {
  const text = slotText(place);
  if (!place.isWhole) return text;
  return text.startsWith(said) ? text.slice(said.length) : text;
}

const done: StreamEvent = Object.freeze({ type: 'done' });

const finals: ReadonlySet<unknown> = new Set([
  'response.completed',
  'response.incomplete',
  'response.failed',
]);

/** Cuts a Responses stream into frames with their events. A text that is repeated is said once. */
export function createFrameReader(maxFrameBytes?: number): FrameReader {
  const said = new SaidTexts(maxFrameBytes ?? defaultMaxFrameBytes);
  return createSseFrameReader((bytes) => readFrame(bytes, said), maxFrameBytes);
}

/** The texts of a stream so far; together they stay under a bound, as the event does that repeats them all. */
class SaidTexts {
  private readonly texts = new Map<string, string>();
  private readonly maxLength: number;
  private length = 0;

  constructor(maxLength: number) {
    this.maxLength = maxLength;
  }

  of(key: string): string {
    return this.texts.get(key) ?? '';
  }

  /** False when there is no room for it. */
  keep(key: string, text: string): boolean {
    const length = this.length + text.length - this.of(key).length;
    if (length > this.maxLength) return false;
    this.length = length;
    this.texts.set(key, text);
    return true;
  }
}

function readFrame(bytes: Buffer, said: SaidTexts): StreamFrame {
  const { data, event } = readSseFrame(bytes);
  const text = data?.trim() ?? '';
  if (text === '') return { bytes, events: opaqueEvents };
  if (text === '[DONE]') return { bytes, events: [done] };
  const json = parseObject(text);
  if (json === undefined) return { bytes, events: opaqueEvents, unread: true };
  json.type ??= event;
  const events: StreamEvent[] = callStart(json);
  for (const slot of frameSlots(json)) {
    const before = said.of(slot.key);
    const piece = newText(slot, before);
    // A text that is too long to be remembered cannot be told from its repeats.
    if (!said.keep(slot.key, slot.isWhole ? slotText(slot) : before + piece))
      return { bytes, events: opaqueEvents, unread: true };
    if (piece !== '') events.push(textEvent(slot, piece));
  }
  addEnd(events, json);
  return { bytes, events: events.length === 0 ? opaqueEvents : events };
}

/** The event that says a piece of a slot. Calls are numbered as the wire numbers the items that hold them. */
export function textEvent(slot: FrameSlot, text: string): StreamEvent {
  if (slot.channel === 'arguments')
    return { type: 'tool-arguments-delta', choice: 0, call: slot.outputIndex, text };
  return { type: slot.channel === 'text' ? 'text-delta' : 'reasoning-delta', choice: 0, text };
}

function callStart(json: JsonObject): StreamEvent[] {
  const item = asObject(json.item);
  if (json.type !== 'response.output_item.added' || item === undefined) return [];
  if (item.type !== 'function_call' && item.type !== 'custom_tool_call') return [];
  const call = typeof json.output_index === 'number' ? json.output_index : 0;
  const id = asText(item.call_id) ?? '';
  return [{ type: 'tool-arguments-delta', choice: 0, call, id, name: asText(item.name) ?? '', text: '' }];
}

function addEnd(events: StreamEvent[], json: JsonObject): void {
  if (json.type === 'error' || (json.type === '' && json.error !== undefined)) {
    const { message, code } = eventError(json);
    events.push({ type: 'error', message, code: code ?? '' });
    return;
  }
  if (!finals.has(json.type)) return;
  const response = asObject(json.response) ?? {};
  if (json.type === 'response.failed') {
    const { message, code } = responseError(response);
    events.push({ type: 'error', message, code: code ?? '' });
  }
  const reason = responseFacts(response).finishReason;
  if (reason !== undefined) events.push({ type: 'finish', choice: 0, reason });
  const usage = decodeOpenAiUsage(response.usage);
  if (usage !== undefined) events.push({ type: 'usage', usage });
  events.push(done);
}

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
