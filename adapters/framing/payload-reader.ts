import { asBuffer } from '../dialects/json-reading.ts';
import { JsonArrayReader } from './json-array.ts';
import { defaultMaxFrameBytes, readSseFrame, SseSplitter } from '../../core/base/sse.ts';
import { ByteStore, type PayloadReader, type StreamPayload } from './stream-payload.ts';
import { crc32 } from 'node:zlib';

const LF = 0x0a;

/** Splits newline-delimited JSON (LF or CRLF) into lines. Blank lines are ignored. */
export class NdjsonReader implements PayloadReader {
  readonly #maxLineBytes: number;
  readonly #store = new ByteStore();
  #broken = false;

  /** `maxLineBytes` bounds one line; default 4 MiB. */
  constructor(maxLineBytes: number = defaultMaxFrameBytes) {
    this.#maxLineBytes = maxLineBytes;
  }

  push(bytes: Uint8Array): readonly StreamPayload[] {
    const payloads: StreamPayload[] = [];
    const chunk = asBuffer(bytes);
    let start = 0;
    while (start < chunk.length && !this.#broken) {
      const lineEnd = chunk.indexOf(LF, start);
      const end = lineEnd === -1 ? chunk.length : lineEnd;
      if (this.#store.length + end - start > this.#maxLineBytes) {
        this.#fail(`a line is longer than ${this.#maxLineBytes} bytes`, payloads);
        break;
      }
      this.#store.append(chunk, start, end);
      if (lineEnd === -1) break;
      const data = this.#takeLine();
      if (data !== '') payloads.push({ event: '', data });
      start = lineEnd + 1;
    }
    return payloads;
  }

  finish(): readonly StreamPayload[] {
    const payloads: StreamPayload[] = [];
    const data = this.#takeLine();
    if (data === '') return payloads;
    if (isCompleteData(data)) payloads.push({ event: '', data });
    else this.#fail('truncated: the stream ended within a line', payloads);
    return payloads;
  }

  /** Trimming removes the CR of CRLF, and a byte order mark. */
  #takeLine(): string {
    return this.#store.take().toString('utf8').trim();
  }

  #fail(reason: string, payloads: StreamPayload[]): void {
    this.#broken = true;
    this.#store.take();
    payloads.push({ event: '', data: '', error: `NDJSON: ${reason}` });
  }
}

/** Reads server-sent events. Frames without data (comments, keep-alives) are ignored. */
export class SseReader implements PayloadReader {
  readonly #splitter: SseSplitter;
  readonly #maxFrameBytes: number;
  #payloads: StreamPayload[] = [];
  #ending = false;
  #broken = false;

  /** `maxFrameBytes` bounds one frame; default 4 MiB. */
  constructor(maxFrameBytes: number = defaultMaxFrameBytes) {
    this.#maxFrameBytes = maxFrameBytes;
    this.#splitter = new SseSplitter((bytes, whole) => this.#take(bytes, whole), maxFrameBytes);
  }

  push(chunk: Uint8Array): readonly StreamPayload[] {
    if (this.#broken) return [];
    this.#splitter.push(chunk);
    return this.#drain();
  }

  finish(): readonly StreamPayload[] {
    if (this.#broken) return [];
    this.#ending = true;
    this.#splitter.finish();
    return this.#drain();
  }

  #drain(): readonly StreamPayload[] {
    const payloads = this.#payloads;
    this.#payloads = [];
    return payloads;
  }

  #take(bytes: Buffer, whole: boolean): void {
    if (this.#broken) return;
    if (!whole && !this.#ending) {
      this.#fail(`a frame is longer than ${this.#maxFrameBytes} bytes`);
      return;
    }
    const { event, data } = readSseFrame(bytes);
    if (data !== undefined && (whole || isCompleteData(data))) this.#payloads.push({ event, data });
    else if (!whole && (data !== undefined || isCutOff(bytes))) {
      this.#fail('truncated: the stream ended within a frame');
    }
  }

  #fail(reason: string): void {
    this.#broken = true;
    this.#payloads.push({ event: '', data: '', error: `Server-sent events: ${reason}` });
  }
}

