import type { FrameReader } from '../../../core/dialects/dialect.ts';
import type { StreamEvent, StreamFrame } from '../../../core/dialects/stream-event.ts';
import { defaultMaxFrameBytes, readSseFrame } from '../../../core/base/sse.ts';
import { asArray, asObject, asText, type JsonObject, parseObject } from '../json-reading.ts';
import { decodeOpenAiUsage } from '../openai-shapes.ts';
import { createSseFrameReader, opaqueEvents } from '../frame-scanner.ts';
import { eventError, finalEvents, responseError, responseFacts } from './answer.ts';

/** Kind of the events that carry a slot's text. */
export type Channel = 'text' | 'reasoning' | 'arguments';

/** Position of a generated text in an event. */
export interface FrameSlot {
  /** Equal for all events that carry, or repeat, the same text. */
  readonly key: string;
  readonly channel: Channel;
  readonly outputIndex: number;
  /** The object that holds the text; `member` is the text's name in it. */
  readonly holder: JsonObject;
  readonly member: string;
  /** True for the whole text so far, false for a piece of it. */
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

/** All positions of generated text in an event of the stream. */
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

/** Key of the text part of an event. */
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

/** Text of a slot. */
export function slotText({ holder, member }: FrameSlot): string {
  const text = holder[member];
  return typeof text === 'string' ? text : '';
}

/** Text of a slot beyond the earlier text; all of it when it does not start with the earlier text. */
export function newText(place: FrameSlot, said: string): string {
  const text = slotText(place);
  if (!place.isWhole) return text;
  return text.startsWith(said) ? text.slice(said.length) : text;
}

const done: StreamEvent = Object.freeze({ type: 'done' });

/** Splits a Responses stream into frames with their events. A repeated text is emitted once. */
export function createFrameReader(maxFrameBytes?: number): FrameReader {
  const said = new SaidTexts(maxFrameBytes ?? defaultMaxFrameBytes);
  return createSseFrameReader((bytes) => readFrame(bytes, said), maxFrameBytes);
}

/** The texts of a stream so far; their sum is bounded, like the event that repeats them all. */
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

  /** False when the bound is reached. */
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
    // A text that is too long to store cannot be distinguished from its repeats.
    if (!said.keep(slot.key, slot.isWhole ? slotText(slot) : before + piece))
      return { bytes, events: opaqueEvents, unread: true };
    if (piece !== '') events.push(textEvent(slot, piece));
  }
  addEnd(events, json);
  return { bytes, events: events.length === 0 ? opaqueEvents : events };
}

/** The event for a piece of a slot. Calls are numbered by their output items. */
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
  if (!finalEvents.has(json.type)) return;
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
