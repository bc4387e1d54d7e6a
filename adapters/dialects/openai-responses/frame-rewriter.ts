import type { FrameCodec, FrameRewriter } from '../../../core/dialects/dialect.ts';
import {
  joinTexts,
  type CallEvent,
  type StreamEvent,
  type StreamFrame,
  type TextEvent,
} from '../../../core/dialects/stream-event.ts';
import { readSseFrame, replaceSseData, writeSseFrame } from '../../../core/base/sse.ts';
import {
  asArray,
  asBuffer,
  asObject,
  asText,
  type JsonObject,
  parseExactObject,
  stringifyExact,
} from '../json-reading.ts';
import { type Channel, createFrameReader, type FrameSlot, frameText, wholeResponse } from './frame-reader.ts';
import { EventLines } from './output-writer.ts';
import { openAiUsage } from '../openai-shapes.ts';
import { responseParts } from './answer.ts';

/** Replacement texts of a frame, joined per channel; each is taken once. */
class WantedTexts {
  private readonly texts: Map<string, TextEvent>;

  constructor(events: readonly StreamEvent[]) {
    this.texts = joinTexts(events, (event) =>
      event.type === 'tool-arguments-delta' ? `arguments:${event.call}` : event.type,
    );
  }

  /** The replacement for the slot's text. The first slot of a channel in a frame takes all of it. */
  take({ channel, outputIndex }: FrameSlot): string {
    const key = channel === 'arguments' ? `arguments:${outputIndex}` : `${channel}-delta`;
    const text = this.texts.get(key)?.text ?? '';
    this.texts.delete(key);
    return text;
  }

  /** True when an event adds the name or more arguments of this call. */
  tellsCall(outputIndex: number): boolean {
    return this.texts.has(`arguments:${outputIndex}`);
  }

  /** Takes the start of a call; its arguments remain. */
  takeCall(outputIndex: number): TextEvent | undefined {
    const key = `arguments:${outputIndex}`;
    const event = this.texts.get(key);
    if (event?.text === '') this.texts.delete(key);
    return event;
  }

  /** Replacements that no slot has taken. */
  rest(): readonly TextEvent[] {
    return [...this.texts.values()].filter(({ text }) => text !== '');
  }
}

/** Responses streams as frames and events, for taps. */
export const responsesFrames: FrameCodec = {
  reader: () => createFrameReader(),
  rewriter: () => new ResponsesFrameRewriter(),
  assemble: wholeResponse.assemble,
  disassemble: wholeResponse.disassemble,
};

const opaque: readonly StreamEvent[] = Object.freeze([{ type: 'opaque' } as const]);

/** A text as received and as written. */
interface Said {
  readonly slot: FrameSlot;
  /** The event of its last delta, after which others are written. */
  readonly delta: JsonObject | undefined;
  was: string;
  now: string;
  /** Its end has been written. */
  closed: boolean;
}

/** A frame that is written later, with the text of that time. */
interface Waiting {
  readonly frame: StreamFrame;
  readonly json: JsonObject;
  readonly events: readonly StreamEvent[];
}

/**
 * Writes the frames of one stream with other events. The wire repeats every text at its end, in its part, its item and
 * the final response: a change applies to all of them, and its companions (annotations, log probabilities) are removed.
 * The end of a changed text waits until something else starts; text that arrives after that becomes an item of its own
 * at the end.
 */
export class ResponsesFrameRewriter implements FrameRewriter {
  private readonly said = new Map<string, Said>();
  private readonly names = new Map<number, string>();
  /** The latest text of each channel. */
  private readonly last = new Map<Channel, Said>();
  /** Withheld calls by output index: their start and end frames. */
  private readonly gone = new Map<number, Waiting[]>();
  private readonly added: JsonObject[] = [];
  private waiting: Waiting[] = [];
  private pending: TextEvent[] = [];
  private outputs = 0;
  /** The number of the next event; undefined when the provider sends none. */
  private sequence: number | undefined;

  write(frame: StreamFrame, events: readonly StreamEvent[]): readonly StreamFrame[] {
    const { data, event } = readSseFrame(asBuffer(frame.bytes));
    const json = data === undefined || frame.unread === true ? undefined : parseExactObject(data);
    if (json !== undefined) {
      json.type ??= event;
      if (typeof json.sequence_number === 'number') this.sequence ??= json.sequence_number;
    }
    return this.numbered(this.written(frame, json, events), frame, json);
  }

