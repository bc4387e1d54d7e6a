import type { FrameCodec, FrameRewriter } from '../../../core/dialects/dialect.ts';
import {
  joinTexts,
  type CallEvent,
  type StreamEvent,
  type StreamFrame,
  type TextEvent,
} from '../../../core/dialects/stream-event.ts';
import { readSseFrame, replaceSseData } from '../../../core/base/sse.ts';
import {
  asBuffer,
  asObject,
  asText,
  type JsonObject,
  parseExactObject,
  stringifyExact,
} from '../json-reading.ts';
import {
  type Block,
  createFrameReader,
  frameParts,
  frames,
  opaque,
  type TextSlot,
  wholeAnswer,
} from './frame-events.ts';
import { anthropicUsage } from './answer.ts';

const impliedTypes: Readonly<Record<string, string>> = {
  'reasoning-delta': 'thinking',
  'tool-arguments-delta': 'tool_use',
};

/** A block whose first known event is this one. */
function impliedBlock(json: JsonObject): Block {
  const type = impliedTypes[frameParts.textSlots(json)[0]?.event.type ?? ''] ?? 'text';
  return frameParts.newBlock(type, frameParts.blockNumber(json), {});
}

/** Replacement texts of a frame, joined per channel; each is taken once. */
class WantedTexts {
  private readonly texts: Map<string, TextEvent>;

  constructor(events: readonly StreamEvent[]) {
    this.texts = joinTexts(events, channelOf);
  }

  /** The replacement for the text of this event. */
  take(event: TextEvent): TextEvent | undefined {
    const key = channelOf(event);
    const wanted = this.texts.get(key);
    this.texts.delete(key);
    return wanted;
  }

  /** Replacements for which the frame has no place. */
  rest(): readonly TextEvent[] {
    return [...this.texts.values()];
  }

  /** The events that the frame itself carries: all except the rest. */
  without(events: readonly StreamEvent[]): readonly StreamEvent[] {
    const { texts } = this;
    if (texts.size === 0) return events.length === 0 ? opaque : events;
    const own = events.filter((event) => !('text' in event) || !texts.has(channelOf(event)));
    return own.length === 0 ? opaque : own;
  }
}

function channelOf(event: TextEvent): string {
  return event.type === 'tool-arguments-delta' ? `${event.type}:${event.call}` : event.type;
}

/** Message streams as frames and events, for taps. */
export const messageFrames: FrameCodec = {
  reader: () => createFrameReader(),
  rewriter: () => new MessageFrameRewriter(),
  assemble: wholeAnswer.assemble,
  disassemble: wholeAnswer.disassemble,
};

/**
 * Writes the frames of one stream with other events. Late text goes into its block while the block is open; the end of
 * a block whose text was changed waits for the next block or the end of the message. Text that arrives after that
 * becomes a block of its own, and the blocks behind it are renumbered.
 */
export class MessageFrameRewriter implements FrameRewriter {
  private readonly blocks = new Map<number, Block>();
  private readonly usage: JsonObject = {};
  /** The open block of the written stream. */
  private current: Block | undefined;
  private next = 0;
  /** The start event of the current block, held until the block has content: an empty block is not written. */
  private opening: StreamFrame | undefined;
  private isClean = true;
  /** Text that must wait for the end of the open block. */
  private pending: TextEvent[] = [];
  /** Frames behind the last block that wait with it. */
  private readonly tail: StreamFrame[] = [];

  write(frame: StreamFrame, events: readonly StreamEvent[]): readonly StreamFrame[] {
    const bytes = asBuffer(frame.bytes);
    if (this.isClean && this.opening === undefined && events === frame.events && isPlainDelta(bytes, events))
      return [frame];
    const json = frame.unread === true ? undefined : frameJson(bytes);
    const wanted = new WantedTexts(events);
    const out: StreamFrame[] = [];
    if (json === undefined) {
      this.sayAll(wanted.rest(), out);
      if (events.length > 0) this.put({ bytes: frame.bytes, events: wanted.without(events) }, frame, out);
      return out;
    }
    this.learnUsage(json);
    switch (json.type) {
      case 'content_block_start':
        this.begin(frame, json, { wanted, events }, out);
        break;
      case 'content_block_delta':
        this.delta(frame, json, { wanted, events }, out);
        break;
      case 'content_block_stop':
        this.stop(frame, json, { wanted, events }, out);
        break;
      default:
        this.message(frame, json, { wanted, events }, out);
    }
    return out;
  }

