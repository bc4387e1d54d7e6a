import type { FrameReader } from '../../../core/dialects/dialect.ts';
import type { StreamEvent, StreamFrame, TextEvent } from '../../../core/dialects/stream-event.ts';
import {
  defaultMaxFrameBytes,
  readSseFrame,
  replaceSseData,
  SseSplitter,
  writeSseFrame,
} from '../../../core/base/sse.ts';
import {
  asArray,
  asBuffer,
  asObject,
  asText,
  type JsonObject,
  parseExactObject,
  stringifyExact,
} from '../json-reading.ts';
import { geminiErrors } from './errors.ts';
import { streamedParts } from './join-calls.ts';
import { geminiMembers } from './parts.ts';
import { geminiUsage } from './answer.ts';
import { ByteStore } from '../../framing/stream-payload.ts';

/** A reader of the frames of each framing. */
export const frameReader = { ofEvents: createEventReader, ofArray: createArrayReader };

/** Content type of the stream that a request with this query gets: events for `alt=sse`, else one JSON array. */
export function streamContentType(query: string): 'text/event-stream' | 'application/json' {
  return /[?&]alt=sse(?:&|$)/.test(query) ? 'text/event-stream' : 'application/json';
}

/** Tracks the candidates whose call continues in the next object. */
class OpenCalls {
  private readonly open = new Set<number>();

  /** Reads an object; true while a call is open. */
  learn(json: JsonObject): boolean {
    asArray(json.candidates).forEach((value, position) => {
      const candidate = asObject(value) ?? {};
      const index = streamedParts.candidateIndex(candidate, position);
      for (const part of streamedParts.of(candidate)) {
        const call = geminiMembers.object(part, 'functionCall');
        if (call !== undefined && geminiMembers.of(call, 'willContinue') === true) this.open.add(index);
        else this.open.delete(index);
      }
      if (geminiMembers.of(candidate, 'finishReason') !== undefined) this.open.delete(index);
    });
    return this.open.size > 0;
  }
}

const quote = 0x22;
const backslash = 0x5c;
const closeBracket = 0x5d;

/** Receives the output of a splitter: an element with the bytes before it, the closing bracket, or unreadable bytes. */
type ElementSink = (bytes: Buffer, kind: 'element' | 'end' | 'unread') => void;

/**
 * Splits a JSON array of objects into its elements, byte for byte: each with the bracket, comma and blanks before it.
 */
class ArraySplitter {
  private readonly sink: ElementSink;
  private readonly maxFrameBytes: number;
  private readonly store = new ByteStore();
  /** Depth of brackets inside the element; that of the array does not count. */
  private depth = 0;
  private inString = false;
  private escaped = false;
  private isOver = false;
  /** The element exceeds the bound. */
  private isTorn = false;

  /** `maxFrameBytes` bounds one element; default 4 MiB. */
  constructor(sink: ElementSink, maxFrameBytes: number = defaultMaxFrameBytes) {
    this.sink = sink;
    this.maxFrameBytes = maxFrameBytes;
  }

  /** Bytes held for the unfinished element. */
  get heldBytes(): number {
    return this.store.length;
  }

  push(chunk: Buffer): void {
    let start = 0;
    for (let at = 0; at < chunk.length && !this.isOver; at++) {
      const kind = this.step(chunk[at] as number);
      if (kind === undefined) continue;
      this.store.append(chunk, start, at + 1);
      start = at + 1;
      this.sink(this.store.take(), this.isTorn ? 'unread' : kind);
      this.isTorn = false;
    }
    this.store.append(chunk, start, chunk.length);
    if (this.store.length <= this.maxFrameBytes) return;
    this.isTorn = true;
    this.sink(this.store.take(), 'unread');
  }

  /** Emits the remainder at the end of the bytes. */
  finish(): void {
    if (this.store.length === 0) return;
    const rest = this.store.take();
    this.sink(rest, rest.toString('latin1').trim() === '' ? 'end' : 'unread');
  }