/** True when a last frame without data ends inside a line other than a comment: that line may have been the data. */
function isCutOff(rest: Buffer): boolean {
  const line = /[^\r\n]*$/.exec(rest.toString('utf8'))?.[0] ?? '';
  return line !== '' && !line.startsWith(':');
}

const readers: Readonly<Record<string, () => PayloadReader>> = {
  'application/json': () => new JsonArrayReader(),
  'application/x-ndjson': () => new NdjsonReader(),
  'application/ndjson': () => new NdjsonReader(),
  'application/jsonl': () => new NdjsonReader(),
  'application/stream+json': () => new NdjsonReader(),
  'application/vnd.amazon.eventstream': () => new AwsEventReader(),
};

/**
 * The reader for a stream's `content-type` (parameters and case do not matter). Server-sent events for
 * `text/event-stream` and for unknown or missing types; bare JSON under such a type is detected and read as JSON.
 */
export function createPayloadReader(contentType: string): PayloadReader {
  const type = (contentType.split(';')[0] as string).trim().toLowerCase();
  return Object.hasOwn(readers, type) ? (readers[type] as () => PayloadReader)() : new SniffingReader();
}

/** Inspects the first byte after white space and a byte order mark: no event starts with a bracket. */
class SniffingReader implements PayloadReader {
  #reader: PayloadReader | undefined;