  private written(
    frame: StreamFrame,
    json: JsonObject | undefined,
    events: readonly StreamEvent[],
  ): readonly StreamFrame[] {
    const wanted = new WantedTexts(events);
    const out: StreamFrame[] = [];
    if (json === undefined) {
      this.sayAll(wanted.rest(), out);
      if (events.length > 0) out.push({ ...frame, events: events.some(isText) ? opaque : events });
      return out;
    }
    const index = outputIndexOf(json);
    if (index !== undefined) this.outputs = Math.max(this.outputs, index + 1);
    for (const one of events)
      if (one.type === 'tool-arguments-delta' && one.name !== undefined) this.names.set(one.call, one.name);
    if (index !== undefined && this.isGone(index, frame, json, wanted)) {
      this.sayAll(wanted.rest(), out);
      return out;
    }
    const call = index === undefined ? undefined : this.calledIn(json, index, wanted);
    const { changed, own, dropped } = this.writeSlots(json, wanted, call);
    this.sayAll(wanted.rest(), out);
    for (const one of events) if (!isText(one) && one.type !== 'opaque') own.push(one);
    if (dropped || events.length === 0 || this.isAboutChanged(json)) return out;
    if (closes(json)) this.close({ frame, json, events: own }, changed, out);
    else {
      this.release(out);
      if (asObject(json.response) !== undefined && isFinal(json)) this.flushPending(out);
      out.push(this.finished({ frame, json, events: own }, changed));
    }
    return out;
  }

  late(events: readonly StreamEvent[]): readonly StreamFrame[] {
    const out: StreamFrame[] = [];
    this.sayAll(new WantedTexts(events).rest(), out);
    this.release(out);
    this.flushPending(out);
    return this.numbered(out);
  }

  /** Renumbers the frames consecutively. `own` is the provider's, with its events. */
  private numbered(
    frames: readonly StreamFrame[],
    own?: StreamFrame,
    ownJson?: JsonObject,
  ): readonly StreamFrame[] {
    if (this.sequence === undefined) return frames;
    return frames.map((frame) => {
      const json = frame === own ? ownJson : jsonOf(frame);
      if (json === undefined || typeof json.sequence_number !== 'number') return frame;
      const number = this.sequence ?? 0;
      this.sequence = number + 1;
      if (json.sequence_number === number) return frame;
      json.sequence_number = number;
      return { ...frame, bytes: rewritten(asBuffer(frame.bytes), json) };
    });
  }

  /** Records the texts of an event and writes the pieces; whole texts are written when the event leaves. */
  private writeSlots(
    json: JsonObject,
    wanted: WantedTexts,
    call: CallEvent | undefined,
  ): { changed: boolean; own: StreamEvent[]; dropped: boolean } {
    const own: StreamEvent[] = call === undefined ? [] : [call];
    let changed = false;
    let dropped = false;
    for (const slot of frameText.slots(json)) {
      const before = this.said.get(slot.key);
      const piece = frameText.fresh(slot, before?.was ?? '');
      const text = (slot.isWhole ? '' : this.takePending(slot)) + (piece === '' ? '' : wanted.take(slot));
      const said = this.note(slot, json, piece, text);
      if (text !== '') own.push(frameText.event(slot, text));
      if (!slot.isWhole && piece !== text) {
        replaceText(slot, text);
        changed = true;
        dropped ||= text === '';
      } else if (slot.isWhole && said.now !== frameText.ofSlot(slot)) changed = true;
    }
    return { changed, own, dropped };
  }

  private note(slot: FrameSlot, json: JsonObject, piece: string, text: string): Said {
    const delta = slot.isWhole ? undefined : json;
    let said = this.said.get(slot.key);
    if (said === undefined || (delta !== undefined && said.delta === undefined)) {
      said = { slot, delta, was: said?.was ?? '', now: said?.now ?? '', closed: false };
      this.said.set(slot.key, said);
    }
    said.was = slot.isWhole ? frameText.ofSlot(slot) : said.was + piece;
    said.now += text;
    this.last.set(slot.channel, said);
    return said;
  }

  /** The call that starts in the frame. */
  private calledIn(json: JsonObject, index: number, wanted: WantedTexts): CallEvent | undefined {
    if (!beginsCall(json)) return undefined;
    const event = wanted.takeCall(index);
    if (event?.type !== 'tool-arguments-delta') return undefined;
    return event.text === '' ? event : { ...event, text: '' };
  }

  /** True for frames of a call whose start was removed, unless an event adds to the call after all. */
  private isGone(index: number, frame: StreamFrame, json: JsonObject, wanted: WantedTexts): boolean {
    const known = this.gone.get(index);
    if (known === undefined && (!beginsCall(json) || wanted.tellsCall(index))) return false;
    const frames = known ?? [];
    this.gone.set(index, frames);
    for (const slot of frameText.slots(json))
      this.note(slot, json, frameText.fresh(slot, this.said.get(slot.key)?.was ?? ''), '');
    const isPiece = frameText.slots(json).some(({ isWhole }) => !isWhole);
    if (!isPiece || frames.length === 1) frames.push({ frame, json, events: opaque });
    return true;
  }