  late(events: readonly StreamEvent[]): readonly StreamFrame[] {
    const out: StreamFrame[] = [];
    // A torn-off block takes no more text of another kind.
    if (this.current?.state === 'open') this.flushPending(out);
    for (const event of new WantedTexts(events).rest()) this.say(event, out, true);
    this.release(out);
    return out;
  }

  private learnUsage(json: JsonObject): void {
    const usage = frameParts.usageHolder(json);
    if (usage === undefined) return;
    for (const member of Object.keys(usage)) if (usage[member] !== null) this.usage[member] = usage[member];
  }

  private begin(frame: StreamFrame, json: JsonObject, said: Said, out: StreamFrame[]): void {
    const number = frameParts.blockNumber(json);
    const start = asObject(json.content_block) ?? {};
    const slot = frameParts.textSlots(json)[0];
    const own = slot === undefined ? undefined : said.wanted.take(slot.event);
    this.sayAll(said.wanted.rest(), out);
    this.release(out);
    const block = frameParts.newBlock(asText(start.type) ?? '', this.next, json);
    this.blocks.set(number, block);
    if (slot?.member === 'input' && own === undefined) {
      block.state = 'gone';
      this.isClean = false;
      return;
    }
    this.next++;
    this.current = block;
    const more = slot === undefined ? undefined : this.writeSlot(slot, own, block);
    const begun: StreamFrame[] = [];
    this.putOwn(frame, json, this.renumbered(json, block) || block.changed, said, begun);
    const isEmpty = slot === undefined && (block.type === 'text' || block.type === 'thinking');
    if (isEmpty) this.opening = begun[0];
    else for (const one of begun) this.emit(out, one);
    if (more !== undefined) this.emit(out, frames.delta(block.index, more));
  }

  private delta(frame: StreamFrame, json: JsonObject, said: Said, out: StreamFrame[]): void {
    const block = this.blockOf(json);
    const slot = frameParts.textSlots(json)[0];
    if (block.state === 'gone' || slot === undefined) {
      this.sayAll(said.wanted.rest(), out);
      // A signature or citation of a text is invalid beside another text.
      if (block.state === 'gone' || said.events.length === 0 || block.changed) return;
      this.putOwn(frame, json, this.renumbered(json, block), said, out);
      return;
    }
    const own = said.wanted.take(slot.event);
    this.sayAll(said.wanted.rest(), out);
    const renumbered = this.renumbered(json, block);
    const before = slot.event.text;
    this.writeSlot(slot, own, block);
    if (own === undefined) return;
    this.putOwn(frame, json, renumbered || own.text !== before, said, out);
  }

  private stop(frame: StreamFrame, json: JsonObject, said: Said, out: StreamFrame[]): void {
    const block = this.blockOf(json);
    this.sayAll(said.wanted.rest(), out);
    block.ended = true;
    if (block.state === 'gone') return;
    if (block.changed && block === this.current) {
      block.state = 'closing';
      return;
    }
    block.state = 'closed';
    if (block === this.current) this.current = undefined;
    this.putOwn(frame, json, this.renumbered(json, block), said, out);
    this.flushPending(out);
  }

  /** Frames outside blocks: start and end of the message, errors, keep-alives. */
  private message(frame: StreamFrame, json: JsonObject, said: Said, out: StreamFrame[]): void {
    let changed = false;
    for (const slot of frameParts.textSlots(json)) {
      const own = said.wanted.take(slot.event);
      if (own?.text === slot.event.text) continue;
      changed = true;
      this.writeSlot(slot, own, undefined);
    }
    const says = (type: StreamEvent['type']): boolean => said.events.some((event) => event.type === type);
    const rest = said.wanted.rest();
    const isStart = json.type === 'message_start';
    if (!isStart) this.sayAll(rest, out);
    if (json.type === 'message_stop' || json.type === 'error') this.release(out);
    const isTold =
      isStart ||
      (json.type === 'message_stop' ? says('done') : said.events.some((event) => !('text' in event)));
    if (isTold) {
      if (json.type !== 'message_stop' && writeMembers(json, said.events, this.usage)) changed = true;
      this.putOwn(frame, json, changed, said, out);
    }
    if (isStart) {
      this.next = Math.max(this.next, contentLength(json));
      this.sayAll(rest, out);
    }
    for (const event of said.events) {
      if (event.type === 'error' && json.type !== 'error') this.emit(out, errorFrame(event));
      else if (event.type === 'done' && json.type !== 'message_stop') {
        this.release(out);
        this.emit(out, frames.event('message_stop', {}, [event]));
      }
    }
  }

