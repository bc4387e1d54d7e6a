import type { FrameRewriter } from '../../../core/dialects/dialect.ts';
import type { StreamEvent, StreamFrame } from '../../../core/dialects/stream-event.ts';
import { readSseFrame, replaceSseData, writeSseFrame } from '../../framing/sse-frame.ts';
import { parseExactObject, stringifyExact } from '../exact-json.ts';
import { asArray, asBuffer, asObject, type JsonObject } from '../json-reading.ts';
import { decodeOpenAiUsage } from '../openai-usage.ts';
import { encodeResponsesUsage } from './encode-usage.ts';
import { EventLines } from './event-lines.ts';
import { textEvent } from './frame-reader.ts';
import { frameSlots, newText, slotText, type Channel, type FrameSlot } from './frame-slots.ts';
import { writeItem } from './replay-response.ts';
import { responseFacts } from './stream-reader.ts';

const opaque: readonly StreamEvent[] = Object.freeze([{ type: 'opaque' } as const]);

/** A text as the provider said it and as it is said now. */
interface Said {
  readonly slot: FrameSlot;
  /** The event of its last delta: others are written after it. */
  readonly delta: JsonObject | undefined;
  was: string;
  now: string;
}

/**
 * Writes the frames of one stream with other events. The wire repeats every text when it is finished, in its part, its
 * item and the final response: what was changed once is changed in all of them, and what lay beside it (annotations, log
 * probabilities) is taken out. Every frame must come through here, in order.
 */
export class ResponsesFrameRewriter implements FrameRewriter {
  private readonly said = new Map<string, Said>();
  private readonly names = new Map<number, string>();
  /** The text of each channel that was said last. */
  private readonly last = new Map<Channel, Said>();
  private readonly added: JsonObject[] = [];
  private outputs = 0;

  write(frame: StreamFrame, events: readonly StreamEvent[]): readonly StreamFrame[] {
    const bytes = asBuffer(frame.bytes);
    const { data } = readSseFrame(bytes);
    const json = data === undefined || frame.unread === true ? undefined : parseExactObject(data);
    if (json === undefined) return events.length === 0 ? [] : [frame];
    this.count(json);
    const wanted = new Wanted(events);
    let changed = this.rename(json, events);
    let gone = false;
    for (const slot of frameSlots(json)) {
      const piece = newText(slot, this.said.get(slot.key)?.was ?? '');
      const text = piece === '' ? '' : wanted.take(slot);
      if (this.apply(slot, json, piece, text)) changed = true;
      gone ||= !slot.isWhole && piece !== '' && text === '';
    }
    if (changeEnd(json, events)) changed = true;
    const before = this.rest(wanted);
    if (this.addOutputs(json)) changed = true;
    if (gone || events.length === 0) return before;
    if (!changed && before.length === 0) return [frame];
    const own = events.filter((event) => !wanted.isLeft(event));
    const left = own.length === 0 ? opaque : own;
    return [...before, { bytes: changed ? rewritten(bytes, json) : bytes, events: left }];
  }

  late(events: readonly StreamEvent[]): readonly StreamFrame[] {
    return this.rest(new Wanted(events));
  }

  private count(json: JsonObject): void {
    if (typeof json.output_index === 'number') this.outputs = Math.max(this.outputs, json.output_index + 1);
  }

  /** Takes note of a text, and writes what it says now; true when that is something else. */
  private apply(slot: FrameSlot, json: JsonObject, piece: string, text: string): boolean {
    const delta = slot.isWhole ? undefined : json;
    let said = this.said.get(slot.key);
    if (said === undefined || (delta !== undefined && said.delta === undefined)) {
      said = { slot, delta, was: said?.was ?? '', now: said?.now ?? '' };
      this.said.set(slot.key, said);
    }
    said.was = slot.isWhole ? slotText(slot) : said.was + piece;
    said.now += text;
    this.last.set(slot.channel, said);
    const wanted = slot.isWhole ? said.now : text;
    if (slotText(slot) === wanted) return false;
    slot.holder[slot.member] = wanted;
    if ('annotations' in slot.holder) slot.holder.annotations = [];
    if ('logprobs' in slot.holder) slot.holder.logprobs = [];
    delete slot.holder.obfuscation;
    return true;
  }

  /** A call may have been given another name. */
  private rename(json: JsonObject, events: readonly StreamEvent[]): boolean {
    for (const event of events)
      if (event.type === 'tool-arguments-delta' && event.name !== undefined)
        this.names.set(event.call, event.name);
    if (this.names.size === 0) return false;
    const response = asObject(json.response);
    const holders: (readonly [unknown, unknown])[] = [[json.output_index, json.item ?? json]];
    asArray(response?.output).forEach((item, i) => holders.push([i, item]));
    let changed = false;
    for (const [index, value] of holders) {
      const holder = asObject(value);
      const name = typeof index === 'number' ? this.names.get(index) : undefined;
      if (
        holder === undefined ||
        name === undefined ||
        typeof holder.name !== 'string' ||
        holder.name === name
      )
        continue;
      holder.name = name;
      changed = true;
    }
    return changed;
  }