  /** The token that the byte completes. */
  private step(byte: number): 'element' | 'end' | undefined {
    if (this.inString) {
      if (this.escaped) this.escaped = false;
      else if (byte === backslash) this.escaped = true;
      else if (byte === quote) this.inString = false;
      return undefined;
    }
    if (byte === quote) this.inString = true;
    else if (byte === 0x7b || (byte === 0x5b && this.depth > 0)) this.depth++;
    else if (byte === 0x7d || (byte === closeBracket && this.depth > 0)) {
      this.depth--;
      if (this.depth === 0) return 'element';
    } else if (byte === closeBracket) {
      this.isOver = true;
      return 'end';
    }
    return undefined;
  }
}

/** Position of objects in the bytes of a stream. A frame holds several while a call is sent in pieces. */
export interface FrameFraming {
  /** The object of a frame, with pieces of calls joined; undefined when it is empty, null when it cannot be read. */
  read(bytes: Uint8Array): JsonObject | undefined | null;
  /** The frame with this object in place of its own. */
  replace(bytes: Uint8Array, json: JsonObject): Buffer;
  /** A new frame; `begun`: it follows others. */
  write(json: JsonObject, begun: boolean): Buffer;
  /** The frame in its form behind others, or as the first. */
  place(bytes: Uint8Array, begun: boolean): Uint8Array;
}

/** Server-sent events (`alt=sse`). */
export const eventFraming: FrameFraming = {
  read(bytes) {
    const all = asBuffer(bytes);
    if (isOneEvent(all)) return asOne(readSseFrame(all).data);
    const texts: (string | undefined)[] = [];
    const splitter = new SseSplitter((frame) => texts.push(readSseFrame(frame).data));
    splitter.push(all);
    splitter.finish();
    return joinObjects(texts.filter((text) => text !== undefined && text.trim() !== ''));
  },
  replace(bytes, json) {
    if (json.error !== undefined) return geminiErrors.streamFrame(stringifyExact(json));
    const all = asBuffer(bytes);
    return isOneEvent(all) ? replaceSseData(all, stringifyExact(json)) : this.write(json, true);
  },
  write: (json) => writeSseFrame(stringifyExact(json)),
  place: (bytes) => bytes,
};

/** Elements of one JSON array. */
export const arrayFraming: FrameFraming = {
  read(bytes) {
    const all = asBuffer(bytes);
    const one = parseExactObject(all.subarray(Math.max(0, all.indexOf('{'))).toString('utf8'));
    if (one !== undefined) return one;
    const texts: string[] = [];
    let isWhole = true;
    const splitter = new ArraySplitter((element, kind) => {
      if (kind === 'element') texts.push(element.subarray(element.indexOf('{')).toString('utf8'));
      else if (kind === 'unread') isWhole = false;
    });
    splitter.push(all);
    splitter.finish();
    return isWhole ? joinObjects(texts) : null;
  },
  replace(bytes, json) {
    const before = asBuffer(bytes);
    return Buffer.concat([before.subarray(0, before.indexOf('{')), Buffer.from(stringifyExact(json))]);
  },
  write: (json, begun) => Buffer.from(`${begun ? ',\n' : '['}${stringifyExact(json)}`),
  place(bytes, begun) {
    const all = asBuffer(bytes);
    const at = all.indexOf('{');
    const opening = all.subarray(0, at === -1 ? all.length : at).indexOf('[');
    if (begun === (opening === -1)) return bytes;
    if (at === -1) return begun ? all.subarray(opening + 1) : Buffer.concat([Buffer.from('['), all]);
    return Buffer.concat([Buffer.from(begun ? ',\n' : '['), all.subarray(at)]);
  },
};

/** The frame has one `data` line. */
function isOneEvent(frame: Buffer): boolean {
  return frame.lastIndexOf('\ndata:') + 1 === Math.max(0, frame.indexOf('data:'));
}