  /** Writes a withheld call: its start now, its end in due order. */
  private revive(event: CallEvent, frames: readonly Waiting[], out: StreamFrame[]): void {
    this.gone.delete(event.call);
    const [begin, ...more] = frames;
    this.release(out);
    if (begin !== undefined) out.push(this.finished({ ...begin, events: [{ ...event, text: '' }] }, false));
    for (const one of more) if (closes(one.json)) this.waiting.push(one);
  }

  private sayAll(events: readonly TextEvent[], out: StreamFrame[]): void {
    for (const event of events) this.say(event, out);
  }

  /** Writes text outside the slots of its frame: as more of the open text, or as an item of its own later. */
  private say(event: TextEvent, out: StreamFrame[]): void {
    if (event.type === 'tool-arguments-delta') return this.sayArguments(event, out);
    const last = this.last.get(event.type === 'text-delta' ? 'text' : 'reasoning');
    if (last?.delta === undefined || last.closed) {
      this.pending.push(event);
      return;
    }
    last.now += event.text;
    out.push({ bytes: deltaFrame(last.delta, event.text), events: [frameText.event(last.slot, event.text)] });
  }

  private sayArguments(event: CallEvent, out: StreamFrame[]): void {
    const frames = this.gone.get(event.call);
    if (frames !== undefined) this.revive(event, frames, out);
    const said = this.said.get(String(event.call));
    if (said === undefined) {
      this.pending.push(event);
      return;
    }
    said.now += event.text;
    const delta = said.delta ?? argumentsDelta(said.slot, event.call);
    out.push({ bytes: deltaFrame(delta, event.text), events: [frameText.event(said.slot, event.text)] });
  }

  private takePending(slot: FrameSlot): string {
    let text = '';
    if (this.pending.length === 0) return text;
    this.pending = this.pending.filter((event) => {
      const isOf =
        slot.channel === 'arguments'
          ? event.type === 'tool-arguments-delta' && event.call === slot.outputIndex
          : event.type === `${slot.channel}-delta`;
      if (isOf) text += event.text;
      return !isOf;
    });
    return text;
  }

  /** The end of a text waits while more of it may arrive. */
  private close(one: Waiting, changed: boolean, out: StreamFrame[]): void {
    if (changed || this.waiting.length > 0) this.waiting.push(one);
    else out.push(this.finished(one, false));
  }

  private release(out: StreamFrame[]): void {
    const { waiting } = this;
    this.waiting = [];
    for (const one of waiting) out.push(this.finished(one, true));
  }

  private flushPending(out: StreamFrame[]): void {
    const { pending } = this;
    this.pending = [];
    for (const event of pending) {
      const index = this.outputs++;
      const item = addedItem(event, index);
      this.added.push(item);
      for (const frame of addedFrames(item, index)) out.push(frame);
    }
  }

  /** The frame in its final form. */
  private finished({ frame, json, events }: Waiting, changed: boolean): StreamFrame {
    let isOther = changed;
    for (const slot of frameText.slots(json)) {
      const said = this.said.get(slot.key);
      if (!slot.isWhole || said === undefined) continue;
      said.closed = true;
      if (said.now === frameText.ofSlot(slot)) continue;
      replaceText(slot, said.now);
      isOther = true;
    }
    if (this.rename(json)) isOther = true;
    if (changeEnding(json, events)) isOther = true;
    if (this.changeOutputs(json)) isOther = true;
    if (!isOther) return frame;
    return { bytes: rewritten(asBuffer(frame.bytes), json), events: events.length === 0 ? opaque : events };
  }

  /** True for a source of a changed text. */
  private isAboutChanged(json: JsonObject): boolean {
    if (json.type !== 'response.output_text.annotation.added') return false;
    const said = this.said.get(frameText.key(json));
    return said !== undefined && said.was !== said.now;
  }

  /** Applies the new name of a renamed call. */
  private rename(json: JsonObject): boolean {
    if (this.names.size === 0) return false;
    const holders: (readonly [unknown, unknown])[] = [[json.output_index, json.item ?? json]];
    asArray(asObject(json.response)?.output).forEach((item, i) => holders.push([i, item]));
    let changed = false;
    for (const [index, value] of holders) {
      const holder = asObject(value);
      const name = typeof index === 'number' ? this.names.get(index) : undefined;
      if (holder === undefined || name === undefined) continue;
      if (typeof holder.name !== 'string' || holder.name === name) continue;
      holder.name = name;
      changed = true;
    }
    return changed;
  }