  /** What was not the text of a slot of this frame: more of the last text of its channel, or a message of its own. */
  private rest(wanted: Wanted): StreamFrame[] {
    const frames: StreamFrame[] = [];
    for (const channel of ['reasoning', 'text', 'arguments'] as const) {
      const text = wanted.rest(channel);
      if (text === '') continue;
      const last = this.last.get(channel);
      if (last?.delta !== undefined) {
        last.now += text;
        frames.push({ bytes: deltaFrame(last.delta, text), events: [textEvent(last.slot, text)] });
      } else if (channel === 'text') frames.push(...this.message(text));
    }
    return frames;
  }

  private message(text: string): readonly StreamFrame[] {
    const content = [{ type: 'output_text', annotations: [], logprobs: [], text }];
    const index = this.outputs++;
    const item = {
      id: `msg_added_${index}`,
      type: 'message',
      status: 'completed',
      content,
      role: 'assistant',
    };
    this.added.push(item);
    const lines = new EventLines();
    const frames: StreamFrame[] = [];
    writeItem(lines, item, index, () => {
      const bytes = Buffer.from(lines.take());
      const saysIt = bytes.includes('.delta"');
      frames.push({ bytes, events: saysIt ? [{ type: 'text-delta', choice: 0, text }] : opaque });
    });
    return frames;
  }

  private addOutputs(json: JsonObject): boolean {
    const response = asObject(json.response);
    if (this.added.length === 0 || response === undefined || response.status === 'in_progress') return false;
    response.output = [...asArray(response.output), ...this.added];
    return true;
  }
}

/** The texts that shall be said, by channel; each is taken once. */
class Wanted {
  private readonly texts = new Map<string, string>();

  constructor(events: readonly StreamEvent[]) {
    for (const event of events) {
      if (!('text' in event)) continue;
      const key = keyOf(event);
      this.texts.set(key, (this.texts.get(key) ?? '') + event.text);
    }
  }

  /** What the slot shall say. The first slot of a channel in a frame takes all of it. */
  take(slot: FrameSlot): string {
    const key = slot.channel === 'arguments' ? `arguments:${slot.outputIndex}` : `${slot.channel}-delta`;
    const text = this.texts.get(key) ?? '';
    this.texts.delete(key);
    return text;
  }

  /** The event says what no slot of its frame has taken. */
  isLeft(event: StreamEvent): boolean {
    return 'text' in event && event.text !== '' && this.texts.has(keyOf(event));
  }

  /** What no slot has taken. */
  rest(channel: Channel): string {
    let rest = '';
    for (const [key, text] of this.texts) if (key.startsWith(channel)) rest += text;
    return rest;
  }
}

function keyOf(event: Extract<StreamEvent, { text: string }>): string {
  return event.type === 'tool-arguments-delta' ? `arguments:${event.call}` : event.type;
}

/** The frame with this event; its name follows when it has become another. */
function rewritten(bytes: Buffer, json: JsonObject): Buffer {
  const data = stringifyExact(json);
  const { event } = readSseFrame(bytes);
  const type = typeof json.type === 'string' ? json.type : event;
  return event === '' || event === type ? replaceSseData(bytes, data) : writeSseFrame(data, type);
}

/** Another delta beside one of the provider's. */
function deltaFrame(delta: JsonObject, text: string): Buffer {
  const json: JsonObject = { ...delta, delta: text };
  if ('logprobs' in json) json.logprobs = [];
  delete json.obfuscation;
  return writeSseFrame(stringifyExact(json), String(json.type));
}

/** Why it ended, the usage and the error, where they shall be other than the frame says. */
function changeEnd(json: JsonObject, events: readonly StreamEvent[]): boolean {
  const response = asObject(json.response);
  let changed = false;
  for (const event of events) {
    if (event.type === 'error') changed = changeError(response ?? json, event.message) || changed;
    if (response === undefined) continue;
    if (event.type === 'finish' && event.reason !== responseFacts(response).finishReason) {
      response.status = 'incomplete';
      response.incomplete_details = { reason: event.reason };
      json.type = 'response.incomplete';
      changed = true;
    }
    if (
      event.type === 'usage' &&
      JSON.stringify(event.usage) !== JSON.stringify(decodeOpenAiUsage(response.usage))
    ) {
      response.usage = encodeResponsesUsage(event.usage);
      changed = true;
    }
  }
  return changed;
}

function changeError(holder: JsonObject, message: string): boolean {
  const error = asObject(holder.error) ?? holder;
  if (error.message === message) return false;
  error.message = message;
  if (holder.message !== undefined) holder.message = message;
  return true;
}