function asOne(text: string | undefined): JsonObject | undefined | null {
  return text === undefined || text.trim() === '' ? undefined : (parseExactObject(text) ?? null);
}

function joinObjects(texts: readonly (string | undefined)[]): JsonObject | undefined | null {
  const objects: JsonObject[] = [];
  for (const text of texts) {
    const json = parseExactObject(text ?? '');
    if (json === undefined) return null;
    objects.push(json);
  }
  const [first] = objects;
  return objects.length < 2 ? first : streamedParts.joinCalls(objects);
}

/** Members of a candidate that repeat its text or refer to positions in it. */
export const aboutTheText = [
  ...['logprobsResult', 'logprobs_result', 'avgLogprobs', 'avg_logprobs'],
  ...['groundingMetadata', 'grounding_metadata', 'citationMetadata', 'citation_metadata'],
];

/** A part of an answer that holds generated text. */
export interface FrameSlot {
  readonly event: TextEvent;
  readonly candidate: JsonObject;
  readonly part: JsonObject;
}

/** Numbers the calls of each candidate of a stream. */
export class CallNumbers {
  private readonly next = new Map<number, number>();

  take(choice: number): number {
    const number = this.next.get(choice) ?? 0;
    this.next.set(choice, number + 1);
    return number;
  }
}

/** Every part of an object of the stream that holds generated text, arguments of calls included. */
export function frameSlots(json: JsonObject, numbers: CallNumbers): readonly FrameSlot[] {
  const slots: FrameSlot[] = [];
  asArray(json.candidates).forEach((value, position) => {
    const candidate = asObject(value) ?? {};
    const choice = streamedParts.candidateIndex(candidate, position);
    for (const part of streamedParts.of(candidate)) {
      const text = asText(part.text);
      if (text !== undefined) {
        const type = part.thought === true ? 'reasoning-delta' : 'text-delta';
        slots.push({ event: { type, choice, text }, candidate, part });
        continue;
      }
      const call = geminiMembers.object(part, 'functionCall');
      if (call !== undefined && asText(call.name) !== undefined)
        slots.push({ event: callEvent(call, choice, numbers.take(choice)), candidate, part });
    }
  });
  return slots;
}

function callEvent(call: JsonObject, choice: number, number: number): TextEvent {
  const id = asText(call.id);
  const args = asObject(call.args) ?? {};
  return {
    type: 'tool-arguments-delta',
    choice,
    call: number,
    ...(id === undefined ? {} : { id }),
    name: asText(call.name) ?? '',
    text: typeof call.args === 'string' ? call.args : stringifyExact(args),
  };
}

/** Events of a frame that carries nothing for a tap. */
export const opaque: readonly StreamEvent[] = Object.freeze([{ type: 'opaque' } as const]);
const done: readonly StreamEvent[] = Object.freeze([{ type: 'done' } as const]);

/** Splits a stream of events into frames with their events. `maxFrameBytes` as for `SseSplitter`. */
function createEventReader(maxFrameBytes?: number): FrameReader {
  const frames = new FrameCollector(eventFraming, maxFrameBytes);
  let ending = false;
  const splitter = new SseSplitter((bytes, whole) => {
    if (whole || ending) frames.add(bytes);
    else frames.addUnread(bytes);
  }, maxFrameBytes);
  return {
    push(chunk) {
      splitter.push(chunk);
      return frames.take();
    },
    finish() {
      ending = true;
      splitter.finish();
      return frames.finish();
    },
    get heldBytes() {
      return splitter.heldBytes + frames.heldBytes;
    },
  };
}