  /** Writes the replacement text; returns arguments that are not a JSON object and need a delta of their own. */
  private writeSlot(
    slot: TextSlot,
    own: TextEvent | undefined,
    block: Block | undefined,
  ): TextEvent | undefined {
    const { event, holder, member } = slot;
    if (own?.type === 'tool-arguments-delta' && own.name !== undefined && own.name !== holder.name) {
      holder.name = own.name;
      if (block !== undefined) block.changed = true;
    }
    const text = own?.text ?? '';
    if (text === event.text) return undefined;
    this.isClean = false;
    if (block !== undefined) block.changed = true;
    delete holder.citations;
    if (member !== 'input') {
      holder[member] = text;
      if (member === 'thinking' && 'signature' in holder) holder.signature = '';
      return undefined;
    }
    const input = parseExactObject(text);
    holder.input = input ?? {};
    return input !== undefined || text === '' || own?.type !== 'tool-arguments-delta'
      ? undefined
      : frames.argumentsOnly(own);
  }

  private renumbered(json: JsonObject, block: Block): boolean {
    if (json.index === block.index) return false;
    json.index = block.index;
    return true;
  }

  /** Returns the block of an event; creates one when its start event is missing. */
  private blockOf(json: JsonObject): Block {
    const number = frameParts.blockNumber(json);
    const known = this.blocks.get(number);
    if (known !== undefined) return known;
    const block = impliedBlock(json);
    this.blocks.set(number, block);
    this.next = Math.max(this.next, number + 1);
    this.current = block;
    return block;
  }

  private sayAll(events: readonly TextEvent[], out: StreamFrame[]): void {
    for (const event of events) this.say(event, out, false);
  }

  /** Writes text for which no frame of the provider has a place. `isEnd`: no more frames follow. */
  private say(event: TextEvent, out: StreamFrame[], isEnd: boolean): void {
    if (event.text === '' && event.type !== 'tool-arguments-delta') return;
    this.isClean = false;
    const { current } = this;
    const own =
      event.type === 'tool-arguments-delta' ? this.blocks.get(event.call) : ofType(current, event.type);
    if (own !== undefined && own.state !== 'gone') {
      if (event.text === '') return;
      own.changed = true;
      const more = event.type === 'tool-arguments-delta' ? frames.argumentsOnly(event) : event;
      this.emit(out, frames.delta(own.index, more));
      return;
    }
    if (current?.state === 'open' && !isEnd) {
      this.pending.push(event);
      return;
    }
    this.endBlock(out);
    if (own !== undefined && event.type === 'tool-arguments-delta') this.revive(own, event, out);
    else {
      for (const frame of wholeBlock(this.next++, event)) this.emit(out, frame);
    }
  }

  /** Writes a call that was withheld before. */
  private revive(block: Block, event: CallEvent, out: StreamFrame[]): void {
    block.index = this.next++;
    block.state = block.ended ? 'closed' : 'open';
    block.changed = true;
    const content = { ...asObject(block.start.content_block), input: {} } as JsonObject;
    if (event.name !== undefined) content.name = event.name;
    this.emit(out, frames.start(block.index, content, event));
    if (event.text !== '') this.emit(out, frames.delta(block.index, frames.argumentsOnly(event)));
    if (block.ended) this.emit(out, frames.stop(block.index));
    else this.current = block;
  }

  /** Writes the delayed end of a block. */
  private endBlock(out: StreamFrame[]): void {
    const { current } = this;
    if (current?.state !== 'closing') return;
    current.state = 'closed';
    this.current = undefined;
    if (this.opening === undefined) return this.emit(out, frames.stop(current.index));
    this.opening = undefined;
    this.next = current.index;
  }

  private flushPending(out: StreamFrame[]): void {
    const { pending } = this;
    this.pending = [];
    for (const event of pending) this.say(event, out, true);
  }

  /** Writes everything that waits. */
  private release(out: StreamFrame[]): void {
    this.endBlock(out);
    this.flushPending(out);
    for (const frame of this.tail.splice(0)) this.emit(out, frame);
  }

  private putOwn(
    frame: StreamFrame,
    json: JsonObject,
    changed: boolean,
    said: Said,
    out: StreamFrame[],
  ): void {
    if (changed) this.isClean = false;
    const events = this.ownEvents(said);
    const bytes = changed ? replaceSseData(asBuffer(frame.bytes), stringifyExact(json)) : frame.bytes;
    const own = !changed && events === frame.events ? frame : { bytes, events };
    // Only the end of the message follows its stop reason.
    if (!this.isClean && json.type === 'message_delta') this.tail.push(own);
    else this.put(own, frame, out);
  }

