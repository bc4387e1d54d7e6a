import type { AnswerFacts, StreamScanner } from '../../../core/dialects/dialect.ts';
import { JsonArrayReader } from '../../framing/json-array.ts';
import { readSseFrame } from '../../framing/sse-frame.ts';
import { SseSplitter } from '../../framing/sse.ts';
import { hasMember, watch } from '../frame-scanner.ts';
import { asArray, asBuffer, asObject, asText, parseObject, type JsonObject } from '../json-reading.ts';
import { learn } from './answer-facts.ts';
import { member } from './member.ts';

/** The members for which an event is parsed once the first token has been seen. */
const watched = [
  watch('finishReason', 'string'),
  watch('finish_reason', 'string'),
  watch('blockReason', 'string'),
  watch('error', 'anything but null'),
];

const markBytes: ReadonlySet<number> = new Set([0x20, 0x09, 0x0a, 0x0d, 0xef, 0xbb, 0xbf]);
const brackets: ReadonlySet<number> = new Set([0x5b, 0x7b]);

/**
 * Watches a stream of either framing: events (`alt=sse`) or one JSON array. Every event carries the usage so far, so
 * that only the newest is kept for it and parsed when somebody asks.
 */
export class GeminiStreamScanner implements StreamScanner {
  private readonly known: AnswerFacts = {};
  private readonly reasons = new Map<number, string>();
  private readonly splitter: SseSplitter;
  private readonly elements = new JsonArrayReader();
  private framing: 'unknown' | 'events' | 'array' = 'unknown';
  private tokenSeen = false;
  private newest: Buffer | undefined;

  constructor(maxFrameBytes?: number) {
    this.splitter = new SseSplitter((frame, whole) => {
      if (whole) this.take(frame);
    }, maxFrameBytes);
  }

  scan(chunk: Uint8Array): boolean {
    if (this.framing === 'unknown') this.framing = framingOf(asBuffer(chunk));
    if (this.framing === 'array') {
      for (const { data } of this.elements.push(chunk)) this.learnFrom(parseObject(data));
    } else this.splitter.push(chunk);
    return this.tokenSeen;
  }

  get facts(): AnswerFacts {
    if (this.newest !== undefined) this.learnFromFrame(this.newest);
    this.newest = undefined;
    // A last frame may lack its blank line.
    if (this.splitter.heldBytes > 0) this.learnFromFrame(this.splitter.held);
    return this.known;
  }

  /** The wire has no end marker: it is complete when a reason for the finish has come. */
  get ended(): boolean {
    return this.facts.finishReason !== undefined && this.known.errorMessage === undefined;
  }

  private take(frame: Buffer): void {
    if (!this.tokenSeen || isOfInterest(frame)) {
      this.newest = undefined;
      this.learnFromFrame(frame);
    } else this.newest = frame;
  }

  private learnFromFrame(frame: Buffer): void {
    const { data } = readSseFrame(frame);
    if (data !== undefined) this.learnFrom(parseObject(data));
  }

  private learnFrom(json: JsonObject | undefined): void {
    if (json === undefined) return;
    learn(this.known, this.reasons, json);
    if (!this.tokenSeen) this.tokenSeen = bringsToken(json);
  }
}

function framingOf(chunk: Buffer): 'unknown' | 'events' | 'array' {
  const first = chunk.find((byte) => !markBytes.has(byte));
  if (first === undefined) return 'unknown';
  return brackets.has(first) ? 'array' : 'events';
}

function isOfInterest(frame: Buffer): boolean {
  const text = frame.toString('latin1');
  for (const candidate of watched) if (hasMember(text, candidate)) return true;
  return false;
}

function bringsToken(json: JsonObject): boolean {
  return asArray(json.candidates).some((value) => {
    const content = asObject(asObject(value)?.content);
    return asArray(content?.parts).some((one) => {
      const part = asObject(one);
      if (part === undefined) return false;
      if ('text' in part) return asText(part.text) !== undefined;
      return ['functionCall', 'inlineData', 'executableCode', 'fileData'].some(
        (name) => member(part, name) !== undefined,
      );
    });
  });
}
