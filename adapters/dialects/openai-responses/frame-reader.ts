import type { FrameReader } from '../../../core/dialects/dialect.ts';
import type { EndpointId } from '../../../core/dialects/endpoint.ts';
import type { StreamEvent, StreamFrame } from '../../../core/dialects/stream-event.ts';
import { defaultMaxFrameBytes, readSseFrame } from '../../../core/base/sse.ts';
import type { Usage } from '../../../core/dialects/usage.ts';
import { GatewayError } from '../../../core/errors/gateway-error.ts';
import {
  asArray,
  asObject,
  asText,
  type JsonObject,
  parseObject,
  stringifyExact,
  asBuffer,
  parseExactObject,
} from '../json-reading.ts';
import { openAiUsage } from '../openai-shapes.ts';
import { createSseFrameReader, opaqueEvents } from '../frame-scanner.ts';
import { finalEvents, responseErrors, responseParts } from './answer.ts';
import { EventLines } from './output-writer.ts';

/** One response of the events of a stream, and back. */
export const wholeResponse = { assemble: assembleResponse, disassemble: disassembleResponse, writeItem };

/** Texts in the frames of a stream. */
export const frameText = {
  slots: frameSlots,
  key: textKeyOf,
  ofSlot: slotText,
  fresh: newText,
  event: textEvent,
};

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
function frameSlots(json: JsonObject): readonly FrameSlot[] {
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
function textKeyOf(json: JsonObject): string {
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
function slotText({ holder, member }: FrameSlot): string {
  const text = holder[member];
  return typeof text === 'string' ? text : '';
}

/** Text of a slot beyond the earlier text; all of it when it does not start with the earlier text. */
function newText(place: FrameSlot, said: string): string {
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
function textEvent(slot: FrameSlot, text: string): StreamEvent {
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
    const { message, code } = responseErrors.ofEvent(json);
    events.push({ type: 'error', message, code: code ?? '' });
    return;
  }
  if (!finalEvents.has(json.type)) return;
  const response = asObject(json.response) ?? {};
  if (json.type === 'response.failed') {
    const { message, code } = responseErrors.ofResponse(response);
    events.push({ type: 'error', message, code: code ?? '' });
  }
  const reason = responseParts.facts(response).finishReason;
  if (reason !== undefined) events.push({ type: 'finish', choice: 0, reason });
  const usage = openAiUsage.decode(response.usage);
  if (usage !== undefined) events.push({ type: 'usage', usage });
  events.push(done);
}

/**
 * The complete response assembled from the frames of a stream: the final one, or the last state. Throws
 * `upstream_invalid` for a frame with content that cannot be read.
 */
function assembleResponse(_endpoint: EndpointId, frames: readonly StreamFrame[], usage?: Usage): Uint8Array {
  let response: JsonObject = {};
  let error: unknown;
  // Unfinished items are assembled from their deltas.
  const items = new Map<unknown, JsonObject>();
  for (const frame of frames) {
    const json = jsonOf(frame);
    if (json === undefined) continue;
    response = asObject(json.response) ?? response;
    const item = asObject(json.item);
    if (item !== undefined) items.set(json.output_index, item);
    else if (json.delta !== undefined) {
      const growing = items.get(json.output_index) ?? {
        type: 'message',
        role: 'assistant',
        id: json.item_id,
      };
      items.set(json.output_index, growing);
      growItem(growing, json);
    }
    if (json.type === 'error') error = asObject(json.error) ?? { code: json.code, message: json.message };
  }
  const whole: JsonObject = { object: 'response', ...response };
  if (asArray(whole.output).length === 0) whole.output = [...items.values()];
  if (usage !== undefined && asObject(whole.usage) === undefined) whole.usage = responseParts.usage(usage);
  if (error !== undefined && whole.status !== 'failed') Object.assign(whole, { status: 'failed', error });
  return Buffer.from(stringifyExact(whole));
}

function jsonOf(frame: StreamFrame): JsonObject | undefined {
  const text = readSseFrame(asBuffer(frame.bytes)).data?.trim() ?? '';
  if (text === '' || text === '[DONE]') return undefined;
  const json = frame.unread === true ? undefined : parseExactObject(text);
  if (json !== undefined) return json;
  throw new GatewayError('upstream_invalid', "The provider's stream holds an event that is no JSON object.", {
    source: 'provider',
  });
}

/**
 * A complete response as the frames of a stream; the inverse of `assembleResponse`. Throws `upstream_invalid` for
 * anything but a JSON object.
 */
function disassembleResponse(_endpoint: EndpointId, answer: Uint8Array): readonly Uint8Array[] {
  const response = parseExactObject(asBuffer(answer).toString('utf8'));
  if (response === undefined) {
    throw new GatewayError(
      'upstream_invalid',
      'The answer is no JSON object and cannot be replayed as a stream.',
      {
        source: 'provider',
      },
    );
  }
  const lines = new EventLines();
  const frames: Uint8Array[] = [];
  const cut = (): void => void frames.push(Buffer.from(lines.take()));
  const status = asText(response.status) ?? 'completed';
  const started = {
    ...response,
    status: 'in_progress',
    output: [],
    usage: null,
    error: null,
    incomplete_details: null,
  };
  lines.add('response.created', { response: started });
  cut();
  lines.add('response.in_progress', { response: started });
  cut();
  asArray(response.output).forEach((value, i) => {
    writeItem(lines, asObject(value) ?? {}, i, cut);
  });
  const ending = status === 'incomplete' || status === 'failed' ? status : 'completed';
  lines.add(`response.${ending}`, { response });
  cut();
  return frames;
}

/** Writes the events of an item; `cut` is called after each. */
function writeItem(lines: EventLines, item: JsonObject, output_index: number, cut: () => void): void {
  const place = { item_id: item.id, output_index };
  const add = (type: string, members: JsonObject): void => {
    lines.add(type, members);
    cut();
  };
  add('response.output_item.added', { output_index, item: emptied(item) });
  if (item.type === 'function_call') {
    add('response.function_call_arguments.delta', { ...place, delta: item.arguments });
    add('response.function_call_arguments.done', { ...place, name: item.name, arguments: item.arguments });
  } else if (item.type === 'custom_tool_call') {
    add('response.custom_tool_call_input.delta', { ...place, delta: item.input });
    add('response.custom_tool_call_input.done', { ...place, input: item.input });
  } else if (item.type === 'reasoning') {
    asArray(item.summary).forEach((value, summary_index) => {
      const part = asObject(value) ?? {};
      const at = { ...place, summary_index };
      add('response.reasoning_summary_part.added', { ...at, part: { ...part, text: '' } });
      add('response.reasoning_summary_text.delta', { ...at, delta: part.text });
      add('response.reasoning_summary_text.done', { ...at, text: part.text });
      add('response.reasoning_summary_part.done', { ...at, part });
    });
  }
  if (item.type === 'message' || item.type === 'reasoning')
    asArray(item.content).forEach((value, content_index) => {
      writeContent(asObject(value) ?? {}, { ...place, content_index }, add);
    });
  add('response.output_item.done', { output_index, item });
}

function writeContent(
  part: JsonObject,
  at: JsonObject,
  add: (type: string, members: JsonObject) => void,
): void {
  const isRefusal = part.type === 'refusal';
  const member = isRefusal ? 'refusal' : 'text';
  const name = isRefusal ? 'refusal' : part.type === 'reasoning_text' ? 'reasoning_text' : 'output_text';
  const annotations = asArray(part.annotations);
  const logprobs = isRefusal || name === 'reasoning_text' ? {} : { logprobs: asArray(part.logprobs) };
  const empty = name === 'output_text' ? { annotations: [], logprobs: [] } : {};
  add('response.content_part.added', { ...at, part: { ...part, ...empty, [member]: '' } });
  add(`response.${name}.delta`, { ...at, delta: part[member], ...logprobs });
  annotations.forEach((annotation, annotation_index) => {
    add('response.output_text.annotation.added', { ...at, annotation_index, annotation });
  });
  add(`response.${name}.done`, { ...at, [member]: part[member], ...logprobs });
  add('response.content_part.done', { ...at, part });
}

/** An item in the form of its first event, without content. */
function emptied(item: JsonObject): JsonObject {
  switch (item.type) {
    case 'function_call':
      return { ...item, status: 'in_progress', arguments: '' };
    case 'custom_tool_call':
      return { ...item, status: 'in_progress', input: '' };
    case 'message':
      return { ...item, status: 'in_progress', content: [] };
    case 'reasoning':
      return { ...item, summary: [], ...(item.content !== undefined && { content: [] }) };
    default:
      return item;
  }
}

/** Adds a delta to an unfinished item, in the form of the finished one. */
function growItem(item: JsonObject, event: JsonObject): void {
  const { delta } = event;
  if (typeof delta !== 'string') return;
  switch (event.type) {
    case 'response.function_call_arguments.delta':
      return append(item, 'arguments', delta);
    case 'response.custom_tool_call_input.delta':
      return append(item, 'input', delta);
    case 'response.output_text.delta':
      return append(partAt(item, 'content', event.content_index, 'output_text'), 'text', delta);
    case 'response.refusal.delta':
      return append(partAt(item, 'content', event.content_index, 'refusal'), 'refusal', delta);
    case 'response.reasoning_text.delta':
      return append(partAt(item, 'content', event.content_index, 'reasoning_text'), 'text', delta);
    case 'response.reasoning_summary_text.delta':
      return append(partAt(item, 'summary', event.summary_index, 'summary_text'), 'text', delta);
  }
}

function append(holder: JsonObject, member: string, text: string): void {
  const before = holder[member];
  holder[member] = typeof before === 'string' ? before + text : text;
}

/**
 * The part of a list at an index, created when the list is shorter. An index beyond the next one counts as the next
 * one.
 */
function partAt(item: JsonObject, list: 'content' | 'summary', index: unknown, type: string): JsonObject {
  const parts = Array.isArray(item[list]) ? (item[list] as unknown[]) : [];
  item[list] = parts;
  const at = Math.min(typeof index === 'number' ? index : 0, parts.length);
  const found = asObject(parts[at]);
  if (found !== undefined) return found;
  const part: JsonObject = type === 'output_text' ? { type, annotations: [] } : { type };
  parts[at] = part;
  return part;
}