  /** The final response without removed items and with added ones. */
  private changeOutputs(json: JsonObject): boolean {
    const response = asObject(json.response);
    if (response === undefined || !isFinal(json)) return false;
    if (this.added.length === 0 && this.gone.size === 0) return false;
    const kept = asArray(response.output).filter((_item, index) => !this.gone.has(index));
    response.output = [...kept, ...this.added];
    return true;
  }
}

/** An output item for text that the provider's items have no place for. */
function addedItem(event: TextEvent, index: number): JsonObject {
  const { text } = event;
  switch (event.type) {
    case 'reasoning-delta':
      return { id: `rs_added_${index}`, type: 'reasoning', summary: [{ type: 'summary_text', text }] };
    case 'text-delta': {
      const content = [{ type: 'output_text', annotations: [], logprobs: [], text }];
      return { id: `msg_added_${index}`, type: 'message', status: 'completed', content, role: 'assistant' };
    }
    case 'tool-arguments-delta':
      return {
        id: `fc_added_${index}`,
        type: 'function_call',
        status: 'completed',
        call_id: event.id ?? `call_added_${index}`,
        name: event.name ?? '',
        arguments: text,
      };
  }
}

/** The frames of an added item. */
function addedFrames(item: JsonObject, index: number): readonly StreamFrame[] {
  const lines = new EventLines();
  wholeResponse.writeItem(lines, item, index, () => undefined);
  return createFrameReader().push(Buffer.from(lines.take()));
}

/** Rewrites the finish, usage and error of an event; true when any of them has changed. */
function changeEnding(json: JsonObject, events: readonly StreamEvent[]): boolean {
  const response = asObject(json.response);
  let changed = false;
  for (const event of events) {
    if (event.type === 'error') changed = changeError(response ?? json, event.message) || changed;
    if (response === undefined) continue;
    if (event.type === 'finish' && event.reason !== responseParts.facts(response).finishReason) {
      response.status = 'incomplete';
      response.incomplete_details = { reason: event.reason };
      json.type = 'response.incomplete';
      changed = true;
    }
    if (
      event.type === 'usage' &&
      JSON.stringify(event.usage) !== JSON.stringify(openAiUsage.decode(response.usage))
    ) {
      response.usage = responseParts.usage(event.usage);
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

/** The arguments delta of a call whose arguments the provider sent only as a whole. */
function argumentsDelta({ holder, member }: FrameSlot, output_index: number): JsonObject {
  const kind = member === 'input' ? 'custom_tool_call_input' : 'function_call_arguments';
  return { type: `response.${kind}.delta`, item_id: holder.item_id ?? holder.id, output_index };
}

/** True for the start of a call that the client has to answer. */
function beginsCall(json: JsonObject): boolean {
  const type = asObject(json.item)?.type;
  if (json.type !== 'response.output_item.added') return false;
  return type === 'function_call' || type === 'custom_tool_call';
}

/** True for the end of a text, a part or an item. */
function closes(json: JsonObject): boolean {
  const type = asText(json.type) ?? '';
  return type.endsWith('.done');
}

/** Another delta after one of the provider's. */
function deltaFrame(delta: JsonObject, text: string): Buffer {
  const json: JsonObject = { ...delta, delta: text };
  if ('logprobs' in json) json.logprobs = [];
  delete json.obfuscation;
  return writeSseFrame(stringifyExact(json), asText(json.type) ?? '');
}

/** True for an event with the final response. */
function isFinal(json: JsonObject): boolean {
  return ['response.completed', 'response.incomplete', 'response.failed'].includes(asText(json.type) ?? '');
}

/** True for an event with text. */
function isText(event: StreamEvent): event is TextEvent {
  return 'text' in event;
}

/** The event of a frame; undefined for a comment and for unreadable frames. */
function jsonOf(frame: StreamFrame): JsonObject | undefined {
  const { data } = readSseFrame(asBuffer(frame.bytes));
  return data === undefined || frame.unread === true ? undefined : parseExactObject(data);
}

/** Output index of the item in an event. */
function outputIndexOf(json: JsonObject): number | undefined {
  return typeof json.output_index === 'number' ? json.output_index : undefined;
}

/** Replaces the text and removes its companions, which refer to the old text. */
function replaceText({ holder, member }: FrameSlot, text: string): void {
  holder[member] = text;
  if ('annotations' in holder) holder.annotations = [];
  if ('logprobs' in holder) holder.logprobs = [];
  delete holder.obfuscation;
}

/** The frame with this event; its event name follows the type when that has changed. */
function rewritten(bytes: Buffer, json: JsonObject): Buffer {
  const data = stringifyExact(json);
  const { event } = readSseFrame(bytes);
  const type = typeof json.type === 'string' ? json.type : event;
  return event === '' || event === type ? replaceSseData(bytes, data) : writeSseFrame(data, type);
}
