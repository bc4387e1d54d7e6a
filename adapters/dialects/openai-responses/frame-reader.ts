import type { FrameReader } from '../../../core/dialects/dialect.ts';
import type { StreamEvent, StreamFrame } from '../../../core/dialects/stream-event.ts';
import { readSseFrame } from '../../framing/sse-frame.ts';
import { defaultMaxFrameBytes } from '../../framing/sse.ts';
import { asObject, asText, parseObject, type JsonObject } from '../json-reading.ts';
import { decodeOpenAiUsage } from '../openai-usage.ts';
import { createSseFrameReader, opaqueEvents } from '../sse-frame-reader.ts';
import { frameSlots, newText, slotText, type FrameSlot } from './frame-slots.ts';
import { responseFacts } from './stream-reader.ts';
import { eventError, responseError } from './stream-errors.ts';

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
    // What is too long to be remembered cannot be told from its repeats.
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