/** Same for a stream that is one JSON array. */
function createArrayReader(maxFrameBytes?: number): FrameReader {
  const frames = new FrameCollector(arrayFraming, maxFrameBytes);
  const splitter = new ArraySplitter((bytes, kind) => {
    if (kind === 'element') frames.add(bytes);
    else if (kind === 'unread') frames.addUnread(bytes);
    else frames.addEnd(bytes);
  }, maxFrameBytes);
  return {
    push(chunk) {
      splitter.push(asBuffer(chunk));
      return frames.take();
    },
    finish() {
      splitter.finish();
      return frames.finish();
    },
    get heldBytes() {
      return splitter.heldBytes + frames.heldBytes;
    },
  };
}

/**
 * Builds frames from the pieces of a stream. A call that is sent in pieces becomes one frame: its content can be judged
 * only as a whole.
 */
class FrameCollector {
  private readonly framing: FrameFraming;
  private readonly maxHeldBytes: number;
  private readonly calls = new OpenCalls();
  private readonly numbers = new CallNumbers();
  private frames: StreamFrame[] = [];
  private held: Buffer[] = [];
  private ended = false;
  heldBytes = 0;

  constructor(framing: FrameFraming, maxHeldBytes: number = defaultMaxFrameBytes) {
    this.framing = framing;
    this.maxHeldBytes = maxHeldBytes;
  }

  add(bytes: Buffer): void {
    const json = this.framing.read(bytes);
    if (json === null) return this.addUnread(bytes);
    const isOpen = json === undefined ? this.held.length > 0 : this.calls.learn(json);
    if (isOpen) {
      this.held.push(bytes);
      this.heldBytes += bytes.length;
      if (this.heldBytes > this.maxHeldBytes) this.flush(true);
      return;
    }
    if (this.held.length > 0) {
      this.held.push(bytes);
      this.flush(false);
    } else this.frames.push({ bytes, events: this.eventsOf(json) });
  }

  addUnread(bytes: Buffer): void {
    this.flush(false);
    this.frames.push({ bytes, events: opaque, unread: true });
  }

  addEnd(bytes: Buffer): void {
    this.flush(false);
    // Blanks may follow the end.
    this.frames.push({ bytes, events: this.ended ? opaque : done });
    this.ended = true;
  }

  take(): readonly StreamFrame[] {
    const taken = this.frames;
    this.frames = [];
    return taken;
  }

  finish(): readonly StreamFrame[] {
    this.flush(false);
    return this.take();
  }

  private flush(isTooLong: boolean): void {
    if (this.held.length === 0) return;
    const bytes = Buffer.concat(this.held.splice(0));
    this.heldBytes = 0;
    const json = this.framing.read(bytes);
    if (isTooLong || json === null) this.frames.push({ bytes, events: opaque, unread: true });
    else this.frames.push({ bytes, events: this.eventsOf(json) });
  }

  private eventsOf(json: JsonObject | undefined): readonly StreamEvent[] {
    if (json === undefined) return opaque;
    const events = frameEvents(json, this.numbers);
    return events.length === 0 ? opaque : events;
  }
}

/** Events of an object of the stream. */
function frameEvents(json: JsonObject, numbers: CallNumbers): readonly StreamEvent[] {
  const events: StreamEvent[] = [];
  const error = geminiErrors.read(json);
  if (error !== undefined) events.push({ type: 'error', message: error.message, code: error.type ?? '' });
  for (const slot of frameSlots(json, numbers)) events.push(slot.event);
  asArray(json.candidates).forEach((value, position) => {
    const candidate = asObject(value) ?? {};
    const reason = asText(geminiMembers.of(candidate, 'finishReason'));
    if (reason !== undefined)
      events.push({ type: 'finish', choice: streamedParts.candidateIndex(candidate, position), reason });
  });
  const blocked = asText(geminiMembers.of(geminiMembers.object(json, 'promptFeedback') ?? {}, 'blockReason'));
  if (blocked !== undefined) events.push({ type: 'finish', choice: 0, reason: blocked });
  const usage = geminiUsage.decode(geminiMembers.of(json, 'usageMetadata'));
  if (usage !== undefined) events.push({ type: 'usage', usage });
  return events;
}