  private ownEvents({ wanted, events }: Said): readonly StreamEvent[] {
    const own = wanted.without(events);
    if (!own.some((event) => event.type === 'tool-arguments-delta')) return own;
    return own.map((event) => {
      const block = event.type === 'tool-arguments-delta' ? this.blocks.get(event.call) : undefined;
      return block === undefined || !('text' in event) ? event : frames.numbered(event, block.index);
    });
  }

  private emit(out: StreamFrame[], frame: StreamFrame): void {
    const { opening } = this;
    this.opening = undefined;
    if (opening !== undefined) out.push(opening);
    out.push(frame);
  }

  private put(own: StreamFrame, frame: StreamFrame, out: StreamFrame[]): void {
    const written = own.bytes === frame.bytes && own.events === frame.events ? frame : own;
    if (this.tail.length > 0) this.tail.push(written);
    else this.emit(out, written);
  }
}

/** The replacement content of a frame. */
interface Said {
  readonly wanted: WantedTexts;
  readonly events: readonly StreamEvent[];
}

/**
 * Rewrites the stop reason, usage and error of an event; true when any of them has changed. `told` is the usage of the
 * stream so far.
 */
function writeMembers(json: JsonObject, events: readonly StreamEvent[], told: JsonObject): boolean {
  const before = stringifyExact(json);
  if (json.type === 'error') writeError(json, events);
  else {
    writeFinish(json, events);
    writeUsage(json, events, told);
  }
  return stringifyExact(json) !== before;
}

function writeError(json: JsonObject, events: readonly StreamEvent[]): void {
  const event = events.find((candidate) => candidate.type === 'error');
  if (event?.type !== 'error') return;
  const error = asObject(json.error);
  if (asText(error?.message) !== event.message) json.error = { ...error, message: event.message };
}

function writeFinish(json: JsonObject, events: readonly StreamEvent[]): void {
  const event = events.find((candidate) => candidate.type === 'finish');
  const holder = asObject(json.delta) ?? asObject(json.message);
  if (holder === undefined) return;
  if (event?.type === 'finish') holder.stop_reason = event.reason;
  else if (asText(holder.stop_reason) !== undefined) holder.stop_reason = null;
}

function writeUsage(json: JsonObject, events: readonly StreamEvent[], told: JsonObject): void {
  const event = events.findLast((candidate) => candidate.type === 'usage');
  const holder = frameParts.usageHolder(json);
  if (holder === undefined) return;
  const now = anthropicUsage.decode(told);
  if (event?.type === 'usage') {
    if (JSON.stringify(now) !== JSON.stringify(event.usage))
      Object.assign(holder, anthropicUsage.encode(event.usage));
  } else if (now !== undefined) {
    // The wire requires counts in every usage.
    const counts = anthropicUsage.encode(undefined);
    for (const name of Object.keys(holder)) delete holder[name];
    Object.assign(holder, { input_tokens: counts.input_tokens, output_tokens: counts.output_tokens });
  }
}

/** Number of blocks in the event that starts a message. */
function contentLength(json: JsonObject): number {
  const content = asObject(json.message)?.content;
  return Array.isArray(content) ? content.length : 0;
}

/** An error in the stream. */
function errorFrame(event: Extract<StreamEvent, { type: 'error' }>): StreamFrame {
  const error = { type: event.code === '' ? 'api_error' : event.code, message: event.message };
  return frames.event('error', { error }, [event]);
}

/** The JSON of a frame, with its type; undefined for a comment and for invalid JSON. */
function frameJson(bytes: Buffer): JsonObject | undefined {
  const { data, event } = readSseFrame(bytes);
  const json = data === undefined ? undefined : parseExactObject(data);
  if (json !== undefined && asText(json.type) === undefined && event !== '') json.type = event;
  return json;
}

/** True for a delta of a block, not its start; checked without parsing. */
function isPlainDelta(bytes: Buffer, events: readonly StreamEvent[]): boolean {
  return events.length === 1 && 'text' in (events[0] as StreamEvent) && !bytes.includes('_start"');
}

/** The open block, when text of this kind can continue in it. */
function ofType(block: Block | undefined, type: 'text-delta' | 'reasoning-delta'): Block | undefined {
  return block?.type === (type === 'text-delta' ? 'text' : 'thinking') ? block : undefined;
}

/** A whole block with this content alone. */
function wholeBlock(index: number, event: TextEvent): readonly StreamFrame[] {
  const more = event.type === 'tool-arguments-delta' ? frames.argumentsOnly(event) : event;
  return [frames.start(index, emptyBlock(event), event), frames.delta(index, more), frames.stop(index)];
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
