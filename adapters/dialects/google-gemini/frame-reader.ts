import type { FrameReader } from '../../../core/dialects/dialect.ts';
import type { StreamEvent, StreamFrame } from '../../../core/dialects/stream-event.ts';
import { defaultMaxFrameBytes, SseSplitter } from '../../framing/sse.ts';
import { asArray, asBuffer, asObject, asText, type JsonObject } from '../json-reading.ts';
import { ArraySplitter } from './array-splitter.ts';
import { readError } from './error-shape.ts';
import { arrayFraming, eventFraming, type FrameFraming } from './frame-json.ts';
import { frameSlots, CallNumbers } from './frame-slots.ts';
import { candidateIndex, OpenCalls } from './join-calls.ts';
import { member, memberObject } from './member.ts';
import { decodeGeminiUsage } from './usage.ts';

/** What a frame says that says nothing to a tap. */
export const opaque: readonly StreamEvent[] = Object.freeze([{ type: 'opaque' } as const]);
const done: readonly StreamEvent[] = Object.freeze([{ type: 'done' } as const]);

/** Cuts a stream of events into frames with what they say. `maxFrameBytes` as for `SseSplitter`. */
export function createEventReader(maxFrameBytes?: number): FrameReader {
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

/** The same for a stream that is one JSON array. */
export function createArrayReader(maxFrameBytes?: number): FrameReader {
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
 * Makes frames of the pieces of a stream. A call that is told in pieces is one frame: what it says can be judged only as
 * a whole.
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

/** What an object of the stream says. */
function frameEvents(json: JsonObject, numbers: CallNumbers): readonly StreamEvent[] {
  const events: StreamEvent[] = [];
  const error = readError(json);
  if (error !== undefined) events.push({ type: 'error', message: error.message, code: error.type ?? '' });
  for (const slot of frameSlots(json, numbers)) events.push(slot.event);
  asArray(json.candidates).forEach((value, position) => {
    const candidate = asObject(value) ?? {};
    const reason = asText(member(candidate, 'finishReason'));
    if (reason !== undefined)
      events.push({ type: 'finish', choice: candidateIndex(candidate, position), reason });
  });
  const blocked = asText(member(memberObject(json, 'promptFeedback') ?? {}, 'blockReason'));
  if (blocked !== undefined) events.push({ type: 'finish', choice: 0, reason: blocked });
  const usage = decodeGeminiUsage(member(json, 'usageMetadata'));
  if (usage !== undefined) events.push({ type: 'usage', usage });
  return events;
}
