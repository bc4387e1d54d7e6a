import { asBuffer } from '../dialects/json-reading.ts';
import { ByteStore, type PayloadReader, type StreamPayload } from './stream-payload.ts';
import { defaultMaxFrameBytes } from '../../core/base/sse.ts';

const quote = 0x22;
const comma = 0x2c;
const openBracket = 0x5b;
const backslash = 0x5c;
const closeBracket = 0x5d;
const openBrace = 0x7b;
const closeBrace = 0x7d;

/** State of the reader. */
type Place = 'between' | 'scalar' | 'string' | 'nested' | 'after' | 'broken';

/**
 * Splits a JSON array that arrives in portions into the texts of its elements, byte for byte, without splitting
 * characters. Consecutive objects without an array, on separate lines or not, are elements too. Only the separators are
 * validated here; the content of an element is left to its parser.
 */
export class JsonArrayReader implements PayloadReader {
  readonly #maxElementBytes: number;
  readonly #store = new ByteStore();
  #place: Place = 'between';
  #depth = 0;
  #escaped = false;
  #arrayIsOpen = false;
  /** Anything but white space has arrived. */
  #begun = false;

  /** `maxElementBytes` bounds one element; default 4 MiB. */
  constructor(maxElementBytes: number = defaultMaxFrameBytes) {
    this.#maxElementBytes = maxElementBytes;
  }

  push(bytes: Uint8Array): readonly StreamPayload[] {
    const payloads: StreamPayload[] = [];
    const chunk = asBuffer(bytes);
    /** Start of the element within this chunk. */
    let start = 0;
    let at = 0;
    while (at < chunk.length && this.#place !== 'broken') {
      switch (this.#place) {
        case 'string':
          at = this.#skipString(chunk, at);
          if (!this.#isWithin()) this.#complete(chunk, start, at, payloads);
          break;
        case 'nested':
          at = this.#skipNested(chunk, at);
          if (this.#depth === 0) this.#complete(chunk, start, at, payloads);
          break;
        case 'scalar':
          at = scalarEnd(chunk, at);
          if (at < chunk.length) this.#complete(chunk, start, at, payloads);
          break;
        default:
          start = at;
          at = this.#between(chunk, at, payloads);
      }
    }
    if (this.#isWithin()) this.#hold(chunk, start, payloads);
    return payloads;
  }

  finish(): readonly StreamPayload[] {
    const payloads: StreamPayload[] = [];
    if (this.#place === 'broken') return payloads;
    if (this.#place === 'scalar' && !this.#arrayIsOpen) {
      this.#complete(Buffer.alloc(0), 0, 0, payloads);
    } else if (this.#isWithin()) {
      this.#fail(`truncated: the stream ended after ${this.#store.length} bytes of an element`, payloads);
    } else if (this.#arrayIsOpen) {
      this.#fail('truncated: the stream ended before the array was closed', payloads);
    }
    return payloads;
  }

  #isWithin(): boolean {
    return this.#place === 'scalar' || this.#place === 'string' || this.#place === 'nested';
  }

  /** Reads one byte outside any element; returns the next position. */
  #between(chunk: Buffer, at: number, payloads: StreamPayload[]): number {
    const byte = chunk[at] as number;
    if (isSpace(byte) || (!this.#begun && isMark(byte))) return at + 1;
    const isFirst = !this.#begun;
    this.#begun = true;
    if (this.#place === 'after') {
      this.#fail('something follows the end of the array', payloads);
    } else if (byte === closeBracket && this.#arrayIsOpen) {
      this.#arrayIsOpen = false;
      this.#place = 'after';
    } else if (byte === closeBracket || byte === closeBrace) {
      this.#fail('a bracket is closed that was never opened', payloads);
    } else if (byte === openBracket && isFirst) {
      this.#arrayIsOpen = true;
    } else if (byte === openBrace || byte === openBracket) {
      this.#place = 'nested';
      this.#depth = 1;
    } else if (byte === quote) {
      this.#place = 'string';
    } else if (byte !== comma) {
      this.#place = 'scalar';
    }
    return at + 1;
  }

  /** Skips to the end of a string, or to the end of the chunk. */
  #skipString(chunk: Buffer, from: number): number {
    let at = from;
    while (at < chunk.length) {
      const byte = chunk[at] as number;
      at += 1;
      if (this.#escaped) this.#escaped = false;
      else if (byte === backslash) this.#escaped = true;
      else if (byte === quote) {
        this.#place = this.#depth === 0 ? 'between' : 'nested';
        return at;
      }
    }
    return at;
  }

  /** Skips past the next opening quote or the element's last bracket, or to the end of the chunk. */
  #skipNested(chunk: Buffer, from: number): number {
    let at = from;
    while (at < chunk.length) {
      const byte = chunk[at] as number;
      at += 1;
      if (byte === quote) {
        this.#place = 'string';
        return at;
      }
      if (byte === openBrace || byte === openBracket) this.#depth += 1;
      else if (byte === closeBrace || byte === closeBracket) {
        this.#depth -= 1;
        if (this.#depth === 0) return at;
      }
    }
    return at;
  }

  #complete(chunk: Buffer, start: number, end: number, payloads: StreamPayload[]): void {
    this.#hold(chunk, start, payloads, end);
    if (this.#place === 'broken') return;
    this.#place = 'between';
    payloads.push({ event: '', data: this.#store.take().toString('utf8') });
  }

  #hold(chunk: Buffer, start: number, payloads: StreamPayload[], end: number = chunk.length): void {
    if (this.#store.length + end - start > this.#maxElementBytes) {
      this.#fail(`an element is longer than ${this.#maxElementBytes} bytes`, payloads);
    } else {
      this.#store.append(chunk, start, end);
    }
  }

  #fail(reason: string, payloads: StreamPayload[]): void {
    this.#place = 'broken';
    this.#store.take();
    payloads.push({ event: '', data: '', error: `JSON array: ${reason}` });
  }
}

function scalarEnd(chunk: Buffer, from: number): number {
  let at = from;
  while (at < chunk.length) {
    const byte = chunk[at] as number;
    if (byte === comma || byte === closeBracket || byte === closeBrace || isSpace(byte)) return at;
    at += 1;
  }
  return at;
}

/** White space of JSON. */
function isSpace(byte: number): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
}

/** A byte of a byte order mark. */
function isMark(byte: number): boolean {
  return byte === 0xef || byte === 0xbb || byte === 0xbf;
}