  push(chunk: Uint8Array): readonly StreamPayload[] {
    if (this.#reader !== undefined) return this.#reader.push(chunk);
    const bytes = asBuffer(chunk);
    const first = bytes.findIndex((byte) => !skipped.has(byte));
    if (first === -1) return [];
    // Lines of JSON and one object over several lines start alike; the array reader accepts both.
    this.#reader = brackets.has(bytes[first] as number) ? new JsonArrayReader() : new SseReader();
    return this.#reader.push(first === 0 ? chunk : bytes.subarray(first));
  }

  finish(): readonly StreamPayload[] {
    return this.#reader?.finish() ?? [];
  }
}

const skipped: ReadonlySet<number> = new Set([0x20, 0x09, 0x0a, 0x0d, 0xef, 0xbb, 0xbf]);
const brackets: ReadonlySet<number> = new Set([0x5b, 0x7b]);

/**
 * True for data of a last frame that can be complete although nothing closes it: JSON, or the `[DONE]` that ends
 * OpenAI-like streams.
 */
function isCompleteData(data: string): boolean {
  if (data === '[DONE]') return true;
  try {
    JSON.parse(data);
    return true;
  } catch {
    return false;
  }
}

/**
 * The headers of one message, all ten value types as text: booleans `true` / `false`, integers in decimal (64 bits
 * exactly), byte arrays in base64, timestamps as milliseconds since the epoch, UUIDs in their usual form. Returns a
 * sentence with the error when the block cannot be read.
 */
function readAwsHeaders(block: Buffer): Record<string, string> | string {
  const headers = Object.create(null) as Record<string, string>;
  let at = 0;
  while (at < block.length) {
    const nameLength = block[at] as number;
    const nameEnd = at + 1 + nameLength;
    if (nameLength === 0 || nameEnd >= block.length) return 'a header has no name, or is cut off within it';
    const name = block.toString('utf8', at + 1, nameEnd);
    const type = block[nameEnd] as number;
    const size = sizeOf(type, block, nameEnd + 1);
    if (size === undefined) return `the header "${name}" has the unknown type ${type}, or no length`;
    const start = nameEnd + 1 + (isCounted(type) ? 2 : 0);
    if (start + size > block.length) return `the header "${name}" is cut off`;
    headers[name] = textOf(type, block, start, size);
    at = start + size;
  }
  return headers;
}

/** Bytes of the value of each type; byte arrays (6) and strings (7) are counted by two bytes before them. */
const fixedSizes: readonly (number | undefined)[] = [0, 0, 1, 2, 4, 8, undefined, undefined, 8, 16];

function isCounted(type: number): boolean {
  return type === 6 || type === 7;
}

function sizeOf(type: number, block: Buffer, at: number): number | undefined {
  if (!isCounted(type)) return fixedSizes[type];
  return at + 2 <= block.length ? block.readUInt16BE(at) : undefined;
}

function textOf(type: number, block: Buffer, start: number, size: number): string {
  switch (type) {
    case 0:
      return 'true';
    case 1:
      return 'false';
    case 2:
    case 3:
    case 4:
      return String(block.readIntBE(start, size));
    case 5:
    case 8:
      return String(block.readBigInt64BE(start));
    case 6:
      return block.toString('base64', start, start + size);
    case 9:
      return uuid(block.toString('hex', start, start + size));
    default:
      return block.toString('utf8', start, start + size);
  }
}

function uuid(hex: string): string {
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

/**
 * Reads AWS event streams. An exception carries its JSON as data; an error message, which has no payload, carries
 * `{"message": <:error-message>}`. A message of an unknown type ends the stream with an error.
 */
export class AwsEventReader implements PayloadReader {
  readonly #parser: AwsEventStreamParser;
  #broken = false;

  /** `maxMessageBytes` bounds one message; default 16 MiB. */
  constructor(maxMessageBytes?: number) {
    this.#parser = new AwsEventStreamParser(maxMessageBytes);
  }

  push(chunk: Uint8Array): readonly StreamPayload[] {
    const payloads: StreamPayload[] = [];
    if (this.#broken) return payloads;
    for (const item of this.#parser.push(chunk)) {
      const payload = item.kind === 'message' ? payloadOf(item) : failedPayload(item.reason);
      payloads.push(payload);
      if (payload.error === undefined) continue;
      this.#broken = true;
      break;
    }
    return payloads;
  }

  finish(): readonly StreamPayload[] {
    const fault = this.#broken ? undefined : this.#parser.finish();
    return fault === undefined ? [] : [failedPayload(fault.reason)];
  }
}

function payloadOf({ headers, payload }: AwsEventStreamMessage): StreamPayload {
  const messageType = headers[':message-type'] ?? (headers[':event-type'] === undefined ? '' : 'event');
  const data = payload.toString('utf8');
  switch (messageType) {
    case 'event':
      return { event: headers[':event-type'] ?? '', data, messageType };
    case 'exception':
      return { event: headers[':exception-type'] ?? '', data, messageType };
    case 'error': {
      const said = data === '' ? JSON.stringify({ message: headers[':error-message'] ?? '' }) : data;
      return { event: headers[':error-code'] ?? '', data: said, messageType };
    }
    default:
      return failedPayload(`AWS event stream: a message has the unknown type "${messageType}"`);
  }
}

function failedPayload(reason: string): StreamPayload {
  return { event: '', data: '', error: reason };
}

/** Messages longer than this are refused: 16 MiB. */
const defaultMaxAwsMessageBytes = 16 * 1024 * 1024;

const preludeBytes = 12;
const crcBytes = 4;
/** Limit of the format itself: 128 KiB. */
const maxHeadersBytes = 131_072;

/** One message of an `application/vnd.amazon.eventstream` body, with both checksums verified. */
interface AwsEventStreamMessage {
  readonly kind: 'message';
  /** By name (`:message-type`, `:event-type`, …), without a prototype; values of every type as text. */
  readonly headers: Readonly<Record<string, string>>;
  readonly payload: Buffer;
}

/** The stream cannot be read any further. */
interface AwsEventStreamFault {
  readonly kind: 'broken';
  /** The error, with its byte position in the stream. */
  readonly reason: string;
}

/** Result of a portion of bytes. */
export type AwsEventStreamItem = AwsEventStreamMessage | AwsEventStreamFault;

/**
 * Reads the binary framing of AWS streams (https://smithy.io/2.0/aws/amazon-eventstream.html). A wrong checksum, an
 * impossible length or a message beyond the bound ends reading with one fault: the bytes behind it cannot be trusted
 * and are ignored.
 */
export class AwsEventStreamParser {
  readonly #maxMessageBytes: number;
  readonly #store = new ByteStore();
  /** Length of the unfinished message; 0 until its prelude has been read. */
  #totalLength = 0;
  #headersLength = 0;
  /** Bytes of the complete messages. */
  #offset = 0;
  #broken = false;

  /** `maxMessageBytes` counts a whole message with its framing. */
  constructor(maxMessageBytes: number = defaultMaxAwsMessageBytes) {
    this.#maxMessageBytes = maxMessageBytes;
  }

  /** Reads the next bytes. They may be kept until their message is complete and must not be overwritten. */
  push(bytes: Uint8Array): readonly AwsEventStreamItem[] {
    const items: AwsEventStreamItem[] = [];
    const chunk = asBuffer(bytes);
    let at = 0;
    while (at < chunk.length && !this.#broken) {
      const isWhole = this.#store.length === 0 && chunk.length - at >= preludeBytes;
      at = isWhole ? this.#readFrom(chunk, at, items) : this.#collect(chunk, at, items);
    }
    return items;
  }

  /** The fault of a last message that was cut off; undefined when the bytes ended between two messages. */
  finish(): AwsEventStreamFault | undefined {
    if (this.#broken || this.#store.length === 0) return undefined;
    const of = this.#totalLength === 0 ? '' : ` of ${this.#totalLength}`;
    return this.#fail(`truncated: the stream ended after ${this.#store.length} bytes${of}`);
  }

  /** Reads a message whose prelude lies within the chunk, in place when all of it does. Returns the next position. */
  #readFrom(chunk: Buffer, at: number, items: AwsEventStreamItem[]): number {
    const fault = this.#readPrelude(chunk.subarray(at, at + preludeBytes));
    const end = at + this.#totalLength;
    if (fault !== undefined) items.push(this.#fail(fault));
    else if (end <= chunk.length) this.#complete(chunk.subarray(at, end), items);
    else this.#store.append(chunk, at, chunk.length);
    return Math.min(end, chunk.length);
  }

  /** Adds the missing bytes of the unfinished message, or of its prelude. Returns the next position. */
  #collect(chunk: Buffer, at: number, items: AwsEventStreamItem[]): number {
    const wanted = this.#totalLength === 0 ? preludeBytes : this.#totalLength;
    const end = Math.min(chunk.length, at + wanted - this.#store.length);
    this.#store.append(chunk, at, end);
    if (this.#store.length < wanted) return end;
    if (this.#totalLength > 0) this.#complete(this.#store.take(), items);
    else {
      const fault = this.#readPrelude(this.#store.bytes);
      if (fault !== undefined) items.push(this.#fail(fault));
    }
    return end;
  }

  #readPrelude(prelude: Buffer): string | undefined {
    const total = prelude.readUInt32BE(0);
    const headers = prelude.readUInt32BE(4);
    if (crc32(prelude.subarray(0, 8)) !== prelude.readUInt32BE(8))
      return 'the checksum of its prelude is wrong';
    if (total > this.#maxMessageBytes) {
      return `it is ${total} bytes long, more than the ${this.#maxMessageBytes} that are read`;
    }
    if (headers > maxHeadersBytes || total < preludeBytes + headers + crcBytes) {
      return `its lengths are impossible: ${total} bytes with ${headers} bytes of headers`;
    }
    this.#totalLength = total;
    this.#headersLength = headers;
    return undefined;
  }

  #complete(message: Buffer, items: AwsEventStreamItem[]): void {
    const payloadEnd = message.length - crcBytes;
    const payloadStart = preludeBytes + this.#headersLength;
    this.#totalLength = 0;
    if (crc32(message.subarray(0, payloadEnd)) !== message.readUInt32BE(payloadEnd)) {
      items.push(this.#fail('the checksum of the message is wrong'));
      return;
    }
    const headers = readAwsHeaders(message.subarray(preludeBytes, payloadStart));
    if (typeof headers === 'string') {
      items.push(this.#fail(headers));
      return;
    }
    this.#offset += message.length;
    items.push({ kind: 'message', headers, payload: message.subarray(payloadStart, payloadEnd) });
  }

  #fail(reason: string): AwsEventStreamFault {
    this.#broken = true;
    this.#store.take();
    return { kind: 'broken', reason: `AWS event stream, message at byte ${this.#offset}: ${reason}` };
  }
}
