import type { AnswerFacts, FrameReader, StreamScanner } from '../../core/dialects/dialect.ts';
import { readSseFrame, SseSplitter } from '../../core/base/sse.ts';
import { type JsonObject, parseObject } from './json-reading.ts';
import type { StreamEvent, StreamFrame } from '../../core/dialects/stream-event.ts';

/** Events of a frame that carries nothing for a tap. */
export const opaqueEvents: readonly StreamEvent[] = Object.freeze([{ type: 'opaque' } as const]);

/** Splits server-sent events into frames whose meaning `read` returns. `maxFrameBytes` as for `SseSplitter`. */
export function createSseFrameReader(
  read: (bytes: Buffer) => StreamFrame,
  maxFrameBytes?: number,
): FrameReader {
  let frames: StreamFrame[] = [];
  let ending = false;
  const splitter = new SseSplitter((bytes, whole) => {
    // The last frame may lack its blank line; a piece of an oversized frame has no meaning by itself.
    frames.push(whole || ending ? read(bytes) : { bytes, events: opaqueEvents, unread: true });
  }, maxFrameBytes);
  const take = (): readonly StreamFrame[] => {
    const taken = frames;
    frames = [];
    return taken;
  };
  return {
    push(chunk) {
      splitter.push(chunk);
      return take();
    },
    finish() {
      ending = true;
      splitter.finish();
      return take();
    },
    get heldBytes() {
      return splitter.heldBytes;
    },
  };
}

const modelMember = watch('model', 'string');
/** `data: [DONE]` with its line ends fits in here. */
const maxEndMarkerBytes = 32;

/** A JSON member that makes a frame worth parsing when its value is of this kind. */
export interface Watch {
  /** The name and its closing quote: quotes are frequent, and a search that starts with one would stop at each. */
  readonly needle: string;
  readonly value: 'object' | 'string' | 'anything but null';
}

/** Declares a member to watch for. */
export function watch(member: string, value: Watch['value']): Watch {
  return { needle: `${member}"`, value };
}

/** Facts that a dialect collects from the events of one stream. One object per stream. */
export interface EventReader {
  readonly facts: AnswerFacts;
  /** True once the stream's own end marker was read. */
  readonly ended: boolean;
  /** Reads one event. Returns true when it carries a token. Reading an event twice must change nothing. */
  read(json: JsonObject, event: string): boolean;
}

/**
 * Scans a streamed answer frame by frame and parses only frames with new facts: every frame until the first token, then
 * those with a watched member, with an error, or with a model while none is known.
 */
export class FrameScanner implements StreamScanner {
  private readonly reader: EventReader;
  private readonly watched: readonly Watch[];
  private readonly splitter: SseSplitter;
  private tokenSeen = false;
  private doneSeen = false;

  constructor(reader: EventReader, watched: readonly Watch[], maxFrameBytes?: number) {
    this.reader = reader;
    this.watched = watched;
    this.splitter = new SseSplitter((frame, whole) => {
      if (whole && this.isOfInterest(frame)) this.learn(frame);
    }, maxFrameBytes);
  }

  scan(chunk: Uint8Array): boolean {
    this.splitter.push(chunk);
    return this.tokenSeen;
  }

  get facts(): AnswerFacts {
    this.peek();
    return this.reader.facts;
  }

  get ended(): boolean {
    this.peek();
    return this.doneSeen || this.reader.ended;
  }

  /** The last frame may lack its blank line: its readable content still counts. */
  private peek(): void {
    if (this.splitter.heldBytes > 0) this.learn(this.splitter.held);
  }

  private isOfInterest(frame: Buffer): boolean {
    if (!this.tokenSeen || frame.length <= maxEndMarkerBytes) return true;
    if (isErrorEvent(frame)) return true;
    // One call out of JavaScript instead of one per search.
    const text = frame.toString('latin1');
    for (const candidate of this.watched) if (hasMember(text, candidate)) return true;
    return this.reader.facts.model === undefined && hasMember(text, modelMember);
  }

  private learn(frame: Buffer): void {
    const { data, event } = readSseFrame(frame);
    if (data === undefined) return;
    if (data.trimEnd() === '[DONE]') {
      this.doneSeen = true;
      return;
    }
    const json = parseObject(data);
    if (json !== undefined && this.reader.read(json, event)) this.tokenSeen = true;
  }
}

/**
 * True when the member occurs with a value of the expected kind; `frame` is its bytes decoded as Latin-1. Quotes inside
 * JSON strings are escaped, so a quoted name never matches text.
 */
export function hasMember(frame: string, { needle, value }: Watch): boolean {
  for (let at = frame.indexOf(needle); at !== -1; at = frame.indexOf(needle, at)) {
    const isQuoted = frame.charCodeAt(at - 1) === 0x22;
    at += needle.length;
    if (!isQuoted) continue;
    const first = frame.charCodeAt(skipBlanksAndColon(frame, at));
    if (value === 'object' ? first === 0x7b : value === 'string' ? first === 0x22 : first !== 0x6e)
      return true;
  }
  return false;
}

/** `event: error`, with or without the blank. */
function isErrorEvent(frame: Buffer): boolean {
  if (frame[0] !== 0x65) return false;
  const at = frame[6] === 0x20 ? 7 : 6;
  return frame[at] === 0x65 && frame[at + 1] === 0x72 && frame[at + 2] === 0x72;
}

function skipBlanksAndColon(frame: string, from: number): number {
  let at = from;
  for (;;) {
    const code = frame.charCodeAt(at);
    if (code !== 0x20 && code !== 0x3a && code !== 0x09) return at;
    at++;
  }
}
